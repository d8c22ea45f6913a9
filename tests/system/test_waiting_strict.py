# SPDX-License-Identifier: Apache-2.0
"""Lines for strict limits in Redis, with waiters on all threads of a node: one thread decides for all of them.

Redis and the nodes have one clock, which stands still until it is moved.
"""

import contextlib
import os
import random
import signal
import time

import pytest

from concurrent_clients import command, post
from daemon import wait_for
from in_line import Gateway, Line, answered, decision
from redis_server import SEED, RedisServer, silence
from stillclock import StillClock
from test_waiting_ends import leaves, replace_rules

RULES = """
limits:
  - {name: api, key: user, limit: 20 per 2 seconds, algorithm: fixed-window, queue: {size: 500, max_wait: 55s},
     on_store_failure: refuse}
"""
STEP = 4  # seconds after which a window has ended


@contextlib.contextmanager
def strict_line(folder, rules=RULES, deadline="10s"):
    clock = StillClock(folder / "clock")
    with RedisServer(folder, clock) as redis:
        redis.flush_and_vouch()
        options = ["--redis", redis.url, "--redis-deadline", deadline]
        with Line(folder, rules, options, workers=4, clock=clock) as line:
            wait_for(lambda: line.daemon.admin("GET", "/readyz").json["store"] == "up")
            line.redis = redis
            yield line


def stand(line, count, **attributes):
    """So many in order, over both ports, each over a connection of its own: threads have a few each."""
    waiting = []
    before = line.metric("ration_waiting")
    for i in range(count):
        words = [word for pair in attributes.items() for word in pair]
        waiting.append(line.check(**attributes) if i % 2 else line.words("RATION.CHECK", *words))
        line.stands(before + i + 1)
    return waiting


def first_are_answered(line, waiting, count):
    """Those that came first, and nobody else: the others wait on."""
    wait_for(lambda: len(answered(waiting)) >= count)
    line.stands(len(waiting) - count)
    assert answered(waiting) == list(range(count))


def spend(line, **attributes):
    for _ in range(20):
        assert line.check(**attributes).answer()["allowed"]


