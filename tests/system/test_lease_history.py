# SPDX-License-Identifier: Apache-2.0
"""The lease scripts on a server that may have lost data, on a real redis-server whose clock the
test moves: worked examples."""

import pytest

from lease_nodes import LONGEST
from redis_server import PEEK
from test_lease_scripts import SECOND, Asker, Bucket, asker, bed  # noqa: F401 (two of them are fixtures)

ONE, TWO = b"1" * 16, b"2" * 16


class Chronicle:
    """The history of one store, as an asker's charges meet it."""

    def __init__(self, asker):
        self.asker, self.key = asker, asker.key + b":history"

    def left(self, id=ONE):
        """Of a key that was not used yet."""
        self.asker.wire.send(b"DEL", self.asker.key)
        return self.asker.run(PEEK, 0, history=(self.key, id))[1]

    def vouch(self):
        self.asker.wire.send(b"SET", self.key, b"0")


@pytest.fixture
def chronicle(asker):
    return Chronicle(asker)


def test_without_a_history_a_key_starts_empty_for_the_time_of_a_lease(chronicle):
    assert chronicle.left() == 0
    chronicle.asker.now += LONGEST - 1
    assert chronicle.left() == 0
    chronicle.asker.now += 1
    assert chronicle.left() == 100


def test_with_another_id_as_well(chronicle):
    chronicle.vouch()
    assert chronicle.left(ONE) == 100
    assert chronicle.left(TWO) == 0
    chronicle.asker.now += LONGEST
    assert chronicle.left(TWO) == 100


def test_an_earlier_id_of_the_history_does_not_start_a_new_one(chronicle):
    chronicle.vouch()
    chronicle.left(ONE)
    chronicle.left(TWO)
    chronicle.asker.now += LONGEST
    assert [chronicle.left(id) for id in (ONE, TWO, ONE)] == [100] * 3


def test_a_history_does_not_grow_without_end(chronicle):
    for i in range(20):
        chronicle.left(b"%016d" % i)
    with chronicle.asker.bed.server.client() as client:
        assert client.strlen(chronicle.key) == 16 + 4 * 17


def test_a_history_from_the_future_begins_now(chronicle):
    chronicle.left()
    chronicle.asker.now -= 3600 * SECOND
    assert chronicle.left() == 0
    chronicle.asker.now += LONGEST
    assert chronicle.left() == 100


def test_a_history_is_not_for_one_key_only(chronicle):
    chronicle.vouch()
    chronicle.left()
    with chronicle.asker.bed.server.client() as client:
        assert client.pttl(chronicle.key) == -1


def lose(asker):
    """While one node holds 40 and another holds nothing; and when that lease ends."""
    lasts = asker.lease(1, 40)[4]
    asker.wire.send(b"DEL", asker.key)
    return asker.now + lasts


def test_a_lease_that_is_not_there_tells_that_the_key_was_lost(asker):
    ends = lose(asker)
    assert asker.lease(1, 10, keep=20, ends=ends)[:2] == [0, 0]
    assert asker.left() == 0 and asker.lease(2, 10)[0] == 0


def test_also_after_calls_of_others(asker):
    ends = lose(asker)
    assert asker.lease(2, 30)[:2] == [30, 70]
    assert asker.lease(1, 10, keep=20, ends=ends)[:2] == [0, 0]
    assert asker.lease(2, 0, keep=30)[5] == 1, "theirs goes on"
    assert asker.left() == 0


def test_a_lease_that_has_ended_tells_nothing(asker):
    asker.lease(1, 40, ttl=100_000)
    ends = asker.now + 100_000
    asker.now = ends
    left = asker.left()
    assert asker.lease(1, 0, keep=40, ends=ends)[:2] == [0, left]


def test_a_bucket_that_was_lost_fills_again_a_lease_later(bed):
    asker = Asker(bed, Bucket(100, SECOND, 100))
    asker.lease(1, 0, ends=lose(asker))
    asker.now += LONGEST
    assert asker.left() == 0
    asker.now += 500_000
    assert asker.left() == 50
