# SPDX-License-Identifier: Apache-2.0
"""Nodes that get their master from three real Sentinels, while masters come and go."""

import contextlib
import signal
import socket
import subprocess

import pytest
import redis

from daemon import PATIENCE, free_port, wait_for
from redis_node import Node, no_node_is_left  # noqa: F401 (a fixture)
from redis_server import RedisServer

PLENTY = "1000000 per 24h"


class Sentinel:
    """One that hardly ever notices that the master is down: on a busy machine it would take a
    slow one for dead."""

    def __init__(self, folder, master, more=""):
        folder.mkdir()
        self.folder, self.port = folder, free_port()
        self.file = folder / "sentinel.conf"
        self.file.write_text(f"""port {self.port}
bind 127.0.0.1
dir {folder}
sentinel monitor shared 127.0.0.1 {master.port} 1
sentinel down-after-milliseconds shared 600000
sentinel failover-timeout shared 3000
{more}
""")
        self.process = None

    def start(self):
        with open(self.folder / "sentinel.log", "ab") as log:
            self.process = subprocess.Popen(["redis-server", self.file, "--sentinel"], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        wait_for(self.answers)

    def hurry(self):
        # They hear of each other, and of replicas, by what is otherwise told every ten seconds.
        for period in ("info-period", "publish-period", "ask-period", "ping-period"):
            self.ask("debug", period, 100)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
            return True
        except OSError:
            return False

    def client(self):
        return redis.Redis(port=self.port)

    def ask(self, *words):
        with self.client() as client:
            return client.execute_command("SENTINEL", *words)

    def master_port(self):
        return int(self.ask("get-master-addr-by-name", "shared")[1])

    def notice(self):
        """That the master is down, from now on, and soon. Two that notice it at the same time would
        have to be elected, again and again if they are unlucky."""
        self.ask("set", "shared", "down-after-milliseconds", 500)

    def swaps(self, replica):
        """Asks for a failover, again if it comes to nothing on a busy machine; whether it has."""
        if self.master_port() == replica.port:
            return True
        with contextlib.suppress(redis.ResponseError):  # it is under way, or cannot be yet
            self.ask("failover", "shared")
        return False

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)


class SentinelServers:
    """A master, its replica and three Sentinels."""

    def __init__(self, folder):
        self.redis, self.sentinels = [], []
        for name in ("master", "replica"):
            (folder / name).mkdir()
            more = ["--replicaof", "127.0.0.1", str(self.redis[0].port)] if self.redis else []
            self.redis.append(RedisServer(folder / name, port=free_port(), options=[
                "--repl-diskless-sync-delay", "0", *more]))
        for i in range(3):
            self.sentinels.append(Sentinel(folder / f"sentinel{i}", self.redis[0]))

    def __enter__(self):
        try:
            for server in self.redis + self.sentinels:
                server.start()
            for sentinel in self.sentinels:
                sentinel.hurry()
            wait_for(lambda: all(len(s.ask("sentinels", "shared")) == 2 and len(s.ask("replicas", "shared")) == 1
                                 for s in self.sentinels))
            for sentinel in self.sentinels:  # else they undo a failover that others have begun
                sentinel.ask("debug", "publish-period", 2000)
            wait_for(lambda: self.redis[1].client().execute_command("ROLE")[3] == b"connected")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.sentinels + self.redis:
            server.stop()

    def url(self):
        return "redis+sentinel://" + ",".join(f"127.0.0.1:{s.port}" for s in self.sentinels) + "/shared"


@pytest.fixture
def servers(tmp_path):
    with SentinelServers(tmp_path) as running:
        yield running


def test_nodes_admit_exactly_what_the_limit_admits(servers):
    results = [node.result() for node in [Node(servers.url()) for _ in range(3)]]
    admitted, lost = (sum(result[name] for result in results) for name in ("allowed", "failed"))
    assert 1000 - lost <= admitted <= 1000

    url = servers.url().replace("/shared", "/nothing")
    node = Node(url, count=1)
    node.logs("redis.down")
    assert "Sentinel knows no master of this name" in node.log


def test_the_new_master_is_followed_when_the_old_one_is_killed(servers):
    url = servers.url().replace("//", "//127.0.0.1:1,")  # a Sentinel that is not there
    node = Node(url, PLENTY, key="*8", count=10**9, depth=4, pace=1).up()
    master, replica = servers.redis
    wait_for(lambda: replica.client().dbsize() == 8)
    master.stop()
    servers.sentinels[0].notice()
    node.logs("redis.down")
    node.logs(f"redis.master server=127.0.0.1:{replica.port}")
    node.logs("redis.up")
    node.process.send_signal(signal.SIGTERM)
    assert node.result()["shards"].keys() == {f"127.0.0.1:{replica.port}"}


def test_the_new_master_is_followed_when_the_old_one_steps_down(servers):
    node = Node(servers.url(), PLENTY, key="*8", count=10**9, depth=4, pace=1).up()
    master, replica = servers.redis
    wait_for(lambda: replica.client().dbsize() == 8)
    wait_for(lambda: servers.sentinels[0].swaps(replica))
    node.logs(f"redis.master server=127.0.0.1:{replica.port}")
    node.logs(f"redis.changed server=127.0.0.1:{replica.port}")  # it was never without a server
    node.process.send_signal(signal.SIGTERM)
    result = node.result()
    assert result["mismatches"] == 0 and result["shards"].keys() == {f"127.0.0.1:{replica.port}"}


def test_sentinels_may_have_a_password_of_their_own(tmp_path):
    with RedisServer(tmp_path, port=free_port(), options=["--requirepass", "states"]) as server:
        sentinel = Sentinel(tmp_path / "sentinel", server, "sentinel auth-pass shared states\nrequirepass asks")
        try:
            sentinel.start()
            url = f"redis+sentinel://:states@127.0.0.1:{sentinel.port}/shared/3?sentinel_password="
            result = Node(url + "asks", "20 per 24h", count=30, depth=4).result()
            assert result["allowed"] <= 20 <= result["allowed"] + result["late"]
            assert server.client(db=3, password="states").dbsize() == 1
            node = Node(url + "hidden", count=1)
            node.logs("redis.topology_unknown")
            assert "WRONGPASS" in node.log and "hidden" not in node.log
        finally:
            sentinel.stop()
