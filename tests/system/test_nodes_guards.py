# SPDX-License-Identifier: Apache-2.0
"""Clients that move between variants of a limit, on two nodes that share a Redis: a refund of one
variant is also a refund of the larger one, where it was charged. Redis uses its own clock, so the
nodes answer like one daemon with its own counters and the clock of that Redis."""

import contextlib

import pytest

from daemon import Daemon, wait_for
from redis_server import RedisServer
from stillclock import StillClock

RULES = """
limits:
  - name: api
    key: user
    algorithm: {algorithm}
    limit: {{by: plan, small: {small}, large: {large}}}
"""
# The larger one is a guard of the smaller, and what is charged to it fades one by one.
VARIANTS = {
    "log": RULES.format(algorithm="sliding-log", small="10 per 2m", large="20 per minute"),
    "sliding window": RULES.format(algorithm="sliding-window", small="10 per 5m", large="40 per minute"),
    "sub-windows": RULES.format(algorithm="sliding-window\n    sub_windows: 6", small="10 per 2m", large="20 per minute"),
}
AHEAD = (0, 45, -45)  # s, by which the clock of Redis is
OPTIONS = ["--workers", "1", "--memory", "2M"]


class Nodes:
    """Asked in turn."""

    def __init__(self, daemons, clocks, server=None):
        self.daemons, self.clocks, self.server = daemons, clocks, server

    def ask(self, what, **body):
        self.daemons.reverse()
        return self.daemons[0].http("POST", f"/v1/{what}", body).json

    def of(self, plan, what="check", **more):
        return self.ask(what, attributes={"user": "ann", "plan": plan}, **more)

    def left(self):
        return self.of("large", peek=True)["remaining"]

    def advance(self, seconds):
        for clock in self.clocks:
            clock.advance(seconds)


@contextlib.contextmanager
def nodes(folder, rules, ahead):
    """Two with one clock, and a Redis with another."""
    clocks = [StillClock(folder / name) for name in ("nodes", "redis")]
    clocks[1].set_wall(ahead)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder, clocks[1]))
        server.flush_and_vouch()
        sharing = [*OPTIONS, "--redis", server.url, "--redis-deadline", "10s"]
        for name in ("one", "other"):
            (folder / name).mkdir()
        daemons = [stack.enter_context(Daemon(folder / name, rules, sharing, env=clocks[0].env()))
                   for name in ("one", "other")]
        wait_for(lambda: all(daemon.admin("GET", "/readyz").json["store"] == "up" for daemon in daemons))
        yield Nodes(daemons, clocks, server)


@contextlib.contextmanager
def alone(folder, rules, ahead):
    clock = StillClock(folder / "alone.clock")
    clock.set_wall(ahead)
    (folder / "alone").mkdir()
    with Daemon(folder / "alone", rules, OPTIONS, env=clock.env()) as daemon:
        yield Nodes([daemon], [clock])


def live(asked, settle):
    """What is left of the larger limit, time after time: five of the smaller are reserved, fifteen
    of the larger spent half a minute later, and then the five are settled."""
    seen = []
    lease = asked.of("small", "reserve", cost=5, **{"for": 60})["lease"]
    seen.append(asked.left())
    asked.advance(30)
    assert asked.of("large", cost=15)["allowed"]
    seen.append(asked.left())
    assert settle(asked, lease)
    for _ in range(12):
        seen.append(asked.left())
        asked.advance(5.9)
    return seen


SETTLED = {
    "refunded": lambda asked, lease: asked.ask("refund", lease=lease)["refunded"],
    "committed in part": lambda asked, lease: asked.ask("commit", lease=lease, cost=2)["committed"],
}


@pytest.mark.parametrize("ahead", AHEAD)
@pytest.mark.parametrize("how", SETTLED)
@pytest.mark.parametrize("variants", VARIANTS)
def test_a_refund_leaves_the_larger_variant_where_it_was_charged(tmp_path, variants, how, ahead):
    rules, settle = VARIANTS[variants], SETTLED[how]
    with nodes(tmp_path, rules, ahead) as shared, alone(tmp_path, rules, ahead) as one:
        assert live(shared, settle) == live(one, settle)
