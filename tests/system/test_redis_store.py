# SPDX-License-Identifier: Apache-2.0
"""Nodes (tests/programs/redis_node.c) that share limits by a real redis-server: together
they admit what one would, and each answers in time whatever Redis does."""

import pathlib
import signal
import struct
import threading
import time

import pytest

from daemon import free_port, wait_for
from faults import StepClock
from redis_node import Node, no_node_is_left  # noqa: F401 (a fixture)
from redis_server import RedisServer

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "distributed.md"
PLENTY, ENDLESS = "1000000 per 24h", 10**9


@pytest.mark.parametrize("algorithm", ["token-bucket", "fixed-window", "sliding-log", "sliding-window"])
def test_four_nodes_admit_exactly_what_one_limit_admits(server, algorithm):
    nodes = [Node(server.url, algorithm=algorithm) for _ in range(4)]
    results = [node.result() for node in nodes]
    admitted = sum(r["allowed"] for r in results)
    lost = sum(r["failed"] for r in results)
    assert admitted <= 1000
    assert admitted + lost >= 1000, "what is not admitted was refused for a reason"
    assert sum(r["allowed"] + r["refused"] + r["failed"] for r in results) == 4000


@pytest.mark.parametrize("algorithm", ["token-bucket", "fixed-window", "sliding-log", "sliding-window"])
def test_of_two_limits_both_are_charged_or_none(server, algorithm):
    nodes = [Node(server.url, "1000 per 24h+300 per 24h", algorithm, count=500) for _ in range(4)]
    results = [node.result() for node in nodes]
    admitted, lost = (sum(r[name] for r in results) for name in ("allowed", "failed"))
    assert 300 - lost <= admitted <= 301
    # The wide one was charged for the admitted ones alone: what is lost may be burnt.
    wide = Node(server.url, "1000 per 24h", algorithm, count=1100).result()
    assert 1000 - admitted - lost - wide["failed"] <= wide["allowed"] <= 1001 - admitted


def test_a_repeated_refusal_needs_no_call(server):
    result = Node(server.url, "10 per 24h", count=2000, depth=1).result()
    assert result["allowed"] + result["failed"] >= 10 >= result["allowed"]
    assert result["remembered"] > 1000 > result["calls"]


def test_what_was_asked_before_a_refusal_came_needs_no_other_call(server):
    """A call has 64 charges at most."""
    result = Node(server.url, "10 per 24h", count=500, depth=500).result()
    assert (result["allowed"], result["refused"], result["calls"]) == (10, 490, 1)


def test_charges_that_arrive_together_go_in_few_calls(server):
    result = Node(server.url, key=0, count=6400, depth=64).result()
    assert result["allowed"] + result["failed"] == 6400
    assert result["calls"] < 6400 / 8


def test_the_nodes_keys_have_the_documented_names_and_an_end(server):
    Node(server.url, "1000 per hour", key=0xFFC0000000000012, count=3, algorithm="sliding-log").result()
    client = server.client()
    assert client.keys() == [b"ration:{802}:l:ffc0000000000012"]
    assert 3_500_000 < client.pttl(client.keys()[0]) <= 3_601_000


def test_forgotten_scripts_are_sent_again_and_nothing_is_counted_twice(server):
    client, stop = server.client(), threading.Event()

    def flush():
        while not stop.wait(0.002):
            client.script_flush()

    thread = threading.Thread(target=flush)
    thread.start()
    result = Node(server.url, limit="100000 per 24h", count=20000).result()
    stop.set()
    thread.join()
    assert result["resent"] > 0 and result["mismatches"] == 0
    assert result["allowed"] + result["failed"] == 20000
    left = Node(server.url, limit="100000 per 24h", count=90000, depth=256).result()
    assert result["allowed"] + left["allowed"] <= 100000


def goes_on(server):
    """Waits until Redis was asked many times more."""
    def calls():
        return server.client().info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]

    before = calls()
    wait_for(lambda: calls() > before + 50)


def ended(node):
    """What came of one that would go on."""
    node.process.send_signal(signal.SIGTERM)
    return node.result()


