# SPDX-License-Identifier: Apache-2.0
"""No unit of a leased limit is lost while all nodes and Redis are well: two nodes use a part of each
limit and then stop, and a third node finds all of the rest."""

import contextlib
import time

import pytest

from daemon import Daemon, wait_for
from nodes import Nodes, metric
from redis_server import RedisServer
from stillclock import StillClock

AMOUNT = 1500
PARTS = (0.5, 0.8, 0.95, 0.99)
# Long enough that nothing comes back while a test runs.
ALGORITHMS = {
    "bucket": f"{AMOUNT} per 7 days",
    "steps": f"{AMOUNT} per 30 days in steps of 1d",
    "window": f"{AMOUNT} per 7 days, algorithm: fixed-window",
    "counter": f"{AMOUNT} per 7 days, algorithm: sliding-window",
    "subs": f"{AMOUNT} per 7 days, algorithm: sliding-window, sub_windows: 7",
    "log": f"{AMOUNT} per 7 days, algorithm: sliding-log",
}
RULES = "limits:\n" + "".join(
    f"  - {{ name: {name}, when: {{ path: /{name} }}, key: user, limit: {limit}, consistency: leased,\n"
    "      on_store_failure: refuse }\n" for name, limit in ALGORITHMS.items())
PATIENT = ["--redis-deadline", "5s"]
TRIES = 5  # a machine that stalls for longer than a lease is not well
QUIET = 2  # s without an admission: there is nothing left


def take(resp, path, user, count):
    """How many of the requests are admitted, 16 at a time."""
    admitted = 0
    while count > 0:
        n = min(16, count)
        for _ in range(n):
            resp.send("RATION.CHECK", "path", path, "user", user)
        admitted += sum(resp.read()[1] for _ in range(n))
        count -= n
    return admitted


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("idle")
    with RedisServer(folder) as server, Nodes(folder, RULES, [server.url] * 3, PATIENT) as nodes:
        yield nodes


def total(nodes, name):
    return sum(metric(node, name) for node in nodes.all)


def drive(resps, keys, admitted):
    """Each key to its part of the limit, by several nodes at a time; less of a key of which units were
    lost."""
    for key, part in keys.items():
        last = time.monotonic()
        while admitted[key] < part * AMOUNT and time.monotonic() < last + QUIET:
            rest = int(part * AMOUNT) - admitted[key] + 1
            got = sum(take(resp, *key, min(rest // 2 + 1, 60)) for resp in resps)
            admitted[key] += got
            last = time.monotonic() if got else last


def exhaust(resp, keys, admitted):
    """Asks one node for all the rest. Where little is left, it asks Redis for it every 125 ms
    and refuses in between."""
    last = time.monotonic()
    while time.monotonic() < last + QUIET:
        for key in keys:
            got = take(resp, *key, AMOUNT + 1 - admitted[key])
            admitted[key] += got
            last = time.monotonic() if got else last


def drive_and_ask(nodes, number):
    keys = {(f"/{name}", f"{number}-{part}"): part for name in ALGORITHMS for part in PARTS}
    admitted = dict.fromkeys(keys, 0)
    with contextlib.ExitStack() as stack:
        resps = [stack.enter_context(node.resp()) for node in nodes.all]
        drive(resps[:2], keys, admitted)
        wait_for(lambda: total(nodes, "ration_leased_keys") == 0, "all that is held to be given back")
        exhaust(resps[2], keys, admitted)
    return admitted


def test_all_units_of_idle_keys_are_there_for_others(nodes):
    for number in range(TRIES):
        before = total(nodes, "ration_leased_burnt_units_total")
        admitted = drive_and_ask(nodes, number)
        burnt = total(nodes, "ration_leased_burnt_units_total") - before
        missing = {key: AMOUNT - n for key, n in admitted.items() if n != AMOUNT}
        print(f"{burnt} of {AMOUNT * len(admitted)} burnt, missing: {missing}")
        assert max(admitted.values()) <= AMOUNT
        if burnt == 0 and not missing:
            break
    assert burnt == 0 and not missing
    assert total(nodes, "ration_leased_decided_total") > 100 * len(ALGORITHMS)


TWO = """
limits:
  - {name: user, key: user, limit: 4000 per 2 seconds, algorithm: fixed-window, consistency: leased}
  - {name: all, limit: 4000 per 2 seconds, algorithm: fixed-window, consistency: leased}
"""


def test_a_key_that_cools_down_while_a_request_waits_is_dropped_once(tmp_path):
    """A request looks at two keys, and waits for leases of both. The last reply leads to its charges, which spend all
    of a key that is hardly used any more."""
    clock = StillClock(tmp_path / "clock")
    with RedisServer(tmp_path, clock) as redis:
        redis.flush_and_vouch()
        options = ["--workers", "1", "--redis", redis.url, "--redis-deadline", "10s"]
        with Daemon(tmp_path, TWO, options, env=clock.env()) as daemon, daemon.resp() as resp:
            wait_for(lambda: daemon.admin("GET", "/readyz").json["store"] == "up")
            for _ in range(5):
                assert take(resp, "/", "ann", 200) == 200
                assert metric(daemon, "ration_leased_keys") == 2
                clock.advance(20)
                resp.send("RATION.CHECK", "user", "ann", "COST", 5)
                assert resp.read()[1] == 1
