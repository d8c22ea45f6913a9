# SPDX-License-Identifier: Apache-2.0
"""Packages and sources of Debian, from where this machine gets its own."""

import os
import re
import subprocess

# This test loads a library of ours into the machine's own date(1).
PRELOADS_DATE = "tests/system/test_processes.py::test_the_shim_does_shift"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def archives():
    """(address, suite without its release) of the archives that apt is set up with."""
    lines = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(ORIGIN) $(COMPONENT)",
         "Created-By: Packages"], check=True, capture_output=True, text=True).stdout.splitlines()
    found = []
    for line in lines:
        address, suite, origin, component = line.split()
        if origin == "Debian" and component == "main" and not suite.endswith("-updates"):
            found.append((address, suite.partition("-")[2]))
    if not found:
        raise ValueError("apt has no archive of Debian: run this on Debian, after apt-get update")
    return sorted(set(found))


def lines(release, kind="deb", parts=("", "security")):
    """Lines of a sources.list for a release."""
    suite = {part: f"{release}-{part}".rstrip("-") for part in parts}
    return [f"{kind} [signed-by={KEYRING}] {address} {suite[part]} main"
            for address, part in archives() if part in suite]


def make_root(bench, root, release, variant, packages, architecture="amd64"):
    """A folder with a Debian of that release, once. Variant extract: unpacked only."""
    if (root / "usr").is_dir():
        return
    partial = root.with_name(root.name + ".partial")
    bench.run("rm", "-rf", partial)
    bench.run("mmdebstrap", "--mode=root", f"--variant={variant}",
              f"--architectures={architecture}", f"--include={','.join(packages)}",
              "--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/doc/*",
              release, partial, *lines(release))
    os.rename(partial, root)


def fetch_sources(bench, into, release, packages, patched=()):
    """Source packages, unpacked: {package: its folder}. As upstream released them, or, where
    something depends on them, with Debian's patches."""
    state = into / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "sources.list").write_text("\n".join(lines(release, "deb-src", ("",))) + "\n")
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={state}/sources.list",
           "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={state}/lists",
           "-o", f"Dir::Cache={state}/cache", "-o", "APT::Sandbox::User=root"]
    missing = [p for p in packages if not (into / p).is_dir()]
    if missing:
        bench.run(*apt, "update")
    for package in missing:
        tar = into / (package + ".tar")
        tar.mkdir(exist_ok=True)
        partial = into / (package + ".partial")
        bench.run("rm", "-rf", partial)
        if package in patched:
            bench.run(*apt, "source", "--download-only", package, cwd=tar)
            bench.run("dpkg-source", "--no-check", "-x", next(tar.glob("*.dsc")), partial)
        else:
            bench.run(*apt, "source", "--download-only", "--tar-only", package, cwd=tar)
            archive = next(f for f in tar.iterdir()
                           if re.search(r"\.orig\.tar\.[a-z0-9]+$", f.name))
            partial.mkdir()
            bench.run("tar", "-xf", archive, "--strip-components=1", "-C", partial)
        os.rename(partial, into / package)
    return {p: into / p for p in packages}
