# SPDX-License-Identifier: Apache-2.0
"""`scope: fleet`: what the signals of one node ask for holds on all nodes that share its Redis."""

import contextlib
import signal
import time

import pytest

from daemon import PATIENCE, Daemon
from redis_cluster import RedisCluster
from redis_server import RedisServer

FACTORS = "ration:{fleet}:factors"
RULES = """
signals:
  backlog: { source: push, expires: 10m }
  rest:    { source: push, expires: 10m }
limits:
  - name: api
    key: user
    limit: 100 per hour
    adapt:
      - { when: backlog above 1000, to: 50%, restore: { for: 1s, by: 25%, every: 1s }, scope: fleet }
      - { when: rest below 0, to: 20%, restore: { for: 1s, by: 40%, every: 1s } }
    elastic: { up_to: 150%, while: rest above 10, for: 1s, by: 50%, every: 1s }
  - name: plain
    key: ip
    limit: 100 per hour
"""
# Not restored while a test looks, however slow the machine is.
SLOW = RULES.replace("for: 1s, by: 25%, every: 1s", "for: 2h, by: 25%, every: 2h")


def wait(what, true):
    until = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < until, f"not in time: {what}"
        time.sleep(0.01)


class Node(Daemon):
    def __init__(self, folder, name, server, rules=RULES, options=(), state=False):
        folder = folder / name
        folder.mkdir(exist_ok=True)
        options = ["--workers", 1, "--resp", "none", *options]
        if state:
            options += ["--state", folder / "state"]
        if server:
            options += ["--redis", server.url]
        super().__init__(folder, rules, options)

    def push(self, value, name="backlog"):
        assert self.admin("PUT", f"/v1/signals/{name}", {"value": value}).status == 200

    def signals(self):
        return self.admin("GET", "/v1/signals").json

    def row(self):
        return next(row for row in self.signals()["factors"] if row["rule"] == "api")

    def factor(self):
        return self.row()["factor"]

    def limit(self):
        return self.http("POST", "/v1/check", {"attributes": {"user": "ann"}, "cost": 0}).json["limit"]

    def count_logged(self, text):
        return sum(text in line for line in self.log)


@contextlib.contextmanager
def fleet(folder, count=3, **options):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder))
        yield server, [stack.enter_context(Node(folder, f"node{i}", server, **options))
                       for i in range(count)]


def all_at(nodes, factor):
    return lambda: [node.factor() for node in nodes] == [factor] * len(nodes)


def test_one_node_lowers_all_and_all_are_restored_with_it(tmp_path):
    with fleet(tmp_path) as (_, nodes):
        nodes[0].push(5000)
        wait("lowered", all_at(nodes, 0.5))
        assert [node.limit() for node in nodes] == [50] * 3
        # The nodes say which one asks.
        name = nodes[0].signals()["node"]
        for node in nodes[1:]:
            assert node.row()["fleet"] == {"factor": 0.5, "node": name}
            assert 'ration_rule_fleet_factor{rule="api"} 0.5' in node.admin("GET", "/metrics").text
            assert "signal=fleet value=50% node=" + name in node.logged(" event=factor.changed ")
        assert nodes[0].row()["fleet"] == {"factor": 1}
        # Its own signals are calm on node 1, which changes nothing.
        nodes[1].push(1)
        nodes[0].push(1)
        wait("restored", all_at(nodes, 1))
        assert nodes[2].row()["fleet"] == {"factor": 1}
        for node in nodes[1:]:
            assert node.count_logged("from_percent=50 to_percent=75 signal=fleet value=75%") >= 1


def test_the_lowest_of_all_nodes_counts_and_a_signal_of_scope_node_stays_at_home(tmp_path):
    with fleet(tmp_path, rules=SLOW) as (_, nodes):
        nodes[0].push(5000)
        nodes[1].push(-1, "rest")
        wait("lowered", lambda: [n.factor() for n in nodes] == [0.5, 0.2, 0.5])
        nodes[1].push(1, "rest")  # restored to what node 0 asks for, and no further
        wait("restored", all_at(nodes, 0.5))
        nodes[2].push(5000)
        wait("both ask", lambda: nodes[0].row()["fleet"]["factor"] == 0.5)
        assert all_at(nodes, 0.5)()


def test_a_surplus_lasts_while_no_node_asks_for_less(tmp_path):
    with fleet(tmp_path) as (_, nodes):
        for node in nodes:
            node.push(11, "rest")
        wait("surplus", all_at(nodes, 1.5))
        nodes[2].push(5000)
        wait("lowered", all_at(nodes, 0.5))
        nodes[2].push(1)
        wait("surplus again", all_at(nodes, 1.5))


@pytest.mark.parametrize("how", ["killed", "frozen", "stopped"])
def test_the_word_of_a_node_ends_with_it(tmp_path, how):
    with fleet(tmp_path) as (server, nodes):
        nodes[0].push(5000)
        wait("lowered", all_at(nodes, 0.5))
        {"killed": nodes[0].kill, "frozen": nodes[0].freeze, "stopped": nodes[0].stop}[how]()
        wait("restored", all_at(nodes[1:], 1))
        # In steps: nobody jumped.
        for node in nodes[1:]:
            assert node.count_logged("from_percent=50 to_percent=100") == 0, "".join(node.log)
            assert node.count_logged("from_percent=50 to_percent=75 signal=fleet") >= 1
        wait("forgotten", lambda: server.client().hlen(FACTORS) == 2)
        if how == "frozen":
            nodes[0].thaw()
            wait("lowered again", all_at(nodes, 0.5))


