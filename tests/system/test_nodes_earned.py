# SPDX-License-Identifier: Apache-2.0
"""What clients earn under limits that nodes share. Each node counts what it has seen itself: together
the nodes admit no more than the largest step that one of them has in force.

The clock of Redis stands still, so nothing is refilled: admissions are counted."""

import contextlib

import pytest

from daemon import Daemon, wait_for
from redis_server import RedisServer
from stillclock import StillClock

AMOUNT = 600
COST = 20
ALGORITHMS = ("token-bucket", "sliding-window")
MODES = ("strict", "leased", "async")
OPTIONS = ["--workers", "1", "--memory", "2M", "--redis-deadline", "10s"]


def rules(mode):
    return "limits:\n" + "".join(f"""
  - name: {algorithm}
    when: {{ path: /{algorithm} }}
    key: user
    limit: {AMOUNT} per 24h
    algorithm: {algorithm}
    consistency: {mode}
    on_store_failure: refuse
    earn: {{ every: 1m, add: 50%, up_to: 200%, lost_by: 3 refusals within 1h }}
""" for algorithm in ALGORITHMS)


class Fleet:
    def __init__(self, daemons, clock):
        self.daemons, self.clock = daemons, clock
        self.admitted = dict.fromkeys(ALGORITHMS, 0)

    def ask(self, node, what, algorithm, cost=COST, **more):
        body = {"attributes": {"user": "ann", "path": f"/{algorithm}"}, "cost": cost, **more}
        answer = self.daemons[node].http("POST", f"/v1/{what}", body).json
        if answer["allowed"] and not more.get("peek"):
            self.admitted[algorithm] += cost
        return answer

    def limit(self, node, algorithm):
        return self.ask(node, "check", algorithm, cost=1, peek=True)["limit"]

    def earn(self, algorithm, steps):
        """On the first node: an admission each minute."""
        assert self.ask(0, "check", algorithm, cost=1)["allowed"]
        for _ in range(steps):
            self.clock.advance(60)
            assert self.ask(0, "check", algorithm, cost=1)["allowed"]

    def spend(self, node, algorithm):
        """Until the first refusal."""
        while self.ask(node, "check", algorithm)["allowed"]:
            assert self.admitted[algorithm] <= 4 * AMOUNT


@contextlib.contextmanager
def fleet(folder, mode):
    """Two nodes, whose clocks go, and a Redis, whose clock does not."""
    clocks = [StillClock(folder / name) for name in ("nodes", "redis")]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder, clocks[1]))
        server.flush_and_vouch()
        sharing = [*OPTIONS, "--redis", server.url, "--redis-nodes", "2"]
        daemons = []
        for name in ("one", "other"):
            (folder / name).mkdir()
            daemons.append(stack.enter_context(
                Daemon(folder / name, rules(mode), sharing, env=clocks[0].env())))
        wait_for(lambda: all(d.admin("GET", "/readyz").json["store"] == "up" for d in daemons))
        yield Fleet(daemons, clocks[0])


def most(mode, percent):
    """Async nodes hold 5 % of the limit as written."""
    return AMOUNT * percent // 100 + (AMOUNT // 20 if mode == "async" else 0)


@pytest.mark.parametrize("mode", MODES)
def test_nodes_admit_no_more_than_the_largest_step(tmp_path, mode):
    with fleet(tmp_path, mode) as nodes:
        for algorithm in ALGORITHMS:
            nodes.earn(algorithm, 2)
            assert (nodes.limit(0, algorithm), nodes.limit(1, algorithm)) == (2 * AMOUNT, AMOUNT)
            nodes.spend(1, algorithm)
            assert nodes.admitted[algorithm] <= most(mode, 100)
            nodes.spend(0, algorithm)
            assert nodes.admitted[algorithm] <= most(mode, 200)
            if mode == "strict":  # nothing is held back; the first units had a higher price
                assert nodes.admitted[algorithm] >= (2 * AMOUNT - AMOUNT if algorithm == "token-bucket"
                                                     else 2 * AMOUNT - COST)


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_loses_all_gets_no_more_by_giving_back(tmp_path, mode):
    with fleet(tmp_path, mode) as nodes:
        for algorithm in ALGORITHMS:
            nodes.earn(algorithm, 2)
            held = nodes.ask(0, "reserve", algorithm, cost=300, **{"for": 3600})
            assert held["allowed"]
            for _ in range(3):
                assert not nodes.ask(0, "check", algorithm, cost=5 * AMOUNT)["allowed"]
            assert nodes.limit(0, algorithm) == AMOUNT
            if nodes.daemons[0].http("POST", "/v1/refund", {"lease": held["lease"]}).json["refunded"]:
                nodes.admitted[algorithm] -= 300
            nodes.spend(0, algorithm)
            nodes.spend(1, algorithm)
            assert nodes.admitted[algorithm] <= most(mode, 100)
