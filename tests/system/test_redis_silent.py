# SPDX-License-Identifier: Apache-2.0
"""Servers that accept a connection and then say nothing: frozen ones, and fakes that are silent
once. Nodes must give up each of them and try again, before they are up as well as later."""

import contextlib
import os
import pathlib
import signal

import pytest

from daemon import free_port, wait_for
from fake_redis import FakeRedis, admission
from redis_node import Node, no_node_is_left  # noqa: F401 (a fixture)
from redis_server import RedisServer, silence
from test_redis_sentinel import SentinelServers
from test_redis_tls import options as tls_options
from test_tls import Authority, has_tls

ENDLESS = 10**9
PLENTY = "1000000 per 24h"
SHORT = 100  # ms: a deadline that gives a server a second to answer


def assert_is_asked(server, url):
    """Sooner or later."""
    node = Node(url, PLENTY, count=ENDLESS, depth=1, pace=5, deadline=SHORT)
    wait_for(lambda: server.calls > 0)
    node.kill()
    assert not server.mutes


# --- frozen before the node comes -----------------------------------------------------------

def assert_gives_up(server, url, reason="no answer in time"):
    """While the server is frozen. Without a deadline nothing would be logged."""
    with silence(server):
        node = Node(url, count=1, deadline=SHORT)
        node.logs(f'redis.down reason="{reason}"')
    node.up().kill()


@pytest.mark.parametrize("password", ["", ":secret@"], ids=["open", "with a password"])
def test_a_frozen_redis_is_given_up(tmp_path, password):
    port = free_port()
    with RedisServer(tmp_path, port=port, options=["--requirepass", "secret"] if password else []) as server:
        assert_gives_up(server, f"redis://{password}127.0.0.1:{port}")


@pytest.mark.skipif(not has_tls(), reason="this build has no TLS")
def test_a_frozen_redis_with_tls_is_given_up(tmp_path):
    authority, port = Authority(tmp_path), free_port()
    authority.sign("redis")
    with RedisServer(tmp_path, options=tls_options(authority, port)) as server:
        assert_gives_up(server, f"rediss://127.0.0.1:{port}?ca={authority.file}", "no connection could be made")


# --- silent once ------------------------------------------------------------------------------

@pytest.mark.parametrize("command", [b"AUTH", b"SELECT", b"INFO", b"SCRIPT"])
def test_a_server_that_is_silent_during_the_greeting_is_tried_again(command):
    with FakeRedis(lambda number, nonce: admission(nonce)) as server:
        server.mutes = [command]
        assert_is_asked(server, server.url.replace("//", "//:secret@") + "/3")


@pytest.mark.parametrize("silences", [[b"AUTH"], [b"CLUSTER"]], ids=["AUTH", "CLUSTER"])
def test_a_cluster_node_that_does_not_tell_the_slots_is_asked_again(silences):
    with FakeRedis(lambda number, nonce: admission(nonce)) as server:
        server.mutes = list(silences)
        assert_is_asked(server, server.cluster.replace("//", "//:secret@"))


@pytest.mark.parametrize("silences", [[b"AUTH"] * 2, [b"SENTINEL"], [b"ROLE"]], ids=["AUTH", "SENTINEL", "ROLE"])
def test_a_sentinel_or_master_that_does_not_answer_is_asked_again(silences):
    """Two connections go to the Sentinel: one asks, one listens."""
    with FakeRedis(lambda number, nonce: admission(nonce)) as server:
        server.mutes = list(silences)
        assert_is_asked(server, server.sentinel + "?sentinel_password=secret")


@pytest.mark.parametrize("command", [b"PSUBSCRIBE", b"PING"])
def test_a_sentinel_that_falls_silent_is_subscribed_to_again(command):
    with FakeRedis(lambda number, nonce: admission(nonce)) as server:
        server.mutes = [command]
        node = Node(server.sentinel, PLENTY, count=ENDLESS, depth=1, pace=20, deadline=SHORT)
        wait_for(lambda: server.heard[b"PSUBSCRIBE"] >= 2)
        node.kill()


# --- frozen later -----------------------------------------------------------------------------

def connections_to(path):
    """To a unix socket, whether or not they have been accepted; and the listening one."""
    return sum(line.endswith(f" {path}") for line in pathlib.Path("/proc/net/unix").read_text().splitlines())


def test_a_redis_that_freezes_is_left_for_the_one_that_takes_its_place(tmp_path):
    """The node must not stay with the frozen one, behind an open breaker, when a new connection
    to it has been made and is not greeted."""
    with contextlib.ExitStack() as stack:
        for name in ("frozen", "other"):
            (tmp_path / name).mkdir()
        frozen, other = (stack.enter_context(RedisServer(tmp_path / name)) for name in ("frozen", "other"))
        node = Node(frozen.url, PLENTY, count=ENDLESS, depth=1, pace=5, deadline=SHORT).up()
        wait_for(lambda: frozen.states() == 1)
        before = connections_to(frozen.path)
        with silence(frozen):
            node.logs("redis.down")
            wait_for(lambda: connections_to(frozen.path) > before)
            os.rename(other.path, frozen.path)
            node.logs("redis.up")
        node.kill()


def established(ports):
    """Those of our ports that belong to a connection which nobody has ended."""
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return ports & {int(words[1].split(":")[1], 16) for words in lines if words[3] == "01"}


def subscribers(sentinel):
    """Ports of the nodes that listen to it."""
    with sentinel.client() as client:
        return {int(c["addr"].rpartition(":")[2]) for c in client.client_list() if int(c["psub"]) > 0}


def test_a_sentinel_that_freezes_is_subscribed_to_again(tmp_path):
    with SentinelServers(tmp_path) as servers:
        sentinel = servers.sentinels[0]
        node = Node(servers.url(), PLENTY, count=ENDLESS, depth=4, pace=5, deadline=SHORT).up()
        first = wait_for(lambda: subscribers(sentinel))
        sentinel.process.send_signal(signal.SIGSTOP)
        wait_for(lambda: not established(first), "the end of the silent subscription")
        sentinel.process.send_signal(signal.SIGCONT)
        wait_for(lambda: subscribers(sentinel) - first)
        node.kill()
