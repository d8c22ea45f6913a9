# SPDX-License-Identifier: Apache-2.0
"""As many clients as rationd says at start are kept: none is forgotten, none is turned away."""

import re

import pytest

from daemon import Daemon

LOT = 5000 # commands that are sent at once


def fill(daemon, clients, cost):
    """One request of each client; returns how many were admitted."""
    admitted = 0
    with daemon.resp() as resp:
        for first in range(0, clients, LOT):
            lot = [b"client-%d" % i for i in range(first, min(first + LOT, clients))]
            resp.socket.sendall(b"".join(
                b"*5\r\n$12\r\nRATION.CHECK\r\n$4\r\nuser\r\n$%d\r\n%s\r\n$4\r\nCOST\r\n$%d\r\n%d\r\n" %
                (len(name), name, len(str(cost)), cost) for name in lot))
            admitted += sum(resp.read()[1] for _ in lot)
    return admitted


@pytest.mark.parametrize("limit, memory, clients, cost", [
    ("10 per hour, algorithm: fixed-window", 32_000_000, 1_000_000, 1),
    ("500 per hour, algorithm: sliding-log", 120_000_000, 100_000, 500),
], ids=["a million windows in 32 MB", "100,000 full logs of 500 in 120 MB"])
def test_clients_fit_into_the_memory_that_was_promised(tmp_path, limit, memory, clients, cost):
    rules = f"limits: [{{name: a, key: user, limit: {limit}}}]"
    with Daemon(tmp_path, rules, ["--memory", memory, "--workers", "1"]) as d:
        ready = next(line for line in d.log if line.startswith("rationd: ready"))
        assert int(re.search(r" capacity=(\d+)", ready)[1]) >= clients
        assert fill(d, clients, cost) == clients
        metrics = d.admin("GET", "/metrics").text
        assert re.search(r"^ration_evictions_total 0$", metrics, re.M)
        assert int(re.search(r"^ration_live_keys (\d+)$", metrics, re.M)[1]) == clients
        # The first are still known: their next request is counted with the one before.
        assert d.http("POST", "/v1/check", {"attributes": {"user": "client-0"}}).json["remaining"] == max(
            0, 10 - 2 if cost == 1 else 0)
