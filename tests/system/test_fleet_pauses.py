# SPDX-License-Identifier: Apache-2.0
"""Pauses hold on all nodes that share a Redis, and so do lifts; and the script by which they do, on
a Redis whose clock stands still: see src/redis/scripts/fleet_pauses.lua."""

import contextlib
import signal

import pytest

from daemon import Daemon, wait_for
from nodes import metric
from redis_cluster import RedisCluster
from redis_server import Clock, RedisServer, embed

SECOND = 10**6
HEAD = "ration:{fleet}:head"
PAUSES = [f"ration:{{fleet}}:pauses{end}" for end in ("", ":order", ":over")]
RULES = """
limits:
  - name: stripe
    when: { path: /pay }
    key: account
    limit: 1000 per second
"""
ANN = {"account": "ann", "path": "/pay"}


# --- the script --------------------------------------------------------------------------------


class Server:
    def __init__(self, client, clock):
        self.client, self.clock = client, clock

    def later(self, us):
        self.clock.set(self.clock.now_us + us)

    def say(self, since, *events, most=500):
        """Events: (number, age, rest). The version, more, taken, dropped, and what is heard."""
        words = [f"{number:016x} {age} {rest}" for number, age, rest in events]
        version, more, taken, dropped, *heard = self.client.evalsha(self.sha, 4, HEAD, *PAUSES, since, most, *words)
        heard = [text.decode().split() for text in heard]
        return version, more, taken, dropped, [(int(w[0], 16), int(w[1])) for w in heard]

    def known(self):
        return self.say(0)[4]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("redis")
    clock = Clock(folder / "clock")
    with RedisServer(folder, clock) as server:
        yield Server(server.client(), clock)


@pytest.fixture
def server(running):
    running.client.flushall()
    running.sha = running.client.script_load(embed.assemble("fleet_pauses"))
    running.later(2 * 86400 * SECOND)
    return running


def test_a_pause_is_heard_once_and_by_a_node_that_joins_as_long_as_it_lasts(server):
    version, more, taken, dropped, heard = server.say(0, (1, 0, 10 * SECOND))
    assert (more, taken, dropped, heard) == (0, 1, 0, [(1, 10 * SECOND)])
    assert server.say(version)[4] == []
    server.later(4 * SECOND)
    assert server.known() == [(1, 6 * SECOND)], "the rest, by the clock of Redis"
    server.later(6 * SECOND)
    assert server.known() == []
    assert server.client.exists(*PAUSES) == 0, "nothing stays behind"


def test_the_later_end_counts(server):
    first = server.say(0, (1, 0, 60 * SECOND))[0]
    server.later(3 * SECOND)
    assert server.say(first, (1, 3 * SECOND, 57 * SECOND))[2:] == (0, 0, []), "sent again"
    assert server.say(first, (1, 0, 10 * SECOND))[2:] == (0, 0, [])
    assert server.say(first, (1, 0, 90 * SECOND))[4] == [(1, 90 * SECOND)]
    assert server.say(first, (1, 0, 99 * 86400 * SECOND))[4] == [(1, 86400 * SECOND)], "24 hours at most"


def test_of_a_pause_and_a_lift_the_later_one_holds(server):
    server.say(0, (1, 0, 3600 * SECOND))
    server.later(60 * SECOND)
    lifted = server.say(0, (1, 0, 0))
    assert lifted[4] == [(1, 0)]
    assert server.say(lifted[0], (1, 61 * SECOND, 3540 * SECOND))[2:] == (0, 0, []), "sent again, or late"
    server.later(60 * SECOND)
    assert server.say(0, (1, 0, 30 * SECOND))[4] == [(1, 30 * SECOND)], "made after the lift"
    assert server.say(0, (1, 60 * SECOND, 0))[2] == 0, "the lift again"
    assert server.known() == [(1, 30 * SECOND)]


def test_a_pause_and_a_lift_of_one_call_are_taken_in_order(server):
    assert server.say(0, (1, 2000, 30 * SECOND), (1, 1000, 0))[4] == [(1, 0)]
    assert server.say(0, (2, 3000, 30 * SECOND), (2, 2000, 0), (2, 1000, 9 * SECOND))[4][-1] == (2, 9 * SECOND)


def test_replies_have_pages_and_bad_words_are_passed_over(server):
    server.say(0, *((i, 0, 60 * SECOND) for i in range(10)))
    version, more, _, _, heard = server.say(0, most=4)
    assert (more, [number for number, _ in heard]) == (1, [0, 1, 2, 3])
    assert [number for number, _ in server.say(version)[4]] == [4, 5, 6, 7, 8, 9]
    assert server.say(version, most=0)[:2] == (version, 1), "only says"
    reply = server.client.evalsha(server.sha, 4, HEAD, *PAUSES, 0, 0, "", "x", "zz 1 2", "1 -1 5", "1 2")
    assert reply[2] == 0
    server.client.hset(PAUSES[0], f"{3:016x}", "garbage")
    heard = server.client.evalsha(server.sha, 4, HEAD, *PAUSES, 0, 500)[4:]
    assert f"{3:016x} ? garbage".encode() in heard and len(heard) == 10


