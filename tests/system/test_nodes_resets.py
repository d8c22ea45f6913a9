# SPDX-License-Identifier: Apache-2.0
"""An operator resets a client on one node while another settles an earlier reservation: charges that
the reset cleared are not given back as well."""

import itertools
import re

import pytest

from daemon import Daemon, wait_for
from redis_cluster import RedisCluster
from test_nodes_guards import alone, nodes

RULES = """
limits:
  - {{name: api, key: user, algorithm: {algorithm}, limit: 10 per hour, consistency: {consistency}}}
"""
WHERE = {"one daemon": alone, "nodes": nodes}


def rest(asked):
    """All that is left is taken; how much that was."""
    left = asked.of("any", peek=True)["remaining"]
    assert left == 0 or asked.of("any", cost=left)["allowed"]
    return left


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("consistency", ["strict", "leased"])
@pytest.mark.parametrize("algorithm", ["token-bucket", "fixed-window", "sliding-window", "sliding-log"])
def test_a_charge_before_a_reset_is_not_refunded_as_well(tmp_path, algorithm, consistency, where):
    rules = RULES.format(algorithm=algorithm, consistency=consistency)
    with WHERE[where](tmp_path, rules, 0) as asked:
        lease = asked.of("any", "reserve", cost=8, **{"for": 60})["lease"]
        asked.advance(1)
        reset = asked.daemons[0].admin("POST", "/v1/state/reset", {"attributes": {"user": "ann"}})
        assert reset.json == {"reset": 1}
        asked.advance(1)
        assert rest(asked) == 10
        assert asked.ask("refund", lease=lease) == {"refunded": True}
        assert rest(asked) == 0

        asked.advance(1)
        asked.daemons[0].admin("POST", "/v1/state/reset", {"attributes": {"user": "ann"}})
        asked.advance(1)
        lease = asked.of("any", "reserve", cost=8, **{"for": 60})["lease"]
        assert asked.ask("refund", lease=lease) == {"refunded": True}
        assert rest(asked) == 10, "what was charged after it is"


def calls(server, act):
    """The calls about states that Redis had meanwhile; nodes talk to it about other things, too."""
    with server.client() as client, client.monitor() as seen:
        act()
        client.echo("that was all")
        commands = itertools.takewhile(lambda c: "that was all" not in c, (c["command"] for c in seen.listen()))
        return sum(c.startswith("EVAL") and re.search(r"ration:\{...\}:[bBf]:", c) is not None for c in commands)


@pytest.mark.parametrize("consistency", ["strict", "leased"])
def test_a_refund_checks_the_reset_log_without_another_call(tmp_path, consistency):
    """One call ends the reservation, so that no other call can, and one gives back."""
    rules = RULES.format(algorithm="token-bucket", consistency=consistency)
    with nodes(tmp_path, rules, 0) as asked:
        lease = asked.of("any", "reserve", cost=8, **{"for": 60})["lease"]
        assert calls(asked.server, lambda: asked.ask("refund", lease=lease)) == 2
        assert rest(asked) == 10


def test_the_call_of_a_reset_also_writes_the_reset_log(tmp_path):
    with nodes(tmp_path, RULES.format(algorithm="token-bucket", consistency="strict"), 0) as asked:
        assert asked.of("any", cost=8)["allowed"]
        body = {"attributes": {"user": "ann"}}
        assert calls(asked.server, lambda: asked.daemons[0].admin("POST", "/v1/state/reset", body)) == 1
        assert rest(asked) == 10


@pytest.mark.parametrize("consistency", ["strict", "leased"])
def test_in_a_cluster_the_reset_log_is_in_the_slot_of_its_key(tmp_path, consistency):
    (tmp_path / "cluster").mkdir()
    rules = RULES.format(algorithm="token-bucket", consistency=consistency)
    with RedisCluster(tmp_path / "cluster") as cluster, Daemon(
            tmp_path, rules, ["--workers", "1", "--redis", cluster.url(), "--redis-deadline", "10s"]) as daemon:
        wait_for(lambda: daemon.admin("GET", "/readyz").json["store"] == "up")
        for user in map(str, range(12)):
            def ask(what, user=user, **body):
                return daemon.http("POST", f"/v1/{what}", {"attributes": {"user": user}, **body}).json

            leases = [ask("reserve", cost=4, **{"for": 60})["lease"] for _ in range(2)]
            assert daemon.http("POST", "/v1/refund", {"lease": leases[0]}).json == {"refunded": True}
            assert ask("check", peek=True)["remaining"] == 6
            assert daemon.admin("POST", "/v1/state/reset", {"attributes": {"user": user}}).json == {"reset": 1}
            assert ask("check", cost=10)["allowed"]
            assert daemon.http("POST", "/v1/refund", {"lease": leases[1]}).json == {"refunded": True}
            assert ask("check", peek=True)["remaining"] == 0
