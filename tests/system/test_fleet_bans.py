# SPDX-License-Identifier: Apache-2.0
"""Bans that rules with `escalate` begin hold on all nodes that share a Redis, and so do lifts."""

import contextlib
import signal
import time

import pytest
import redis

from daemon import ROOT, Daemon, free_port, wait_for
from nodes import metric
from redis_cluster import RedisCluster
from redis_server import RedisServer, embed

DOCS = ROOT / "docs" / "distributed.md"
BANS = "ration:{fleet}:bans"
RULES = """
limits:
  - name: login
    when: { path: /login }
    key: ip
    limit: 0 per second
    escalate: { after: 2 refusals within 1h, ban: 1h, grow: 2x, up_to: 24h }
  - name: brief
    when: { path: /brief }
    key: ip
    limit: 0 per second
    escalate: { after: 1 refusals within 1h, ban: 1s, grow: 100x }
  - name: flood
    when: { path: /flood }
    key: ip
    limit: 0 per second
    escalate: { after: 1 refusals within 1h, ban: 2h }
"""


class Node(Daemon):
    def __init__(self, folder, name, url, rules=RULES, state=True, memory="8M"):
        folder = folder / name
        folder.mkdir(exist_ok=True)
        options = ["--workers", 1, "--memory", memory, "--redis", url]
        if state:
            options += ["--state", folder / "state"]
        super().__init__(folder, rules, options)

    def ask(self, ip, path):
        return self.http("POST", "/v1/check", {"attributes": {"ip": ip, "path": path}}).json

    def ban(self, ip, path="/login"):
        """Until the rule bans it, or bans it again: what is refused as Redis was slow does not count."""
        before = self.record(ip, path)["level"]

        def offend():
            assert not self.ask(ip, path)["allowed"]
            return self.record(ip, path)["level"] > before
        wait_for(offend, "a ban")

    def record(self, ip, path="/login"):
        """What the rule keeps of the client."""
        state = self.admin("GET", f"/v1/state?ip={ip}&path={path}").json
        return state["reputation"][0]["escalate"]

    def level(self, ip, path="/login"):
        """Of the ban in force; 0: none."""
        record = self.record(ip, path)
        return record["level"] if record["banned"] else 0

    def lift(self, ip, path="/login"):
        return self.admin("DELETE", "/v1/reputation", {"attributes": {"ip": ip, "path": path}}).json["lifted"]

    def banned(self):
        """How many."""
        return metric(self, "ration_reputation_banned")

    def count_logged(self, text):
        return sum(text in line for line in self.log)


@contextlib.contextmanager
def fleet(folder, count=3, **options):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder))
        yield server, [stack.enter_context(Node(folder, f"node{i}", server.url, **options)) for i in range(count)]


def all_at(nodes, ip, level, path="/login"):
    return wait_for(lambda: [node.level(ip, path) for node in nodes] == [level] * len(nodes), f"level {level} of {ip}")


def rounds(nodes, count=2):
    """Until each node has exchanged its bans so many times more."""
    for node in nodes:
        wait_for(lambda: "ration_fleet_synced 1" in node.admin("GET", "/metrics").text, "synced")
    time.sleep(0.3 * count)


def test_a_ban_holds_on_all_nodes_and_a_lift_too(tmp_path):
    with fleet(tmp_path) as (server, nodes):
        nodes[0].ban("192.0.2.1")
        all_at(nodes, "192.0.2.1", 1)
        for node in nodes[1:]:
            assert 3500 < node.record("192.0.2.1")["ends_after"] <= 3600
            assert node.ask("192.0.2.1", "/login")["level"] == 1
        assert nodes[2].lift("192.0.2.1") == 1
        all_at(nodes, "192.0.2.1", 0)
        # The client is as new, and what it earns from now on counts.
        nodes[1].ban("192.0.2.1")
        all_at(nodes, "192.0.2.1", 1)
        assert sum(metric(node, "ration_fleet_bans_published_total") for node in nodes) == 3
        assert metric(nodes[0], "ration_fleet_bans_taken_total") >= 2
        with Node(tmp_path, "late", server.url) as late:
            all_at([late], "192.0.2.1", 1)
            nodes[0].lift("192.0.2.1")
            all_at([*nodes, late], "192.0.2.1", 0)
        with Node(tmp_path, "later", server.url) as later:
            rounds([later])
            assert later.level("192.0.2.1") == 0


