# SPDX-License-Identifier: Apache-2.0
"""The lease scripts on a server that may have lost data, on a real redis-server whose clock the
test moves: worked examples."""

import pytest

from lease_nodes import LONGEST
from redis_server import PEEK, SECOND
from test_lease_scripts import Bucket, ScriptClient, client  # noqa: F401 (a fixture)

ONE, TWO = b"1" * 16, b"2" * 16


class StoreHistory:
    """The history of one store, as a client's charges meet it."""

    def __init__(self, client):
        self.client, self.key = client, client.key + b":history"

    def left(self, id=ONE):
        """Of a key that was not used yet."""
        self.client.connection.send(b"DEL", self.client.key)
        return self.client.run(PEEK, 0, history=(self.key, id))[1]

    def vouch(self):
        self.client.connection.send(b"SET", self.key, b"0")


@pytest.fixture
def history(client):
    return StoreHistory(client)


def test_without_a_history_a_key_starts_empty_for_the_time_of_a_lease(history):
    assert history.left() == 0
    history.client.now += LONGEST - 1
    assert history.left() == 0
    history.client.now += 1
    assert history.left() == 100


def test_with_another_id_as_well(history):
    history.vouch()
    assert history.left(ONE) == 100
    assert history.left(TWO) == 0
    history.client.now += LONGEST
    assert history.left(TWO) == 100


def test_an_earlier_id_of_the_history_does_not_start_a_new_one(history):
    history.vouch()
    history.left(ONE)
    history.left(TWO)
    history.client.now += LONGEST
    assert [history.left(id) for id in (ONE, TWO, ONE)] == [100] * 3


def test_a_history_does_not_grow_without_end(history):
    for i in range(20):
        history.left(b"%016d" % i)
    with history.client.runner.server.client() as client:
        assert client.strlen(history.key) == 16 + 4 * 17


def test_a_history_from_the_future_begins_now(history):
    history.left()
    history.client.now -= 3600 * SECOND
    assert history.left() == 0
    history.client.now += LONGEST
    assert history.left() == 100


def test_a_history_is_not_for_one_key_only(history):
    history.vouch()
    history.left()
    with history.client.runner.server.client() as client:
        assert client.pttl(history.key) == -1


def lose(client):
    """While one node holds 40 and another holds nothing; and when that lease ends."""
    lasts = client.lease(1, 40)[4]
    client.connection.send(b"DEL", client.key)
    return client.now + lasts


def test_a_lease_that_is_not_there_tells_that_the_key_was_lost(client):
    ends = lose(client)
    assert client.lease(1, 10, keep=20, ends=ends)[:2] == [0, 0]
    assert client.left() == 0 and client.lease(2, 10)[0] == 0


def test_also_after_calls_of_others(client):
    ends = lose(client)
    assert client.lease(2, 30)[:2] == [30, 70]
    assert client.lease(1, 10, keep=20, ends=ends)[:2] == [0, 0]
    assert client.lease(2, 0, keep=30)[5] == 1, "theirs goes on"
    assert client.left() == 0


def test_a_lease_that_has_ended_tells_nothing(client):
    client.lease(1, 40, ttl=100_000)
    ends = client.now + 100_000
    client.now = ends
    left = client.left()
    assert client.lease(1, 0, keep=40, ends=ends)[:2] == [0, left]


def test_a_bucket_that_was_lost_fills_again_a_lease_later(runner):
    client = ScriptClient(runner, Bucket(100, SECOND, 100))
    client.lease(1, 0, ends=lose(client))
    client.now += LONGEST
    assert client.left() == 0
    client.now += 500_000
    assert client.left() == 50
