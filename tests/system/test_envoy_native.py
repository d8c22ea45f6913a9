# SPDX-License-Identifier: Apache-2.0
"""Native rules for Envoy's requests: over gRPC, with counters in memory and in Redis; and
what is said where they do not apply. The answers in detail: tests/contract/envoy/."""

import contextlib

import pytest

import rls
from daemon import Daemon
from ration_command import run
from redis_server import RedisServer

OPTIONS = ["--grpc", "127.0.0.1:0", "--resp", "none", "--memory", "4M", "--workers", 1]
NATIVE = """
limits:
  - {name: by-user, key: user, limit: 5 per 52 weeks, algorithm: fixed-window}
  - {name: by-pair, key: [user, path], limit: 3 per 52 weeks, algorithm: fixed-window}
"""
SHOP = """
domain: shop
descriptors:
  - key: path
    rate_limit: {unit: year, requests_per_unit: 4, name: envoys}
"""
ENDS = "  - {name: places, key: user, limit: 3 concurrent}\n"


def both(folder, native, envoy=SHOP):
    rules = folder / "rules"
    rules.mkdir()
    (rules / "native.yaml").write_text(native)
    (rules / "shop.yaml").write_text(envoy)
    return ["--config", rules]


@contextlib.contextmanager
def store(folder, kind):
    """Options that name it."""
    if kind == "memory":
        yield []
        return
    with RedisServer(folder) as server:
        yield ["--redis", server.url, "--redis-deadline", "1s"]


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_both_kinds_of_rules_are_charged_together(tmp_path, kind):
    rules = both(tmp_path, "apply_to_envoy: true\n" + NATIVE)
    with store(tmp_path, kind) as where, Daemon(tmp_path, None, [*rules, *OPTIONS, *where]) as daemon, \
            rls.Client(daemon.addresses["grpc"]) as client:
        ask = [{"user": "ann"}, {"user": "ann", "path": "/x"}, {"path": "/x"}]
        told = [client.ask("shop", *ask) for _ in range(3)]
        assert [t.overall_code for t in told] == [rls.OK] * 3
        # by-user has 2 of 5 left, by-pair none of 3, and Envoy's 1 of 4.
        assert [s.limit_remaining for s in told[-1].statuses] == [2, 0, 1]
        assert [s.current_limit.name for s in told[-1].statuses] == ["by-user", "by-pair", "envoys"]
        for _ in range(3):
            over = client.ask("shop", *ask)
            assert over.overall_code == rls.OVER_LIMIT
            assert [s.code for s in over.statuses] == [rls.OK, rls.OVER_LIMIT, rls.OK]
        # What was refused has charged nothing, of either kind; requests of HTTP share the counters.
        assert client.ask("shop", {"path": "/x"}).statuses[0].limit_remaining == 0
        assert client.code("shop", {"user": "ann"}) == rls.OK
        assert daemon.http("POST", "/v1/check", {"attributes": {"user": "ann"}}).status == 200
        assert daemon.http("POST", "/v1/check", {"attributes": {"user": "ann"}}).status == 429
        assert client.code("shop", {"user": "ann"}) == rls.OVER_LIMIT


@pytest.mark.parametrize("native, rules, says", [
    (NATIVE, 2, "apply_to_envoy: true"),
    ("apply_to_envoy: true\n" + NATIVE + ENDS, 1, "charge_on or concurrent"),
    ("apply_to_envoy: true\n" + NATIVE, 0, None)], ids=["none", "some", "all"])
def test_rules_that_do_not_apply_are_named_at_start_and_by_lint(tmp_path, native, rules, says):
    options = both(tmp_path, native)
    with Daemon(tmp_path, None, [*options, *OPTIONS]) as daemon:
        daemon.stop()
        warned = [line for line in daemon.log if "rules.not_for_envoy" in line]
    lint = run("lint", options[1]).out
    if says is None:
        assert warned == [] and "Envoy's protocol" not in lint
        return
    assert len(warned) == 1 and f"native={rules} " in warned[0] and says in warned[0]
    assert "Envoy's protocol" in lint


def test_the_setting_survives_rules_get_and_push(tmp_path):
    with Daemon(tmp_path, "apply_to_envoy: true\n" + NATIVE, OPTIONS) as daemon:
        env = {"RATION_ADMIN": daemon.addresses["admin"]}
        got = run("rules", "get", env=env).out
        assert "apply_to_envoy: true\n" in got
        assert run("rules", "push", "-", env=env, stdin=got).status == 0
        with rls.Client(daemon.addresses["grpc"]) as client:
            codes = [client.code("any", {"user": "ann"}) for _ in range(6)]
        assert codes == [rls.OK] * 5 + [rls.OVER_LIMIT]
