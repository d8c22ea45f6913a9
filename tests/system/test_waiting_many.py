# SPDX-License-Identifier: Apache-2.0
"""Many waiting connections at once, under every algorithm, on a clock that stands still until it is moved:
200 in one line, and 10,000 in 1,000 lines.

The order in which waiters had their turns is told by what each left: with one step of the clock a limit has
room for several, and the first of them leaves the most.
"""

import os

import pytest

from crowd import Crowd, raise_descriptors
from daemon import Daemon, wait_for
from stillclock import StillClock

SOAK = "RATION_SOAK" in os.environ
STEP = 4  # seconds after which every limit below is as if nothing had been spent
LIMITS = {
    "bucket": "{n} per 2 seconds, algorithm: token-bucket",
    "window": "{n} per 2 seconds, algorithm: fixed-window",
    "log": "{n} per 2 seconds, algorithm: sliding-log",
    "sliding": "{n} per 2 seconds, algorithm: sliding-window",
    "cut": "{n} per 2 seconds, algorithm: sliding-window, sub_windows: 10",
    "leaky": "{n}000 per second queue {rest}",
    "places": "{n} concurrent, lease: 2s",
}
PRIORITY = ", priority: {{by: level, levels: {{high: 0%, low: 10%}}, default: low}}"


def rules(n, queue, extra=""):
    """One rule for each algorithm, with room for n units."""
    text = "limits:\n"
    for kind, limit in LIMITS.items():
        text += (f"  - {{name: {kind}, when: {{kind: {kind}}}, key: [kind, user], queue: {queue}, limit: "
                 + (limit + extra).format(n=n, rest=n - 1) + "}\n")
    return text


@pytest.fixture
def clock(tmp_path):
    return StillClock(tmp_path / "clock")


def start(tmp_path, clock, text, *options):
    return Daemon(tmp_path, text, ["--workers", 4, "--memory", "16M", *options], env=clock.env())


def request(kind, user, cost=1, **more):
    body = {"attributes": {"kind": kind, "user": user, **more.pop("attributes", {})}, "cost": cost, **more}
    return "/v1/acquire" if kind == "places" else "/v1/check", body


def spend(daemon, kind, user, units):
    path, body = request(kind, user, units)
    answer = daemon.http("POST", path, body)
    assert answer.status == 200, answer


def in_order_of_turns(answers):
    """Those that were admitted, the first one first."""
    assert all(status == 200 for status, _ in answers.values()), answers
    return sorted(answers, key=lambda who: -answers[who][1]["remaining"])


def fill(crowd, kinds, count, levels=("low",)):
    """`count` requests of user ann for each algorithm, one after the other."""
    for i in range(count):
        for kind in kinds:
            crowd.ask((kind, i), *request(kind, "ann", attributes={"level": levels[i % len(levels)]}))
        crowd.wait_until(waiting=len(kinds) * (i + 1))


def one_step(crowd, clock, expected, room=20):
    """Moves the clock. `expected` tells, for each algorithm, which have their turn, in that order."""
    clock.advance(STEP)
    answers = crowd.collect(sum(map(len, expected.values())))
    for kind, turns in expected.items():
        mine = {i: answer for (which, i), answer in answers.items() if which == kind}
        assert in_order_of_turns(mine) == turns, kind
        assert [mine[i][1]["remaining"] for i in turns] == list(range(room - 1, room - 1 - len(turns), -1)), kind


def nobody_overtakes(daemon, kinds):
    for kind in kinds:
        path, body = request(kind, "ann", wait="return", attributes={"level": "high"})
        answer = daemon.http("POST", path, body)
        assert answer.status == 429, (kind, answer)


def test_200_in_one_line_have_their_turns_in_the_order_of_arrival(tmp_path, clock):
    with start(tmp_path, clock, rules(20, "{size: 200, max_wait: 55s}")) as daemon, Crowd(daemon) as crowd:
        for kind in LIMITS:
            spend(daemon, kind, "ann", 20)
        fill(crowd, LIMITS, 200)
        for first in range(0, 200, 20):
            nobody_overtakes(daemon, LIMITS)
            one_step(crowd, clock, dict.fromkeys(LIMITS, list(range(first, first + 20))))
        crowd.wait_until(waiting=0)
        assert crowd.metric('ration_waited_total{result="admitted"}') == 200 * len(LIMITS)


