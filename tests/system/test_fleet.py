# SPDX-License-Identifier: Apache-2.0
"""Set once, everywhere: a change on one node of a fleet applies to all of them.

Each test prints how long it took for a change to be in force on the last node.
"""

import contextlib
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import pytest

from admin_port import pages
from daemon import BUILD, PATIENCE, ROOT, Daemon, free_port
from redis_cluster import RedisCluster
from redis_server import RedisServer

DOCS = ROOT / "docs" / "distributed.md"

RULES = """
limits:
  - name: api
    key: api_key
    limit: 10 per minute
"""
OTHER_RULES = RULES.replace("10 per minute", "77 per minute")


def wait(what, true, patience=PATIENCE):
    """Until `true()` is; returns the seconds that took."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < patience, f"not in time: {what}"
        time.sleep(0.005)
    took = time.monotonic() - begun
    print(f"{what}: {took * 1000:.0f} ms")
    return took


class Node(Daemon):
    """A rationd of the fleet, with its own folder."""

    def __init__(self, folder, name, server, rules=RULES, options=(), state=False):
        folder = pathlib.Path(folder) / name
        folder.mkdir()
        if state:
            options = ["--state", folder / "state", *options]
        if server:
            options = ["--redis", server.url, *options]
        super().__init__(folder, rules, ["--workers", 1, "--resp", "none", *options])

    def limit(self, key):
        """The limit that a client has here."""
        return self.admin("GET", f"/v1/state?api_key={key}").json["limits"][0]["limit"]

    def set(self, key, limit, **more):
        answer = self.admin("PUT", "/v1/overrides", {"rule": "api", "attributes": {"api_key": key},
                                                     "limit": limit, **more})
        assert answer.status == 200, answer

    def delete(self, key):
        answer = self.admin("DELETE", "/v1/overrides", {"rule": "api",
                                                        "attributes": {"api_key": key}})
        assert answer.json == {"deleted": True}

    def ban(self, ip, **more):
        assert self.admin("PUT", "/v1/bans", {"attributes": {"ip": ip}, **more}).status == 200

    def unban(self, ip):
        assert self.admin("DELETE", "/v1/bans", {"attributes": {"ip": ip}}).json["deleted"]

    def is_banned(self, ip):
        answer = self.http("POST", "/v1/check", {"attributes": {"ip": ip}}).json
        return bool(answer.get("banned"))

    def overrides(self):
        return {o["attributes"]["api_key"]: o["limit"]
                for o in self.admin("GET", "/v1/overrides").json["overrides"]}

    def source(self):
        return self.admin("GET", "/v1/rules").json["source"]

    def count_logged(self, event):
        return sum(event in line for line in self.log)


@contextlib.contextmanager
def fleet(tmp_path, count=3, **options):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(tmp_path))
        nodes = [stack.enter_context(Node(tmp_path, f"node{i}", server, **options))
                 for i in range(count)]
        yield server, nodes


def all_have(nodes, key, limit):
    return lambda: all(node.limit(key) == limit for node in nodes)


def knows_when_it_is_ready(node, true):
    """Unless it says that it could not wait for Redis, on a very busy machine."""
    if node.count_logged("redis.unreached"):
        wait("known later", true)
    assert true()


def test_an_override_holds_everywhere_until_it_is_deleted(tmp_path):
    with fleet(tmp_path) as (_, nodes):
        nodes[0].set("k1", "1000 per minute", note="launch day")
        wait("override", all_have(nodes, "k1", 1000))
        assert nodes[2].admin("GET", "/v1/overrides").json["overrides"][0]["note"] == "launch day"
        # Any node may change it, or delete it.
        nodes[1].set("k1", "5 per minute")
        wait("changed", all_have(nodes, "k1", 5))
        nodes[2].delete("k1")
        wait("deleted", all_have(nodes, "k1", 10))


def test_a_change_is_in_force_everywhere_within_a_second(tmp_path):
    with fleet(tmp_path) as (_, nodes):
        took = []
        for i in range(9):
            nodes[i % 3].set("k1", f"{100 + i} per minute")
            took.append(wait("override", all_have(nodes, "k1", 100 + i)))
        # Not each of them: the machine may have other things to do.
        assert sorted(took)[len(took) // 2] < 1


def test_a_ban_holds_everywhere_until_it_is_lifted_or_over(tmp_path):
    with fleet(tmp_path) as (_, nodes):
        nodes[0].ban("192.0.2.7", reason="scraping")
        wait("ban", lambda: all(n.is_banned("192.0.2.7") for n in nodes))
        nodes[1].unban("192.0.2.7")
        wait("unban", lambda: not any(n.is_banned("192.0.2.7") for n in nodes))
        nodes[2].ban("192.0.2.8", **{"for": 4}) # in which a busy machine tells all of them
        wait("short ban", lambda: all(n.is_banned("192.0.2.8") for n in nodes))
        wait("its end", lambda: not any(n.is_banned("192.0.2.8") for n in nodes))
        wait("listed no more", lambda: not any(n.admin("GET", "/v1/bans").json["bans"]
                                               for n in nodes))


def test_rules_hold_everywhere_until_they_are_deleted_and_files_hold_again(tmp_path):
    with fleet(tmp_path) as (_, nodes):
        answer = nodes[0].admin("PUT", "/v1/rules", OTHER_RULES).json
        assert "on all nodes" in answer["note"]
        wait("rules", all_have(nodes, "k1", 77))
        assert [n.source() for n in nodes] == ["api"] * 3
        assert nodes[2].admin("GET", "/v1/rules").json["text"] == OTHER_RULES
        # Files that are read again do not win over what was said for all.
        nodes[1].reload()
        wait("reload", lambda: nodes[1].count_logged("rules.files_overridden"))
        answer = nodes[2].admin("POST", "/v1/rules/reload")
        assert answer.status == 200 and "stay in force" in answer.json["note"]
        assert all_have(nodes, "k1", 77)()
        assert nodes[1].admin("DELETE", "/v1/rules").status == 200
        wait("back to the files", all_have(nodes, "k1", 10))
        assert [n.source() for n in nodes] == ["file"] * 3


def test_rules_replaced_while_they_are_offered_are_offered_again(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        server.process.send_signal(signal.SIGSTOP)
        for limit in range(80, 83):
            nodes[0].admin("PUT", "/v1/rules", RULES.replace("10 per", f"{limit} per"))
        server.process.send_signal(signal.SIGCONT)
        wait("the last ones", all_have(nodes, "k1", 82))


def test_rules_that_a_node_cannot_load_are_refused_there_and_the_former_stay(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        client = server.client()
        nodes[0].admin("PUT", "/v1/rules", OTHER_RULES)
        wait("rules", all_have(nodes, "k1", 77))
        # As a later version of ration may publish it.
        value = client.hget("ration:{fleet}:values", "rules")
        later = b"%016d5%016d" % (int(value[:16]) + 1, 0) + b"limits: [{nome: api}]\n"
        client.hset("ration:{fleet}:values", "rules", later)
        version = int(client.hget("ration:{fleet}:head", "version")) + 1
        client.zadd("ration:{fleet}:items", {"rules": version})
        client.hset("ration:{fleet}:head", "version", version)
        wait("refused", lambda: all(n.count_logged("rules.refused by=fleet") for n in nodes))
        wait("told why", lambda: all(n.count_logged("nome") for n in nodes))
        assert all_have(nodes, "k1", 77)()
        nodes[1].admin("PUT", "/v1/rules", RULES.replace("10 per", "78 per"))
        wait("repaired", all_have(nodes, "k1", 78))


def test_concurrent_changes_of_different_entries_are_all_kept(tmp_path):
    with fleet(tmp_path) as (_, nodes):
        for i in range(10):
            for n, node in enumerate(nodes):
                node.set(f"k{n}-{i}", f"{100 * n + i + 1} per minute")
        wanted = {f"k{n}-{i}": f"{100 * n + i + 1} per minute" for n in range(3) for i in range(10)}
        wait("30 overrides", lambda: all(n.overrides() == wanted for n in nodes))
        # Of the same thing, the last change.
        for node in nodes:
            node.set("k", "1 per minute")
        nodes[1].set("k", "2 per minute")
        wait("agreed", all_have(nodes, "k", 2))


def test_a_change_while_redis_is_down_applies_here_and_everywhere_later(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        nodes[0].set("k1", "100 per minute")
        nodes[0].set("k2", "100 per minute")
        wait("override", all_have(nodes, "k2", 100))
        server.stop()
        wait("noticed", lambda: all(n.count_logged("fleet.disconnected") for n in nodes))
        assert all_have(nodes, "k1", 100)() # what is known stays
        nodes[0].set("k1", "101 per minute")
        nodes[0].delete("k2")
        nodes[0].ban("192.0.2.7")
        nodes[1].set("k1", "102 per minute") # later
        assert nodes[0].limit("k1") == 101 and nodes[1].limit("k1") == 102
        assert nodes[0].is_banned("192.0.2.7") and not nodes[1].is_banned("192.0.2.7")
        # Redis kept nothing: the nodes tell it.
        server.start()
        wait("together again", all_have(nodes, "k1", 102))
        wait("deleted", all_have(nodes, "k2", 10))
        wait("banned", lambda: nodes[1].is_banned("192.0.2.7"))
        with Node(tmp_path, "fresh", server) as fresh:
            knows_when_it_is_ready(fresh, lambda: fresh.overrides() == {"k1": "102 per minute"})
            knows_when_it_is_ready(fresh, lambda: fresh.is_banned("192.0.2.7"))


def test_a_redis_that_has_lost_its_last_changes_gets_them_back(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        client = server.client()
        nodes[0].set("k1", "100 per minute")
        wait("override", all_have(nodes, "k1", 100))
        before = {key: client.dump(key) for key in client.keys("ration:{fleet}:*")}
        nodes[0].set("k2", "100 per minute")
        nodes[1].delete("k1")
        wait("k1", all_have(nodes, "k1", 10))
        wait("k2", all_have(nodes, "k2", 100))
        # As a failover to a replica that lags behind.
        for key, value in before.items():
            client.restore(key, 0, value, replace=True)
        wait("given back", lambda: client.zcard("ration:{fleet}:items") == 2)
        with Node(tmp_path, "fresh", server) as fresh:
            wait("k2", all_have([fresh], "k2", 100))
            assert fresh.overrides() == {"k2": "100 per minute"}


def test_a_node_that_was_killed_knows_on_its_return_what_it_missed(tmp_path):
    with fleet(tmp_path, 2, state=True) as (server, nodes):
        nodes[0].set("k1", "100 per minute")
        nodes[0].set("k2", "100 per minute")
        nodes[0].admin("PUT", "/v1/rules", OTHER_RULES)
        wait("override", all_have(nodes, "k2", 100))
        wait("rules", all_have(nodes, "k3", 77))
        nodes[1].kill()
        nodes[0].delete("k1")
        nodes[0].set("k2", "200 per minute")
        wait("told", lambda: int(page(nodes[0])["ration_fleet_published_total"]) >= 5)
        nodes[1].start()
        knows_when_it_is_ready(nodes[1], lambda: [nodes[1].limit(k) for k in ("k1", "k2", "k3")] == [77, 200, 77])
        # Without Redis it goes by what it has kept, also the rules.
        server.stop()
        nodes[1].kill()
        nodes[1].start()
        assert nodes[1].count_logged("redis.unreached")
        assert [nodes[1].limit(k) for k in ("k1", "k2", "k3")] == [77, 200, 77]
        # A change that it accepts now survives a kill, and reaches the others at last.
        nodes[1].delete("k2")
        nodes[1].set("k4", "300 per minute")
        nodes[1].kill()
        nodes[1].start()
        server.start()
        wait("deleted", all_have(nodes, "k2", 77))
        wait("set", all_have(nodes, "k4", 300))


def test_a_node_with_another_secret_has_no_part_in_it(tmp_path):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(tmp_path))

        def node(name, secret):
            rules = RULES + f"server: {{redis_key_secret: {secret}}}\n"
            return stack.enter_context(Node(tmp_path, name, server, rules))

        nodes = [node("one", "blue"), node("two", "blue"), node("three", "green")]
        nodes[0].set("k1", "100 per minute")
        nodes[2].set("k2", "100 per minute")
        wait("override", all_have(nodes[:2], "k1", 100))
        wait("counted", lambda: [page(n)["ration_fleet_nodes"] for n in nodes] == ["2", "2", "0"])
        assert nodes[2].overrides() == {"k2": "100 per minute"}
        assert nodes[1].overrides() == {"k1": "100 per minute"}


def test_a_fleet_can_go_by_files_alone(tmp_path):
    with fleet(tmp_path, 2, options=["--redis-changes", "false"]) as (server, nodes):
        nodes[0].set("k1", "100 per minute")
        answer = nodes[0].admin("PUT", "/v1/rules", OTHER_RULES).json
        assert "until the next reload" in answer["note"]
        nodes[0].ban("192.0.2.7")
        # Nodes are counted all the same; that takes several rounds.
        client = server.client()
        wait("two nodes", lambda: client.zcard("ration:{fleet}:nodes") == 2)
        seen = client.zrange("ration:{fleet}:nodes", 0, -1, withscores=True)
        wait("another round", lambda: client.zrange("ration:{fleet}:nodes", 0, -1,
                                                    withscores=True) != seen)
        assert nodes[1].limit("k1") == 10 and not nodes[1].is_banned("192.0.2.7")
        assert client.keys("ration:{fleet}:items") == []


def test_nodes_that_stop_or_die_are_no_longer_counted(tmp_path):
    with fleet(tmp_path, 3) as (server, nodes):
        client = server.client()

        def count():
            return client.zcard("ration:{fleet}:nodes")

        wait("three", lambda: count() == 3)
        nodes[0].stop()
        assert count() == 2 # it said goodbye
        nodes[1].kill()
        wait("died", lambda: count() == 1)
        nodes[1].start()
        wait("back", lambda: count() == 2)


@pytest.fixture
def fast_folder():
    """Where a thousand synchronised writes cost nothing."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield pathlib.Path(folder)


