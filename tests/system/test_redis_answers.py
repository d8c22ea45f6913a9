# SPDX-License-Identifier: Apache-2.0
"""What nodes make of the answers of a Redis: errors that mean that nothing was run, replies
that are not theirs, and none at all. The server is an impostor that says what a test wants."""

import re
import signal
import socket
import struct
import threading

import pytest

from sharer import Node, no_node_is_left, wait_for  # noqa: F401 (a fixture)

GREETING = re.compile(rb"(?:INFO|SCRIPT)\r\n")
CALL = re.compile(rb"EVAL(?:SHA)?\r\n.*?ration:\{[0-9a-f]{3}\}:w:[0-9a-f]{16}\r\n\$\d+\r\n(\d+)\r\n", re.S)
SECONDS = 20000  # a deadline that no test waits for
REFUSING = [
    b"BUSY Redis is busy running a script.",
    b"LOADING Redis is loading the dataset in memory",
    b"MASTERDOWN Link with MASTER is down",
    b"READONLY You can't write against a read only replica.",
    b"TRYAGAIN Multiple keys request during rehashing of slot",
    b"CLUSTERDOWN Hash slot not served",
    b"NOSCRIPT No matching script.",
]
NAMES = [error.split()[0].decode() for error in REFUSING]


class Impostor:
    """Greets like a Redis and gives each call what `answers` makes of its number and nonce;
    None closes the connection instead."""

    def __init__(self, answers):
        self.answers, self.calls, self.connections = answers, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.cluster = f"redis+cluster://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def accept(self):
        while True:
            try:
                peer = self.listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        seen = b""
        with peer:
            try:
                while data := peer.recv(65536):
                    seen = self.speak(peer, seen + data)
            except OSError:
                return  # the node has gone, or was sent away

    def speak(self, peer, seen):
        while greeting := GREETING.search(seen):
            seen = seen[greeting.end():]
            peer.sendall(b"$2\r\nok\r\n")
        if b"SLOTS\r\n" in seen:  # all of them are its own
            seen = b""
            peer.sendall(b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % self.port)
        if b"ASKING\r\n" in seen:  # the call that follows has come with it
            seen = seen.replace(b"ASKING\r\n", b"")
            peer.sendall(b"+OK\r\n")
        while call := CALL.search(seen):
            seen = seen[call.end():]
            answer = self.answers(self.calls, call[1])
            self.calls += 1
            if answer is None:
                raise OSError
            peer.sendall(answer)
        return seen


def admission(nonce, numbers=(1800000000000000, 1, 5, 0, 0, 0, 0), rest=b""):
    reply = nonce + struct.pack("<%dd" % len(numbers), *numbers) + rest
    return b"$%d\r\n%s\r\n" % (len(reply), reply)


@pytest.mark.parametrize("error", REFUSING, ids=NAMES)
def test_what_was_not_run_is_sent_once_more(error):
    def answers(number, nonce):
        return b"-%s\r\n" % error if number == 0 else admission(nonce)

    with Impostor(answers) as impostor:
        result = Node(impostor.url, count=1, depth=1, deadline=SECONDS).result()
    assert result["allowed"] == 1 and result["resent"] == 1 and impostor.calls == 2


@pytest.mark.parametrize("error", REFUSING, ids=NAMES)
def test_it_is_sent_no_more_than_twice(error):
    with Impostor(lambda number, nonce: b"-%s\r\n" % error) as impostor:
        result = Node(impostor.url, count=1, depth=1, deadline=SECONDS).result()
    assert result["failed"] == 1 and impostor.calls == 2


@pytest.mark.parametrize("error", [b"ERR something else", b"NOPERM no permissions", b"OOM command not allowed"],
                         ids=["ERR", "NOPERM", "OOM"])
def test_what_failed_is_not_sent_again_and_told_of(error):
    with Impostor(lambda number, nonce: b"-%s\r\n" % error) as impostor:
        node = Node(impostor.url, count=3, depth=1, deadline=SECONDS)
        result = node.result()
    assert result["failed"] == 3 and impostor.calls == 3
    assert f'redis.error reason="{error.decode()}"' in node.log


def test_what_may_have_been_run_is_never_sent_again():
    with Impostor(lambda number, nonce: None) as impostor:
        result = Node(impostor.url, count=4, depth=1, pace=200, deadline=SECONDS).result()
    assert result["failed"] == 4 and 1 <= impostor.calls <= 4
    assert impostor.calls == result["calls"] and result["resent"] == 0


def left_by(node, impostor):
    """Waits until the node has made another connection, and ends it."""
    wait_for(lambda: impostor.connections >= 2)
    node.process.send_signal(signal.SIGTERM)
    return node.result()


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
    with Impostor(lambda number, nonce: None if number else answer) as impostor:
        result = left_by(Node(impostor.url, count=10**6, depth=1, pace=20), impostor)
    assert result["allowed"] == 0 and result["refused"] == 0


def test_a_readonly_replica_is_left_at_once():
    error = b"-READONLY You can't write against a read only replica.\r\n"
    with Impostor(lambda number, nonce: error) as impostor:
        node = Node(impostor.url, count=10**6, depth=1, pace=20)
        result = left_by(node, impostor)
    assert result["allowed"] == 0 and result["refused"] == 0
    assert "READONLY" in node.log


@pytest.mark.parametrize("word", [b"MOVED", b"ASK"])
def test_a_cluster_that_sends_us_round_in_circles_is_followed_for_three_hops(word):
    def answers(number, nonce):
        return b"-%s 5 127.0.0.1:%d\r\n" % (word, impostor.port)

    with Impostor(answers) as impostor:
        result = Node(impostor.cluster, count=1, depth=1, deadline=SECONDS).result()
    assert result["failed"] == 1 and impostor.calls == 4
    assert result["moved"] + result["asked"] == 4


def test_a_node_of_a_cluster_that_was_not_called_one_is_told_of():
    with Impostor(lambda number, nonce: b"-MOVED 5 127.0.0.1:1\r\n") as impostor:
        node = Node(impostor.url, count=2, depth=1, deadline=SECONDS)
        result = node.result()
    assert result["failed"] == 2 and impostor.calls == 2
    assert "write redis+cluster://" in node.log
