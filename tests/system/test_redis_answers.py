# SPDX-License-Identifier: Apache-2.0
"""How nodes handle replies of Redis: errors that say that nothing was run, replies to other calls,
and no reply at all. The server is a fake that says what a test wants."""

import contextlib
import re
import struct
import threading

import pytest

from concurrent_clients import check, read_http
from daemon import PATIENCE, Daemon, wait_for
from fake_redis import NAMES, REFUSING, TRYAGAIN, FakeRedis, admission
from lease_nodes import LEASE
from redis_node import LeasedNode, Node, no_node_is_left  # noqa: F401 (a fixture)

SECONDS = 20000  # a deadline that no test waits for


@pytest.mark.parametrize("error", REFUSING, ids=NAMES)
def test_a_call_that_was_not_run_is_sent_once_more(error):
    def answers(number, nonce):
        return b"-%s\r\n" % error if number == 0 else admission(nonce)

    with FakeRedis(answers) as server:
        result = Node(server.url, count=1, depth=1, deadline=SECONDS).result()
    assert result["allowed"] == 1 and result["resent"] == 1 and server.calls == 2


@pytest.mark.parametrize("error", [error for error in REFUSING if error != TRYAGAIN],
                         ids=[name for name in NAMES if name != "TRYAGAIN"])
def test_a_call_is_sent_twice_at_most(error):
    with FakeRedis(lambda number, nonce: b"-%s\r\n" % error) as server:
        result = Node(server.url, count=1, depth=1, deadline=SECONDS).result()
    assert result["failed"] == 1 and server.calls == 2


@pytest.mark.parametrize("error", [b"ERR something else", b"NOPERM no permissions", b"OOM command not allowed"],
                         ids=["ERR", "NOPERM", "OOM"])
def test_a_failed_call_is_logged_and_not_sent_again(error):
    with FakeRedis(lambda number, nonce: b"-%s\r\n" % error) as server:
        node = Node(server.url, count=3, depth=1, deadline=SECONDS)
        result = node.result()
    assert result["failed"] == 3 and server.calls == 3
    assert f'redis.error reason="{error.decode()}"' in node.log


def test_a_call_that_may_have_been_run_is_never_sent_again():
    with FakeRedis(lambda number, nonce: None) as server:
        result = Node(server.url, count=4, depth=1, pace=200, deadline=SECONDS).result()
    assert result["failed"] == 4 and 1 <= server.calls <= 4
    assert server.calls == result["calls"] and result["resent"] == 0


STRICT = "limits: [{name: window, key: user, limit: 1000 per 7 days, algorithm: fixed-window}]\n"


def test_charges_that_arrive_during_a_call_share_the_next(tmp_path):
    go_on = threading.Event()

    def answers(number, nonce):
        go_on.wait(PATIENCE)
        return server.admit(nonce)

    def charges():
        return int(re.search(r"^ration_store_charges_total (\d+)", node.admin("GET", "/metrics").text, re.M)[1])

    def ask_thrice():
        """Each when the one before is waiting. How many calls were made; None: for want of a
        reply within a second the connection was given up."""
        calls, connections, before = server.calls, server.connections, charges()
        go_on.clear()
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(node.socket()) for _ in range(3)]
            for number, client in enumerate(clients):
                client.sendall(check(user="ann"))
                wait_for(lambda: charges() > before + number)
            go_on.set()
            assert all(read_http(stack.enter_context(client.makefile("rb")))[0] == 200 for client in clients)
        return server.calls - calls if server.connections == connections else None

    options = ["--workers", 1, "--redis-deadline", "10s"]
    with FakeRedis(answers) as server, Daemon(tmp_path, STRICT, [*options, "--redis", server.url]) as node:
        made = wait_for(ask_thrice)
    assert made == 2


def test_a_server_with_another_history_gets_the_time_of_doubt(tmp_path):
    """Each connection has another history, and ends with its second call."""
    doubts = []

    def answers(number, nonce):
        doubts.append(int(server.words[-1]))
        return None if number % 2 else admission(nonce)

    with FakeRedis(answers) as server:
        node = LeasedNode(server.url, tmp_path / "log", "1000 per 24h", depth=1, pace=20, mode="cold")
        wait_for(lambda: any(doubts))
        node.kill()
    assert doubts[0] == 0 and max(doubts) <= 1_000_000


def test_a_connection_that_has_gone_silent_is_given_up_for_another():
    def answers(number, nonce):
        return admission(nonce) if server.connections > 1 else b""

    with FakeRedis(answers) as server:
        node = Node(server.url, count=10**6, depth=1, pace=20, deadline=SECONDS)
        wait_for(lambda: server.calls > 10)
        result = node.stop()
    assert result["allowed"] > 0


def test_a_redis_that_was_late_is_asked_again_when_it_answers_a_probe():
    """The call that it was late with has failed: that is no reason to."""
    go_on = threading.Event()

    def answers(number, nonce):
        go_on.wait(PATIENCE)
        return admission(nonce) if number > 0 else b"-ERR something else\r\n"

    with FakeRedis(answers) as server:
        node = Node(server.url, count=10**6, depth=16, pace=1, deadline=5)
        node.logs("redis.down")
        go_on.set()
        node.logs("redis.up")
        wait_for(lambda: server.calls > 1)
        node.kill()


