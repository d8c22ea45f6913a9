# SPDX-License-Identifier: Apache-2.0
"""The scripts of the fleet on a real Redis whose clock stands still: see
src/redis/scripts/fleet_*.lua."""

import random

import pytest

from redis_server import Clock, RedisServer, embed

DAY = 86400 * 10**6
KEYS = {letter: f"ration:{{fleet}}:{name}" for letter, name in
        (("h", "head"), ("n", "nodes"), ("i", "items"), ("v", "values"), ("e", "ends"), ("f", "factors"))}
SET, DELETED = 1, 2


class Fleet:
    def __init__(self, client, clock):
        self.client, self.clock = client, clock

    def call(self, name, keys, *args):
        keys = [KEYS[k] for k in keys]
        return self.client.eval(embed.assemble(name), len(keys), *keys, *args)

    def poll(self, node="n1", ttl=5 * 10**6, fresh="fresh"):
        """The id, the version, how many nodes."""
        return self.call("fleet_poll", "hnive", node, ttl, fresh, "0" * 32, "1" * 32)[:3]

    def tickets(self, known, another):
        """The keys of tickets, and whether the newest is too new to sign with."""
        return self.call("fleet_poll", "hnive", "n1", 5 * 10**6, "fresh", known, another)[3:5]

    def factors(self, node, said):
        """What the others say, by node."""
        words = self.call("fleet_factors", "nf", node, said, 5 * 10**6)
        return dict(zip(words[::2], words[1::2]))

    def offer(self, *items):
        """How many of (name, made, kind, expires, text) were taken."""
        words = []
        for name, made, kind, expires, text in items:
            words += [name, f"{made:016d}{kind}{expires:016d}{text}"]
        return self.call("fleet_offer", "hive", *words)

    def fetch(self, since=0, most=500, size=10**6):
        version, more, *words = self.call("fleet_fetch", "hiv", since, most, size)
        found = [(words[i].decode(), words[i + 1][33:].decode()) for i in range(0, len(words), 2)]
        return version, more, found

    def fetch_all(self, most, size=10**6):
        """All, in lots; the versions must rise."""
        since, found = 0, []
        while True:
            version, more, lot = self.fetch(since, most, size)
            found += lot
            if not more:
                return version, found
            assert version > since and 0 < len(lot) <= most
            since = version


@pytest.fixture
def fleet(tmp_path):
    clock = Clock(tmp_path / "clock")
    with RedisServer(tmp_path, clock) as server:
        yield Fleet(server.client(), clock)


def test_nodes_count_while_they_say_so(fleet):
    now = fleet.clock.now_us
    assert fleet.poll("n1")[2] == 1
    assert fleet.poll("n2")[2] == 2
    assert fleet.poll("n2")[2] == 2
    fleet.clock.set(now + 4 * 10**6)
    assert fleet.poll("n2")[2] == 2
    fleet.clock.set(now + 5 * 10**6)
    assert fleet.poll("n2")[2] == 1 # n1 was silent for five seconds
    assert fleet.poll("n1")[2] == 2
    assert fleet.poll("n1", ttl=0)[2] == 1 # it goes


def test_the_id_is_given_once_and_another_one_when_all_is_lost(fleet):
    assert fleet.poll(fresh="a")[0] == b"a"
    assert fleet.poll(fresh="b")[0] == b"a"
    fleet.client.flushall()
    assert fleet.poll(fresh="c")[0] == b"c"


def test_the_later_change_is_kept_and_a_tie_changes_nothing(fleet):
    assert fleet.offer(("x", 10, SET, 0, "first")) == 1
    version = fleet.poll()[1]
    assert fleet.offer(("x", 9, SET, 0, "older"), ("x", 10, SET, 0, "same time")) == 0
    assert fleet.poll()[1] == version
    assert fleet.fetch()[2] == [("x", "first")]
    assert fleet.offer(("x", 11, SET, 0, "later"), ("y", 1, SET, 0, "other")) == 2
    assert fleet.fetch(version)[2] == [("x", "later"), ("y", "other")]
    assert fleet.offer(("x", 12, DELETED, 0, "gone")) == 1
    assert fleet.offer(("x", 11, SET, 0, "late")) == 0
    assert fleet.fetch()[2] == [("y", "other"), ("x", "gone")]


def test_versions_rise_also_if_the_last_ones_were_lost_or_the_clock_goes_back(fleet):
    fleet.offer(("x", 1, SET, 0, ""))
    first = fleet.poll()[1]
    assert first == fleet.clock.now_us
    fleet.offer(("y", 1, SET, 0, ""), ("z", 1, SET, 0, ""))
    assert fleet.poll()[1] == first + 2
    fleet.client.hset(KEYS["h"], "version", first) # as a replica that lags behind
    fleet.clock.set(fleet.clock.now_us + 1000)
    fleet.offer(("w", 1, SET, 0, ""))
    assert fleet.poll()[1] == first + 1000
    fleet.clock.set(fleet.clock.now_us - 10**9)
    fleet.offer(("v", 1, SET, 0, ""))
    assert fleet.poll()[1] == first + 1001


def test_expired_changes_are_dropped_in_time(fleet):
    now = fleet.clock.now_us
    fleet.offer(("stays", now, SET, 0, ""), ("expires", now, SET, now + 10, ""),
                ("gone", now, DELETED, 0, ""), ("extended", now, SET, now + 10, ""))
    fleet.offer(("extended", now + 1, SET, 0, ""))

    def left(at):
        fleet.clock.set(at)
        fleet.poll()
        names = {name for name, _ in fleet.fetch()[2]}
        assert names == {n.decode() for n in fleet.client.hkeys(KEYS["v"])}
        return names

    assert left(now + DAY) == {"stays", "expires", "gone", "extended"}
    assert left(now + DAY + 10) == {"stays", "gone", "extended"}
    assert left(now + 30 * DAY) == {"stays", "extended"}
    assert left(now + 300 * DAY) == {"stays", "extended"}
    assert fleet.client.zcard(KEYS["e"]) == 0


