# SPDX-License-Identifier: Apache-2.0
"""examples/own-store: processes share a limit as its guide says, from a file that none of them finds."""

import contextlib
import re
import sqlite3
import subprocess

import pytest

from daemon import BUILD, PATIENCE, ROOT

PROGRAM = BUILD / "examples/own-store"
GUIDE = (ROOT / "docs/extending.md").read_text()


def counts(said):
    """What processes that ran at the same time have printed."""
    lines = re.findall(r"^admitted (\d+) refused (\d+) failed (\d+)$", said, re.M)
    return [tuple(map(int, line)) for line in lines]


def test_the_commands_of_the_guide_admit_what_it_says(tmp_path):
    commands = re.search(r"^(build/examples/own-store .*?^wait)$", GUIDE, re.M | re.S)[1]
    script = commands.replace("build/examples/own-store", str(PROGRAM)).replace("/tmp/limits.db", str(tmp_path / "limits.db"))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)

    found = counts(done.stdout)
    assert len(found) == 2, done.stdout + done.stderr
    assert all(admitted + refused == 80 and failed == 0 for admitted, refused, failed in found)
    assert 100 <= sum(admitted for admitted, _, _ in found) < 160


def test_a_process_waits_for_another_that_is_making_the_file(tmp_path):
    path = tmp_path / "limits.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # SQLite itself does not wait for that when it turns to WAL
        asked = subprocess.Popen([PROGRAM, path, "5 per hour", "ada", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            asked.communicate(timeout=0.5)
        other.execute("COMMIT")
        out, err = asked.communicate(timeout=PATIENCE)
    assert counts(out) == [(1, 0, 0)], err


def test_a_file_that_cannot_be_opened_is_named(tmp_path):
    done = subprocess.run([PROGRAM, tmp_path / "none" / "limits.db", "5 per hour", "ada", "1"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"own-store: cannot open {tmp_path}/none/limits.db\n")
