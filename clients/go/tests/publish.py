#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the modules of clients/go into a folder as a module proxy serves them, so that a project can require them from there.

usage: publish.py FOLDER

What a tag of version 0.1.0 would publish: the files in git, without those of modules further down, and the licence of the
repository. Set GOPROXY=file://FOLDER,... and GONOSUMDB=github.com/ration/* to use it.
"""

import json
import pathlib
import subprocess
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
VERSION = "v0.1.0"
MODULES = ["clients/go", "clients/go/rationgrpc"]


def files_of(module):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", module],
                            cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = [pathlib.Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]
    inner = [path.parent for path in paths if path.name == "go.mod" and path.parent != pathlib.Path(module)]
    return [path for path in paths if not any(folder in path.parents for folder in inner)]


def publish(module, proxy):
    go_mod = (ROOT / module / "go.mod").read_text()
    name = go_mod.split()[1]
    folder = proxy / name / "@v"
    folder.mkdir(parents=True)
    (folder / "list").write_text(VERSION + "\n")
    (folder / f"{VERSION}.info").write_text(json.dumps({"Version": VERSION, "Time": "2026-01-01T00:00:00Z"}))
    (folder / f"{VERSION}.mod").write_text(go_mod)
    with zipfile.ZipFile(folder / f"{VERSION}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files_of(module):
            archive.write(ROOT / path, f"{name}@{VERSION}/{path.relative_to(module)}")
        archive.write(ROOT / "LICENSE", f"{name}@{VERSION}/LICENSE")


if __name__ == "__main__":
    for each in MODULES:
        publish(each, pathlib.Path(sys.argv[1]))