def test_a_pause_arrives_whatever_others_have_written(server):
    """Scores that are no versions, the last version that there can be, an entry that no order has, long texts."""
    server.say(0, *((i, 0, 60 * SECOND) for i in range(20)))
    first = server.clock.now_us
    for i in range(20):
        server.client.zadd(PAUSES[1], {f"{i:016x}": first + i / 32})
    version, more = 0, 1
    for _ in range(20):
        version, more = server.say(version, most=4)[:2]
    assert more == 0, "the pages end"

    server.client.hset(HEAD, "pauses", f"{2**52 - 1}")
    assert server.say(0, (77, 0, 60 * SECOND))[4] != []
    again = server.say(0, (77, 0, 60 * SECOND))
    assert again[0] < 2**51 and (77, 60 * SECOND) in again[4], "once more from the beginning"
    server.client.zrem(PAUSES[1], f"{77:016x}")
    assert (77, 60 * SECOND) in server.say(again[0], (77, 0, 60 * SECOND))[4]

    server.client.zadd(PAUSES[2], {"f" * 16: "inf"})
    assert server.say(again[0], (78, 0, 60 * SECOND))[4][-1] == (78, 60 * SECOND)
    assert 0 < server.client.pttl(PAUSES[0]) <= 25 * 3600 * 1000
    server.client.hset(PAUSES[0], f"{78:016x}", "x" * 100000)
    reply = server.client.evalsha(server.sha, 4, HEAD, *PAUSES, again[0], 500)
    assert reply[4:][-1] == f"{78:016x} ? ".encode() + 40 * b"x"


# --- nodes --------------------------------------------------------------------------------------


class Node(Daemon):
    def __init__(self, folder, name, url):
        folder = folder / name
        folder.mkdir(exist_ok=True)
        super().__init__(folder, RULES, ["--workers", 1, "--memory", "8M", "--redis", url, "--state", folder / "state"])

    def pause(self, key, seconds):
        assert self.http("POST", "/v1/pause", {"key": key, "for": seconds}).json["paused"]

    def lift(self, key):
        return self.http("DELETE", f"/v1/pause?key={key}").json["lifted"]

    def rest(self, key):
        return self.http("GET", f"/v1/pause?key={key}").json["rest"]


@contextlib.contextmanager
def fleet(folder, count=3):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder))
        nodes = [stack.enter_context(Node(folder, f"node{i}", server.url)) for i in range(count)]
        for node in nodes:
            wait_for(lambda: metric(node, "ration_fleet_nodes") == count, "all nodes")
        yield server, nodes


def all_at(nodes, key, paused):
    wait_for(lambda: [node.rest(key) > 0 for node in nodes] == [paused] * len(nodes), f"{key}: {paused}")


def test_a_pause_holds_on_all_nodes_and_a_lift_too(tmp_path):
    with fleet(tmp_path) as (server, nodes):
        nodes[0].pause("stripe", 600)
        all_at(nodes, "stripe", True)
        for node in nodes:
            assert 500 < node.rest("stripe") <= 600
            answer = node.http("POST", "/v1/throttle", {"key": "stripe", "limit": "5 per second"})
            assert answer.status == 429 and answer.json["paused"]
        assert nodes[2].lift("stripe")
        all_at(nodes, "stripe", False)
        nodes[1].pause("stripe", 300)  # and once more
        all_at(nodes, "stripe", True)
        nodes[0].pause("stripe", 900)  # longer
        wait_for(lambda: all(node.rest("stripe") > 800 for node in nodes), "the later end")
        assert sum(metric(node, "ration_fleet_pauses_published_total") for node in nodes) == 4
        # A client of a rule, by another protocol.
        with nodes[1].resp() as resp:
            assert resp("RATION.PAUSE", "RULES", "account", "ann", "path", "/pay", "FOR", "10m") > 590000
        for node in nodes:
            wait_for(lambda: node.http("POST", "/v1/check", {"attributes": ANN}).json.get("paused"), "ann")
            assert node.http("POST", "/v1/check", {"attributes": {**ANN, "account": "bob"}}).json["allowed"]
        with Node(tmp_path, "late", server.url) as late:
            all_at([late], "stripe", True)
            assert not late.http("POST", "/v1/check", {"attributes": ANN}).json["allowed"]


