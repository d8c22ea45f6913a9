# SPDX-License-Identifier: Apache-2.0
"""How a wait in line ends when it is not by a turn: clients that go away, new rules, a daemon that stops or is frozen.
Nobody is left without an answer, and nobody is charged for one that went."""

import contextlib
import os
import random
import signal
import ssl
import time

import pytest

from concurrent_clients import command, post
from daemon import wait_for
from in_line import Gateway, Line, answered, decision
from redis_server import SEED, RedisServer, silence
from test_tls import Authority, has_tls

LIMIT = "100 per 10 seconds"
RULES = "limits: [{name: api, key: user, limit: 2 per 10 seconds, queue: {size: 1000, max_wait: 1m}}]\n"
PLACES = "limits: [{name: jobs, key: user, limit: 1 concurrent, queue: {size: 1000, max_wait: 1h}}]\n"


def leaves(line, client, reset=False):
    client.leave(reset)
    line.clients.remove(client)


def fill_up(line, key):
    """Takes all of the limit at once."""
    assert line.http("/v1/throttle", key=key, limit=LIMIT, cost=100).answer()["allowed"]
    assert not line.http("/v1/throttle", key=key, limit=LIMIT).answer()["allowed"]


# --- clients that go away ----------------------------------------------------------------------------------


def test_a_thousand_clients_leave_and_are_not_charged(tmp_path):
    with Line(tmp_path) as line:
        keys = [f"key {i}" for i in range(10)]
        for key in keys:
            fill_up(line, key)
        waiting = []
        for i in range(1000):
            if i % 2:
                waiting.append(line.http("/v1/throttle", key=keys[i % 10], limit=LIMIT, wait=60, cost=1 + i % 3))
            else:
                waiting.append(line.words("RATION.TAKE", keys[i % 10], LIMIT, 1, "WAIT", 60000))
        line.stands(1000)
        for i, client in enumerate(waiting):
            leaves(line, client, reset=i % 4 == 0)
        line.stands(0)
        assert line.metric("ration_waited_total", result="left") == 1000
        line.clock.advance(10)
        for key in keys:
            fill_up(line, key)


def test_the_turn_of_one_that_leaves_is_that_of_the_next(tmp_path):
    with Line(tmp_path, PLACES) as line:
        lease = line.http("/v1/acquire", attributes={"user": "ann"}).answer()["lease"]
        waiting = []
        for i in range(4):
            waiting.append(line.http("/v1/acquire", attributes={"user": "ann"}))
            line.stands(i + 1)
        for client in (waiting[0], waiting[2]):
            leaves(line, client)
        line.stands(2)
        line.clock.advance(1)
        for client in (waiting[1], waiting[3]):
            assert line.daemon.http("POST", "/v1/release", {"lease": lease}).json["released"]
            lease = line.admitted(client)[0]["lease"]
        line.stands(0)


@pytest.mark.skipif(not has_tls(), reason="this build has no TLS")
def test_a_client_over_tls_leaves_the_line(tmp_path):
    certificate, key = Authority(tmp_path).sign("server")
    options = ["--tls-cert", certificate, "--tls-key", key, "--admin", f"unix:{tmp_path}/admin"]
    with Line(tmp_path, options=options) as line:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        ask = post("/v1/throttle", {"key": "a", "limit": "1 per 10 seconds", "wait": 60})

        def client():
            s = context.wrap_socket(line.daemon.socket())
            s.sendall(ask)
            return s

        with client() as s:
            assert b" 200 " in s.recv(4096)
        first = client()
        line.stands(1)
        second = client()
        line.stands(2)
        first.close()
        line.stands(1)
        line.clock.advance(10)
        with second:
            assert b'"waited":10' in second.recv(4096)


# --- new rules ----------------------------------------------------------------------------------------------------


def replace_rules(line, text):
    version = line.daemon.admin("GET", "/v1/rules").json["version"]
    line.daemon.file.write_text(text)
    line.daemon.reload()
    wait_for(lambda: line.daemon.admin("GET", "/v1/rules").json["version"] > version, "the reload")


def test_a_reload_leaves_the_line_and_its_order(tmp_path):
    with Line(tmp_path, RULES) as line:
        for _ in range(2):
            assert line.check(user="ann").answer()["allowed"]
        waiting = []
        for i in range(6):
            waiting.append(line.check(user="ann") if i % 2 else line.words("RATION.CHECK", "user", "ann"))
            line.stands(i + 1)
        replace_rules(line, RULES + "# the same\n")
        line.stands(6)
        assert answered(waiting) == []
        for begin in (0, 2, 4):
            line.clock.advance(10)
            line.admitted(*waiting[begin:begin + 2])
            assert answered(waiting[begin + 2:]) == []


