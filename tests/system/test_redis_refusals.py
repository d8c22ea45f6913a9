# SPDX-License-Identifier: Apache-2.0
"""A real Redis that answers but does not serve: out of memory, without a permission, with a failed
disk, or no longer a master; and one key of a wrong type. The log, /readyz and the metrics must
say so until it is over."""

import contextlib
import os

import pytest

from daemon import free_port, wait_for
from nodes import Nodes
from redis_server import RedisServer

RULES = "".join(f"  - {{name: {name}, key: user, when: {{path: /{name}}}, {limit}, on_store_failure: refuse}}\n"
                for name, limit in (("bucket", "limit: 1000 per day"),
                                    ("window", "limit: 1000 per day, algorithm: fixed-window"),
                                    ("log", "limit: 1000 per day, algorithm: sliding-log"),
                                    ("leased", "limit: 1000 per day, consistency: leased"),
                                    ("places", "limit: 10 concurrent")))
KINDS = ("bucket", "window", "log", "leased")


def state(node):
    page = node.admin("GET", "/metrics").text.splitlines()
    values = {line.split()[0]: line.split()[1] for line in page if not line.startswith("#")}
    return node.admin("GET", "/readyz").json["store"], values["ration_store_up"], \
        next(value for name, value in values.items() if name.startswith("ration_store_server_up{"))


def is_up(node):
    return state(node) == ("up", "1", "1")


def ask(node, kind, user="ann"):
    return node.http("POST", "/v1/check", {"attributes": {"user": user, "path": f"/{kind}"}}).json["allowed"]


def errors(node):
    return [line for line in list(node.log) if "redis.error" in line]


@contextlib.contextmanager
def serving(folder, user="", deadline="5s"):
    """A Redis, a client of it, and a node that it serves."""
    with RedisServer(folder, port=free_port()) as server, \
            contextlib.closing(server.client()) as client:
        if user:
            client.execute_command("ACL", "SETUSER", "ration", "on", ">pass", "~ration:*", "+@all")
        with Nodes(folder, "limits:\n" + RULES, [f"redis://{user}127.0.0.1:{server.port}"],
                   ["--redis-deadline", deadline]) as nodes:
            wait_for(lambda: is_up(nodes[0]))
            wait_for(lambda: all(ask(nodes[0], kind) for kind in KINDS))
            yield client, nodes[0], server


def without_memory(client, _):
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", 1)
    yield
    client.config_set("maxmemory", 0)


def without_a_right(client, _):
    client.execute_command("ACL", "SETUSER", "ration", "-@write")
    yield
    client.execute_command("ACL", "SETUSER", "ration", "+@write")


def without_a_disk(client, server):
    client.config_set("stop-writes-on-bgsave-error", "yes")
    client.config_set("save", "3600 1")
    os.mkdir(server.folder / "dump.rdb")  # which no file can replace
    client.execute_command("BGSAVE")
    wait_for(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
    yield
    os.rmdir(server.folder / "dump.rdb")
    client.execute_command("BGSAVE")


def without_replicas(client, _):
    client.config_set("min-replicas-to-write", 1)
    yield
    client.config_set("min-replicas-to-write", 0)


@pytest.mark.parametrize(("fault", "code"), [(without_memory, "OOM "), (without_a_right, "The user executing the script can't run"),
                                             (without_a_disk, "MISCONF "), (without_replicas, "NOREPLICAS ")])
def test_a_redis_that_answers_but_does_not_serve_is_reported(tmp_path, fault, code):
    with serving(tmp_path, user="ration:pass@") as (client, node, server):
        steps = fault(client, server)
        next(steps)
        for kind in KINDS:
            wait_for(lambda: not ask(node, kind, "bob"))
            assert state(node) == ("down", "0", "0")
        wait_for(lambda: errors(node))
        assert all(code in line for line in errors(node))
        assert len(errors(node)) <= 2, "once for each loop, however many calls it refuses"
        next(steps, None)
        wait_for(lambda: all(ask(node, kind, "carol") for kind in KINDS))
        wait_for(lambda: is_up(node))
        node.logged("redis.serves")


def test_a_master_that_becomes_a_replica_is_left_until_it_is_one_again(tmp_path):
    with serving(tmp_path, deadline="100ms") as (client, node, _):
        client.execute_command("REPLICAOF", "127.0.0.1", free_port())
        wait_for(lambda: not ask(node, "window"))
        wait_for(lambda: state(node) == ("down", "0", "0"))
        wait_for(lambda: any("redis.down" in line and ("READONLY" in line or "not a master" in line)
                             for line in list(node.log)))
        assert not ask(node, "log") and not ask(node, "bucket")
        client.execute_command("REPLICAOF", "NO", "ONE")
        wait_for(lambda: is_up(node) and ask(node, "window") and ask(node, "log"))


def test_a_permission_missing_for_one_script_does_not_stop_others(tmp_path):
    with serving(tmp_path, user="ration:pass@") as (client, node, _):
        client.execute_command("ACL", "SETUSER", "ration", "-rpush")
        for _ in range(20):
            assert ask(node, "window") and not ask(node, "log")
            assert state(node) == ("down", "0", "0")
        wait_for(lambda: any("can't run this command" in line for line in errors(node)))


@pytest.mark.parametrize("kind", KINDS)
def test_one_key_of_a_wrong_type_does_not_affect_others(tmp_path, kind):
    with serving(tmp_path) as (client, node, _):
        before = set(client.keys("ration:{*}:*"))
        assert ask(node, kind, "dora")
        (key,) = [k for k in client.keys("ration:{*}:*") if k not in before and b"history" not in k]
        client.delete(key)
        client.sadd(key, "something else")
        wait_for(lambda: not ask(node, kind, "dora"))
        wait_for(lambda: errors(node))
        assert all("WRONGTYPE" in line for line in errors(node))
        assert ask(node, kind, "emil") and is_up(node)
