# SPDX-License-Identifier: Apache-2.0
"""Several processes on one state file: exact together, killed, stopped, and
with wall clocks that disagree.

The programs are in tests/programs; RATION_BUILD names the build directory.
"""

import json
import mmap
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import time

import pytest

from daemon import PATIENCE, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("RATION_BUILD", ROOT / "build")).resolve() / "tests"

# Words of struct tally in tests/programs/shared_tally.h.
READY, NEXT, ADMITTED, ERRORS = range(4)
COUNTS_AT = 8 * 8


class Tally:
    """The counters that the programs share."""

    def __init__(self, path, bytes_=COUNTS_AT):
        path.write_bytes(bytes(bytes_))
        self.path = path

    def _read(self, at, length):
        with open(self.path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m:
            return m[at : at + length]

    def word(self, index):
        return struct.unpack("=Q", self._read(8 * index, 8))[0]

    def of_keys(self, keys):
        return struct.unpack(f"={keys}I", self._read(COUNTS_AT, 4 * keys))

    def wait_for(self, index, at_least, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while self.word(index) < at_least:
            assert time.monotonic() < deadline, f"word {index} stays at {self.word(index)}"
            time.sleep(0.0005)


@pytest.fixture
def start():
    """Starts programs, and ends by its pid whichever still runs."""
    running = []

    def run(name, *args, env=None):
        process = subprocess.Popen(
            [PROGRAMS / name, *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        running.append(process)
        return process

    yield run
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(processes, seconds=2 * PATIENCE):
    for process in processes:
        _, error = process.communicate(timeout=seconds)
        assert process.returncode == 0, error


def hammer(start, tmp_path, limit, amount, keys, takes_per_key, processes=4, threads=2, envs=()):
    """Runs that many processes on one new state file; returns the tally."""
    tally = Tally(tmp_path / f"tally-{limit}")
    envs = list(envs) + [None] * (processes - len(envs))
    everybody = processes * threads
    finish(
        [
            start("hammer", tmp_path / f"state-{limit}", tally.path, limit, amount, keys,
                  takes_per_key, threads, everybody, env=env)
            for env in envs
        ]
    )
    assert tally.word(ERRORS) == 0
    assert sorted(os.listdir(tmp_path)).count(f"state-{limit}") == 1
    assert not [name for name in os.listdir(tmp_path) if ".new-" in name]
    return tally


ALL_LIMITS = ["bucket", "window", "wide", "counter", "subs", "log", "places"]


@pytest.mark.parametrize("limit", ALL_LIMITS)
def test_one_key_admits_its_limit_to_all_processes_together(start, tmp_path, limit):
    amount = 5_000_000 if limit == "wide" else 1000
    takes = {"wide": 300_000, "places": 20_000}.get(limit, 100_000)  # a take looks at all places
    tally = hammer(start, tmp_path, limit, amount, 1, takes)
    assert tally.word(ADMITTED) == min(amount, takes)


@pytest.mark.parametrize("limit", ALL_LIMITS)
def test_a_thousand_keys_admit_their_limits_to_all_processes_together(start, tmp_path, limit):
    amount = 5_000_000 if limit == "wide" else 20
    tally = hammer(start, tmp_path, limit, amount, 1000, 100)
    assert set(tally.of_keys(1000)) == {min(amount, 100)}


@pytest.mark.parametrize("limit, keys", [("bucket", 1_000_000), ("window", 200_000), ("counter", 200_000)])
def test_a_storm_of_fresh_keys_admits_each_once(start, tmp_path, limit, keys):
    tally = hammer(start, tmp_path, limit, 1, keys, 8)
    counts = tally.of_keys(keys)
    assert tally.word(ADMITTED) == keys
    assert set(counts) == {1}


def audit(start, state, tally, first, last):
    process = start("spender", "audit", state, tally.path, first, last)
    output, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, error
    return {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", output)}


def test_kill_9_under_load_mints_nothing_and_locks_no_client_out(start, tmp_path):
    rounds, workers = 100, 2
    chance = random.Random(int(os.environ.get("RATION_SEED", 20260101)))
    state, tally = tmp_path / "state", Tally(tmp_path / "tally")
    audit(start, state, tally, 0, 0)  # makes the file
    size, killed, spent = state.stat().st_size, 0, 0

    for n in range(rounds):
        ready = tally.word(READY)
        processes = [
            start("spender", "spend", state, tally.path, n, rounds) for _ in range(workers)
        ]
        if n % 4 != 0:  # else the kill may meet a process that is opening the file
            tally.wait_for(READY, ready + workers)
        time.sleep(chance.uniform(0.005, 0.030))
        for process in processes:
            process.send_signal(signal.SIGKILL)
        for process in processes:
            _, error = process.communicate()
            assert process.returncode == -signal.SIGKILL, error
        killed += workers

        found = audit(start, state, tally, n, n + 1)
        assert found["minted"] == 0, f"round {n}: {found}"
        assert found["unnoted"] <= workers, f"round {n}: {found}"
        assert found["errors"] == found["evictions"] == 0, f"round {n}: {found}"
        spent += found["spent"]
        assert os.listdir(tmp_path) and state.stat().st_size == size
        assert sorted(os.listdir(tmp_path)) == ["state", "tally"]

    found = audit(start, state, tally, 0, rounds)
    assert found["minted"] == 0 and found["unnoted"] <= killed
    assert found["spent"] == spent  # nothing was lost meanwhile
    assert spent > rounds * 100


@pytest.mark.parametrize("limit", ["bucket", "hour", "log", "counter"])
def test_wall_clocks_an_hour_apart_admit_no_more(start, tmp_path, limit):
    shifted = {"LD_PRELOAD": str(PROGRAMS / "libwallshift.so"), "WALLSHIFT": "3600"}
    behind = {**shifted, "WALLSHIFT": "-3600"}
    while 3600 - time.time() % 3600 < 30:  # no hour may end in between
        time.sleep(1)
    # the second opener, the first and others: the process that creates the file sets the time line
    tally = hammer(start, tmp_path, limit, 1000, 1, 200_000, envs=[shifted, None, behind, None])
    assert tally.word(ADMITTED) == 1000


def take_one(state, rules, shift):
    """Remaining after one request, as a process sees it whose wall clock is off by `shift` seconds."""
    env = {**os.environ, "LD_PRELOAD": str(PROGRAMS / "libwallshift.so"), "WALLSHIFT": str(shift)}
    run = subprocess.run([PROGRAMS.parent / "ration", "check", "--json", "--state", state, rules, "user=ann"],
                         env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout)


def test_a_wall_clock_set_back_neither_refuses_nor_refills(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("limits: [{name: bucket, key: user, limit: 10 per hour}]\n")
    state = tmp_path / "state"
    left = [take_one(state, rules, shift)["remaining"] for shift in (0, -2, 0, 7200)]
    assert left == [9, 8, 7, 6]


def test_the_shim_does_shift(start, tmp_path):
    """Without this the test above could pass for nothing."""
    env = {**os.environ, "LD_PRELOAD": str(PROGRAMS / "libwallshift.so"), "WALLSHIFT": "3600"}
    shown = int(subprocess.run(["date", "+%s"], env=env, capture_output=True, check=True).stdout)
    assert 3590 < shown - time.time() < 3610


@pytest.mark.parametrize("limit", ["bucket", "counter", "log"])
def test_a_stopped_process_does_not_delay_others(start, tmp_path, limit):
    keys, takes = 50_000, 20
    amount = 8
    state, tally = tmp_path / "state", Tally(tmp_path / "tally")
    args = (state, tally.path, limit, amount, keys, takes, 2, 4)
    stopped, free = start("hammer", *args), start("hammer", *args)
    try:
        tally.wait_for(NEXT, 2000)
        for _ in range(5):  # stopped at several points of its work
            stopped.send_signal(signal.SIGSTOP)
            before = tally.word(NEXT)
            tally.wait_for(NEXT, min(before + 20_000, keys * takes))
            stopped.send_signal(signal.SIGCONT)
            time.sleep(0.002)
        stopped.send_signal(signal.SIGSTOP)
        finish([free])
        # two threads are stopped within a charge at most: all others are done
        assert keys * amount - tally.word(ADMITTED) <= 2
    finally:
        stopped.send_signal(signal.SIGCONT)
    finish([stopped])
    assert tally.word(ERRORS) == 0
    assert set(tally.of_keys(keys)) == {amount}