def test_who_waits_goes_ahead_when_the_rule_is_gone(tmp_path):
    with Line(tmp_path, RULES) as line:
        waiting = [line.check(user="ann") for _ in range(12)]
        line.stands(10)
        replace_rules(line, "limits: []\n")
        answers = [client.answer() for client in waiting]
        assert all(answer["allowed"] for answer in answers)
        assert sum(answer["rule"] is None for answer in answers) == 10
        line.stands(0)


# --- a daemon that stops --------------------------------------------------------------------------------------------


def fill_line(line, count):
    """Clients that wait for one place, and the lease of that."""
    lease = line.http("/v1/acquire", attributes={"user": "ann"}).answer()["lease"]
    waiting = [line.http("/v1/acquire", attributes={"user": "ann"}) if i % 2 else
               line.words("RATION.ACQUIRE", "RULES", "user", "ann", "WAIT", 60000) for i in range(count)]
    line.stands(count)
    return lease, waiting


def test_all_that_wait_are_answered_when_the_daemon_stops(tmp_path):
    with Line(tmp_path, PLACES) as line:
        _, waiting = fill_line(line, 200)
        line.daemon.process.send_signal(signal.SIGTERM)
        line.daemon.logged("daemon.stopping")

        def step():
            """The clock goes on, slowly enough for the daemon to see it."""
            time.sleep(0.1)
            line.clock.advance(0.5)
            return len(answered(waiting)) == 200

        wait_for(step, "all to be answered")
        answers = [client.answer() for client in waiting]
        assert not any(answer["allowed"] for answer in answers)
        assert all(9 <= answer["waited"] < 60 for answer in answers), "neither at once nor by their own bounds"
        for answer in answers[1::2]:
            assert answer["status"] == 429 and answer["headers"]["connection"] == "close"
        assert all(client.socket.recv(1) == b"" for client in waiting), "and nothing follows"
        assert line.daemon._end() == 0


def test_a_gateway_is_told_when_the_daemon_stops(tmp_path):
    with Line(tmp_path, PLACES) as line:
        gateway = Gateway(line)
        ask = ("RATION.CHECK", "user", "ann", "LEASE", "FULL", "LINE")
        assert decision(gateway(*ask, 0))["allowed"]
        for id in range(100):
            assert gateway(*ask, id) == [b"WAIT", id, 60000]
        line.daemon.process.send_signal(signal.SIGTERM)
        line.daemon.logged("daemon.stopping")
        wait_for(lambda: line.clock.advance(0.5) or time.sleep(0.05) or gateway.client.has_answer(), "the first turn")
        pushes = [gateway.read() for _ in range(100)]
        assert {push[2] for push in pushes} == set(range(100))
        assert not any(decision(push[3])["allowed"] for push in pushes)
        assert gateway.client.socket.recv(1) == b""
        assert line.daemon._end() == 0


def test_a_turn_comes_while_the_daemon_stops(tmp_path):
    with Line(tmp_path, RULES) as line:
        for _ in range(2):
            assert line.check(user="ann").answer()["allowed"]
        waits = line.check(user="ann")
        line.stands(1)
        line.daemon.process.send_signal(signal.SIGTERM)
        line.daemon.logged("daemon.stopping")
        line.clock.advance(5)
        assert line.admitted(waits)[0]["headers"]["connection"] == "close"
        assert line.daemon._end() == 0


def test_a_second_signal_ends_all_waits_at_once(tmp_path):
    with Line(tmp_path, PLACES) as line:
        _, waiting = fill_line(line, 100)
        line.daemon.process.send_signal(signal.SIGTERM)
        line.daemon.logged("daemon.stopping")
        line.daemon.process.send_signal(signal.SIGTERM)
        assert line.daemon._end() == 0
        for client in waiting:
            with contextlib.suppress(ConnectionError):
                assert client.socket.recv(1) == b""


def test_what_is_due_after_a_freeze_is_answered_in_order(tmp_path):
    with Line(tmp_path, RULES) as line:
        for _ in range(2):
            assert line.check(user="ann").answer()["allowed"]
        waiting = []
        for i in range(8):
            waiting.append(line.check(user="ann"))
            line.stands(i + 1)
        line.daemon.freeze()
        line.clock.advance(20)  # there is room for two; the first two go meanwhile
        for client in waiting[:2]:
            leaves(line, client, reset=True)
        waiting.append(line.check(user="ann"))
        line.daemon.thaw()
        line.admitted(*waiting[2:4])
        line.stands(5)
        for i in range(4, 9):
            line.clock.advance(5)
            line.admitted(waiting[i])
            assert answered(waiting[i + 1:]) == []