def test_those_that_leave_are_not_charged(tmp_path):
    with strict_line(tmp_path) as line:
        spend(line, user="ann")
        waiting = stand(line, 60, user="ann")
        for i, client in enumerate(waiting):
            if i % 2 == i // 2 % 2:
                leaves(line, client, reset=i % 3 == 0)
        stay = [client for i, client in enumerate(waiting) if i % 2 != i // 2 % 2]
        line.stands(30)
        assert line.metric("ration_waited_total", result="left") == 30
        line.clock.advance(STEP)
        first_are_answered(line, stay, 20)
        line.admitted(*stay[:20])
        line.clock.advance(STEP)
        line.admitted(*stay[20:])
        line.stands(0)
        allowed = [line.check(wait="return", user="ann").answer()["allowed"] for _ in range(11)]
        assert allowed == 10 * [True] + [False], "those that left have not been charged"


def test_a_gateway_waits_and_leaves_for_its_clients(tmp_path):
    with strict_line(tmp_path) as line:
        spend(line, user="ann")
        gateways = [Gateway(line) for _ in range(6)]
        for id in range(30):
            reply = gateways[id % 6]("RATION.CHECK", "user", "ann", "FULL", "LINE", id)
            assert reply[:2] == [b"WAIT", id] and 0 < reply[2] <= 55000
            line.stands(id + 1)
        for id in range(0, 30, 5):
            assert gateways[id % 6]("RATION.LEAVE", id) == 1
            assert gateways[id % 6]("RATION.LEAVE", id) == 0
        line.stands(24)
        line.clock.advance(STEP)
        stay = [id for id in range(30) if id % 5]
        for id in stay[:20]:
            push = gateways[id % 6].read()
            assert push[2] == id and decision(push[3])["allowed"] and decision(push[3])["waited"] > 0
        line.stands(4)
        for id in stay[20:]:
            assert gateways[id % 6]("RATION.LEAVE", id) == 1
        line.stands(0)


TWO = """
limits:
  - {name: all, limit: 20 per 2 seconds, algorithm: fixed-window, queue: {size: 500, max_wait: 55s},
     on_store_failure: refuse}
  - {name: tenant, key: tenant, when: {tenant: {present: true}}, limit: 10 per 2 seconds, algorithm: fixed-window,
     queue: {size: 500, max_wait: 55s}, on_store_failure: refuse}
"""


def test_requests_of_several_limits_keep_their_order_beside_those_of_one(tmp_path):
    """Some are charged to one limit, some to two, of which the second refuses some: all or nothing, and nobody that
    only one limit holds up is overtaken in its line."""
    with strict_line(tmp_path, TWO) as line:
        spend(line, user="ann")
        waiting = []
        for i in range(60):
            more = {} if i % 3 == 0 else {"tenant": "a" if i % 3 == 1 else "b"}
            waiting += stand(line, 1, user="ann", **more)
        for step in range(3):
            line.clock.advance(STEP)
            first_are_answered(line, waiting, 20 * (step + 1))
        line.admitted(*waiting)


def test_a_tenant_over_its_limit_does_not_hold_up_the_others(tmp_path):
    with strict_line(tmp_path, TWO) as line:
        for _ in range(10):
            assert line.check(tenant="a").answer()["allowed"]
        spent = stand(line, 15, tenant="a")  # in the line of the tenant
        for _ in range(10):
            assert line.check(tenant="b").answer()["allowed"]
        others = stand(line, 15, user="ann")  # in that of all
        line.clock.advance(STEP)
        wait_for(lambda: len(answered(spent) + answered(others)) == 20)
        line.stands(10)
        assert answered(spent) == list(range(len(answered(spent)))) and len(answered(spent)) <= 10
        assert answered(others) == list(range(len(answered(others))))
        line.clock.advance(STEP)
        line.stands(0)
        line.admitted(*spent, *others)
        assert line.check(wait="return", user="ann").answer()["allowed"], "nothing is charged beyond what was admitted"


def test_a_higher_priority_goes_first(tmp_path):
    """The lower one must leave a tenth, two units."""
    priority = "priority: {by: level, levels: {high: 0%, low: 10%}, default: low}, on_store_failure"
    with strict_line(tmp_path, RULES.replace("on_store_failure", priority)) as line:
        spend(line, user="ann", level="high")
        low, high = stand(line, 30, user="ann", level="low"), stand(line, 30, user="ann", level="high")
        for first_high, first_low in ((20, 0), (30, 8), (30, 26), (30, 30)):
            line.clock.advance(STEP)
            wait_for(lambda: len(answered(high) + answered(low)) >= first_high + first_low)
            line.stands(60 - first_high - first_low)
            assert (answered(high), answered(low)) == (list(range(first_high)), list(range(first_low)))
        line.admitted(*high, *low)


def test_a_reload_keeps_the_line_and_its_order(tmp_path):
    with strict_line(tmp_path) as line:
        spend(line, user="ann")
        waiting = stand(line, 60, user="ann")
        for step in range(3):
            replace_rules(line, RULES + f"# {step}\n")
            line.clock.advance(STEP)
            first_are_answered(line, waiting, 20 * (step + 1))
        line.admitted(*waiting)


def test_all_are_answered_when_the_daemon_stops(tmp_path):
    """Those whose turn comes meanwhile are admitted, and the others refused."""
    with strict_line(tmp_path) as line:
        spend(line, user="ann")
        waiting = stand(line, 50, user="ann")
        line.daemon.process.send_signal(signal.SIGTERM)
        line.daemon.logged("daemon.stopping")
        line.clock.advance(STEP)
        wait_for(lambda: answered(waiting) == list(range(20)), "the first turns")
        line.daemon.process.send_signal(signal.SIGTERM)
        assert line.daemon._end() == 0
        assert all(client.answer()["allowed"] for client in waiting[:20])
        for client in waiting[20:]:
            with contextlib.suppress(ConnectionError):
                assert client.socket.recv(1) == b""


def test_a_stop_survives_what_is_given_back_while_redis_is_silent(tmp_path):
    """A client has left, and of two limits the first waits for its unit."""
    rules = """limits:
  - {name: queue, key: user, limit: 1 per 10 seconds queue 5, wait: hold}
  - {name: all, limit: 20 per 2 seconds}
"""
    with strict_line(tmp_path, rules) as line:
        assert line.check(user="ann").answer()["allowed"]
        delayed = line.check(user="ann")
        wait_for(lambda: line.metric("ration_delays_total") == 1, "a place in the queue")
        calls = line.metric("ration_store_calls_total")
        with silence(line.redis):
            leaves(line, delayed)
            wait_for(lambda: line.metric("ration_store_calls_total") > calls, "the first refund")
            line.daemon.stop()


def test_nobody_waits_beyond_the_end_of_a_stop(tmp_path):
    """A window ends once or twice within the ten seconds of a stop."""
    with strict_line(tmp_path, RULES.replace("2 seconds", "7 seconds")) as line:
        spend(line, user="ann")
        waiting = stand(line, 50, user="ann")
        line.daemon.process.send_signal(signal.SIGTERM)
        line.daemon.logged("daemon.stopping")

        def step():
            """The clock goes on, slowly enough for the daemon to see it."""
            time.sleep(0.1)
            line.clock.advance(0.25)
            return len(answered(waiting)) == 50

        wait_for(step, "all to be answered")
        allowed = [client.answer()["allowed"] for client in waiting]
        assert 20 <= sum(allowed) < 50 and allowed == sorted(allowed, reverse=True)
        assert line.daemon._end() == 0


def test_who_leaves_while_its_turn_is_decided_gives_back_what_it_got(tmp_path):
    with strict_line(tmp_path) as line:
        spend(line, user="ann")
        waiting = stand(line, 30, user="ann")
        with silence(line.redis):
            asked = line.metric("ration_store_charges_total")
            line.clock.advance(STEP)
            wait_for(lambda: line.metric("ration_store_charges_total") >= asked + 20, "the store to be asked")
            for client in waiting[:10]:
                leaves(line, client)

        def nobody_stands():
            """A refusal that was on its way when units came back did not see them: the line asks again soon."""
            line.clock.advance(0.002)
            return line.metric("ration_waiting") == 0

        wait_for(nobody_stands, "those behind to have what was given back")
        assert max(answer["waited"] for answer in line.admitted(*waiting[10:])) < STEP + 1, "of the same window"


def test_clients_that_do_as_they_like_leave_nothing_behind(tmp_path):
    chance = random.Random(SEED)
    limit, keys, steps = "3 per second", [f"key {i}" for i in range(5)], 20000 if "RATION_SOAK" in os.environ else 400
    with strict_line(tmp_path) as line:
        asked, made, admitted, began_ns = [], 0, 0, line.clock.boot_ns

        def ask():
            nonlocal made
            key, wait = chance.choice(keys), chance.choice([0.4, 1, 5, 55])
            if chance.random() < 0.5:
                client = line.http("/v1/throttle", key=key, limit=limit, wait=wait)
            else:
                client = line.words("RATION.TAKE", key, limit, 1, "WAIT", int(wait * 1000))
            asked.append(client)
            made += 1

        def count(name):
            return sum(line.metric(name, listener=port) for port in ("http", "resp"))

        def all_are_accepted():
            return count("ration_connections_accepted_total") == made

        def all_are_gone():
            """Those that hung up before they were accepted, too."""
            return all_are_accepted() and count("ration_connections") == 0

        for step in range(steps):
            if len(asked) < 60 and chance.random() < 0.7:
                ask()
            if asked and chance.random() < 0.2:
                leaves(line, asked.pop(chance.randrange(len(asked))), chance.random() < 0.5)
            if chance.random() < 0.2:
                line.clock.advance(chance.choice([0.01, 0.34, 1]))
            if step % 200 == 100:
                line.daemon.reload()
            if step % 20 == 0:
                wait_for(all_are_accepted, "a busy daemon to catch up")
            for client in [client for client in asked if client.has_answer()]:
                admitted += client.answer()["allowed"]
                asked.remove(client)
                leaves(line, client)
        for client in asked:
            leaves(line, client, chance.random() < 0.5)
        wait_for(all_are_gone)
        line.stands(0)
        assert line.metric("ration_waiting_lines") == 0
        seconds = (line.clock.boot_ns - began_ns) / 1e9
        assert admitted > 0, "nobody was answered in time"
        assert admitted <= len(keys) * (3 + 3 * seconds), "more than the limit"
        line.clock.advance(10)
        for key in keys:
            allowed = [line.http("/v1/throttle", key=key, limit=limit).answer()["allowed"] for _ in range(4)]
            assert allowed == [True, True, True, False], "nothing is owed"