def test_200_in_one_line_have_their_turns_by_priority(tmp_path, clock):
    """The lower level must leave a tenth of the limit, two units."""
    with start(tmp_path, clock, rules(20, "{size: 200, max_wait: 55s}", PRIORITY)) as daemon, Crowd(daemon) as crowd:
        for kind in LIMITS:
            path, body = request(kind, "ann", 20, attributes={"level": "high"})
            assert daemon.http("POST", path, body).status == 200
        fill(crowd, LIMITS, 200, levels=("low", "high"))
        high, low = list(range(1, 200, 2)), list(range(0, 200, 2))
        for first in range(0, 100, 20):
            one_step(crowd, clock, dict.fromkeys(LIMITS, high[first:first + 20]))
        for first in range(0, 100, 18):
            one_step(crowd, clock, dict.fromkeys(LIMITS, low[first:first + 18]), room=18)


def test_nobody_waits_longer_than_max_wait(tmp_path, clock):
    """A place that is not released gives no hint of how long it takes."""
    text = """
limits:
  - {name: long, when: {kind: places}, key: user, limit: 1 concurrent, lease: 1h, queue: {size: 200, max_wait: 5s}}
  - {name: short, when: {kind: short}, key: user, limit: 1 concurrent, lease: 1h, queue: {size: 200, max_wait: 4s}}
"""
    with start(tmp_path, clock, text, "--workers", 1) as daemon, Crowd(daemon) as crowd:
        for user, kind in (("ann", "places"), ("bob", "short")):
            body = {"attributes": {"kind": kind, "user": user}}
            assert daemon.http("POST", "/v1/acquire", body).status == 200
        for i in range(200):
            crowd.ask(i, *request("places", "ann"))
        crowd.ask("short", "/v1/acquire", {"attributes": {"kind": "short", "user": "bob"}})
        crowd.wait_until(waiting=201)
        clock.advance(4.999)
        (status, _), = crowd.collect(1).values()  # the short one: so the others were looked at, too
        assert status == 429
        assert crowd.metric("ration_waiting") == 200
        clock.advance(0.002)
        assert {status for status, _ in crowd.collect(200).values()} == {429}
        assert crowd.metric('ration_waited_total{result="timed_out"}') == 201


@pytest.mark.parametrize("kinds", [list(LIMITS), *([[kind] for kind in LIMITS] if SOAK else [])],
                         ids=lambda kinds: kinds[0] if len(kinds) == 1 else "all")
def test_10_000_in_1_000_lines(tmp_path, clock, kinds):
    """Two of each ten hang up: they are charged nothing, so newcomers find their two units, and no more."""
    if raise_descriptors() < 12000:
        pytest.skip("needs 12,000 descriptors")
    lines = [(kinds[i % len(kinds)], f"user-{i}") for i in range(1000)]
    leave, stay = (3, 7), [wave for wave in range(10) if wave not in (3, 7)]
    with start(tmp_path, clock, rules(10, "{size: 10, max_wait: 55s}")) as daemon, Crowd(daemon) as crowd:
        for kind, user in lines:
            spend(daemon, kind, user, 10)
        for wave in range(10):
            for kind, user in lines:
                crowd.ask((user, wave), *request(kind, user))
            crowd.wait_until(waiting=1000 * (wave + 1))
        for kind, user in lines[:50]:
            assert daemon.http("POST", *request(kind, user)).status == 429, "the line is full"
        crowd.leave([(user, 3) for _, user in lines])
        crowd.leave([(user, 7) for _, user in lines], reset=True)
        crowd.wait_until(waiting=8000)
        clock.advance(STEP)
        answers = crowd.collect(8000)
        for kind, user in lines:
            mine = {wave: answers[user, wave] for wave in stay}
            assert in_order_of_turns(mine) == stay, (kind, user)
            assert [mine[wave][1]["remaining"] for wave in stay] == list(range(9, 1, -1)), (kind, user)
        wait_for(lambda: crowd.metric("ration_waiting") == 0)
        for kind, user in lines[:len(leave) * 50]:
            path, body = request(kind, user, len(leave), wait="return")
            assert daemon.http("POST", path, body).json["remaining"] == 0, (kind, user)
            assert daemon.http("POST", *request(kind, user, wait="return")).status == 429
