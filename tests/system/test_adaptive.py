# SPDX-License-Identifier: Apache-2.0
"""Adaptive concurrency over HTTP and RESP: places that are acquired and released teach the number, and a
restart forgets nothing of it. The clock moves only when a test says so."""

import contextlib

import pytest

from daemon import Daemon
from stillclock import StillClock

RULES = "limits: [{name: backend, limit: {concurrent: adaptive, min: 2, max: 50}}]\n"


def over_http(daemon, stack):
    connection = stack.enter_context(contextlib.closing(daemon.connection("http")))

    def post(path, body):
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def acquire():
        status, text = post("/v1/acquire", '{"attributes": {"path": "/"}}')
        return text.split('"lease":"')[1].split('"')[0] if status == 200 else None

    def release(lease):
        assert post("/v1/release", f'{{"lease": "{lease}"}}')[0] == 200

    return acquire, release


def over_resp(daemon, stack):
    resp = stack.enter_context(contextlib.closing(daemon.resp()))

    def acquire():
        reply = resp("RATION.ACQUIRE", "RULES", "path", "/")
        told = dict(zip(reply[::2], reply[1::2]))
        return told.get(b"lease") if told[b"allowed"] else None

    def release(lease):
        assert resp("RATION.RELEASE", lease) == 1

    return acquire, release


def learn(clock, acquire, release, rounds):
    """All places are taken, and held for 10 ms."""
    for _ in range(rounds):
        leases = []
        while (lease := acquire()) is not None:
            leases.append(lease)
        clock.advance(0.01)
        for lease in leases:
            release(lease)


def state(daemon):
    return daemon.admin("GET", "/v1/state?rule=backend&path=/").json["limits"][0]


@pytest.mark.parametrize("protocol", [over_http, over_resp])
def test_released_places_teach_the_number_and_a_restart_keeps_it(tmp_path, protocol):
    clock = StillClock(tmp_path / "clock")
    options = ["--workers", "1", "--memory", "2M", "--state", tmp_path / "state"]
    with Daemon(tmp_path, RULES, options, env=clock.env()) as daemon:
        assert state(daemon)["limit"] == 2
        assert state(daemon)["best_latency"] == 0
        with contextlib.ExitStack() as stack:
            learn(clock, *protocol(daemon, stack), 100)
        learnt = state(daemon)
        assert 2 < learnt["limit"] <= 50
        assert learnt["best_latency"] == learnt["recent_latency"] == 0.01
        daemon.stop()
        daemon.start()
        assert state(daemon) == learnt