# --- all at once -------------------------------------------------------------------------------------------------------


def test_clients_that_do_as_they_like_leave_nothing_behind(tmp_path):
    chance = random.Random(SEED)
    limit, keys, steps = "3 per second", [f"key {i}" for i in range(5)], 20000 if "RATION_SOAK" in os.environ else 600
    with Line(tmp_path, "limits: [{name: api, key: user, limit: 3 per second, queue: 50}]\n") as line:
        asked, admitted, began_ns = [], 0, line.clock.boot_ns

        def ask():
            key, wait = chance.choice(keys), chance.choice([0.4, 1, 5, 60])
            count = chance.choice([1, 1, 1, 4])  # in a pipeline
            if chance.random() < 0.5:
                client = line.client("http")
                client.send(count * post("/v1/throttle", {"key": key, "limit": limit, "wait": wait}))
            else:
                client = line.client("resp")
                client.send(count * command("RATION.TAKE", key, limit, 1, "WAIT", int(wait * 1000)))
            asked.append([client, count])

        def read(one):
            nonlocal admitted
            while one[1] > 0 and one[0].has_answer():
                admitted += one[0].answer()["allowed"]
                one[1] -= 1
            return one[1] == 0

        for step in range(steps):
            if len(asked) < 60 and chance.random() < 0.6:
                ask()
            if asked and chance.random() < 0.2:
                leaves(line, asked.pop(chance.randrange(len(asked)))[0], chance.random() < 0.5)
            if chance.random() < 0.2:
                line.clock.advance(chance.choice([0.01, 0.34, 1]))
            if step % 200 == 100:
                line.daemon.reload()
            for one in [one for one in asked if read(one)]:
                asked.remove(one)
                leaves(line, one[0], False)
        for one in asked:
            leaves(line, one[0], chance.random() < 0.5)
        line.stands(0)
        seconds = (line.clock.boot_ns - began_ns) / 1e9
        assert admitted <= len(keys) * (3 + 3 * seconds), "more than the limit"

        def is_whole(key):
            """A pipeline that its client has left may yet have its turn, once."""
            line.clock.advance(10)
            allowed = [line.http("/v1/throttle", key=key, limit=limit).answer()["allowed"] for _ in range(4)]
            assert sum(allowed) <= 3, "more than the limit"
            return allowed == [True, True, True, False]

        for key in keys:
            wait_for(lambda: is_whole(key), "a limit that owes nothing")


# --- a shared store ----------------------------------------------------------------------------------------------------


STRICT = """
limits:
  - {name: api, key: user, limit: 20 per second burst 1, queue: {size: 500, max_wait: 60s}, on_store_failure: refuse,
     when: {user: {present: true}}}
  - {name: jobs, key: job, limit: 1 concurrent, lease: 20s, queue: {size: 500, max_wait: 60s}, on_store_failure: refuse,
     when: {job: {present: true}}}
"""


def test_requests_wait_over_a_shared_store(tmp_path):
    with RedisServer(tmp_path) as redis, \
            Line(tmp_path, STRICT, ["--redis", redis.url, "--redis-deadline", "10s"], still=False) as line:
        waiting = [line.check(user="ann") if i % 2 else line.words("RATION.CHECK", "user", "ann") for i in range(40)]
        pipeline = line.client("resp")
        for _ in range(8):
            pipeline.resp.send("RATION.CHECK", "user", "ann")
        assert all(client.answer()["allowed"] for client in waiting)
        assert all(pipeline.answer()["allowed"] for _ in range(8))
        line.stands(0)


def test_who_leaves_while_its_turn_is_decided_gives_back_what_it_got(tmp_path):
    with RedisServer(tmp_path) as redis, \
            Line(tmp_path, STRICT, ["--redis", redis.url, "--redis-deadline", "10s"], still=False) as line:
        line.http("/v1/acquire", attributes={"job": "a"}, **{"for": 0.5}).answer()
        leaver = line.http("/v1/acquire", attributes={"job": "a"})
        line.stands(1)
        stays = line.words("RATION.ACQUIRE", "RULES", "job", "a")
        line.stands(2)
        with silence(redis):  # which is asked again and again: the first in line is being decided
            leaves(line, leaver)
            time.sleep(0.6)  # the lease ends meanwhile, so that the leaver gets the place
        assert line.admitted(stays)[0]["lease"], "which is given back, and need not end by itself"
        line.stands(0)