def test_a_cluster_that_loses_the_master_of_the_changes_goes_on_with_its_replica(tmp_path):
    with RedisCluster(tmp_path) as cluster, contextlib.ExitStack() as stack:
        options = ["--redis", cluster.url()]
        nodes = [stack.enter_context(Node(tmp_path, name, None, options=options))
                 for name in ("one", "two")]
        nodes[0].set("k1", "100 per minute")
        wait("override", all_have(nodes, "k1", 100))
        slot = cluster.members[0].ask("KEYSLOT", "ration:{fleet}:head")
        master = cluster.owner(slot)
        master.client().execute_command("WAIT", 1, 1000 * PATIENCE)
        cluster.fail_over(soon=True)
        master.stop()
        nodes[1].set("k2", "100 per minute")
        nodes[0].delete("k1")
        wait("set during a failover", all_have(nodes, "k2", 100))
        wait("deleted", all_have(nodes, "k1", 10))
        assert len(cluster.owner(slot).client().keys("ration:{fleet}:*")) == 5


def page(node):
    """What a node tells of the fleet."""
    return dict(line.split() for line in node.admin("GET", "/metrics").text.splitlines()
                if line.startswith("ration_fleet_"))


def test_without_redis_each_node_admits_its_share(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        wait("counted", lambda: all(page(n)["ration_fleet_nodes"] == "2" for n in nodes))
        server.stop()
        wait("noticed", lambda: all(n.count_logged("fleet.disconnected") for n in nodes))
        for node in nodes: # ten in a minute, for two
            answers = [node.http("POST", "/v1/check", {"attributes": {"api_key": "k"}}).status
                       for _ in range(10)]
            assert answers == [200] * 5 + [429] * 5


def test_the_fleet_has_metrics(tmp_path):
    with fleet(tmp_path, 2) as (_, nodes):
        nodes[0].set("k1", "100 per minute")
        wait("override", all_have(nodes, "k1", 100))
        wait("counted", lambda: page(nodes[0])["ration_fleet_nodes"] == "2")
        wait("told", lambda: page(nodes[0])["ration_fleet_synced"] == "1")
        assert page(nodes[0])["ration_fleet_published_total"] == "1"
        assert page(nodes[1])["ration_fleet_taken_total"] == "1"
        documented = re.findall(r"^\| `(ration_fleet_\w+)` \|", (ROOT / "docs" / "metrics.md").read_text(),
                                re.M)
        assert sorted(documented) == sorted(page(nodes[0]))


def test_ten_thousand_overrides_reach_a_node_that_comes_later(tmp_path, fast_folder):
    subprocess.run([BUILD / "tests" / "set_overrides", "set", fast_folder / "state", "10000"], check=True,
                   stdout=subprocess.DEVNULL, timeout=PATIENCE)
    rules = "limits:\n  - { name: a, key: user, limit: 10 per hour }\n"
    with RedisServer(tmp_path) as server, \
         Node(tmp_path, "first", server, rules, ["--state", fast_folder / "state"]) as first:
        client = server.client()
        # Every third has a ban, too.
        wait("told", lambda: client.zcard("ration:{fleet}:items") == 13334)
        begun = time.monotonic()
        with Node(tmp_path, "second", server, rules, state=True) as second:
            wait("taken over", lambda: second.admin("GET", "/v1/state?user=9998").json["limits"][0]
                 .get("limit") == 20 + 9998)
            wait("to the last", lambda: sum(map(len, pages(second, "/v1/overrides", "overrides"))) == 10000)
            print(f"from its start: {time.monotonic() - begun:.2f} s")
            assert sum(map(len, pages(second, "/v1/bans", "bans"))) == 3334
            first.admin("DELETE", "/v1/overrides", {"rule": "a", "attributes": {"user": "9998"}})
            wait("deleted", lambda: second.admin("GET", "/v1/state?user=9998")
                 .json["limits"][0]["limit"] == 10)


def test_the_documented_rights_are_enough(tmp_path):
    lines = [line for line in DOCS.read_text().splitlines() if line.startswith("ACL SETUSER")]
    port = free_port()
    with RedisServer(tmp_path, port=port) as server:
        for line in lines:
            server.client().execute_command(*line.replace("PASSWORD", "secret").split())
        options = ["--redis", f"redis://ration:secret@127.0.0.1:{port}"]
        rules = "signals: {load: {source: push}}\n" + RULES + "    adapt: {when: load above 1, to: 50%, scope: fleet}\n"
        with Node(tmp_path, "one", None, rules, options) as one, \
             Node(tmp_path, "two", None, rules, options) as two:
            one.set("k1", "100 per minute", **{"for": 1000})
            wait("override", all_have([two], "k1", 100))
            two.delete("k1")
            wait("deleted", all_have([one], "k1", 10))
            assert one.admin("PUT", "/v1/signals/load", {"value": 2}).status == 200
            wait("factor", all_have([one, two], "k1", 5))
            for node in (one, two):
                assert not node.count_logged("fleet.disconnected") and not node.count_logged("fleet.factors_")
