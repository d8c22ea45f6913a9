# SPDX-License-Identifier: Apache-2.0
"""Nodes without a front (tests/programs/redis_node.c), for tests of what they share."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest

from daemon import BUILD, PATIENCE

REDIS_NODE = BUILD / "tests" / "redis_node"


class Node:
    """A process that takes from one limit, or a few. By default it gives Redis more time, in ms,
    than even a busy machine needs, and its window does not end while a test runs."""

    started = []

    def __init__(self, url, limit="1000 per 7 days", algorithm="fixed-window", key=7, count=1000,
                 depth=64, pace=0, deadline=5000, fingerprint=None):
        self.process = subprocess.Popen(
            [REDIS_NODE, url, limit, algorithm, *map(str, (key, count, depth, pace, deadline))],
            env={**os.environ, **({"FINGERPRINT": fingerprint} if fingerprint else {})}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log, self.seen = "", 0
        Node.started.append(self)

    def logs(self, event):
        """Waits for a line that tells of the event, and has not been waited for."""
        watchdog = threading.Timer(PATIENCE, self.process.kill)
        watchdog.start()
        while event not in self.log[self.seen:]:
            line = self.process.stderr.readline()
            assert line, f"no {event}:\n{self.log}"
            self.log += line
        watchdog.cancel()
        self.seen = len(self.log)

    def up(self):
        assert self.process.stdout.readline() == "up\n"
        return self

    def result(self):
        out, err = self.process.communicate(timeout=2 * PATIENCE)
        assert self.process.returncode == 0, err
        self.log += err or ""
        return json.loads(out.splitlines()[-1])

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def stop(self):
        """Early, and cleanly."""
        self.process.send_signal(signal.SIGTERM)
        return self.result()


class LeasedNode(Node):
    """One that holds leases, or (mode "cold") none, of a limit that is leased, and writes what it
    is granted to a log. `where`: the path of a server, or its URL."""

    def __init__(self, where, log, limit, algorithm="token-bucket", key=7, count=10**9, depth=8, pace=2,
                 deadline_ms=0, mode="leased", env=None):
        url = where if "://" in where else f"redis+unix://{where}"
        self.process = subprocess.Popen(
            [REDIS_NODE, url, limit, algorithm, *map(str, (key, count, depth, pace, deadline_ms)), mode, log],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, **(env or {})})
        self.log = ""
        Node.started.append(self)


@pytest.fixture(autouse=True)
def no_node_is_left():
    yield
    while Node.started:
        node = Node.started.pop()
        if node.process.poll() is None:
            node.kill()
