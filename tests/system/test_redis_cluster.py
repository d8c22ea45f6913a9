# SPDX-License-Identifier: Apache-2.0
"""Nodes that share limits by a real Redis Cluster, while its masters die, step down and
hand over their slots: together they admit no more than the limit and what was lost with a master."""

import signal
import struct
import threading

import pytest

from daemon import wait_for
from redis_cluster import RedisCluster
from redis_node import Node, no_node_is_left  # noqa: F401 (a fixture)
from test_redis_store import DOCS

PLENTY, ENDLESS = "1000000 per 24h", 10**9
PATIENT = 50  # ms: on a busy machine, breakers then open for the servers that tests stop


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    with RedisCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def cluster(whole):
    """As at the beginning: every member is there, and nothing is stored."""
    yield whole
    for member in whole.members:
        if member.process.poll() is not None:
            member.start()
    whole.settle()
    for master in whole.masters():
        master.client().flushall()


def sums(results, *names):
    return [sum(result[name] for result in results) for name in names]


def calls(member, command="evalsha"):
    return member.client().info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


def spent(cluster):
    """What the keys of fixed windows hold, all together."""
    return sum(struct.unpack("<dd", client.get(key))[1]
               for client in (m.client() for m in cluster.masters()) for key in client.keys())


def assert_all_is_counted_once(cluster, results):
    """What was admitted, and besides at most what a node does not know the fate of."""
    admitted, lost, unanswered = sums(results, "allowed", "failed", "unanswered")
    assert admitted > 0 and admitted <= spent(cluster) <= admitted + lost + unanswered


def ended(nodes):
    """What came of nodes that would go on."""
    for node in nodes:
        node.process.send_signal(signal.SIGTERM)
    return [node.result() for node in nodes]


def assert_alone(stopped, others):
    """One was turned away from, and not the others: but for moments on a busy machine."""
    assert all(shard["turned_away"] < stopped["turned_away"] / 4 for shard in others)


def test_nodes_admit_exactly_what_the_limits_admit_wherever_the_keys_are(cluster):
    nodes = [Node(cluster.url(), "50 per 24h", key="*64", count=1500) for _ in range(4)]
    results = [node.result() for node in nodes]
    admitted, lost, refused = sums(results, "allowed", "failed", "refused")
    assert 64 * 50 - lost <= admitted <= 64 * 50
    assert admitted + lost + refused == 6000
    for result in results:
        assert all(shard["trips"] > 0 for shard in result["shards"].values())
        assert len(result["shards"]) == 3 and result["moved"] == 0


@pytest.mark.parametrize("algorithm", ["token-bucket", "sliding-log", "sliding-window"])
def test_of_two_limits_in_different_slots_both_are_charged_or_none(cluster, algorithm):
    # The second key is the one after the first: the last of a tag and the first of the next.
    key = (1 << 54) - 1
    nodes = [Node(cluster.url(), "1000 per 24h+300 per 24h", algorithm, key=key, count=400)
             for _ in range(2)]
    admitted, lost = sums([node.result() for node in nodes], "allowed", "failed")
    assert 300 - lost <= admitted <= 301
    wide = Node(cluster.url(), "1000 per 24h", algorithm, key=key, count=1100).result()
    assert 1000 - admitted - lost - wide["failed"] <= wide["allowed"] <= 1001 - admitted


def test_keys_of_one_tag_go_together_in_a_call(cluster):
    result = Node(cluster.url(), key="+1000", count=6400).result()
    assert result["allowed"] + result["failed"] == 6400
    assert result["calls"] < 6400 / 8


def test_one_seed_that_lives_is_enough(cluster):
    live = cluster.members[4].address  # a replica
    result = Node(f"redis+cluster://127.0.0.1:1,{live},127.0.0.1:2", key="*64", count=100).result()
    assert result["allowed"] + result["late"] == 100


def test_forgotten_scripts_are_sent_again_to_each_master(cluster):
    stop = threading.Event()

    def flush():
        while not stop.wait(0.005):
            for master in cluster.members[:3]:
                master.client().script_flush()

    thread = threading.Thread(target=flush)
    thread.start()
    result = Node(cluster.url(), "100 per 24h", key="*64", count=10000, depth=32).result()
    stop.set()
    thread.join()
    assert result["resent"] > 0 and result["mismatches"] == 0
    assert 6400 - result["failed"] <= result["allowed"] <= 6400


def test_slots_move_under_load_and_all_is_counted_once(cluster):
    slot = cluster.members[0].ask("KEYSLOT", "{802}")
    source = cluster.owner(slot)
    target = next(m for m in cluster.masters() if m is not source)
    nodes = [Node(cluster.url(), PLENTY, key="+16", count=ENDLESS, depth=16, pace=3, deadline=PATIENT).up()
             for _ in range(2)]

    def let_some_pass():
        before = calls(target, "asking")
        wait_for(lambda: calls(target, "asking") > before)

    wait_for(lambda: source.ask("COUNTKEYSINSLOT", slot) == 16)
    cluster.move_slot(slot, source, target, pause=let_some_pass)
    before = calls(target)
    wait_for(lambda: calls(target) > before + 50)
    results = ended(nodes)
    moved, asks, mismatches = sums(results, "moved", "asked", "mismatches")
    assert moved > 0 and asks >= 16 and mismatches == 0
    assert target.ask("COUNTKEYSINSLOT", slot) == 16
    assert_all_is_counted_once(cluster, results)


