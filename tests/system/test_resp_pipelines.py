# SPDX-License-Identifier: Apache-2.0
"""Pipelines over RESP to a node that asks Redis: its decisions wait at the same time, its
replies keep their order, and whatever is no plain decision is alone."""

import contextlib
import random
import threading
import time

import pytest

from concurrent_clients import command, in_threads, pair
from daemon import RespError, wait_for
from faults import Proxy
from nodes import Nodes, metric
from redis_server import RedisServer, silence

PATIENT = ["--redis-deadline", "10s"]
BOUND = 64  # replies of one connection that are under way (front/await/reply_queue.h)
NAMES = [f"rule{i}" for i in range(8)]
KINDS = ["token-bucket", "fixed-window", "sliding-window", "sliding-log"]  # apart in calls to Redis
RULES = "limits:\n" + "".join(
    f"  - {{ name: {name}, when: {{ path: /{name} }}, key: user, limit: 100000 per day, "
    "on_store_failure: refuse }\n" for name in NAMES) + "".join(
    f"  - {{ name: {kind}, when: {{ path: /{kind} }}, key: user, limit: 100 per day, algorithm: {kind}, "
    "on_store_failure: refuse }\n" for kind in KINDS) + """
  - { name: hundred, when: { path: /hundred }, key: user, limit: 100 per day, on_store_failure: refuse }
  - { name: places, when: { path: /places }, key: user, limit: 2 concurrent, on_store_failure: refuse }
  - { name: queue, when: { path: /queue }, key: user, limit: 20 per second queue 5, wait: hold,
      on_store_failure: refuse }
  - { name: slow, when: { path: /slow }, key: user, limit: 1 per 15 seconds queue 5, wait: hold,
      on_store_failure: refuse }
"""


@pytest.fixture(autouse=True)
def vouched(server):
    server.flush_and_vouch()


@pytest.fixture
def proxy(tmp_path, server):
    with Proxy(tmp_path, server.path, lines=1) as running:
        yield running


@pytest.fixture
def node(tmp_path, proxy):
    with Nodes(tmp_path, RULES, [proxy.url(0)], PATIENT) as nodes:
        yield nodes[0]


def check(path, user="ann", *options):
    return command("RATION.CHECK", "user", user, "path", path, *options)


def told(reply):
    """The name of the rule that decided, or the words of an echo or an error."""
    if isinstance(reply, list):
        return pair(reply, "rule")
    return reply


def read(client):
    try:
        return told(client.read())
    except RespError as error:
        return str(error).split()[0]


# --- at the same time ---------------------------------------------------------------------------

def test_all_checks_of_a_pipeline_reach_redis_before_one_is_answered(server, proxy, node):
    with node.resp() as client:
        with proxy.replies_held():
            client.socket.sendall(b"".join(check(f"/{NAMES[i % 8]}", f"user{i}") for i in range(50)))
            wait_for(lambda: server.states() == 50, "all of them are asked")
        for i in range(50):
            reply = client.read()
            assert pair(reply, "allowed") == 1 and told(reply) == NAMES[i % 8].encode()


def test_checks_that_come_one_by_one_are_asked_while_others_wait(server, proxy, node):
    with node.resp() as client:
        with proxy.replies_held():
            for number, kind in enumerate(KINDS):
                client.socket.sendall(check(f"/{kind}"))
                wait_for(lambda: server.states() == number + 1, "it is asked")
        assert [read(client) for _ in KINDS] == [kind.encode() for kind in KINDS]


def test_a_connection_has_a_bounded_number_under_way_and_gets_all_replies(server, proxy, node):
    asked = [*(NAMES[i * 7 % 8] for i in range(BOUND)), "sliding-log", *(NAMES * BOUND)]
    with node.resp() as client:
        with proxy.replies_held():
            client.socket.sendall(b"".join(check(f"/{name}", f"u{i}") for i, name in enumerate(asked)))
            wait_for(lambda: server.states() == BOUND, "as many as may be")
            with node.resp() as other:
                other.socket.sendall(check("/fixed-window"))
                wait_for(lambda: server.states() > BOUND, "others are asked, too")
            assert server.states() == BOUND + 1, "but no more of this one"
        assert [read(client) for _ in asked] == [name.encode() for name in asked]


# --- in order -------------------------------------------------------------------------------------

def test_replies_that_need_no_redis_wait_for_those_before_them(server, proxy, node):
    with node.resp() as client:
        with proxy.replies_held():
            client.socket.sendall(
                check("/nowhere") + check("/rule1") + check("/nowhere") + check("/rule2", "ann", "COST", "much") +
                check("/rule3") + command("ECHO", "one") + command("NONSENSE") + check("/rule4"))
            wait_for(lambda: server.states() == 2, "the echo is alone")
            assert read(client) is None, "what is before all that waits has been told"
        assert [read(client) for _ in range(7)] == [
            b"rule1", None, "ERR", b"rule3", b"one", "ERR", b"rule4"]


