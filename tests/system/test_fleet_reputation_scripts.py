# SPDX-License-Identifier: Apache-2.0
"""The scripts by which nodes share automatic bans and usage, on a real Redis whose clock stands
still: see src/redis/scripts/fleet_bans.lua and fleet_usage.lua."""

import random

import pytest
import redis

from redis_server import Clock, RedisServer, embed

SECOND = 10**6
DAY = 86400 * SECOND
HEAD = "ration:{fleet}:head"
BANS = [f"ration:{{fleet}}:bans{end}" for end in ("", ":order", ":over")]
USAGE, FILES = "ration:{fleet}:usage", "ration:{fleet}:usage:files"
FILE = "0123456789abcdef"
FOREVER = 1_900_000_000  # Unix time, after all that the tests do


def name(number):
    return f"{number:032x}"


class Server:
    def __init__(self, client, clock):
        self.client, self.clock = client, clock
        self.sha = {script: client.script_load(embed.assemble(script))
                    for script in ("fleet_bans", "fleet_usage", "fleet_usage_read")}

    def later(self, us):
        self.clock.set(self.clock.now_us + us)

    def call(self, script, keys, *args):
        return self.client.evalsha(self.sha[script], len(keys), *keys, *args)

    def bans(self, since, *events, most=500):
        """Events: (number, level, age, rest). The version, more, taken, dropped, and what is heard."""
        words = [f"{name(number)} {level} {age} {rest}" for number, level, age, rest in events]
        version, more, taken, dropped, *heard = self.call("fleet_bans", [HEAD, *BANS], since, most, *words)
        heard = [text.decode().split() for text in heard]
        return version, more, taken, dropped, [(int(w[0], 16), int(w[1]), int(w[2])) for w in heard]

    def known(self):
        return self.bans(0)[4]

    def publish(self, groups, entries, file=FILE, host="web-1", pending=0):
        """Groups: {name: text}. Entries: (group, bucket, stamp, admitted, refused, corrected, client)."""
        order = list(groups)
        buckets = list(dict.fromkeys((group, bucket) for group, bucket, *_ in entries))
        keys = [USAGE, FILES, *(f"{USAGE}:{g}" for g in order), *(f"{USAGE}:{g}:{b:03x}" for g, b in buckets)]
        words = [f"{order.index(g) + 1} {buckets.index((g, b)) + 1} {b} {stamp} {admitted} {refused} {corrected} {client}"
                 for g, b, stamp, admitted, refused, corrected, client in entries]
        said = [word for g in order for word in (g, groups[g])]
        return self.call("fleet_usage", keys, file, host, pending, len(order), *said, *words)

    def totals(self, group, bucket):
        found = self.client.hgetall(f"{USAGE}:{group}:{bucket:03x}")
        return {field.decode(): tuple(map(int, value.split()[1:])) for field, value in found.items()}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("redis")
    clock = Clock(folder / "clock")
    with RedisServer(folder, clock) as server:
        yield Server(server.client(), clock)


@pytest.fixture
def server(running):
    running.client.flushall()
    running.sha = {script: running.client.script_load(embed.assemble(script)) for script in running.sha}
    running.later(DAY)
    return running


# --- bans ------------------------------------------------------------------------------------


def test_a_ban_is_heard_once_and_by_a_node_that_joins_as_long_as_it_lasts(server):
    version, more, taken, dropped, heard = server.bans(0, (1, 3, 0, 10 * SECOND))
    assert (more, taken, dropped, heard) == (0, 1, 0, [(1, 3, 10 * SECOND)])
    assert server.bans(version)[4] == []
    server.later(4 * SECOND)
    assert server.known() == [(1, 3, 6 * SECOND)], "the rest, by the clock of Redis"
    server.later(6 * SECOND)
    assert server.known() == []
    assert server.client.exists(*BANS) == 0, "nothing stays behind"


def test_a_ban_that_comes_again_changes_nothing_and_a_worse_one_does(server):
    first = server.bans(0, (1, 2, 0, 60 * SECOND))[0]
    server.later(3 * SECOND)
    assert server.bans(first, (1, 2, 3 * SECOND, 57 * SECOND))[2:] == (0, 0, [])
    assert server.bans(first, (1, 1, 0, 50 * SECOND))[2:] == (0, 0, [])
    assert server.bans(first, (1, 3, 0, 10 * SECOND))[4] == [(1, 3, 57 * SECOND)], "the worst of both"
    assert server.bans(first, (1, 1, 0, 90 * SECOND))[4] == [(1, 3, 90 * SECOND)]