def test_a_stopped_redis_is_noticed_and_so_is_its_return(server):
    node = Node(server.url, PLENTY, count=ENDLESS, depth=4, pace=1, deadline=50).up()
    goes_on(server)
    server.process.send_signal(signal.SIGSTOP)
    node.logs('redis.down reason="no answer in time"')
    time.sleep(0.3)  # of the outage, without a waiting request
    server.process.send_signal(signal.SIGCONT)
    node.logs("redis.up")
    result = ended(node)
    assert result["late"] > 0 and result["turned_away"] > 0
    assert result["refused"] == 0 and result["allowed"] > 0


def test_a_killed_redis_is_reconnected_to(server):
    node = Node(server.url, PLENTY, count=ENDLESS, depth=4, pace=2, deadline=50).up()
    goes_on(server)
    server.stop()
    node.logs("redis.down")
    server.start()
    node.logs("redis.up")
    result = ended(node)
    assert result["connects"] >= 2 and result["failed"] > 0 and result["allowed"] > 0


def test_killed_nodes_leave_no_more_than_the_limit(server):
    def spent():
        return struct.unpack("<dd", server.client().get(server.client().keys()[0]))[1]

    for killed in range(1, 6):
        node = Node(server.url, count=ENDLESS, depth=8, pace=1).up()
        wait_for(lambda: server.client().keys() and spent() >= 20 * killed)
        node.kill()
    before = spent()
    assert Node(server.url, count=3000, pace=1).result()["allowed"] <= 1000 - before
    assert spent() == 1000


def test_a_database_is_used_and_a_user_with_the_documented_rights(tmp_path):
    line = next(line for line in DOCS.read_text().splitlines() if line.startswith("ACL SETUSER"))
    port = free_port()
    with RedisServer(tmp_path, port=port) as server:
        server.client().execute_command(*line.replace("PASSWORD", "p@ss").split())
        url = f"redis://ration:p%40ss@127.0.0.1:{port}/3"
        for limit, algorithm in (("20 per 24h", "token-bucket"), ("20 per 24h", "fixed-window"),
                                 ("20 per 24h", "sliding-log"), ("20 per 24h", "sliding-window"),
                                 ("20 concurrent", "concurrency")):
            result = Node(url, limit, algorithm, count=30, depth=4).result()
            # On a busy machine some may be late, and burnt.
            assert result["failed"] == result["late"] and result["allowed"] > 0, algorithm
            assert result["allowed"] <= 20 <= result["allowed"] + result["late"], algorithm
        assert [len(server.client(db=db).keys()) for db in (0, 3)] == [0, 5]


def test_a_wrong_password_is_reported_and_never_shown(tmp_path):
    with RedisServer(tmp_path, options=["--requirepass", "right"]) as server:
        node = Node(f"redis+unix://:hidden@{server.path}", count=1)
        line = node.process.stderr.readline()
        node.kill()
        assert "redis.down" in line and "WRONGPASS" in line and "hidden" not in line


def test_nodes_with_another_secret_are_refused_until_they_agree(server):
    assert Node(server.url, count=10, depth=1, fingerprint="one").result()["allowed"] > 0
    assert Node(server.url, count=10, depth=1, fingerprint="one").result()["allowed"] > 0
    other = Node(server.url, count=10, depth=1, fingerprint="two")
    other.logs("redis.refused")
    assert "redis_key_secret" in other.log
    keys = server.client().dbsize()
    assert keys == 2, "the fingerprint and one limit"
    server.client().delete("ration:secret")
    other.logs("redis.agreed")
    assert other.result()["allowed"] > 0
    assert server.client().get("ration:secret") == b"two"


def test_steps_of_the_clock_of_redis_are_noticed_and_mint_one_burst_at_most(tmp_path):
    clock = StepClock(tmp_path / "clock")
    with RedisServer(tmp_path, clock=clock) as server:
        node = Node(server.url, "100 per hour", "token-bucket", count=ENDLESS, depth=4, pace=1).up()
        wait_for(server.client().keys)
        clock.step(3600)
        node.logs("redis.clock stepped_ms=3")
        clock.step(0)
        node.logs("redis.clock stepped_ms=-3")
        result = ended(node)
    assert result["clock_steps"] == 2
    assert 0 < result["allowed"] <= 202