def test_levels_grow_from_node_to_node(tmp_path):
    with fleet(tmp_path, 2) as (_, nodes):
        nodes[0].ban("192.0.2.1", "/brief")
        wait_for(lambda: nodes[1].record("192.0.2.1", "/brief")["level"] == 1, "the first level")
        wait_for(lambda: nodes[1].level("192.0.2.1", "/brief") == 0, "its end")
        nodes[1].ban("192.0.2.1", "/brief")
        all_at(nodes, "192.0.2.1", 2, "/brief")


@contextlib.contextmanager
def in_the_way(client, nodes):
    """Something of another type has the name of the key: no node can exchange bans."""
    with client.pipeline(transaction=True) as pipe:
        if client.exists(BANS):
            pipe.rename(BANS, BANS + ":aside")
        pipe.set(BANS, "mine").execute()
    for node in nodes:
        node.logged(" event=fleet.bans_failed ")
    yield
    with contextlib.suppress(redis.ConnectionError), client.pipeline(transaction=True) as pipe:
        pipe.delete(BANS)
        if client.exists(BANS + ":aside"):
            pipe.rename(BANS + ":aside", BANS)
        pipe.execute()


@pytest.mark.parametrize("how", ["frozen", "emptied"])
def test_nodes_go_on_without_redis_and_agree_afterwards(tmp_path, how):
    with fleet(tmp_path) as (server, nodes):
        for ip in ("192.0.2.1", "192.0.2.2"):
            nodes[0].ban(ip)
            all_at(nodes, ip, 1)
        with in_the_way(server.client(), nodes):
            nodes[1].ban("192.0.2.3")
            nodes[2].lift("192.0.2.2")  # and banned again afterwards
            nodes[2].ban("192.0.2.2")
            server.process.send_signal(signal.SIGSTOP if how == "frozen" else signal.SIGKILL)
            for node in nodes:
                node.logged(" event=fleet.disconnected ")
            nodes[1].lift("192.0.2.1")  # which node 0 has banned
            assert [node.level("192.0.2.1") for node in nodes] == [1, 0, 1]
            assert [node.level("192.0.2.3") for node in nodes] == [0, 1, 0]
            if how == "frozen":
                server.process.send_signal(signal.SIGCONT)
            else:
                server.process.wait()
                server.start()
        all_at(nodes, "192.0.2.1", 0)
        all_at(nodes, "192.0.2.3", 1)
        all_at(nodes, "192.0.2.2", 1)
        rounds(nodes)
        assert [[node.level(f"192.0.2.{i}") for node in nodes] for i in (1, 2, 3)] == [[0] * 3, [1] * 3, [1] * 3]
        with Node(tmp_path, "late", server.url) as late:
            wait_for(lambda: [late.level(f"192.0.2.{i}") for i in (1, 2, 3)] == [0, 1, 1], "what is in force")


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_lift_reaches_a_node_that_was_away_and_stays(tmp_path, how):
    with fleet(tmp_path, 2) as (server, nodes):
        nodes[0].ban("192.0.2.1")
        all_at(nodes, "192.0.2.1", 1)
        nodes[0].kill() if how == "killed" else nodes[0].freeze()
        nodes[1].lift("192.0.2.1")
        wait_for(lambda: server.client().hvals(BANS)[0].startswith(b"0 "), "the lift in Redis")
        if how == "killed":
            nodes[0].start()  # with its records, and its ring of bans
        else:
            nodes[0].thaw()
        all_at(nodes, "192.0.2.1", 0)
        rounds(nodes)
        assert [node.level("192.0.2.1") for node in nodes] == [0, 0]


