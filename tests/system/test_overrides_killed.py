# SPDX-License-Identifier: Apache-2.0
"""Overrides and bans beside a state file, set by processes that are killed.

The program is tests/programs/set_overrides.c; RATION_BUILD names the build directory.
"""

import os
import pathlib
import random
import signal
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SET_OVERRIDES = pathlib.Path(os.environ.get("RATION_BUILD", ROOT / "build")).resolve() / "tests/set_overrides"

SETS = 1000


def start(state, count=SETS):
    return subprocess.Popen([SET_OVERRIDES, "set", state, str(count)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def listed(state):
    """The overrides that are there, by number, and how many bans."""
    done = subprocess.run([SET_OVERRIDES, "list", state], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    *lines, bans = done.stdout.splitlines()
    found = dict(line.split(" ", 1) for line in lines)
    return {int(n): limit for n, limit in found.items()}, int(bans.removeprefix("bans "))


def check(state, acknowledged):
    """All that was acknowledged is there; besides it one change at most."""
    found, bans = listed(state)
    for n in range(acknowledged):
        assert found[n] == f"{20 + n} per hour"
    rest = {n: limit for n, limit in found.items() if n >= acknowledged}
    assert len(rest) <= 1
    for n, limit in rest.items():
        assert n == acknowledged and limit in (f"{20 + n} per hour", "1 per hour")
    assert (acknowledged + 2) // 3 <= bans <= acknowledged // 3 + 1


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_in_the_middle_of_a_thousand_sets_loses_none_that_was_acknowledged(tmp_path, seed):
    state = tmp_path / "state"
    stop_at = random.Random(seed).randrange(1, SETS)
    process = start(state)
    acknowledged = 0
    for line in process.stdout:
        assert int(line) == acknowledged
        acknowledged += 1
        if acknowledged == stop_at:
            process.send_signal(signal.SIGKILL)
            break
    # What it had said before the signal came.
    acknowledged += len(process.stdout.read().splitlines())
    process.communicate()
    assert process.returncode == -signal.SIGKILL or acknowledged == SETS
    check(state, acknowledged)
    # The next one goes on as if nothing had been.
    process = start(state, 10)
    assert process.wait(60) == 0
    process.communicate()
    found, _ = listed(state)
    assert found[9] == "29 per hour" and len(found) >= acknowledged


def test_two_processes_that_set_at_once_both_prevail(tmp_path):
    state = tmp_path / "state"
    processes = [start(state, 200) for _ in range(2)]
    for process in processes:
        output, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        assert len(output.splitlines()) == 200
    check(state, 200)


def test_a_full_disk_refuses_and_leaves_the_file_as_it_was(tmp_path):
    state = tmp_path / "state"
    process = start(state, 50)
    process.communicate(timeout=60)
    # From now on no file may grow beyond 16 KiB, which some of the sets fit.
    script = f"ulimit -f 16; trap '' XFSZ; exec {SET_OVERRIDES} set {state} 5000"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "cannot be written: File too large" in done.stderr
    check(state, max(50, len(done.stdout.splitlines())))
    # Nothing half is left behind.
    process = start(state, 50)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 0 and error == ""
