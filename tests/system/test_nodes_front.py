# SPDX-License-Identifier: Apache-2.0
"""Nodes that share a Redis, as clients of every protocol see them: a request begun on one node ends
on another, and nothing is lost, doubled or out of order while Redis is slow, even if clients hang
up and nodes reload or stop."""

import contextlib
import json
import threading
import time

import grpc
import pytest

import rls
from concurrent_clients import check, command, in_threads, pair, post, read_http, rss
from daemon import wait_for
from faults import StepClock
from nodes import Nodes, metric
from redis_server import RedisServer, silence

PATIENT = ["--redis-deadline", "10s", "--grpc", "127.0.0.1:0"]
RULES = """
limits:
  - { name: hundred, when: { path: /hundred }, key: user, limit: 100 per day, on_store_failure: refuse }
  - { name: queue, when: { path: /queue }, key: user, limit: 20 per second queue 5, wait: hold,
      on_store_failure: refuse }
  - { name: places, when: { path: /places }, key: user, limit: 2 concurrent, on_store_failure: refuse }
  - { name: quota, when: { path: /quota }, key: user, limit: 10 per day, algorithm: fixed-window,
      on_store_failure: refuse }
"""
ENVOY = """
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 100 }
  - key: queue
    rate_limit: { limit: 1 per 50 seconds queue 1 }
"""


def start(tmp_path, server, rules=RULES, options=PATIENT, count=2):
    return Nodes(tmp_path, rules, [server.url] * count, options, workers=2)


# --- one limit, over every node and protocol ----------------------------------------------------

def by_batch(node):
    checks = [{"attributes": {"user": "ann", "path": "/hundred"}}] * 5
    results = node.http("POST", "/v1/check", {"checks": checks}).json["results"]
    return sum(result["allowed"] for result in results)


def by_auth(node):
    headers = {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/hundred", "User": "ann"}
    answers = [node.http("GET", "/v1/auth", headers=headers) for _ in range(5)]
    assert {answer.status for answer in answers} <= {200, 429}
    return sum(answer.status == 200 for answer in answers)


def by_grpc(node):
    with rls.Client(node.addresses["grpc"]) as client:
        return sum(client.code("shop", {"user": "ann"}) == rls.OK for _ in range(5))


@pytest.mark.parametrize("ask, rules", [
    (by_batch, RULES), (by_auth, RULES.replace("key: user", "key: header.user")), (by_grpc, ENVOY)],
    ids=["batches", "forward-auth", "gRPC"])
def test_nodes_share_a_limit_over_every_protocol(tmp_path, server, ask, rules):
    with start(tmp_path, server, rules) as nodes:
        admitted = in_threads(8, lambda n: sum(ask(nodes[n % 2]) for _ in range(5)))
    assert sum(admitted) == 100


def test_delayed_requests_form_one_queue_on_all_nodes(tmp_path, server):
    slow = RULES.replace("20 per second", "2 per second")  # a busy Redis may need a while for all of them
    with start(tmp_path, server, slow) as nodes, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(nodes[n % 2].socket()) for n in range(8)]
        with silence(server):  # so that it is asked by all of them at one moment
            for client in clients:
                client.sendall(check(user="ann", path="/queue"))
            wait_for(lambda: sum(metric(node, "ration_store_charges_total") for node in nodes.all) == 8)
        answers = [json.loads(read_http(stack.enter_context(client.makefile("rb")))[2]) for client in clients]
    held = sorted(answer.get("held", 0) for answer in answers if answer["allowed"])
    assert len(held) == 6, "one leaves, five wait"
    assert all(after - before > 0.2 for before, after in zip(held, held[1:])), held


def test_a_place_taken_on_one_node_is_renewed_and_freed_on_another(tmp_path, server):
    place = {"attributes": {"user": "ann", "path": "/places"}}
    with start(tmp_path, server) as nodes:
        def acquire(node):
            return nodes[node].http("POST", "/v1/acquire", place)

        def settle(node, verb, answer):
            return nodes[node].http("POST", f"/v1/{verb}", {"lease": answer.json["lease"]}).json

        first, second = acquire(0), acquire(1)
        assert first.status == second.status == 200
        assert acquire(0).status == acquire(1).status == 429
        assert settle(1, "renew", first)["renewed"]
        assert settle(1, "release", first) == {"released": True}
        assert settle(0, "release", first) == {"released": False}
        assert acquire(1).status == 200 and acquire(0).status == 429
        assert settle(0, "release", second) == {"released": True}


