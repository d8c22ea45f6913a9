# SPDX-License-Identifier: Apache-2.0
"""The first decisions after a start, and after a connection to Redis was lost: none of them falls
back because a connection is being made or a script loaded. A soak (RATION_SOAK=1) starts a
hundred times."""

import contextlib
import itertools
import os
import re
import signal
import threading
import time

import pytest

from concurrent_clients import resp_allowed
from daemon import Daemon, Resp, free_port, wait_for
from nodes import Nodes, metric
from redis_cluster import RedisCluster
from redis_server import RedisServer

STARTS = 100 if os.environ.get("RATION_SOAK") else 10
RULES = "".join(f"  - {{name: {name}, key: user, limit: 50000 per day, {more}, on_store_failure: refuse}}\n"
                for name, more in (("window", "algorithm: fixed-window"), ("log", "algorithm: sliding-log"),
                                   ("leased", "consistency: leased")))
EACH = 20  # decisions of a client after each start


class Client(threading.Thread):
    """Asks at an address again and again, from before there is a listener."""

    def __init__(self, address):
        super().__init__()
        self.address, self.decisions, self.ending = address, [], False
        self.start()

    def run(self):
        for number in itertools.count():
            with contextlib.suppress(OSError, EOFError), Resp(self.address) as resp:
                while not self.ending:
                    self.decisions.append(resp_allowed(resp("RATION.CHECK", "user", f"{self.name} {number}")))
            if self.ending:
                return


@contextlib.contextmanager
def one_redis(folder):
    with RedisServer(folder) as server:
        yield server.url


@contextlib.contextmanager
def a_cluster(folder):
    with RedisCluster(folder) as cluster:
        yield cluster.url()


@pytest.mark.parametrize("place", [one_redis, a_cluster])
def test_no_decision_falls_back_because_the_node_has_just_started(tmp_path, place):
    port = free_port()
    starts = STARTS if place is one_redis else max(2, STARTS // 5)
    with place(tmp_path) as url:
        node = Daemon(tmp_path, "limits:\n" + RULES,
                      ["--redis", url, "--redis-deadline", "5s", "--memory", "2M", "--workers", 2,
                       "--resp", f"127.0.0.1:{port}", "--http", "none"], start=False)
        clients = [Client(f"127.0.0.1:{port}") for _ in range(4)]
        try:
            for _ in range(starts):
                before = [len(client.decisions) for client in clients]
                node.start()
                wait_for(lambda: all(len(client.decisions) >= told + EACH for client, told in zip(clients, before)))
                page = node.admin("GET", "/metrics").text
                node.kill()
                fallbacks = [line for line in page.splitlines() if line.startswith("ration_store_fallbacks_total")]
                assert all(line.endswith(" 0") for line in fallbacks), (page, "".join(node.log))
        finally:
            for client in clients:
                client.ending = True
            for client in clients:
                client.join()
        assert all(all(client.decisions) for client in clients)


LOOPS = 2  # a worker and the control thread


def test_a_lost_connection_is_made_again_before_any_decision_falls_back(tmp_path):
    with RedisServer(tmp_path) as server, contextlib.closing(server.client()) as client, \
            Nodes(tmp_path, "limits:\n" + RULES, [server.url],
                  ["--redis-deadline", "5s"]) as nodes:
        node = nodes[0]
        for _ in range(3):
            time.sleep(1.1)  # one that was lost just now is waited for a little
            before = metric(node, "ration_store_connects_total")
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            wait_for(lambda: metric(node, "ration_store_connects_total") >= before + LOOPS)
            with node.resp() as resp:
                assert all(resp_allowed(resp("RATION.CHECK", "user", "ann")) for _ in range(10))
        assert metric(node, re.escape('ration_store_fallbacks_total{policy="refuse"}')) == 0
        assert nodes.count_logged("redis.down") == 0


def test_a_decision_waits_for_a_frozen_redis_as_long_as_its_deadline_says(tmp_path):
    with RedisServer(tmp_path) as server, Nodes(tmp_path, "limits:\n" + RULES, [server.url],
                                                ["--redis-deadline", "10s"]) as nodes:
        for start in (lambda: None, lambda: nodes.restart(0)):  # on a connection, and before there is one
            server.process.send_signal(signal.SIGSTOP)
            thaw = threading.Timer(2.5, server.process.send_signal, [signal.SIGCONT])
            thaw.start()
            start()
            with nodes[0].resp() as resp:
                assert all(resp_allowed(resp("RATION.CHECK", "user", "ann")) for _ in range(10)), nodes.log(0)
            thaw.join()
            assert metric(nodes[0], re.escape('ration_store_fallbacks_total{policy="refuse"}')) == 0


def test_a_connection_that_cannot_be_made_again_is_reported_at_once(tmp_path):
    with RedisServer(tmp_path) as server, Nodes(tmp_path, "limits:\n" + RULES, [server.url],
                                                ["--redis-deadline", "5s"]) as nodes:
        time.sleep(1.1)
        server.stop()
        wait_for(lambda: nodes.count_logged("redis.down") >= 1)
        with nodes[0].resp() as resp:
            assert not resp_allowed(resp("RATION.CHECK", "user", "ann"))
        server.start()
        with nodes[0].resp() as resp:
            wait_for(lambda: resp_allowed(resp("RATION.CHECK", "user", "ann")))