def test_a_master_steps_down_under_load_and_all_is_counted_once(cluster):
    nodes = [Node(cluster.url(), PLENTY, key="*64", count=ENDLESS, depth=16, pace=4, deadline=PATIENT).up()
             for _ in range(2)]
    master = cluster.owner(0)
    replica = cluster.replica_of(master)
    wait_for(lambda: master.client().dbsize() > 0)
    replica.ask("FAILOVER")
    wait_for(lambda: replica.is_master() and not master.is_master())
    before = calls(replica)
    wait_for(lambda: calls(replica) > before + 50)
    results = ended(nodes)
    assert all(result["moved"] > 0 for result in results)
    assert all(result["shards"][replica.address]["slots"] > 0 for result in results)
    assert_all_is_counted_once(cluster, results)


def test_a_killed_master_concerns_its_own_keys_and_its_replica_takes_over(cluster):
    node = Node(cluster.url(), PLENTY, key="*64", count=ENDLESS, depth=16, pace=1, deadline=PATIENT).up()
    master = cluster.owner(0)
    replica = cluster.replica_of(master)
    wait_for(lambda: master.client().dbsize() > 0)
    before = calls(replica)
    cluster.fail_over(soon=True)
    master.stop()
    node.logs("redis.down")
    wait_for(replica.is_master)
    wait_for(lambda: calls(replica) > before)
    result, = ended([node])
    others = [shard for name, shard in result["shards"].items()
              if name not in (master.address, replica.address)]
    assert len(others) == 2
    assert_alone(result["shards"][master.address], others)


def has_been_greeted(server):
    """A node has connected and given it the scripts."""
    return server.client().info("commandstats").get("cmdstat_script|load", {"calls": 0})["calls"] >= 1


def test_the_log_names_the_servers_that_gain_and_lose_slots(cluster):
    """A master that comes back when others have its slots is not reported as closed."""
    node = Node(cluster.url(), PLENTY, key="*64", count=ENDLESS, depth=16, pace=1, deadline=PATIENT).up()
    master = cluster.masters()[0]
    replica = cluster.replica_of(master)
    node.logs("redis.cluster")
    cluster.fail_over(soon=True)
    master.stop()
    node.logs("redis.cluster")
    assert f"redis.slots server={replica.address} slots=" in node.log
    assert f"redis.left server={master.address} state=down" in node.log
    master.start()
    wait_for(lambda: has_been_greeted(master))
    node.stop()
    lines = [line for line in node.log.splitlines() if master.address in line]
    assert any("redis.down" in line for line in lines)
    assert not [line for line in lines if "redis.up" in line]
    cluster.settle()


def test_a_shard_that_stalls_does_not_affect_others(cluster):
    """And no server takes over."""
    node = Node(cluster.url(), PLENTY, key="*64", count=ENDLESS, depth=8, pace=1, deadline=PATIENT).up()
    master = cluster.owner(0)
    stalled = [master, cluster.replica_of(master)]
    wait_for(lambda: master.client().dbsize() > 0)
    for member in stalled:
        member.process.send_signal(signal.SIGSTOP)
    node.logs('redis.down reason="no answer in time"')
    others = [m for m in cluster.members[:] if m not in stalled and m.is_master()]
    before = [calls(m) for m in others]
    wait_for(lambda: all(calls(m) > was + 20 for m, was in zip(others, before)))
    for member in stalled:
        member.process.send_signal(signal.SIGCONT)
    node.logs("redis.up")
    result, = ended([node])
    assert_alone(result["shards"][master.address], [result["shards"][m.address] for m in others])


def test_a_user_with_the_documented_rights_is_enough(cluster):
    line = next(line for line in DOCS.read_text().splitlines() if line.startswith("ACL SETUSER"))
    for member in cluster.members:
        member.client().execute_command(*line.replace("PASSWORD", "secret").split())
    url = cluster.url().replace("//", "//ration:secret@")
    result = Node(url, key="*64", count=200, depth=4).result()
    assert result["failed"] == result["late"] and result["allowed"] > 0


def test_nodes_with_another_secret_are_refused_by_the_shard_that_knows(cluster):
    result = Node(cluster.url(), key="*64", count=100, depth=4, fingerprint="one").result()
    assert result["failed"] == result["late"]
    owner = cluster.owner(cluster.members[0].ask("KEYSLOT", "ration:secret"))
    assert owner.client().get("ration:secret") == b"one"
    node = Node(cluster.url(), key="*64", count=1, fingerprint="two")
    node.logs("redis.refused")