def test_a_ticket_that_cannot_be_settled_now_can_be_settled_later(tmp_path, server):
    place = {"attributes": {"user": "ann", "path": "/places"}}
    with start(tmp_path, server, options=["--redis-deadline", "1s"], count=1) as nodes:
        def settle(verb, lease):
            return nodes[0].http("POST", f"/v1/{verb}", {"lease": lease})

        def settled(verb, lease):
            """When it can be: each thread has to notice that Redis is there."""
            return wait_for(lambda: (answer := settle(verb, lease)).status == 200 and answer.json)

        taken = wait_for(lambda: nodes[0].http("POST", "/v1/acquire", place).json.get("lease"))
        with silence(server):
            answer = settle("release", taken)
            assert answer.status == 503 and "error" in answer.json, answer
        settled("release", taken)
        assert settled("release", taken) == {"released": False}, "by the first or the second"
        wait_for(lambda: nodes[0].http("POST", "/v1/check", {**place, "peek": True}).json["remaining"] == 2)


def test_a_reservation_made_on_one_node_is_settled_on_another(tmp_path, server):
    quota = {"attributes": {"user": "ann", "path": "/quota"}}
    with start(tmp_path, server) as nodes:
        def left():
            return {node.http("POST", "/v1/check", {**quota, "peek": True}).json["remaining"]
                    for node in nodes.all}

        lease = nodes[0].http("POST", "/v1/reserve", {**quota, "cost": 8}).json["lease"]
        assert left() == {2}
        commit = {"lease": lease, "cost": 3}
        assert nodes[1].http("POST", "/v1/commit", commit).json == {"committed": True}
        assert left() == {7}
        assert nodes[0].http("POST", "/v1/commit", commit).json == {"committed": False}
        lease = nodes[1].http("POST", "/v1/reserve", {**quota, "cost": 7}).json["lease"]
        assert nodes[0].http("POST", "/v1/refund", {"lease": lease}).json == {"refunded": True}
        assert nodes[1].http("POST", "/v1/refund", {"lease": lease}).json == {"refunded": False}
        assert left() == {7}


@pytest.mark.parametrize("off", [-3600, -5, 5])
def test_a_refund_on_a_node_with_another_clock_neither_mints_nor_burns(tmp_path, server, off):
    """How long ago the charge was made decides what a bucket gets back, and Redis knows."""
    rules = "limits: [{ name: fast, key: user, limit: 100 per second burst 100, on_store_failure: refuse }]"
    clocks = [StepClock(tmp_path / f"clock{i}", seconds) for i, seconds in enumerate((0, off))]
    urls = [server.url] * 2
    with Nodes(tmp_path, rules, urls, PATIENT, [clock.env() for clock in clocks]) as nodes:
        def ask(path, user, **more):
            return nodes[0].http("POST", path, {"attributes": {"user": user}, **more}).json

        for user, long_ago in (("ann", False), ("bob", True)):
            lease = ask("/v1/reserve", user, cost=80)["lease"]
            if long_ago:
                wait_for(lambda: ask("/v1/check", user, peek=True)["remaining"] == 100, "all grew back")
            began = time.monotonic()
            assert not long_ago or ask("/v1/check", user, cost=100)["allowed"]
            assert nodes[1].http("POST", "/v1/refund", {"lease": lease}).status == 200
            left = ask("/v1/check", user, peek=True)["remaining"]
            grown = 100 * (time.monotonic() - began)
            assert left <= grown + 1 if long_ago else left >= 99, "80 were given back"


def test_a_node_with_another_secret_is_a_stranger(tmp_path, server):
    quota = {"attributes": {"user": "ann", "path": "/quota"}, "cost": 8}
    envs = [{}, {"RATION_REDIS_KEY_SECRET": "another"}]
    urls = [server.url] * 2
    with Nodes(tmp_path, RULES, urls, PATIENT, envs) as nodes:
        lease = nodes[0].http("POST", "/v1/reserve", quota).json["lease"]
        answer = nodes[1].http("POST", "/v1/refund", {"lease": lease})
        assert answer.status == 400 and "lease" in answer.json["message"]
        assert nodes[1].http("POST", "/v1/check", quota).status == 429, "by policy"
        nodes[1].logged("redis.refused")


# --- while Redis keeps them waiting ------------------------------------------------------------

def pipeline(connection):
    """Decisions and echoes by turns: the order of the answers shows."""
    return b"".join(command("RATION.TAKE", f"key{connection}", "1000 per day") +
                    command("ECHO", f"{connection} {n}") for n in range(4))