def test_a_lift_holds_against_bans_that_began_before_it(server):
    server.bans(0, (1, 2, 0, 3600 * SECOND))
    server.later(60 * SECOND)
    lifted = server.bans(0, (1, 0, 0, 0))
    assert lifted[4] == [(1, 0, 0)]
    # Sent again by the node that began it, or by one that had lost its way to Redis.
    assert server.bans(lifted[0], (1, 2, 60 * SECOND, 3540 * SECOND))[2:] == (0, 0, [])
    assert server.bans(lifted[0], (1, 4, 1, 3540 * SECOND))[2:] == (0, 0, [])
    server.later(29 * DAY)
    assert server.bans(0, (1, 5, 29 * DAY + SECOND, 300 * DAY))[4] == [(1, 0, 0)]
    # The client goes on as before: a new ban counts.
    assert server.bans(0, (1, 1, 0, SECOND))[4] == [(1, 1, SECOND)]


def test_a_lift_that_was_made_before_a_ban_and_comes_later_does_not_end_it(server):
    server.bans(0, (1, 1, 0, 3600 * SECOND))
    assert server.bans(0, (1, 0, 60 * SECOND, 0))[2] == 0
    assert server.known() == [(1, 1, 3600 * SECOND)]
    assert server.bans(0, (1, 0, 1, 0))[4] == [(1, 0, 0)], "made just now"


def test_a_lift_holds_also_if_the_clock_of_redis_was_set_back(server):
    server.bans(0, (1, 1, 0, 3600 * SECOND))
    server.later(-1800 * SECOND)
    version, *_, heard = server.bans(0, (1, 0, 0, 0))
    assert heard == [(1, 0, 0)]
    assert server.bans(0, (1, 1, 1800 * SECOND, 1800 * SECOND))[4] == [(1, 0, 0)]
    assert server.bans(version, (2, 1, 0, SECOND))[4] == [(2, 1, SECOND)], "versions rise all the same"
    server.later(1800 * SECOND)


def test_many_bans_come_in_lots_in_order(server):
    for start in range(0, 1000, 100):
        server.bans(0, *((i, 1, 0, 3600 * SECOND) for i in range(start, start + 100)), most=0)
    since, found = 0, []
    while True:
        since, more, _, _, heard = server.bans(since, most=64)
        found += [number for number, _, _ in heard]
        if not more:
            break
        assert len(heard) == 64
    assert found == list(range(1000))
    assert server.bans(5, (5000, 1, 0, SECOND), most=0)[:2] == (5, 1), "who asks for none has missed all"


def test_at_the_cap_those_that_end_first_make_room(server):
    pipe = server.client.pipeline(transaction=False)
    for i in range(65536):  # as the script would have kept them
        ends = server.clock.now_us + 3600 * SECOND + i
        pipe.hset(BANS[0], name(i), f"1 1 {ends}")
        pipe.zadd(BANS[1], {name(i): i + 1})
        pipe.zadd(BANS[2], {name(i): ends})
    pipe.execute()
    assert server.bans(10**17, (10**6, 1, 0, 7200 * SECOND), (10**6 + 1, 1, 0, SECOND))[2:4] == (2, 2)
    assert [server.client.hlen(BANS[0]), *(server.client.zcard(key) for key in BANS[1:])] == [65536] * 3
    left = [server.client.hexists(BANS[0], name(i)) for i in (10**6, 10**6 + 1, 0, 1)]
    assert left == [True, False, False, True]


def test_what_is_malformed_is_passed_on_for_the_node_to_refuse(server):
    server.bans(0, (1, 1, 0, 3600 * SECOND))
    for i, text in enumerate(("", "nonsense", "1 2", "-1 2 3", "100 1 2", "1 2 nan")):
        server.client.hset(BANS[0], f"bad{i}", text)
        server.client.zadd(BANS[1], {f"bad{i}": i + 1})
    reply = server.call("fleet_bans", [HEAD, *BANS], 0, 500)
    assert [text.decode() for text in reply[4:10]] == [
        "bad0 ? ", "bad1 ? nonsense", "bad2 ? 1 2", "bad3 ? -1 2 3", "bad4 ? 100 1 2", "bad5 ? 1 2 nan"]
    server.call("fleet_bans", [HEAD, *BANS], 0, 0, "", "x", "zz 1 2 3", name(7) + " -1 2 3")
    assert server.client.hlen(BANS[0]) == 7
    for version in ("x", "nan", "inf", "-5", "1e300"):
        server.client.hset(HEAD, "bans", version)
        assert server.bans(10**17, (8, 1, 0, SECOND))[0] == server.clock.now_us
        server.later(2 * SECOND)