@pytest.mark.parametrize("how", ["frozen", "emptied"])
def test_nodes_go_on_without_redis_and_agree_afterwards(tmp_path, how):
    with fleet(tmp_path) as (server, nodes):
        for key in ("a", "b"):
            nodes[0].pause(key, 3600)
            all_at(nodes, key, True)
        server.process.send_signal(signal.SIGSTOP if how == "frozen" else signal.SIGKILL)
        for node in nodes:
            node.logged(" event=fleet.disconnected ")
        nodes[1].pause("c", 3600)
        nodes[2].lift("a")  # which node 0 has paused
        assert [node.rest("a") > 0 for node in nodes] == [True, True, False], "without Redis a node is alone"
        assert [node.rest("c") > 0 for node in nodes] == [False, True, False]
        if how == "frozen":
            server.process.send_signal(signal.SIGCONT)
        else:
            server.process.wait()
            server.start()
        all_at(nodes, "a", False)
        all_at(nodes, "c", True)
        all_at(nodes, "b", True)
        with Node(tmp_path, "late", server.url) as late:
            wait_for(lambda: [late.rest(key) > 0 for key in "abc"] == [False, True, True], "what is in force")


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_lift_reaches_a_node_that_was_away_and_stays(tmp_path, how):
    with fleet(tmp_path, 2) as (server, nodes):
        nodes[0].pause("a", 3600)
        all_at(nodes, "a", True)
        nodes[0].kill() if how == "killed" else nodes[0].freeze()
        assert nodes[1].lift("a")
        wait_for(lambda: server.client().hvals(PAUSES[0])[0].endswith(b" 0"), "the lift in Redis")
        if how == "killed":
            nodes[0].start()  # with its state file, which has the pause
        else:
            nodes[0].thaw()
        all_at(nodes, "a", False)
        nodes[0].pause("b", 3600)
        all_at(nodes, "b", True)
        assert [node.rest("a") for node in nodes] == [0, 0]


def test_a_pause_survives_a_restart_without_redis(tmp_path):
    with RedisServer(tmp_path) as server, Node(tmp_path, "one", server.url) as node:
        node.pause("a", 3600)
        node.kill()
        server.process.send_signal(signal.SIGKILL)
        node.start()
        assert node.rest("a") > 3000


def test_what_is_malformed_pauses_nothing_and_stops_nothing_else(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        nodes[0].pause("a", 3600)
        all_at(nodes, "a", True)
        client = server.client()
        version = float(client.hget(HEAD, "pauses"))
        with client.pipeline(transaction=True) as pipe:
            for i, (field, text) in enumerate([("short", "1 2"), (f"{1:016x}", "x"), (f"{2:016x}", "-1 5")]):
                pipe.hset(PAUSES[0], field, text)
                pipe.zadd(PAUSES[1], {field: version + 1 + i})
            pipe.hset(HEAD, "pauses", f"{version + 3:.0f}").execute()
        for node in nodes:
            wait_for(lambda: metric(node, "ration_fleet_pauses_refused_total") == 2, "two refused")
            node.logged(" event=fleet.pauses_refused ")
        client.delete(PAUSES[0])
        client.set(PAUSES[0], "mine")
        nodes[0].pause("b", 3600)
        assert "WRONGTYPE" in nodes[0].logged(" event=fleet.pauses_failed ")
        assert nodes[0].rest("b") > 0
        client.delete(PAUSES[0])
        all_at(nodes, "b", True)


def test_nothing_paused_causes_no_traffic(tmp_path):
    with RedisServer(tmp_path) as server, server.client().monitor() as monitor, Node(tmp_path, "one", server.url):
        polls, [ours, poll] = 0, [embed.hashlib.sha1(embed.assemble(name).encode()).hexdigest()
                                  for name in ("fleet_pauses", "fleet_poll")]
        while polls < 4:
            words = [*monitor.next_command()["command"].split(), "", ""][:2]
            assert words != ["EVALSHA", ours]
            polls += words == ["EVALSHA", poll]


def test_pauses_are_shared_through_a_cluster(tmp_path):
    with RedisCluster(tmp_path) as cluster, \
         Node(tmp_path, "one", cluster.url()) as one, Node(tmp_path, "two", cluster.url()) as two:
        one.pause("a", 3600)
        all_at([one, two], "a", True)
        two.lift("a")
        all_at([one, two], "a", False)


def test_many_pauses_arrive(tmp_path):
    with fleet(tmp_path, 2) as (_, nodes):
        with nodes[0].resp() as resp:
            for i in range(1000):
                resp.send("RATION.PAUSE", f"key{i}", "10m")
            for _ in range(1000):
                assert resp.read() > 0
        with nodes[1].resp() as resp:
            def arrived():
                for i in range(1000):
                    resp.send("RATION.PAUSE", f"key{i}")
                return all([resp.read() > 0 for _ in range(1000)])
            wait_for(arrived, "1000 pauses")
