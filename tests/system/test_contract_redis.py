# SPDX-License-Identifier: Apache-2.0
"""The contract over a shared store: two nodes that share a Redis, asked in turn, answer as
one daemon does that keeps its counters itself.

The scenarios are those of test_contract.py. Redis's clock stands still with the nodes'.
"""

import contextlib
import itertools

import pytest

from daemon import Daemon
from redis_server import RedisServer
from stillclock import START, StillClock
from test_contract import OverHttp, OverResp, Play, scenarios

OPTIONS = ["--workers", "1", "--memory", "2M", "--admin", "none"]

# What Redis is to do differently.
APART = {
    "a wall clock that is set back two seconds neither refuses nor mints":
        "Redis has only a wall clock: a bucket is refilled when it has caught up",
    "a window that has begun ends when it was going to whatever the wall clock does":
        "the same of windows: docs/distributed.md, Clocks",
    "in a window a cost that does not fit waits for the next one":
        "a refusal that a node remembers tells what was left then",
    "a cost fills as many entries of a log": "the same",
}


class PlayWithinAMillisecond(Play):
    """Times may differ by a millisecond: the table keeps those of a log more coarsely than
    Redis does."""

    @classmethod
    def same(cls, found, expected):
        if {type(found), type(expected)} <= {int, float} and type(found) != type(expected):
            found = float(found)
        if isinstance(found, float):
            return abs(found - expected) < 0.0015
        if isinstance(found, dict) and isinstance(expected, dict):
            return found.keys() == expected.keys() and all(
                cls.same(found[name], expected[name]) for name in found)
        if isinstance(found, list) and isinstance(expected, list):
            return len(found) == len(expected) and all(map(cls.same, found, expected))
        return found == expected


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A Redis and the file of its clock."""
    folder = tmp_path_factory.mktemp("redis")
    clock = StillClock(folder / "clock")
    with RedisServer(folder, clock) as server:
        yield server, folder / "clock"


class AlternatingNodes:
    """Several nodes as one."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.turn = itertools.cycle(nodes)

    def decide(self, *words):
        return next(self.turn).decide(*words)

    def settle(self, *words):
        return next(self.turn).settle(*words)

    def close(self):
        for node in self.nodes:
            node.close()


def play_both(tmp_path, shared, rules, scenario):
    server, path = shared
    server.flush_and_vouch()
    clock = StillClock(path, scenario.get("at", START))
    sharing = [*OPTIONS, "--redis", server.url, "--redis-deadline", "10s"]
    with contextlib.ExitStack() as stack:
        def node(name, options):
            folder = tmp_path / name
            folder.mkdir()
            daemon = Daemon(folder, rules, options, env=clock.env())
            return stack.enter_context(daemon)

        one = node("one", sharing)
        # Each node counts refusals by itself: only bans that have begun are shared.
        other = one if "escalate:" in rules or "earn:" in rules else node("other", sharing)
        asked = {"http": OverHttp(node("alone", OPTIONS)),
                 "nodes": AlternatingNodes([OverHttp(one), OverResp(other, 3)])}
        for a in asked.values():
            stack.enter_context(contextlib.closing(a))
        play = PlayWithinAMillisecond(clock, asked)
        for step in scenario["steps"]:
            play.step(step)


def alike():
    return [s for s in scenarios() if s.values[1]["name"] not in APART]


@pytest.mark.parametrize("rules, scenario", alike())
def test_two_nodes_decide_as_one(tmp_path, shared, rules, scenario):
    play_both(tmp_path, shared, rules, scenario)


def test_scenarios_that_differ_exist():
    names = {scenario["name"] for _, scenario in (s.values for s in scenarios())}
    assert APART.keys() <= names