def test_500_connections_and_a_slow_redis_get_every_answer_once_and_in_order(tmp_path, server):
    with start(tmp_path, server, count=1) as nodes:
        before = rss(nodes[0].process.pid)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(nodes[0].resp()) for _ in range(500)]
            for _ in range(4):
                with silence(server):
                    for number, client in enumerate(clients):
                        client.socket.sendall(pipeline(number))
                    time.sleep(0.05)
                for number, client in enumerate(clients):
                    for n in range(4):
                        assert pair(client.read(), "allowed") == 1
                        assert client.read() == f"{number} {n}".encode()
            grown = rss(nodes[0].process.pid) - before
        with nodes[0].resp() as client:
            assert pair(client("RATION.PEEK", "key0", "1000 per day"), "remaining") == 1000 - 16
    print(f"500 connections that wait: {grown >> 20} MiB more")
    assert grown < 192 << 20


def test_answers_over_http_keep_their_order_while_redis_is_silent(tmp_path, server):
    paths = ["/hundred", "/quota", "/nowhere", "/hundred", "/places", "/quota"] * 5
    rules = {"/hundred": "hundred", "/quota": "quota", "/nowhere": None, "/places": "places"}
    with start(tmp_path, server, count=1) as nodes, nodes[0].socket() as connection, \
            connection.makefile("rb") as file:
        with silence(server):
            connection.sendall(b"".join(check(user="ann", path=path) for path in paths))
            time.sleep(0.05)
        for path in paths:
            assert json.loads(read_http(file)[2])["rule"] == rules[path]


def test_clients_that_hang_up_while_they_wait_leave_nothing_behind(tmp_path, server):
    with start(tmp_path, server, count=1) as nodes:
        def descriptors():
            return metric(nodes[0], "process_open_fds")

        before = descriptors()
        with silence(server):
            for number in range(100):
                with nodes[0].socket("resp") as over_resp, nodes[0].socket() as over_http:
                    over_resp.sendall(pipeline(number))
                    over_http.sendall(check(user="ann", path="/quota") * 2)
        wait_for(lambda: descriptors() <= before, "connections are given up")
        with nodes[0].resp() as client:
            assert pair(client("RATION.TAKE", "after", "10 per day"), "allowed") == 1


def test_calls_that_are_cancelled_while_they_wait_leave_nothing_behind(tmp_path, server):
    with start(tmp_path, server, ENVOY, count=1) as nodes:
        address = nodes[0].addresses["grpc"]
        with silence(server):
            for _ in range(5):
                with rls.Client(address) as client:
                    calls = [client.should.future(rls.request("shop", {"user": "ann"}), timeout=60)
                             for _ in range(20)]
                    time.sleep(0.02)
                    for call in calls[::2]:
                        call.cancel()
        with rls.Client(address) as client:
            assert client.code("shop", {"user": "bob"}) == rls.OK


def test_a_caller_with_less_time_than_redis_is_answered_in_time(tmp_path, server):
    with start(tmp_path, server, ENVOY, count=1) as nodes, \
            rls.Client(nodes[0].addresses["grpc"]) as client:
        def is_answered(seconds):
            with contextlib.suppress(grpc.RpcError):
                return client.code("shop", {"user": "ann"}, timeout=seconds) == rls.OK

        def is_late():
            """Whether it ever was for want of time that Redis was not waited for: a connection
            without a reply is given up after a second, and then no request waits."""
            is_answered(0.5)
            return metric(nodes[0], "ration_store_late_total") > 0

        assert is_answered(30)
        with silence(server):  # which is given 10 s; a busy machine needs more than a moment
            wait_for(is_late, "a decision in the caller's time")
            assert any(is_answered(seconds) for seconds in (1, 2, 4, 8)), "of this node's share"


def test_delayed_clients_that_hang_up_free_the_tail_of_the_queue_on_all_nodes(tmp_path, server):
    with start(tmp_path, server, RULES.replace("20 per second queue 5", "1 per 50 seconds queue 5")) as nodes:
        def queued():
            answer = nodes[1].http("POST", "/v1/check", {
                "attributes": {"user": "ann", "path": "/queue"}, "peek": True}).json
            return answer["remaining"]

        nodes[0].http("POST", "/v1/check", {"attributes": {"user": "ann", "path": "/queue"}})
        full = queued()
        with nodes[0].socket() as waiting:
            waiting.sendall(post("/v1/check", {"attributes": {"user": "ann", "path": "/queue"}}))
            wait_for(lambda: queued() == full - 1, "it has a place in the queue")
        wait_for(lambda: queued() == full, "its place is free again")


