# SPDX-License-Identifier: Apache-2.0
"""The walk-through of docs/replay.md: its commands are run in order, and print what stands there."""

import os
import re
import subprocess

from daemon import BUILD, PATIENCE, ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def sessions(text):
    """(command, what it prints) of each `$ ` in a block; a command may go on over lines, in quotes."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        lines = part.splitlines(True)
        command = lines.pop(0)
        while command.count("'") % 2:
            command += lines.pop(0)
        yield command, "".join(lines)


def looks_as(expected, printed):
    pattern = r".*".join(map(re.escape, expected.strip().split("...")))
    return re.fullmatch(pattern, printed.strip(), re.S)


def test_the_walk_through(tmp_path):
    page = (ROOT / "docs/replay.md").read_text().partition("# Reference")[0]
    env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"}
    ran = 0
    for match in BLOCK.finditer(page):
        language, text = match.groups()
        if language == "yaml":
            (tmp_path / "rules.yaml").write_text(text)
            continue
        for command, expected in sessions(text):
            done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True,
                                  timeout=PATIENCE)
            assert done.stderr == "" and looks_as(expected, done.stdout), f"$ {command}{done.stdout}{done.stderr}"
            ran += 1
    assert ran == 9