def left_by(node, server):
    """Waits until the node has made another connection, and ends it."""
    wait_for(lambda: server.connections >= 2)
    return node.stop()


@pytest.mark.parametrize("answer", [
    admission(b"999"),
    admission(b"2"),
    admission(b"1", [1, 1, 5, 0, 0, 0]),
    admission(b"1", rest=b"0"),
    b"*2\r\n$1\r\n1\r\n:1\r\n",
    b":1\r\n",
    b"not a reply\r\n",
    b"$-1\r\n",
], ids=["another call's", "the next call's", "too short", "too long", "a list", "a number", "no reply", "nothing"])
def test_a_reply_that_is_not_ours_admits_nothing(answer):
    """Of the first call: another may be the one it is for."""
    with FakeRedis(lambda number, nonce: None if number else answer) as server:
        result = left_by(Node(server.url, count=10**6, depth=1, pace=20), server)
    assert result["allowed"] == 0 and result["refused"] == 0


ASYNC = "limits: [{name: window, key: user, limit: 1000 per 7 days, algorithm: fixed-window, consistency: async}]\n"


def test_a_report_reply_with_another_number_is_not_believed_and_the_node_reconnects(tmp_path):
    reports = []

    def answers(number, nonce):
        if not server.is_report():
            return server.admit(nonce)
        reports.append((nonce, server.connections))
        return server.report_answer(nonce if len(reports) > 1 else b"99")

    def ask():
        return node.http("POST", "/v1/check", {"attributes": {"user": "ann"}}).status

    options = ["--workers", 1, "--redis-deadline", "1s"]
    with FakeRedis(answers) as server, Daemon(tmp_path, ASYNC, [*options, "--redis", server.url]) as node:
        wait_for(lambda: ask() == 200 and len(reports) > 1)
    (first, before), (second, after) = reports[:2]
    assert first == second, "the same report, once more"
    assert after > before, "over another connection"


def test_a_lease_reply_with_another_nonce_grants_nothing_and_the_node_reconnects(tmp_path):
    """The reply to the first call for units is another's. A call that is the first of another
    connection is proof enough."""
    asked = []

    def answers(number, nonce):
        is_lease = struct.unpack("<d", server.words[5 + len(server.keys())][:8])[0] == LEASE
        if not is_lease:
            return server.admit(nonce)
        asked.append(server.connections)
        return admission(b"999" if len(asked) == 1 else nonce, (1800000000000000, 0, 0, 10**6, 10**6, 0, 0))

    with FakeRedis(answers) as server:
        node = LeasedNode(server.url, tmp_path / "log", "1000 per 24h", depth=4, deadline_ms=SECONDS)
        wait_for(lambda: asked and server.connections > asked[0])
        assert node.stop()["granted"] == 0


def test_a_readonly_replica_is_left_at_once():
    error = b"-READONLY You can't write against a read only replica.\r\n"
    with FakeRedis(lambda number, nonce: error) as server:
        node = Node(server.url, count=10**6, depth=1, pace=20)
        result = left_by(node, server)
    assert result["allowed"] == 0 and result["refused"] == 0
    assert "READONLY" in node.log


@pytest.mark.parametrize("word", [b"MOVED", b"ASK"])
def test_redirections_in_circles_are_followed_for_three_hops(word):
    def answers(number, nonce):
        return b"-%s 5 127.0.0.1:%d\r\n" % (word, server.port)

    with FakeRedis(answers) as server:
        result = Node(server.cluster, count=1, depth=1, deadline=SECONDS).result()
    assert result["failed"] == 1 and server.calls == 4
    assert result["moved"] + result["asked"] == 4


@pytest.mark.parametrize("word, redirections", [(b"MOVED", 1), (b"ASK", 5)])
def test_a_redirection_is_followed_and_remembered_only_if_the_slot_has_moved(word, redirections):
    def answers(number, nonce):
        former.owner = owner.port if word == b"MOVED" else former.port
        return b"-%s %d 127.0.0.1:%d\r\n" % (word, former.slot, owner.port)

    with FakeRedis(lambda number, nonce: admission(nonce)) as owner, FakeRedis(answers) as former:
        result = Node(former.cluster, count=5, depth=1, deadline=SECONDS).result()
    assert result["allowed"] == 5 and owner.calls == 5
    assert former.calls == result["moved"] + result["asked"] == redirections
    assert owner.askings == result["asked"]


def test_a_cluster_node_under_a_plain_url_is_reported():
    with FakeRedis(lambda number, nonce: b"-MOVED 5 127.0.0.1:1\r\n") as server:
        node = Node(server.url, count=2, depth=1, deadline=SECONDS)
        result = node.result()
    assert result["failed"] == 2 and server.calls == 2
    assert "write redis+cluster://" in node.log