@pytest.mark.parametrize("key", BANS)
def test_a_key_of_another_type_fails_before_anything_is_written(server, key):
    server.bans(0, (1, 1, 0, 3600 * SECOND))
    before = {other: server.client.dump(other) for other in BANS if other != key}
    server.client.delete(key)
    server.client.lpush(key, "x")
    for events in ((), ((2, 1, 0, SECOND),)):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            server.bans(0, *events)
    assert before == {other: server.client.dump(other) for other in BANS if other != key}


def test_nodes_that_speak_and_hear_at_any_time_end_up_alike(server):
    """Against the definition: of a client's events the last one holds, bans merge to the worst."""
    dice = random.Random(16)
    truth, nodes = {}, [({}, 0, []) for _ in range(3)]
    for step in range(400):
        server.later(dice.choice((5, 20)) * SECOND)
        number, level = dice.randrange(12), dice.choice((0, 1, 2, 3))
        begun, ends = server.clock.now_us, server.clock.now_us + (10**6 * SECOND if level else 0)
        known = truth.get(number)
        if level == 0 or not known or known[0] == 0:
            truth[number] = (level, begun, ends)
        else:
            truth[number] = (max(level, known[0]), begun, max(ends, known[2]))
        index = dice.randrange(3)
        nodes[index][2].append((number, level, begun, ends))
        if dice.random() < 0.7 and step < 399:
            continue
        for index in range(3):  # each sends what it has, in any order of nodes
            have, since, unsent = nodes[index]
            now = server.clock.now_us
            version, more, _, _, heard = server.bans(
                since, *((n, l, now - b, max(e - now, 0)) for n, l, b, e in unsent))
            assert not more
            nodes[index] = (have, version, [])
            have.update({n: (l, now + rest) for n, l, rest in heard})
    for index in range(3):
        have, since, _ = nodes[index]
        have.update({n: (l, server.clock.now_us + rest) for n, l, rest in server.bans(since)[4]})
        for number, (level, _, ends) in truth.items():
            assert (have[number][0] == 0) == (level == 0), (number, index)
            assert level == 0 or abs(have[number][1] - ends) <= SECOND + 10


# --- usage -----------------------------------------------------------------------------------

MONTH = f"1796083200 {FOREVER} 3 2026-12 UTC api"


def test_totals_of_a_file_replace_each_other_and_those_of_two_files_stay_apart(server):
    assert server.publish({"aa": MONTH}, [("aa", 7, 1, 10, 2, 0, "cann")]) == 1
    assert server.publish({"aa": MONTH}, [("aa", 7, 3, 15, 2, -5, "cann")]) == 1
    assert server.publish({"aa": MONTH}, [("aa", 7, 1, 10, 2, 0, "cann")]) == 0, "an older call comes late"
    assert server.publish({"aa": MONTH}, [("aa", 7, 3, 15, 2, -5, "cann")]) == 0, "or comes twice"
    server.publish({"aa": MONTH}, [("aa", 7, 1, 4, 0, 0, "cann")], file="f" * 16)
    assert server.totals("aa", 7) == {FILE + "cann": (15, 2, -5), "f" * 16 + "cann": (4, 0, 0)}
    assert server.publish({"aa": MONTH}, [("aa", 7, 4, 14, 2, -5, "cann")]) == 1, "given back"
    assert server.totals("aa", 7)[FILE + "cann"] == (14, 2, -5)


