# SPDX-License-Identifier: Apache-2.0
"""Three daemons whose master is replaced while they are under load, by three real Sentinels: in a
planned failover nothing is admitted beyond the limit. RATION_SOAK=1 does so many times."""

import collections
import os
import time

import pytest

from crowd import wait_for
from nodes import Load, Nodes
from test_redis_sentinel import Trio

RUNS = 10 if os.environ.get("RATION_SOAK") else 1
LIMITS = {"strict": 300, "leased": 1500}
RULES = "limits:\n" + "".join(
    f"  - {{ name: {mode}, when: {{ path: /{mode} }}, key: user, limit: {amount} per 7 days, algorithm: fixed-window,\n"
    f"      consistency: {mode}, on_store_failure: refuse }}\n" for mode, amount in LIMITS.items())
USERS = {"strict": [f"s{i}" for i in range(20)], "leased": [f"l{i}" for i in range(4)]}
OPTIONS = ["--redis-deadline", "25ms"]


@pytest.fixture
def trio(tmp_path):
    with Trio(tmp_path) as running:
        for sentinel in running.sentinels:
            sentinel.ask("debug", "info-period", 10_000)  # as they are: one is slow to notice a promotion
        yield running


def excess(load, mode):
    """Of each client that was admitted too often: by how much."""
    admitted = collections.Counter(t.user for t in load.told if t.allowed)
    return {user: n - LIMITS[mode] for user, n in admitted.items() if n > LIMITS[mode]}


def is_spent(load, since):
    """Nobody is admitted any more, not even by those who were slow to hear of it."""
    return time.monotonic() > since + 3 and not any(t.allowed for t in load.told[-2000:])


def replica_of(trio):
    """In step with the master that all Sentinels know."""
    def find():
        ports = {sentinel.master_port() for sentinel in trio.sentinels}
        replica = next(s for s in trio.servers if s.port not in ports)
        role = replica.client().execute_command("ROLE")
        return replica if len(ports) == 1 and role[0] == b"slave" and role[3] == b"connected" else None

    return wait_for(find, "a replica")


def swap(trio, replica, load, mode):
    wait_for(lambda: load.admitted() > LIMITS[mode] * len(USERS[mode]) / 3, "a third of all to be spent")
    wait_for(lambda: trio.sentinels[1].swaps(replica), "another master")
    return time.monotonic()


@pytest.mark.parametrize("mode", LIMITS)
def test_a_planned_failover_admits_nothing_beyond_the_limit(tmp_path, trio, mode):
    with Nodes(tmp_path, RULES, [trio.url()] * 3, OPTIONS, workers=2) as nodes:
        for run in range(RUNS):
            users, replica = [f"{user}-{run}" for user in USERS[mode]], replica_of(trio)
            with Load(nodes, [f"/{mode}"], clients=2, depth=4, users=users) as load:
                begun = swap(trio, replica, load, mode)
                wait_for(lambda: is_spent(load, begun), "all to be spent")
            over = excess(load, mode)
            print(f"{mode}: {load.admitted()} of {LIMITS[mode] * len(users)}, {sum(over.values())} too many")
            assert over == {}
