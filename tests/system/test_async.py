# SPDX-License-Identifier: Apache-2.0
"""Nodes (tests/programs/async_node.c) that decide on their own and report to a real
redis-server afterwards: whatever happens, together they admit at most what the limit
admits, and what each may hold."""

import contextlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from daemon import BUILD, PATIENCE, wait_for
from redis_cluster import SLOTS, Member

ASYNC_NODE = BUILD / "tests" / "async_node"
NODES = 4
DAY_S = 86400
DAILY = "10000 per 24h"  # refills one in 8 seconds
TICK_S = 0.1
HELD = 125  # of it by each of 4: 5 %


class Row:
    def __init__(self, numbers):
        (self.up, self.admitted, self.refused, self.failed,
         self.first_ns, self.last_ns, self.worst_ns, self.starved) = numbers


class Fleet:
    """Nodes of one limit, and what they have admitted so far, killed ones included."""

    def __init__(self, folder, url, limit, algorithm="token-bucket", keys=1, per_ms=10, deadline_ms=5000):
        self.tally, self.url, self.nodes = folder / "tally", url, []
        self.options, self.deadline_ms = (limit, algorithm, keys, per_ms, NODES), deadline_ms

    def start(self, url=None):
        self.nodes.append(subprocess.Popen(
            [ASYNC_NODE, url or self.url, *map(str, self.options), self.tally, str(len(self.nodes)),
             str(self.deadline_ms)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return len(self.nodes) - 1

    def rows(self):
        data = self.tally.read_bytes() if self.tally.exists() else b""
        return [Row(struct.unpack_from("=4Q2q2Q", data, 64 * i)) if len(data) >= 64 * (i + 1)
                else Row([0] * 8) for i in range(len(self.nodes))]

    def admitted(self):
        return sum(row.admitted for row in self.rows())

    def kill(self, index):
        self.nodes[index].kill()
        self.nodes[index].communicate()

    def stop(self):
        """Cleanly: what each store has counted."""
        alive = [node for node in self.nodes if node.poll() is None]
        for node in alive:
            node.send_signal(signal.SIGCONT)
            node.terminate()
        counts = []
        for node in alive:
            out, err = node.communicate(timeout=PATIENCE)
            assert node.returncode == 0, err
            counts.append(json.loads(out.splitlines()[-1]))
        return counts

    def seconds(self):
        """Between the first admission and the last."""
        rows = [row for row in self.rows() if row.first_ns]
        return (max(r.last_ns for r in rows) - min(r.first_ns for r in rows)) / 1e9


@pytest.fixture
def fleet_of(tmp_path, server):
    fleets = []

    def begin(*args, nodes=NODES, **more):
        fleet = Fleet(tmp_path, server.url, *args, **more)
        fleets.append(fleet)
        for _ in range(nodes):
            fleet.start()
        return fleet

    yield begin
    for fleet in fleets:
        for node in fleet.nodes:
            if node.poll() is None:
                node.kill()
                node.communicate()


def settle(fleet):
    """Until nothing is admitted for three ticks."""
    seen, since = -1, time.monotonic()
    until = since + PATIENCE
    while time.monotonic() - since < 0.3:
        assert time.monotonic() < until
        if fleet.admitted() != seen:
            seen, since = fleet.admitted(), time.monotonic()
        time.sleep(0.01)
    return seen


def ideal(fleet, burst=10000, per_second=10000 / DAY_S):
    return burst + per_second * fleet.seconds() + 1


def charged(server):
    """Units in Redis, of the one bucket of 10,000 a day there is."""
    client = server.client()
    key = next(k for k in client.keys("ration:*:b:*"))
    debt, last, full = struct.unpack("<ddd", client.get(key))
    now = client.time()
    paid = full / (DAY_S * 1e6) * (now[0] * 10**6 + now[1] - last)
    return (debt - paid) / full * 10000


def trips(counts):
    return sum(c["trips"] + c["strict_trips"] for c in counts)


def every_tick(fleet):
    """Trips of nodes that make one each tick, and as many again to learn: on a busy machine
    they are asked for less meanwhile."""
    return 2 * NODES * (fleet.seconds() / TICK_S + 1)


@pytest.mark.parametrize("algorithm", ["token-bucket", "fixed-window", "sliding-window"])
def test_four_nodes_admit_the_limit_and_at_most_what_they_may_hold(fleet_of, algorithm):
    fleet = fleet_of(DAILY, algorithm)
    wait_for(lambda: fleet.admitted() >= 10000)
    admitted = settle(fleet)
    counts = fleet.stop()
    assert 10000 <= admitted <= ideal(fleet) + NODES * HELD
    assert sum(c["units"] + c["passed"] for c in counts) >= admitted, "all of it was reported"
    assert all(c["unreported"] == 0 for c in counts)


def test_in_the_steady_state_they_admit_what_one_bucket_would(fleet_of):
    fleet = fleet_of("40000 per second", per_ms=20)  # of 80,000 that are asked for
    wait_for(lambda: fleet.admitted() > 100000)
    counts = fleet.stop()
    admitted, most = fleet.admitted(), ideal(fleet, 40000, 40000)
    decisions = sum(c["decided"] + c["passed"] for c in counts)
    asked = sum(row.admitted + row.refused for row in fleet.rows())  # less, on a busy machine
    assert 0.95 * min(most, asked) <= admitted <= most + NODES * 500
    assert trips(counts) < max(0.01 * decisions, every_tick(fleet))


def test_a_hot_key_that_is_far_from_its_limit_needs_next_to_no_trips(fleet_of):
    fleet = fleet_of("1000000 per second", per_ms=20)
    wait_for(lambda: fleet.admitted() > 40000)
    counts = fleet.stop()
    rows = fleet.rows()
    assert sum(row.refused for row in rows) == 0
    assert trips(counts) < max(0.003 * fleet.admitted(), every_tick(fleet))


def test_a_clean_stop_reports_all(server, fleet_of):
    fleet = fleet_of(DAILY, per_ms=1)
    wait_for(lambda: fleet.admitted() > 1000)
    fleet.stop()
    assert fleet.admitted() - 2 <= charged(server) <= fleet.admitted() + 1


def test_a_killed_node_costs_the_units_it_held(fleet_of):
    fleet, source = fleet_of(DAILY, per_ms=2), random.Random(1)
    killed = 0
    for goal in range(1000, 9000, 1000):
        wait_for(lambda: fleet.admitted() > goal)
        alive = [i for i, node in enumerate(fleet.nodes) if node.poll() is None]
        fleet.kill(source.choice(alive))
        killed += 1
        fleet.start()
    wait_for(lambda: fleet.admitted() > 9000)
    admitted = settle(fleet)
    fleet.stop()
    assert killed == 8
    assert admitted <= ideal(fleet) + (NODES + killed) * HELD


def test_a_node_that_stood_still_admits_no_more_than_it_may_hold(fleet_of):
    fleet = fleet_of(DAILY)
    wait_for(lambda: all(row.admitted > 300 for row in fleet.rows()))
    fleet.nodes[0].send_signal(signal.SIGSTOP)
    os.waitpid(fleet.nodes[0].pid, os.WUNTRACED)
    before = fleet.rows()[0].admitted
    settle(fleet)
    fleet.nodes[0].send_signal(signal.SIGCONT)
    wait_for(lambda: fleet.rows()[0].refused > 1000)
    admitted = settle(fleet)
    fleet.stop()
    assert fleet.rows()[0].admitted - before <= HELD
    assert admitted <= ideal(fleet) + NODES * HELD


def test_while_redis_is_silent_each_admits_what_it_may_hold_and_then_fails(server, fleet_of):
    fleet = fleet_of("1000000 per hour", per_ms=20, deadline_ms=5)  # of which each may hold 12,500
    wait_for(lambda: all(row.admitted > 1000 for row in fleet.rows()))
    server.process.send_signal(signal.SIGSTOP)
    os.waitpid(server.process.pid, os.WUNTRACED)
    before = [row.admitted for row in fleet.rows()]
    wait_for(lambda: all(row.failed > 1000 for row in fleet.rows()))
    after = settle(fleet)
    rows = fleet.rows()
    for row, was in zip(rows, before):
        assert row.admitted - was <= 12500 + 20, "and those of the very moment"
    server.process.send_signal(signal.SIGCONT)
    wait_for(lambda: fleet.admitted() > after + 10000)
    counts = fleet.stop()
    assert sum(c["resent"] for c in counts) > 0
    assert sum(row.admitted for row in fleet.rows()) <= ideal(fleet, 10**6, 10**6 / 3600) + NODES * 12500


def test_a_redis_that_comes_back_empty_gets_the_unreported_units(server, fleet_of):
    fleet = fleet_of(DAILY, per_ms=1)
    wait_for(lambda: fleet.admitted() > 2000)
    server.stop()
    wait_for(lambda: all(row.failed > 100 for row in fleet.rows()))
    lost = fleet.admitted()
    server.start()
    wait_for(lambda: fleet.admitted() > lost + 2000)
    fleet.stop()
    since = fleet.admitted() - lost
    assert since - 1 <= charged(server) <= since + NODES * HELD


def test_in_a_cluster_a_call_has_keys_of_one_tag(tmp_path):
    with Member(tmp_path / "redis") as server:
        server.ask("ADDSLOTSRANGE", 0, SLOTS - 1)
        wait_for(lambda: "cluster_state:ok" in server.ask("INFO"))
        fleet = Fleet(tmp_path, f"redis+cluster://{server.address}", "1000000 per second", keys=200)
        fleet.start()
        wait_for(lambda: len(server.client().keys("ration:*:r:*")) > 50)
        counts = fleet.stop()[0]
    assert counts["reports"] > 100 and counts["resent"] == 0


# --- one node that a test commands ---------------------------------------------------------------


class CommandedNode:
    """The last node of a fleet. Each answer: error, allowed, remaining, and whether Redis
    was asked."""

    def __init__(self, fleet):
        self.node, self.passed = fleet.nodes[fleet.start()], 0

    def __call__(self, word, cost=0):
        self.node.stdin.write(f"{word} {cost}\n")
        self.node.stdin.flush()
        error, allowed, remaining, passed = map(int, self.node.stdout.readline().split())
        asked, self.passed = passed > self.passed, passed
        assert error == 0
        return allowed, remaining, asked

    def learn(self):
        """Until the state is known here."""
        wait_for(lambda: not self("peek")[2])


@pytest.fixture
def node(fleet_of):
    return CommandedNode(fleet_of(DAILY, nodes=0, per_ms=0))


def test_a_key_is_learnt_strictly_and_then_decided_here(node):
    assert node("take", 3) == (1, 9997, True)
    node.learn()
    assert node("take", 3) == (1, 9994, False)
    assert node("peek", 10000) == (0, 9994, False)
    assert node("force", 4) == (1, 9990, False)


def test_more_than_may_be_held_is_decided_in_redis(node):
    node.learn()
    assert node("take", 125)[2] is False
    wait_for(lambda: node("peek")[1] == 9875)
    assert node("take", 126)[::2] == (1, True)


def test_strict_and_own_decisions_are_of_one_limit(server, node):
    node.learn()
    node("take", 100)
    wait_for(lambda: server.client().keys("ration:*:b:*") and charged(server) > 99)
    assert node("strict", 50)[:2] == (1, 9850)
    wait_for(lambda: node("peek")[1] == 9850)


def test_a_take_is_given_back_whether_it_was_reported_or_not(server, node):
    def is_undone_here():  # unless there was a tick between the two
        node("take", 5)
        return node("back", 5)[::2] == (1, False)

    node.learn()
    wait_for(is_undone_here)
    node("take", 60)
    node("take", 5)  # more than half of what may be held: reported at once
    wait_for(lambda: server.client().keys("ration:*:b:*") and charged(server) > 64)
    before = node("peek")[1]
    allowed, remaining, asked = node("back", 5)
    assert allowed and asked and before + 4 <= remaining <= before + 5, "less what was refilled"
    wait_for(lambda: node("peek")[1:] in ((remaining, False), (remaining + 1, False)))


def test_a_reset_clears_unreported_units_too(node):
    node.learn()
    node("take", 30)
    node("take", 7)
    assert node("reset")[0] == 1
    assert node("peek")[1] == 10000
    node.learn()
    assert node("peek")[1] == 10000
    assert node("take", 1)[1] == 9999


# --- replies that are lost or late ------------------------------------------------------------


class Proxy:
    """Between nodes and Redis: passes everything on, but at random loses what comes back
    and with it the connection, or keeps it for a while."""

    def __init__(self, folder, target, lose, delay):
        self.path, self.target, self.lose, self.delay = str(folder / "proxy"), target, lose, delay
        self.source, self.calls, self.lost = random.Random(7), 0, 0

    def __enter__(self):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(8)
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = socket.socket(socket.AF_UNIX)
                server.connect(self.target)
                threading.Thread(target=self.up, args=(client, server), daemon=True).start()
                threading.Thread(target=self.down, args=(client, server), daemon=True).start()

    def up(self, client, server):
        with contextlib.suppress(OSError):
            while data := client.recv(1 << 16):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def down(self, client, server):
        greeted = time.monotonic() + 0.2
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 16):
                self.calls += 1
                if time.monotonic() > greeted and self.source.random() < self.lose:
                    self.lost += 1
                    break
                time.sleep(self.source.random() * self.delay)
                client.sendall(data)
        for peer in (client, server):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("lose, delay", [(0.05, 0), (0.02, 0.04)], ids=["lost", "late and lost"])
def test_reports_without_a_reply_are_charged_once(tmp_path, server, fleet_of, lose, delay):
    fleet = fleet_of(DAILY, nodes=0, per_ms=1, deadline_ms=5)
    with Proxy(tmp_path, server.path, lose, delay) as proxy:
        for _ in range(NODES):
            fleet.start(f"redis+unix://{proxy.path}")
        wait_for(lambda: fleet.admitted() > 2000 and proxy.lost > 3)
        counts = fleet.stop()
    admitted = fleet.admitted()
    passed = sum(row.failed for row in fleet.rows())
    assert sum(c["resent"] for c in counts) > 0
    # Nothing is reported twice. A strict take without a reply may have been charged, and is
    # burnt; the last report of a node may be lost with its connection.
    assert admitted - NODES * HELD - 1 <= charged(server) <= admitted + passed
    assert admitted <= ideal(fleet) + NODES * HELD