def test_a_deletion_by_a_clock_that_is_years_behind_is_remembered_all_the_same(fleet):
    fleet.offer(("x", 1, DELETED, 0, ""))
    fleet.poll()
    assert len(fleet.fetch()[2]) == 1


@pytest.mark.parametrize("most, size", [(1, 10**6), (7, 10**6), (500, 1), (500, 300), (100, 10**6)])
def test_lots_hold_everything_once_and_in_order(fleet, most, size):
    for lot in range(10):
        fleet.offer(*((f"k{lot}-{i}", 1, SET, 0, "t" * 50) for i in range(10)))
    version, found = fleet.fetch_all(most, size)
    assert [name for name, _ in found] == [f"k{lot}-{i}" for lot in range(10) for i in range(10)]
    assert version == fleet.poll()[1]
    assert fleet.fetch(version) == (version, 0, [])


def test_a_node_that_fetches_changes_ends_up_with_all_of_them(fleet):
    """Readers that fetch at any time, against a dictionary."""
    dice = random.Random(7)
    truth, known = {}, [({}, 0) for _ in range(3)]
    for step in range(300):
        fleet.clock.set(fleet.clock.now_us + dice.choice((0, 0, 1, 1000)))
        name, made, text = f"k{dice.randrange(20)}", dice.randrange(1000), str(step)
        taken = fleet.offer((name, made, SET, 0, text))
        assert taken == (name not in truth or truth[name][0] < made)
        if taken:
            truth[name] = (made, text)
        reader = dice.randrange(3)
        if dice.random() < 0.3 or step == 299:
            for reader in (range(3) if step == 299 else [reader]):
                have, since = known[reader]
                version, more, found = fleet.fetch(since, 10**6)
                assert not more
                have.update(found)
                known[reader] = (have, version)
                assert have == {n: t for n, (_, t) in truth.items()}


def test_keys_of_tickets_are_made_once_and_turn_once_a_week(fleet):
    a, b, c = ("%032x" % i for i in range(3))
    assert fleet.tickets(a, b) == [a.encode(), 0]
    assert fleet.tickets(b, c) == [a.encode(), 0], "the first node's holds for all"
    fleet.clock.set(fleet.clock.now_us + 7 * DAY - 1)
    assert fleet.tickets(a, b) == [a.encode(), 0]
    fleet.clock.set(fleet.clock.now_us + 1)
    assert fleet.tickets(a, b) == [f"{b} {a}".encode(), 1], "others may not have it yet"
    fleet.clock.set(fleet.clock.now_us + 10 * 10**6)
    assert fleet.tickets(f"{b} {a}", c) == [f"{b} {a}".encode(), 0]
    fleet.client.flushall()
    assert fleet.tickets(f"{b} {a}", c)[0] == f"{b} {a}".encode(), "a node that knows them brings them back"


def test_five_keys_of_tickets_are_kept_and_a_clock_that_goes_back_turns_them_too(fleet):
    keys = ["%032x" % i for i in range(9)]
    fleet.tickets(keys[0], keys[1])
    for key in keys[1:8]:
        fleet.clock.set(fleet.clock.now_us + 7 * DAY)
        newest = fleet.tickets(keys[0], key)[0].decode()
    assert newest == " ".join(keys[7:2:-1])
    fleet.clock.set(fleet.clock.now_us - 30 * DAY)
    assert fleet.tickets(keys[0], keys[8])[0].decode() == " ".join(keys[8:3:-1])


def test_what_a_node_says_counts_as_long_as_the_node_does(fleet):
    client, clock = fleet.client, fleet.clock
    for node in ("n1", "n2", "n3"):
        fleet.poll(node)
        fleet.factors(node, f"said by {node}")
    assert fleet.factors("n1", "new") == {b"n2": b"said by n2", b"n3": b"said by n3"}
    assert fleet.factors("n2", "said by n2")[b"n1"] == b"new"
    fleet.poll("n3", ttl=0)  # it leaves
    assert fleet.factors("n1", "new") == {b"n2": b"said by n2"}
    assert client.hlen(KEYS["f"]) == 2
    assert fleet.factors("n2", "") == {b"n1": b"new"}  # it asks for nothing any more
    assert fleet.factors("n1", "new") == {}
    fleet.factors("n2", "again")
    clock.set(clock.now_us + 4_999_999)
    fleet.poll("n1")
    assert fleet.factors("n1", "new") == {b"n2": b"again"}
    clock.set(clock.now_us + 1)
    assert fleet.factors("n1", "new") == {}
    assert client.hkeys(KEYS["f"]) == [b"n1"]


def test_what_nobody_can_have_said_is_not_passed_on(fleet):
    fleet.poll("n1")
    fleet.poll("n2")
    fleet.client.hset(KEYS["f"], mapping={"stranger": "1 x", "n2": "x" * (1 << 20)})
    assert fleet.factors("n1", "new")[b"n2"] == b"x" * (1 << 20)
    assert fleet.client.hexists(KEYS["f"], "stranger") is False
    fleet.client.hset(KEYS["f"], "n2", "x" * ((1 << 20) + 1))
    assert fleet.factors("n1", "new") == {}
