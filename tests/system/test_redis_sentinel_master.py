# SPDX-License-Identifier: Apache-2.0
"""Which server nodes accept as master: the one that Sentinel names and that says so itself. All
servers are fakes, as real ones agree with each other as soon as they can."""

import contextlib

import pytest

from daemon import wait_for
from fake_redis import FakeRedis, admission
from redis_node import Node, no_node_is_left  # noqa: F401 (a fixture)

ENDLESS = 10**9


@pytest.fixture
def servers():
    """Two that admit everything, and a Sentinel that has named the first one."""
    with contextlib.ExitStack() as stack:
        first, second, sentinel = (
            stack.enter_context(FakeRedis(lambda number, nonce: admission(nonce))) for _ in range(3))
        sentinel.owner = first.port
        yield first, second, sentinel


def test_a_master_that_goes_on_answering_is_left_when_sentinel_names_another(servers):
    former, latter, sentinel = servers
    node = Node(sentinel.sentinel, count=ENDLESS, depth=1, pace=5)
    wait_for(lambda: former.calls > 0)
    sentinel.owner = latter.port
    wait_for(lambda: latter.calls > 0)
    before = former.calls
    wait_for(lambda: latter.calls > 20)
    assert node.stop()["shards"].keys() == {f"127.0.0.1:{latter.port}"}
    assert former.calls <= before + 1  # one may have been on its way


def test_a_server_is_used_only_while_it_says_it_is_a_master(servers):
    named, _, sentinel = servers
    named.role = b"slave"
    node = Node(sentinel.sentinel, count=ENDLESS, depth=1, pace=5)
    wait_for(lambda: named.connections > 2 or named.calls > 0)
    assert named.calls == 0
    named.role = b"master"
    wait_for(lambda: named.calls > 50)  # the first one may be late on a busy machine
    assert node.stop()["allowed"] > 0
    assert 'reason="the server is not a master"' in node.log


def test_another_server_is_asked_for_its_role_too(servers):
    master, replica, sentinel = servers
    replica.role = b"slave"
    node = Node(sentinel.sentinel, count=ENDLESS, depth=1, pace=5)
    wait_for(lambda: master.calls > 0)
    sentinel.owner = replica.port
    wait_for(lambda: replica.connections > 2 or replica.calls > 0)
    assert replica.calls == 0
    sentinel.owner, before = master.port, master.calls
    wait_for(lambda: master.calls > before)
    node.kill()
