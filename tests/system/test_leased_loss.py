# SPDX-License-Identifier: Apache-2.0
"""Nodes with leases while Redis loses data: it is killed or flushed, or another server takes over
without the key. Together they admit no more than the limit, whether a node has noticed or not."""

import time

import pytest

from concurrent_clients import resp_allowed
from daemon import wait_for
from nodes import Nodes
from redis_cluster import RedisCluster
from redis_server import RedisServer
from test_leased_store import (  # noqa: F401 (a fixture)
    PATIENT, Node, admissions, excess, freeze, log_excess, no_node_is_left, wake, window_excess)


def restart_under_load(server, tmp_path, limit, algorithm):
    """Kills a Redis that keeps nothing, three times, while each node holds a part of all there
    is; all that was admitted, and what the nodes say of themselves."""
    log = tmp_path / "log"
    nodes = [Node(server.path, log, limit, algorithm).up() for _ in range(4)]
    time.sleep(1.5)
    for _ in range(3):
        server.stop()
        server.start()
        wait_for(lambda: server.client().keys("ration:*"))
        time.sleep(1.5)
    return admissions(log), [node.stop() for node in nodes]


def test_a_redis_that_was_killed_and_knows_nothing_mints_no_bucket(server, tmp_path):
    made, results = restart_under_load(server, tmp_path, "400 per second burst 1200", "token-bucket")
    assert excess(made, 1200, 400) <= 1
    assert all(r["here"] > 0 for r in results)


def test_a_redis_that_was_killed_and_knows_nothing_mints_no_window(server, tmp_path):
    made, results = restart_under_load(server, tmp_path, "2000 per 2s", "fixed-window")
    offset_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert window_excess(made, 2000, 2, offset_ns) <= 0
    assert all(r["here"] > 0 for r in results)


def state_keys(server):
    return server.client().keys("ration:{*}:[BWCL]:*")


def lose_under_load(server, tmp_path, limit, algorithm, lose):
    """Has states vanish behind the back of nodes that hold a part of them, three times."""
    log = tmp_path / "log"
    nodes = [Node(server.path, log, limit, algorithm).up() for _ in range(4)]
    for _ in range(3):
        time.sleep(1.5)
        lose(server.client())
    time.sleep(1.5)
    return admissions(log), [node.stop() for node in nodes]


def delete_states(client):
    client.delete(*client.keys("ration:{*}:[BWCL]:*"))


VANISHES = {"flushed": lambda client: client.flushall(), "deleted": delete_states}


@pytest.mark.parametrize("how", VANISHES)
def test_a_bucket_that_vanishes_unnoticed_is_not_minted(server, tmp_path, how):
    made, results = lose_under_load(server, tmp_path, "400 per second burst 1200", "token-bucket", VANISHES[how])
    assert excess(made, 1200, 400) <= 1
    assert len(made) > 1200 and all(r["here"] > 0 for r in results)


def test_a_window_that_vanishes_with_all_others_is_not_minted(server, tmp_path):
    made, results = lose_under_load(server, tmp_path, "2000 per 2s", "fixed-window", VANISHES["flushed"])
    offset_ns = time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert window_excess(made, 2000, 2, offset_ns) <= 0
    assert all(r["here"] > 0 for r in results)


def test_a_log_that_vanishes_with_all_others_is_not_minted(server, tmp_path):
    made, results = lose_under_load(server, tmp_path, "1000 per second", "sliding-log", VANISHES["flushed"])
    assert log_excess(made, 1000, 1) <= 0
    assert all(r["here"] > 0 for r in results)


def start_behind_a_loss(server, tmp_path, lose):
    """Nodes with leases are stopped while states are lost, and the first node to ask for a missing
    key has never held a lease of it."""
    log, limit = tmp_path / "log", "400 per second burst 1200"
    nodes = [Node(server.path, log, limit, depth=16, pace=50).up() for _ in range(2)]
    time.sleep(3)
    freeze(*nodes)
    lose()
    greedy = Node(server.path, log, limit, depth=64, pace=0, mode="cold").up()
    wait_for(lambda: state_keys(server))
    wake(*nodes)
    time.sleep(1)
    greedy.kill()
    for node in nodes:
        node.stop()
    return admissions(log)


