# SPDX-License-Identifier: Apache-2.0
"""rationd with its limits in Redis: what it answers when nodes disagree, and while a
cluster loses a master."""

from daemon import Daemon, wait_for
from redis_cluster import RedisCluster
from redis_server import RedisServer

RULES = "limits: [{name: api, key: api_key, limit: 1000 per day, on_store_failure: %s}]\n"


def node(folder, name, url, policy="allow", env=None, deadline="5s"):
    (folder / name).mkdir()
    return Daemon(folder / name, RULES % policy, ["--redis", url, "--workers", 1, "--resp", "none",
                                                "--redis-deadline", deadline], env=env)


def check(daemon, key="k"):
    return daemon.http("POST", "/v1/check", {"attributes": {"api_key": key}}).json


def metric(daemon, name):
    lines = daemon.admin("GET", "/metrics").text.splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line.startswith(name)}


def is_up(daemon):
    return metric(daemon, "ration_store_up")["ration_store_up"] == 1


def test_a_node_with_another_secret_counts_nothing_until_it_agrees(tmp_path):
    def env(secret):
        return {"RATION_REDIS_KEY_SECRET": secret}

    with RedisServer(tmp_path) as server:
        url = server.url
        with node(tmp_path, "one", url, env=env("a")) as one, node(tmp_path, "same", url, env=env("a")) as same:
            wait_for(lambda: is_up(one) and is_up(same))
            assert [check(d)["limits"][0]["remaining"] for d in (one, same)] == [999, 998]
            with node(tmp_path, "two", url, policy="refuse", env=env("b")) as two:
                two.logged("redis.refused")
                assert not is_up(two) and not check(two)["allowed"]
            assert check(one)["limits"][0]["remaining"] == 997
            assert not any(b"secret" in key and key != b"ration:secret" for key in server.client().keys())


def test_every_request_is_answered_while_a_master_is_lost_and_replaced(tmp_path):
    (tmp_path / "cluster").mkdir()
    with RedisCluster(tmp_path / "cluster") as cluster, node(
            tmp_path, "node", cluster.url(), deadline="50ms") as daemon:
        wait_for(lambda: is_up(daemon))
        keys = [f"client {i}" for i in range(40)]
        assert all(check(daemon, key)["allowed"] for key in keys)
        assert len(metric(daemon, "ration_store_server_up{")) == 3
        cluster.fail_over(soon=True)
        cluster.owner(0).stop()
        asked = 0
        while asked < 40 or not is_up(daemon):
            assert check(daemon, keys[asked % 40])["allowed"], "by the cluster or by the policy"
            asked += 1
        assert metric(daemon, "ration_store_fallbacks_total")['ration_store_fallbacks_total{policy="allow"}'] > 0
        wait_for(lambda: sum(metric(daemon, "ration_store_server_up{").values()) >= 3)