def test_cancelled_delayed_calls_free_the_queue_on_all_nodes(tmp_path, server):
    with start(tmp_path, server, ENVOY) as nodes, rls.Client(nodes[0].addresses["grpc"]) as one, \
            rls.Client(nodes[1].addresses["grpc"]) as other:
        def ask(client):
            return client.should.future(rls.request("shop", {"queue": "ann"}), timeout=60)

        def is_held(node, call):
            """As soon as it is either held or answered."""
            wait_for(lambda: metric(node, "ration_held_replies_total") or call.done())
            return not call.done()

        assert one.code("shop", {"queue": "ann"}) == rls.OK
        waiting = ask(one)
        assert is_held(nodes[0], waiting)
        assert ask(other).result().overall_code == rls.OVER_LIMIT
        waiting.cancel()
        wait_for(lambda: is_held(nodes[1], ask(other)), "its place is free")


def waiting_clients(stack, node, count=20):
    """Each has asked over RESP and HTTP, and Redis is silent."""
    clients = []
    for number in range(count):
        over_resp = stack.enter_context(node.resp())
        over_http = stack.enter_context(node.socket())
        over_resp.socket.sendall(pipeline(number))
        over_http.sendall(check(user="ann", path="/hundred"))
        clients.append((over_resp, stack.enter_context(over_http.makefile("rb"))))
    return clients


def expect_answers(clients, allowed=(0, 1)):
    for number, (over_resp, over_http) in enumerate(clients):
        for n in range(4):
            assert pair(over_resp.read(), "allowed") in allowed
            assert over_resp.read() == f"{number} {n}".encode()
        assert read_http(over_http)[0] in (200, 429)


def test_no_request_for_the_control_thread_is_forgotten(tmp_path, server):
    """It serves one request at a time that waits for Redis; requests that need no Redis queue as well."""
    with contextlib.ExitStack() as stack, start(tmp_path, server, count=1) as nodes:
        def send(method, path, body=""):
            connection = stack.enter_context(nodes[0].socket("admin"))
            connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: ration\r\n"
                               f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
            return stack.enter_context(connection.makefile("rb"))

        with silence(server):
            files = [send("POST", "/v1/explain", '{"attributes": {"user": "ann", "path": "/quota"}}')]
            time.sleep(0.05)  # it waits for Redis by now
            files += [send("GET", path) for path in ["/healthz", "/readyz", "/healthz", "/v1/rules"]]
            time.sleep(0.05)
        assert [read_http(file)[0] for file in files] == [200] * 5


def test_a_daemon_that_stops_answers_requests_that_wait_for_redis(tmp_path, server):
    with contextlib.ExitStack() as stack, \
            start(tmp_path, server, options=["--redis-deadline", "300ms"], count=1) as nodes:
        with silence(server):
            clients = waiting_clients(stack, nodes[0])
            time.sleep(0.05)
            stopping = threading.Thread(target=nodes[0].stop)
            stopping.start()
            expect_answers(clients)
            stopping.join()
        assert nodes[0].process is None, "and ended well"


def test_rules_are_replaced_while_decisions_wait_for_redis(tmp_path, server):
    """By signal and by API; readers of the old rules are still waiting."""
    with contextlib.ExitStack() as stack, start(tmp_path, server, count=1) as nodes:
        node = nodes[0]
        version = node.admin("GET", "/v1/rules").json["version"]
        with silence(server):
            clients = waiting_clients(stack, node)
            looking = threading.Thread(target=node.admin, args=(
                "POST", "/v1/explain", {"attributes": {"user": "ann", "path": "/hundred"}}))
            looking.start()
            node.file.write_text(RULES.replace("100 per day", "200 per day"))
            node.reload()
            time.sleep(0.1)
            putting = threading.Thread(target=node.admin, args=(
                "PUT", "/v1/rules", RULES.replace("100 per day", "300 per day")))
            putting.start()
            time.sleep(0.1)
        expect_answers(clients, (1,))
        looking.join()
        putting.join()
        # Whichever came first, what the operator has set holds in place of the file.
        wait_for(lambda: node.http("POST", "/v1/check", {"attributes": {
            "user": "bob", "path": "/hundred"}}).json["limit"] == 300)
        assert node.admin("GET", "/v1/rules").json["version"] > version