def test_a_node_that_starts_finds_what_the_others_ask_for(tmp_path):
    with fleet(tmp_path, 2, rules=SLOW, state=True) as (server, nodes):
        nodes[0].push(5000)
        wait("lowered", all_at(nodes, 0.5))
        with Node(tmp_path, "late", server, rules=SLOW) as late:
            wait("lowered", all_at([late], 0.5))
        nodes[1].kill()
        with Node(tmp_path, "node1", server, rules=SLOW, state=True) as again:
            assert again.factor() == 0.5  # from its state
            # It asks for nothing itself: the 50 % are those of the other node.
            wait("heard", lambda: again.row().get("fleet", {}).get("factor") == 0.5)
            said = again.signals()["node"].rpartition("/")[2]
            wait("said", lambda: b"\n100 api\n" in (server.client().hget(FACTORS, said) or b""))


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_without_redis_a_node_follows_its_own_signals_and_what_it_heard_ends(tmp_path, how):
    with fleet(tmp_path, 2) as (server, nodes):
        for node in nodes:
            node.push(11, "rest")
        wait("surplus", all_at(nodes, 1.5))
        nodes[0].push(5000)
        wait("lowered", all_at(nodes, 0.5))
        server.process.send_signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
        wait("restored", all_at(nodes[1:], 1))
        assert nodes[1].count_logged("from_percent=50 to_percent=100") == 0
        assert nodes[0].factor() == 0.5
        # There is no surplus while the others are unknown.
        assert "fleet" not in nodes[1].row() and nodes[1].factor() == 1
        nodes[1].push(5000)
        wait("lowered by its own", all_at(nodes, 0.5))
        if how == "frozen":
            server.process.send_signal(signal.SIGCONT)
            wait("heard", lambda: nodes[1].row().get("fleet", {}).get("factor") == 0.5)
            for node in nodes:
                node.push(1)
            wait("surplus", all_at(nodes, 1.5))


def test_a_flush_of_redis_changes_nothing_for_long(tmp_path):
    with fleet(tmp_path, rules=SLOW) as (server, nodes):
        nodes[0].push(5000)
        wait("lowered", all_at(nodes, 0.5))
        server.client().flushall()
        wait("said again", lambda: server.client().hlen(FACTORS) == 3)
        wait("heard", lambda: nodes[2].row().get("fleet", {}).get("factor") == 0.5)
        assert all_at(nodes, 0.5)()


GARBAGE = [b"", b"2 later\n10 api\n", b"1 a machine\n10 api\n", b"1 m\n0 api\n", b"1 m\n1000000000000 api\n",
           b"1 m\n-5 api\n", b"1 m\n10api\n", b"1 m\n10\n", b"1 m\nnan api\n", b"\x00\xff" * 100,
           b"1 m\n101 api\n", b"1 " + b"x" * 500 + b"\n10 api\n"]


def test_garbage_in_redis_is_refused_and_moves_no_factor(tmp_path):
    with fleet(tmp_path, 2, rules=SLOW) as (server, nodes):
        nodes[0].push(5000)
        wait("lowered", all_at(nodes, 0.5))
        client = server.client()
        soon = (time.time() + 3600) * 1e6
        for i, text in enumerate(GARBAGE):
            client.zadd("ration:{fleet}:nodes", {b"%016x" % i: soon})
            client.hset(FACTORS, b"%016x" % i, text)
        client.zadd("ration:{fleet}:nodes", {"short": soon})
        client.hset(FACTORS, "short", b"1 m\n1 api\n")
        for node in nodes:
            node.logged(" event=fleet.factors_refused ")
        assert all_at(nodes, 0.5)()
        # What is well-formed beside it still counts, and rules of others are no mistake.
        client.hset(FACTORS, b"%016x" % 0, b"1 m\n30 other\nx\n50 api\n")
        client.delete(FACTORS)
        client.set(FACTORS, "another type")
        for node in nodes:
            node.logged(" event=fleet.factors_failed ")
        assert all_at(nodes, 0.5)()
        client.delete(FACTORS)
        wait("heard again", lambda: nodes[1].row().get("fleet", {}).get("factor") == 0.5)
        # Nothing else that nodes share has suffered.
        assert not any("fleet.disconnected" in line and "WRONGTYPE" in line for node in nodes for line in node.log)


def test_a_reload_without_the_scope_takes_the_word_back(tmp_path):
    with fleet(tmp_path, 2, options=["--redis-changes", "false"]) as (server, nodes):
        nodes[0].push(5000)
        wait("lowered", all_at(nodes, 0.5))
        rules = RULES.replace(", scope: fleet", "")
        assert nodes[0].admin("PUT", "/v1/rules", rules).status == 200
        wait("taken back", lambda: server.client().hlen(FACTORS) == 1)
        wait("restored", all_at(nodes[1:], 1))
        assert nodes[0].factor() == 0.5 and "fleet" not in nodes[0].row()


def test_in_a_cluster(tmp_path):
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(RedisCluster(tmp_path))
        options = ["--redis", cluster.url()]
        nodes = [stack.enter_context(Node(tmp_path, f"node{i}", None, options=options)) for i in range(3)]
        nodes[1].push(5000)
        wait("lowered", all_at(nodes, 0.5))
        nodes[1].push(1)
        wait("restored", all_at(nodes, 1))


def test_without_redis_a_warning_says_what_to_do(tmp_path):
    with Node(tmp_path, "alone", None) as node:
        line = node.logged(" event=rules.no_fleet ")
        assert "rule=api" in line and "--redis" in line and "scope: node" in line
        node.push(5000)
        wait("lowered", all_at([node], 0.5))
        node.push(1)
        wait("restored", all_at([node], 1))
        assert node.count_logged("event=rules.no_fleet") == 1
