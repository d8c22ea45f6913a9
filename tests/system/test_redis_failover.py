# SPDX-License-Identifier: Apache-2.0
"""Three daemons whose master is replaced while they are under load, by three real Sentinels: in a
planned failover nothing is admitted beyond the limit. RATION_SOAK=1 repeats it."""

import collections
import os
import time

import pytest

from daemon import free_port, wait_for
from nodes import Load, Nodes
from redis_server import RedisServer
from test_redis_sentinel import SentinelServers

RUNS = 10 if os.environ.get("RATION_SOAK") else 1
LIMITS = {"strict": 300, "leased": 1500}
RULES = "limits:\n" + "".join(
    f"  - {{ name: {mode}, when: {{ path: /{mode} }}, key: user, limit: {amount} per 7 days, algorithm: fixed-window,\n"
    f"      consistency: {mode}, on_store_failure: refuse }}\n" for mode, amount in LIMITS.items())
USERS = {"strict": [f"s{i}" for i in range(20)], "leased": [f"l{i}" for i in range(4)]}
MANY = [f"m{i}" for i in range(1000)]  # who never spend all they may
OPTIONS = ["--redis-deadline", "25ms"]


@pytest.fixture
def servers(tmp_path):
    with SentinelServers(tmp_path) as running:
        for sentinel in running.sentinels:
            sentinel.ask("debug", "info-period", 10_000)  # as they are: one is slow to notice a promotion
            sentinel.ask("debug", "ping-period", 1000)
            sentinel.ask("set", "shared", "failover-timeout", 60_000)  # nor gives up on a busy machine
        yield running


def excess(load, mode):
    """Of each client that was admitted too often: by how much."""
    admitted = collections.Counter(t.user for t in load.decisions if t.allowed)
    return {user: n - LIMITS[mode] for user, n in admitted.items() if n > LIMITS[mode]}


def is_spent(load, since):
    """No request is admitted any more, not even by nodes that learnt of it late."""
    return time.monotonic() > since + 3 and not any(t.allowed for t in load.decisions[-2000:])


def replica_of(servers):
    """The replica of the master that all Sentinels know, once it has acknowledged a write that was made after it
    said "connected": after a full resync its master may send it nothing for another second."""
    def find():
        ports = {sentinel.master_port() for sentinel in servers.sentinels}
        if len(ports) > 1:
            return None
        master, replica = sorted(servers.redis, key=lambda server: server.port not in ports)
        role = replica.client().execute_command("ROLE")
        if role[0] != b"slave" or role[3] != b"connected":
            return None
        with master.client() as client:
            client.set("is_replicated", 1)
            return replica if client.wait(1, 1000) == 1 else None

    return wait_for(find, "a replica")


def swap(servers, replica, load, mode):
    wait_for(lambda: load.admitted() > LIMITS[mode] * len(USERS[mode]) / 3, "a third of all to be spent")
    wait_for(lambda: servers.sentinels[1].swaps(replica), "another master")
    return time.monotonic()


@pytest.mark.parametrize("mode", LIMITS)
def test_a_planned_failover_admits_nothing_beyond_the_limit(tmp_path, servers, mode):
    with Nodes(tmp_path, RULES, [servers.url()] * 3, OPTIONS, workers=2) as nodes:
        for run in range(RUNS):
            users, replica = [f"{user}-{run}" for user in USERS[mode]], replica_of(servers)
            with Load(nodes, [f"/{mode}"], clients=2, depth=4, users=users) as load:
                begun = swap(servers, replica, load, mode)
                wait_for(lambda: is_spent(load, begun), "all to be spent")
            over = excess(load, mode)
            print(f"{mode}: {load.admitted()} of {LIMITS[mode] * len(users)}, {sum(over.values())} too many")
            assert over == {}
        assert nodes.count_logged("redis.failover") >= RUNS and nodes.count_logged(" lost_bytes=0") >= RUNS


def test_the_log_says_what_a_promoted_replica_lacks(tmp_path, servers):
    """It is promoted without a word of Sentinel, which finds out later."""
    with Nodes(tmp_path, RULES, [servers.url()], OPTIONS) as nodes, \
            Load(nodes, ["/strict"], depth=4, users=MANY) as load:
        replica = replica_of(servers)
        wait_for(lambda: load.admitted() > 500, "load")
        servers.redis[0].client().execute_command("CLIENT", "KILL", "TYPE", "replica")
        replica.client().execute_command("REPLICAOF", "NO", "ONE")
        before = load.admitted()
        time.sleep(2)
        wait_for(lambda: load.admitted() > before + 50, "charges that it does not hear of")
        servers.redis[0].stop()
        for sentinel in servers.sentinels:
            sentinel.ask("remove", "shared")
            sentinel.ask("monitor", "shared", "127.0.0.1", replica.port, 1)
        wait_for(lambda: nodes.count_logged("redis.changed"), "another master")
    lines = [line for line in nodes[0].log if "redis.changed" in line]
    assert "lost_bytes=" in lines[0] and "lost_bytes=0" not in lines[0]


def test_a_master_that_wants_replicas_admits_nothing_when_its_replica_was_promoted(tmp_path):
    """Nobody has told the nodes: min-replicas-to-write closes what Sentinel leaves open."""
    for name in ("master", "replica"):
        (tmp_path / name).mkdir()
    with RedisServer(tmp_path / "master", port=free_port(), options=["--min-replicas-to-write", "1"]) as master, \
            RedisServer(tmp_path / "replica", port=free_port(), options=[
                "--replicaof", "127.0.0.1", str(master.port), "--repl-diskless-sync-delay", "0"]) as replica:
        wait_for(lambda: replica.client().execute_command("ROLE")[3] == b"connected", "the replica")
        with Nodes(tmp_path, RULES, [f"redis://127.0.0.1:{master.port}"] * 2, OPTIONS) as nodes, \
                Load(nodes, ["/strict"], depth=4, users=MANY) as load:
            wait_for(lambda: load.admitted() > 500, "load")
            replica.client().execute_command("REPLICAOF", "NO", "ONE")
            wait_for(lambda: nodes.count_logged("NOREPLICAS"), "the master to refuse")
            refuses = time.monotonic()
            wait_for(lambda: sum(t.sent > refuses for t in load.decisions[-5000:]) > 500, "more load")
    assert not [t for t in load.decisions if t.allowed and t.sent > refuses]