def test_a_flood_of_bans_arrives_and_is_bounded(tmp_path):
    # With less memory, one run in ten has a group of nine clients, and loses a ban.
    with fleet(tmp_path, 2, memory="64M") as (server, nodes):
        def flood(start, count):
            """All of these clients are banned after it."""
            with nodes[0].resp() as resp:
                def again():
                    for i in range(start, start + count):
                        resp.send("RATION.CHECK", "ip", f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", "path", "/flood")
                    for _ in range(count):
                        resp.read()
                    return nodes[0].banned() >= start + count

                wait_for(again, f"{start + count} bans")

        flood(0, 2000)
        wait_for(lambda: nodes[1].banned() == 2000, "2000 bans")
        with in_the_way(server.client(), nodes):
            flood(2000, 6000)  # more than the ring holds
        wait_for(lambda: nodes[1].banned() >= 2000 + 4000, "the last 4096")
        assert nodes[1].banned() <= 8000 == nodes[0].banned()
        nodes[0].ban("192.0.2.1")
        all_at(nodes, "192.0.2.1", 1)


GARBAGE = ["", "x", "1 2", "1 2 3 4", "-1 2 3", "99 1 99999999999999999", "1 nan 5", "\0" * 40]


def test_what_is_forged_bans_nobody_for_longer_than_the_rule(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        nodes[0].ban("192.0.2.1")
        all_at(nodes, "192.0.2.1", 1)
        client = server.client()
        name = client.hkeys(BANS)[0].decode()
        now = int(client.time()[0]) * 10**6
        version = float(client.hget("ration:{fleet}:head", "bans"))
        forged = [(f"{i:032x}", text) for i, text in enumerate(GARBAGE)]
        forged += [("short", f"1 {now} {now + 10**9}"), ("f" * 32, f"1 {now} {now + 10**9}"),
                   (name, f"31 {now} {now + 3 * 10**13}")]
        with client.pipeline(transaction=True) as pipe:
            for i, (field, text) in enumerate(forged):
                pipe.hset(BANS, field, text)
                pipe.zadd(BANS + ":order", {field: version + 1 + i})
            pipe.hset("ration:{fleet}:head", "bans", f"{version + len(forged):.0f}")
            pipe.execute()
        for node in nodes:
            wait_for(lambda: node.level("192.0.2.1") > 1, "the forged level")
            assert node.record("192.0.2.1")["ends_after"] <= 24 * 3600
            assert metric(node, "ration_fleet_bans_refused_total") == len(GARBAGE) + 1
            node.logged(" event=fleet.bans_refused ")
            assert node.count_logged("event=fleet.bans_refused ") == 1
        assert nodes[1].lift("192.0.2.1") == 1
        all_at(nodes, "192.0.2.1", 0)


def test_a_key_of_another_type_stops_only_these_bans(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        client = server.client()
        client.set(BANS, "mine")
        nodes[0].ban("192.0.2.1")
        for node in nodes[:1]:
            assert "WRONGTYPE" in node.logged(" event=fleet.bans_failed ")
        override = {"rule": "login", "attributes": {"ip": "192.0.2.9"}, "limit": "5 per hour"}
        assert nodes[0].admin("PUT", "/v1/overrides", override).status in (200, 201)
        wait_for(lambda: nodes[1].admin("GET", "/v1/state?ip=192.0.2.9&path=/login").json["limits"][0]["limit"] == 5,
                 "the override")
        assert nodes[0].count_logged("event=fleet.bans_failed ") == 1
        client.delete(BANS)
        all_at(nodes, "192.0.2.1", 1)


def test_the_documented_rights_are_enough(tmp_path):
    lines = [line for line in DOCS.read_text().splitlines() if line.startswith("ACL SETUSER")]
    port = free_port()
    with RedisServer(tmp_path, port=port) as server:
        for line in lines:
            server.client().execute_command(*line.replace("PASSWORD", "secret").split())
        url, rules = f"redis://ration:secret@127.0.0.1:{port}", RULES + "    usage: true\n"
        with Node(tmp_path, "one", url, rules) as one, Node(tmp_path, "two", url, rules) as two:
            one.ban("192.0.2.1", "/flood")
            all_at([one, two], "192.0.2.1", 1, "/flood")
            two.lift("192.0.2.1", "/flood")
            all_at([one, two], "192.0.2.1", 0, "/flood")
            wait_for(lambda: two.admin("GET", "/v1/usage").json["usage"], "usage")
            for node in (one, two):
                assert not any(node.count_logged(event) for event in
                               ("fleet.disconnected", "fleet.bans_", "fleet.usage_"))


def test_rules_without_escalate_cause_no_traffic(tmp_path):
    plain = "limits: [{name: a, key: ip, limit: 5 per second}]"
    with RedisServer(tmp_path) as server, server.client().monitor() as monitor, \
         Node(tmp_path, "one", server.url, rules=plain):
        polls, ours = 0, {embed.hashlib.sha1(embed.assemble(name).encode()).hexdigest()
                          for name in ("fleet_bans", "fleet_usage", "fleet_usage_read")}
        poll = embed.hashlib.sha1(embed.assemble("fleet_poll").encode()).hexdigest()
        while polls < 4:
            words = [*monitor.next_command()["command"].split(), "", ""][:2]
            assert words[1] not in ours or words[0] != "EVALSHA"
            polls += words == ["EVALSHA", poll]


def test_bans_are_shared_through_a_cluster(tmp_path):
    with RedisCluster(tmp_path) as cluster, \
         Node(tmp_path, "one", cluster.url()) as one, Node(tmp_path, "two", cluster.url()) as two:
        one.ban("192.0.2.1")
        all_at([one, two], "192.0.2.1", 1)
        two.lift("192.0.2.1")
        all_at([one, two], "192.0.2.1", 0)