def recall_everywhere(server, node, words):
    """Whoever reads these words next has read them before."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(node.resp()) for _ in range(8)]
        with silence(server):
            for client in clients:
                client.socket.sendall(words * 3)
            time.sleep(0.05)
        for client in clients:
            for _ in range(3):
                client.read()


def test_commands_that_join_a_batch_are_charged_after_the_checks_before_it(server, proxy, node):
    take = command("RATION.TAKE", "k", "100 per day")
    recall_everywhere(server, node, take)
    with node.resp() as client:
        with proxy.replies_held():
            client.socket.sendall(take * 3 + check("/rule1") + check("/rule2") + take * 2 + check("/rule3"))
        replies = [client.read() for _ in range(8)]
        assert [told(reply) for reply in replies] == [None] * 3 + [b"rule1", b"rule2", None, None, b"rule3"]
        left = [pair(reply, "remaining") for reply in replies if told(reply) is None]
        assert left == list(range(75, 70, -1))


def test_a_protocol_error_follows_the_answers_before_it(server, proxy, node):
    with node.resp() as client:
        with proxy.replies_held():
            client.socket.sendall(check("/rule1") + check("/rule2") + b"*x\r\n")
            wait_for(lambda: server.states() == 2)
        assert [read(client) for _ in range(3)] == [b"rule1", b"rule2", "ERR"]
        with pytest.raises(EOFError):
            client.read()


def test_quit_comes_last(server, proxy, node):
    with node.resp() as client:
        with proxy.replies_held():
            client.socket.sendall(check("/rule1") + check("/rule2") + command("QUIT") + check("/rule3"))
            wait_for(lambda: server.states() == 2)
        assert [read(client) for _ in range(3)] == [b"rule1", b"rule2", b"OK"]
        with pytest.raises(EOFError):
            client.read()


# --- alone ----------------------------------------------------------------------------------------

def test_a_place_is_released_between_the_checks_before_and_behind(proxy, node):
    proxy.set(0, "delay=0.005")
    with node.resp() as client:
        for _ in range(5):
            leases = [pair(client("RATION.CHECK", "user", "ann", "path", "/places", "LEASE"), "lease")
                      for _ in range(2)]
            place = check("/places", "ann", "LEASE")
            client.socket.sendall(place + command("RATION.RELEASE", leases[0]) + place + place +
                                  command("RATION.RELEASE", leases[1]) + place)
            replies = [client.read() for _ in range(6)]
            decisions = [replies[i] for i in (0, 2, 3, 5)]
            assert [replies[1], replies[4]] == [1, 1]
            admitted = [pair(reply, "allowed") for reply in decisions]
            assert admitted[0] == 0 and sorted(admitted[1:3]) == [0, 1] and admitted[3] == 1
            for reply in decisions:
                if pair(reply, "allowed"):
                    assert client("RATION.RELEASE", pair(reply, "lease")) == 1


def test_a_reset_is_seen_by_what_follows_it(proxy, node):
    proxy.set(0, "delay=0.005")
    take = command("RATION.TAKE", "k", "3 per day")
    with node.resp() as client:
        client.socket.sendall(take * 4 + check("/rule1") + command("RATION.RESET", "k", "3 per day") +
                              check("/rule2") + take)
        replies = [client.read() for _ in range(8)]
    assert [pair(replies[i], "allowed") for i in (0, 1, 2, 3, 7)] == [1, 1, 1, 0, 1]
    assert pair(replies[7], "remaining") == 2 and replies[5] == 1


def test_the_protocol_changes_behind_the_checks_before_it(server, proxy, node):
    with node.resp() as client:
        with proxy.replies_held():
            client.socket.sendall(check("/rule1") * 2 + command("HELLO", "3") + check("/rule2"))
            wait_for(lambda: server.states() == 1)
        kinds = [type(client.read()) for _ in range(4)]
    assert kinds == [list, list, dict, dict]


def test_a_limit_is_kept_exactly_by_pipelines_on_all_nodes(tmp_path, proxy):
    proxy.set(0, "delay=0.005")

    with Nodes(tmp_path, RULES, [proxy.url(0)] * 2, PATIENT) as nodes:
        def ask(number):
            with nodes[number % 2].resp() as client:
                client.socket.sendall(check("/hundred") * 50)
                return sum(pair(client.read(), "allowed") for _ in range(50))

        assert sum(in_threads(6, ask)) == 100


# --- held -----------------------------------------------------------------------------------------

def test_a_delayed_reply_delays_those_behind_it(node):
    with node.resp() as client:
        client.socket.sendall(check("/rule1") + check("/queue") * 3 + check("/rule2") + command("ECHO", "end") +
                              check("/queue") + check("/rule3"))
        replies = [client.read() for _ in range(8)]
        assert [told(reply) for reply in replies] == [
            b"rule1", b"queue", b"queue", b"queue", b"rule2", b"end", b"queue", b"rule3"]
        waited = [b"held" in reply for reply in replies if told(reply) == b"queue"]
        assert waited[:3] == [False, True, True]
    assert metric(node, "ration_held_replies_total") >= 2


def test_all_delayed_requests_of_a_connection_leave_the_queue_when_it_ends(node):
    def queued():
        return node.http("POST", "/v1/check", {
            "attributes": {"user": "ann", "path": "/slow"}, "peek": True}).json["remaining"]

    full = queued()
    with node.resp() as client:
        client.socket.sendall(check("/slow") * 4)
        assert pair(client.read(), "allowed") == 1
        wait_for(lambda: queued() == full - 4, "three are held")
    wait_for(lambda: queued() == full - 1, "they have left")


# --- whatever happens meanwhile -------------------------------------------------------------------

def script(source, length):
    """Commands, and what their replies tell."""
    sent, expected = [], []
    for n in range(length):
        if source.random() < 0.1:
            word = f"echo{n}"
            sent.append(command("ECHO", word))
            expected.append(word.encode())
        else:
            name = source.choice([*NAMES, "nowhere"])
            sent.append(check(f"/{name}", f"user{source.randrange(5)}"))
            expected.append(name.encode() if name != "nowhere" else None)
    return b"".join(sent), expected


def send(client, data):
    """Without waiting for the reader."""
    thread = threading.Thread(target=client.socket.sendall, args=(data,))
    thread.start()
    return thread


@pytest.mark.parametrize("consistency, faults", [
    ("strict", "delay=0.01"), ("leased", "delay=0.01"), ("async", "delay=0.01"),
    ("strict", "delay=0.01 cut=0.05 tear=0.02")], ids=["strict", "leased", "async", "cut"])
def test_many_connections_with_long_pipelines_get_every_reply_in_order(tmp_path, proxy, consistency, faults):
    rules = RULES.replace("user, limit: 100000 per day", f"user, consistency: {consistency}, limit: 100000 per day")
    proxy.set(0, faults)
    with contextlib.ExitStack() as stack, Nodes(tmp_path, rules, [proxy.url(0)], PATIENT, workers=2) as nodes:
        # At first more than may wait for several checks at a time (front/await/fiber_pool.h), then fewer.
        clients = [stack.enter_context(nodes[0].resp()) for _ in range(120)]
        plays = [script(random.Random(number), number) for number in range(len(clients))]
        senders = [send(client, data) for client, (data, _) in zip(clients, plays)]
        for client, (_, expected) in zip(clients, plays):
            assert [read(client) for _ in expected] == expected
        for sender in senders:
            sender.join()


def test_clients_that_hang_up_while_their_checks_wait_leave_nothing_behind(server, proxy, node):
    def descriptors():
        return metric(node, "process_open_fds")

    before = descriptors()
    with silence(server):
        for number in range(30):
            with node.socket("resp") as connection:
                data, _ = script(random.Random(number), 100)
                connection.sendall(data + check("/slow") * 3)
    wait_for(lambda: descriptors() <= before, "connections are given up")
    with node.resp() as client:
        assert pair(client("RATION.CHECK", "user", "bob", "path", "/rule0"), "allowed") == 1


def test_a_stopping_daemon_answers_all_waiting_checks(tmp_path, server):
    options = ["--redis-deadline", "300ms"]
    with contextlib.ExitStack() as stack, \
            Nodes(tmp_path, RULES, [server.url], options) as nodes:
        clients = [stack.enter_context(nodes[0].resp()) for _ in range(5)]
        with silence(server):
            for client in clients:
                client.socket.sendall(b"".join(check(f"/{name}") for name in NAMES))
            wait_for(lambda: metric(nodes[0], 'ration_connections{listener="resp"}') == 5)
            stopping = threading.Thread(target=nodes[0].stop)
            stopping.start()
            for client in clients:
                assert [read(client) for _ in NAMES] == [name.encode() for name in NAMES]
            stopping.join()
        assert nodes[0].process is None, "and ended well"


def test_rules_are_replaced_while_the_checks_of_a_pipeline_wait(server, proxy, node):
    with node.resp() as client:
        with silence(server):
            client.socket.sendall(b"".join(check(f"/{name}") for name in NAMES))
            node.file.write_text(RULES.replace("100000 per day", "200000 per day"))
            node.reload()
            time.sleep(0.05)
        client.socket.sendall(b"".join(check(f"/{name}") for name in NAMES))
        assert [read(client) for _ in 2 * NAMES] == [name.encode() for name in 2 * NAMES]
    wait_for(lambda: node.http("POST", "/v1/check", {
        "attributes": {"user": "bob", "path": "/rule0"}}).json["limit"] == 200000)