def test_large_totals_and_any_name_are_kept_exactly(server):
    odd = "c\n{x} 1 2 %d\u00e9\u0000z"
    top = 2**64 - 1
    server.publish({"aa": MONTH}, [("aa", 4095, 2**53 - 1, top, top, -2**63, odd), ("aa", 0, 1, 1, 0, 0, "c"),
                                   ("aa", 4095, 1, 2, 0, 0, "o")])
    assert server.totals("aa", 4095) == {FILE + odd: (top, top, -2**63), FILE + "o": (2, 0, 0)}
    assert server.totals("aa", 0) == {FILE + "c": (1, 0, 0)}
    bits = server.client.get(USAGE + ":aa")
    assert bits[0] == 0x80 and bits[511] == 1 and not any(bits[1:511])


def test_groups_are_numbered_once_and_kept_until_their_period_is_forgotten(server):
    now = server.clock.now_us // SECOND
    old, new = f"{now - 100} {now} 3 2026-01-01 UTC api", f"{now - 100} {now} 5 2026-01-01 UTC api"
    server.publish({"aa": old, "bb": MONTH}, [("aa", 1, 1, 1, 0, 0, "ca"), ("bb", 1, 1, 1, 0, 0, "cb")])
    index = server.client.hgetall(USAGE)
    assert index[b"aa"].decode() == f"1 {now + 300 + 86400} {old}" and index[b"bb"].startswith(b"2 ")
    assert server.client.expiretime(USAGE + ":aa:001") == now + 300 + 86400
    assert server.client.expiretime(USAGE + ":aa") == now + 300 + 86400
    server.publish({"aa": new}, [("aa", 1, 2, 1, 0, 0, "ca")])
    assert server.client.hget(USAGE, "aa").decode() == f"1 {now + 500 + 86400} {new}"
    server.later((501 + 86400) * SECOND)
    server.publish({"cc": MONTH}, [("cc", 1, 1, 1, 0, 0, "ca")])
    assert set(server.client.hkeys(USAGE)) == {b"next", b"bb", b"cc"}
    assert not server.client.exists(USAGE + ":aa", USAGE + ":aa:001")


def test_a_period_that_is_long_over_for_redis_is_kept_for_a_day(server):
    server.publish({"aa": "100 200 3 1970-01-01 UTC api"}, [("aa", 1, 1, 1, 0, 0, "ca")])
    assert server.client.ttl(USAGE + ":aa:001") == 86400


def test_files_say_when_they_were_seen_and_what_they_have_left(server):
    now = server.clock.now_us // SECOND
    server.publish({}, [], pending=17)
    assert server.client.hget(FILES, FILE).decode() == f"{now} 17 {now + 86400} web-1"
    server.publish({"aa": MONTH}, [("aa", 1, 1, 1, 0, 0, "ca")], host="web-2")
    kept = FOREVER + (FOREVER - 1796083200) * 3 + 86400
    server.later(5 * SECOND)
    server.publish({}, [])
    assert server.client.hget(FILES, FILE).decode() == f"{now + 5} 0 {kept} web-1", "as long as its totals"
    server.publish({}, [], file="a" * 16)
    server.client.hset(FILES, "junk", "x")
    server.later(2 * DAY)
    server.publish({}, [], file="b" * 16)
    assert set(server.client.hkeys(FILES)) == {FILE.encode(), b"b" * 16}
    server.publish({"aa": MONTH}, [("aa", 1, 2, 3, 0, 0, "ca")], pending="left")
    assert server.client.hkeys(FILES) == [b"b" * 16] and server.totals("aa", 1) == {FILE + "ca": (3, 0, 0)}


def test_reading_stops_after_so_many_bytes(server):
    server.publish({"aa": MONTH}, [("aa", i, 1, 1, 0, 0, "c" + "x" * 80) for i in range(3)])
    keys = [f"{USAGE}:aa:fff", *(f"{USAGE}:aa:{i:03x}" for i in range(3))]
    reply = server.call("fleet_usage_read", keys, 150, 0)
    assert reply[0] == server.clock.now_us // SECOND
    assert reply[1] == [] and reply[2][1] == b"1 1 0 0" and len(reply) == 4
    assert len(server.call("fleet_usage_read", keys, 10**6, 0)) == 5
    assert server.call("fleet_usage_read", [f"{USAGE}:aa"], 1, 1)[1:] == [b"\xe0"]
    assert server.call("fleet_usage_read", [f"{USAGE}:bb"], 1, 1)[1:] == [[]]
    server.client.lpush("other", "x")
    for bitmap in (0, 1):
        assert server.call("fleet_usage_read", ["other"], 10, bitmap)[1:] == [[]]
