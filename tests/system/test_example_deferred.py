# SPDX-License-Identifier: Apache-2.0
"""examples/deferred: jobs above the rate go through a Redis stream. Nothing is lost and the rate holds, whichever of
the worker, Redis and rationd is killed or frozen meanwhile."""

import contextlib
import itertools
import os
import signal
import subprocess

import pytest

from daemon import PATIENCE, ROOT, Daemon, free_port, wait_for
from receiver import Receiver, assert_rate
from redis_server import RedisServer, silence

EXAMPLE = ROOT / "examples/deferred/deferred.py"
BURST, RATE = 3, 20 # deliveries: so many at once, then so many a second


class DeferredWork:
    """Redis, rationd, the receiver of webhooks, and workers."""

    def __init__(self, folder):
        self.folder, self.stack, self.logs = folder, contextlib.ExitStack(), {}
        self.numbers = itertools.count()
        self.redis = self.stack.enter_context(RedisServer(folder, port=free_port(), options=["--appendonly", "yes", "--appendfsync", "no"]))
        self.rationd = self.stack.enter_context(Daemon(folder, options=["--resp", f"127.0.0.1:{free_port()}"]))
        self.receiver = self.stack.enter_context(Receiver())
        self.env = {"PATH": os.environ["PATH"], "LIMIT": f"{RATE} per second burst {BURST}", "ABANDONED_MS": "500",
                    "ANSWER_SECONDS": str(PATIENCE),
                    "REDIS_URL": f"redis://127.0.0.1:{self.redis.port}", "RATION_URL": "redis://" + self.rationd.addresses["resp"]}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def send(self, body="{}"):
        return subprocess.run(["/usr/bin/python3", EXAMPLE, "send", self.receiver.url + "/hook", body], env=self.env,
                              capture_output=True, text=True, timeout=PATIENCE)

    def fill(self, count):
        """As many deferred jobs, without a process for each."""
        names = [f"job-{next(self.numbers)}" for _ in range(count)]
        with self.redis.client() as client:
            for name in names:
                client.xadd("deferred", {"id": name, "url": self.receiver.url, "body": "{}", "tries": 0})
        return names

    def worker(self, name="one"):
        path = self.folder / f"worker-{name}.log"
        with open(path, "ab") as log:
            process = subprocess.Popen(["/usr/bin/python3", EXAMPLE, "work", name], env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.logs[process] = path
        self.stack.callback(self.kill, process)
        return process

    def kill(self, process):
        process.kill()
        process.wait(PATIENCE)

    def said(self, process, text):
        return text in self.logs[process].read_text()

    def is_settled(self):
        """The stream is empty, and nobody has a job."""
        with self.redis.client() as client:
            return client.xlen("deferred") == 0 and client.xpending("deferred", "workers")["pending"] == 0


@pytest.fixture
def work(tmp_path):
    with DeferredWork(tmp_path) as work:
        yield work


def test_what_exceeds_the_rate_is_deferred_and_delivered_once_in_order(work):
    work.env["LIMIT"] = "2 per day"
    assert [work.send(f'{{"n": {n}}}').stdout for n in range(4)] == ["delivered\n"] * 2 + ["deferred\n"] * 2
    work.env["LIMIT"] = f"{RATE} per second burst {BURST}"
    jobs = work.fill(10)
    work.worker()
    wait_for(work.is_settled, "all are delivered")
    calls = work.receiver.calls
    assert [call.body for call in calls] == [b'{"n": 0}', b'{"n": 1}', b'{"n": 2}', b'{"n": 3}'] + [b"{}"] * 10
    assert work.receiver.keys()[4:] == jobs and len(set(work.receiver.keys())) == 14
    assert_rate(calls[2:], RATE, 1, BURST, callers=1)


def test_a_killed_worker_loses_nothing_and_another_takes_over(work):
    jobs = work.fill(8)
    work.receiver.open.clear()
    first = work.worker("first")
    wait_for(lambda: work.receiver.calls, "a delivery is under way")
    work.kill(first)
    work.receiver.open.set()
    second = work.worker("second") # first never comes back
    wait_for(work.is_settled, "all are delivered")
    assert work.receiver.keys()[1:].count(jobs[0]) == 1, "the one under way is delivered again, under its key"
    assert sorted(work.receiver.keys()) == sorted([jobs[0], *jobs])
    work.kill(second)
    jobs = work.fill(5)
    work.env["ABANDONED_MS"] = "3600000"
    work.receiver.open.clear()
    before = len(work.receiver.calls)
    again = work.worker("second")
    wait_for(lambda: len(work.receiver.calls) > before, "a delivery is under way")
    work.kill(again)
    work.receiver.open.set()
    work.worker("second") # comes back: its job is its own at once
    wait_for(work.is_settled, "all are delivered")
    assert_rate(work.receiver.calls, RATE, 1, BURST, callers=1)


def test_workers_share_the_rate_and_the_jobs(work):
    jobs = work.fill(30)
    for name in ("one", "two", "three"):
        work.worker(name)
    wait_for(work.is_settled, "all are delivered")
    assert set(work.receiver.keys()) == set(jobs)
    assert_rate(work.receiver.calls, RATE, 1, BURST, callers=3)


def test_a_frozen_redis_delays_jobs_and_neither_loses_nor_repeats_them(work):
    work.env.update(ABANDONED_MS="3600000", ANSWER_SECONDS="0.5")
    jobs = work.fill(6)
    work.receiver.open.clear()
    worker = work.worker()
    wait_for(lambda: work.receiver.calls, "a delivery is under way")
    with silence(work.redis):
        work.receiver.open.set() # delivered, and Redis cannot be told
        work.env["LIMIT"] = "1 per day burst 1"
        sent = [work.send() for _ in range(2)] # the first needs no Redis
        assert sent[1].returncode != 0 and "TimeoutError" in sent[1].stderr # not accepted
        wait_for(lambda: work.said(worker, "Redis is away"), "the worker notices")
    wait_for(work.is_settled, "all are delivered")
    assert [key for key in work.receiver.keys() if key.startswith("job-")] == jobs


def test_a_killed_redis_keeps_the_jobs(work):
    work.env["ABANDONED_MS"] = "3600000"
    jobs = work.fill(6)
    work.receiver.open.clear()
    worker = work.worker()
    wait_for(lambda: work.receiver.calls, "a delivery is under way")
    work.redis.stop()
    work.receiver.open.set()
    wait_for(lambda: work.said(worker, "Redis is away"), "the worker notices")
    work.redis.start()
    wait_for(work.is_settled, "all are delivered")
    assert work.receiver.keys() == jobs


@pytest.mark.parametrize("end", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
def test_without_rationd_nothing_leaves(work, end):
    work.env["ANSWER_SECONDS"] = "1"
    if end == signal.SIGSTOP:
        work.rationd.freeze()
    else:
        work.rationd.kill()
    wait_for(lambda: work.send().stdout == "deferred\n", "a job is accepted")
    worker = work.worker()
    wait_for(lambda: work.said(worker, "rationd is away"), "the worker notices")
    assert not work.receiver.calls
    if end == signal.SIGSTOP:
        work.rationd.thaw()
    else:
        work.rationd.start()
    wait_for(work.is_settled, "it is delivered")
    assert work.receiver.calls and len(set(work.receiver.keys())) == len(work.receiver.calls)


def test_a_job_that_always_fails_does_not_hold_up_others_and_ends_apart(work):
    work.receiver.plan = lambda receiver, call: (500 if call.key == "job-0" else 200, {})
    jobs = work.fill(4)
    work.worker()
    wait_for(work.is_settled, "all are settled")
    assert work.receiver.keys() == jobs + ["job-0"] * 7
    with work.redis.client(decode_responses=True) as client:
        (_, failed), = client.xrange("deferred:failed")
    assert failed["id"] == "job-0" and failed["tries"] == "8"