def test_a_node_that_starts_after_a_flush_admits_no_more(server, tmp_path):
    assert excess(start_behind_a_loss(server, tmp_path, server.client().flushall), 1200, 400) <= 1


def test_a_node_that_starts_after_a_restart_from_an_old_file_does_not_mint(tmp_path):
    """Redis comes back with what it had saved before the key was."""
    with RedisServer(tmp_path) as server:
        Node(server.path, tmp_path / "other", "100 per second", key=8, count=50).result()
        server.client().save()

        def restart():
            server.stop()
            server.start()

        assert excess(start_behind_a_loss(server, tmp_path, restart), 1200, 400) <= 1


def test_a_store_that_was_never_used_starts_full(server, tmp_path):
    log = tmp_path / "log"
    Node(server.path, log, "1000 per second", count=300, depth=64, pace=0, deadline_ms=PATIENT).result()
    assert len(admissions(log)) == 300


def test_a_replica_that_takes_over_without_the_key_mints_no_bucket(tmp_path):
    """Its master is killed, and it has heard of nothing."""
    log, limit = tmp_path / "log", "200 per second burst 1200"
    with RedisCluster(tmp_path, ["--replica-read-only", "no"]) as cluster:
        nodes = [Node(cluster.url(), log, limit).up() for _ in range(2)]
        wait_for(lambda: len(admissions(log)) > 1200)
        master = next(m for m in cluster.masters() if m.client().keys("ration:{*}:B:*"))
        replica = cluster.replica_of(master)
        cluster.fail_over(soon=True)
        master.stop()
        replica.client().flushall()
        wait_for(lambda: replica.client().keys("ration:{*}:B:*"))
        time.sleep(1.5)
        results = [node.stop() for node in nodes]
    assert excess(admissions(log), 1200, 200) <= 1
    assert all(r["here"] > 0 for r in results)


def test_a_master_that_is_emptied_mints_no_bucket(tmp_path):
    log, limit = tmp_path / "log", "200 per second burst 1200"
    with RedisCluster(tmp_path) as cluster:
        nodes = [Node(cluster.url(), log, limit).up() for _ in range(2)]
        for _ in range(2):
            time.sleep(2)
            next(m for m in cluster.masters() if m.client().keys("ration:{*}:B:*")).client().flushall()
        time.sleep(1.5)
        results = [node.stop() for node in nodes]
    assert excess(admissions(log), 1200, 200) <= 1
    assert all(r["here"] > 0 for r in results)


def test_keys_of_a_cluster_that_was_never_used_start_full(tmp_path):
    log, keys = tmp_path / "log", 64
    with RedisCluster(tmp_path) as cluster:
        Node(cluster.url(), log, "1000 per second", key=f"*{keys}", count=10 * keys, depth=64, pace=0,
             deadline_ms=PATIENT).result()
        histories = sum(len(m.client().keys("ration:{*}:history")) for m in cluster.masters())
    assert len(admissions(log)) == 10 * keys
    assert histories == 64


TRIES = 4  # the nodes may be slow to find out, on a machine that has other things to do
FRESH = """
limits:
  - { name: api, key: user, limit: 10 per 10s, consistency: leased, on_store_failure: refuse }
"""


def ask_each(node, users):
    """The clients that are refused."""
    with node.resp() as resp:
        for user in users:
            resp.send("RATION.CHECK", "user", user)
        return [user for user in users if not resp_allowed(resp.read())]


def test_clients_long_after_a_flush_are_not_refused(tmp_path):
    """Nobody has asked for their tags meanwhile: the nodes find out by themselves."""
    with RedisCluster(tmp_path) as cluster, \
            Nodes(tmp_path, FRESH, [cluster.url()] * 2, ["--redis-deadline", "5s"]) as nodes:
        for number in range(2):
            for attempt in range(TRIES):
                cluster.masters()[number].client().flushall()
                time.sleep(2.5)
                refused = ask_each(nodes[number], [f"{number}-{attempt}-{i}" for i in range(300)])
                if not refused:
                    break
            assert refused == []
