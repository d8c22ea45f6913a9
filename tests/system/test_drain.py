# SPDX-License-Identifier: Apache-2.0
"""Draining and giving back: which callers may, in batches and pipelines, and through each mode of Redis. What
every protocol answers is in tests/contract/drain.yaml."""

import subprocess

import pytest

from daemon import BUILD, PATIENCE, Daemon, RespError, wait_for
from redis_server import RedisServer

RULES = "limits: [{name: api, key: user, limit: 100 per 7 days}]\n"
LIMIT = "10 per hour"
GUARDED = RULES + """
server:
  trust_local: false
  admin_token: s3cret
  tokens: {grafana: {token: l00k, scope: read}}
"""
NEGATIVE = {"domain": "shop", "descriptors": [{"entries": [{"key": "a", "value": "b"}], "isNegativeHits": True}]}


def throttle(daemon, cost, token=None, **more):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return daemon.http("POST", "/v1/throttle", {"key": "ann", "limit": LIMIT, "cost": cost, **more}, headers=headers)


# --- which callers may give back --------------------------------------------------------------------


def test_to_give_back_over_http_needs_the_rights_of_a_reset(tmp_path):
    asked = [("/v1/throttle", {"key": "ann", "limit": LIMIT, "cost": -3}),
             ("/v1/check", {"attributes": {"user": "ann"}, "cost": -3}),
             ("/v1/check", {"checks": [{"key": "ann", "limit": LIMIT}, {"key": "ann", "limit": LIMIT, "cost": -3}]}),
             ("/json", NEGATIVE)]
    with Daemon(tmp_path, GUARDED) as d:
        assert throttle(d, 5).json["remaining"] == 5, "to charge needs none"
        for path, body in asked:
            answer = d.http("POST", path, body)
            assert answer.status == 401 and "trust_local is false" in answer.json["message"], (path, answer)
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert d.http("POST", path, body, headers={"Authorization": "Bearer wrong"}).status == 401
            answer = d.http("POST", path, body, headers={"Authorization": "Bearer l00k"})
            assert answer.status == 403 and "scope admin; grafana has scope read" in answer.json["message"]
        assert throttle(d, 0).json["remaining"] == 5, "nothing of a batch is done, either"
        assert throttle(d, -3, "s3cret").json["remaining"] == 8
        assert d.http("POST", "/json", NEGATIVE, headers={"Authorization": "Bearer s3cret"}).status == 200


def test_a_client_behind_a_proxy_may_not_give_back(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        body = {"key": "ann", "limit": LIMIT, "cost": -3}
        answer = d.http("POST", "/v1/throttle", body, headers={"X-Forwarded-For": "192.0.2.9"})
        assert answer.status == 401 and "forwarded for somebody else" in answer.json["message"]
        assert d.http("POST", "/v1/throttle", body).json["allowed"], "but a local client may"


def test_to_give_back_over_resp_needs_the_rights_of_a_reset(tmp_path):
    with Daemon(tmp_path, GUARDED) as d, d.resp() as say:
        say("HELLO", 3)
        assert say("RATION.TAKE", "ann", LIMIT, 5)[b"remaining"] == 5
        for words in (("RATION.TAKE", "ann", LIMIT, -3), ("RATION.CHECK", "user", "ann", "COST", -3)):
            with pytest.raises(RespError, match="NOAUTH"):
                say(*words)
        say("AUTH", "grafana", "l00k")
        with pytest.raises(RespError, match="NOPERM this needs a token of scope admin"):
            say("RATION.TAKE", "ann", LIMIT, -3)
        say("AUTH", "s3cret")
        assert say("RATION.TAKE", "ann", LIMIT, -3)[b"remaining"] == 8
        assert say("RATION.CHECK", "user", "ann", "COST", 4)[b"remaining"] == 96
        assert say("RATION.CHECK", "user", "ann", "COST", -3)[b"remaining"] == 99


def test_giving_back_is_not_counted_as_a_decision(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        def decisions():
            return [line for line in d.admin("GET", "/metrics").text.splitlines()
                    if line.startswith(("ration_decisions_total", "ration_rule_decisions_total", "ration_rule_hits_total"))]

        d.http("POST", "/v1/check", {"attributes": {"user": "ann"}, "cost": 5})
        before = decisions()
        assert d.http("POST", "/v1/check", {"attributes": {"user": "ann"}, "cost": -2}).json["remaining"] == 97
        assert throttle(d, -2).status == 200
        assert before and decisions() == before


# --- many at once ---------------------------------------------------------------------------


def test_a_batch_drains_and_gives_back_in_order(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        one = {"key": "ann", "limit": LIMIT}
        answer = d.http("POST", "/v1/check", {"checks": [
            {**one, "cost": 7}, {**one, "cost": 5, "drain": True}, one, {**one, "cost": -2}, one,
            {"attributes": {"user": "bob"}, "cost": 101, "drain": True}, {"attributes": {"user": "bob"}, "peek": True}]})
        assert [(r["allowed"], r["remaining"]) for r in answer.json["results"]] == [
            (True, 3), (False, 0), (False, 0), (True, 2), (True, 1), (False, 0), (False, 0)]


def test_a_pipeline_drains_what_says_so(tmp_path):
    with Daemon(tmp_path, RULES) as d, d.resp() as say:
        say("HELLO", 3)
        commands = [("RATION.TAKE", f"k{i % 4}", LIMIT, 7, *(["DRAIN"] if i % 4 < 2 else [])) for i in range(40)]
        for command in commands:
            say.send(*command)
        replies = [say.read() for _ in commands]
        for i, reply in enumerate(replies):
            assert reply[b"allowed"] == (i < 4)
            assert reply[b"remaining"] == (0 if i % 4 < 2 and i >= 4 else 3), i
        say.send("RATION.TAKE", "x", LIMIT, 6, "DRAIN")
        say.send("RATION.TAKE", "x", LIMIT, 6)
        say.send("RATION.TAKE", "x", LIMIT, "DRAIN", "ALGORITHM", "token-bucket")
        say.send("RATION.TAKE", "x", LIMIT, 6, "DRAIN")
        assert [say.read()[b"remaining"] for _ in range(4)] == [4, 4, 3, 0]


# --- through Redis -----------------------------------------------------------------------------

MODES = """
limits:
  - {name: api, key: user, limit: 1000 per 7 days, algorithm: %s, consistency: %s, on_store_failure: refuse}
"""


@pytest.mark.parametrize("mode, algorithm", [
    (mode, algorithm) for mode in ("strict", "leased", "async")
    for algorithm in ("token-bucket", "fixed-window", "sliding-window", "sliding-log")
    if (mode, algorithm) != ("async", "sliding-log")])
def test_a_node_that_holds_units_drains_them_too(tmp_path, mode, algorithm):
    """The key is hot, so that a worker holds some of it, or decides by itself. Redis drains an async key and
    gives back to it: exactly, if no report of earlier units is on its way."""
    held = 1000 // 20 if mode == "async" else 0  # what a worker may admit beyond the limit
    with RedisServer(tmp_path) as server, \
            Daemon(tmp_path, MODES % (algorithm, mode),
                   ["--redis", server.url, "--workers", 1, "--redis-deadline", "5s"]) as d, \
            d.resp() as say:
        def check(*words):
            return say("RATION.CHECK", "user", "ann", *words)

        def wait_for_metric(line):
            wait_for(lambda: line in d.admin("GET", "/metrics").text.splitlines(), line)

        def wait_for_reports():
            if mode == "async":
                wait_for_metric("ration_async_unreported_units 0")

        say("HELLO", 3)
        wait_for_metric("ration_store_up 1")
        server.client().set("ration:history", "0")
        for _ in range(300):
            assert check()[b"allowed"]
        wait_for_reports()
        refused = check("COST", 900, "DRAIN")
        assert (refused[b"allowed"], refused[b"remaining"]) == (False, 0)
        assert [check()[b"allowed"] for _ in range(20)] == [False] * 20
        back = check("COST", -30)
        assert back[b"allowed"] and back[b"remaining"] == 30
        admitted = []
        wait_for(lambda: admitted.append(check()[b"allowed"]) or sum(admitted) == 30)  # a lease may pause
        wait_for_reports()
        assert not any(check()[b"allowed"] for _ in range(20))
        check("COST", -100000)
        assert check("COST", 1001)[b"allowed"] is False
        if mode == "strict":  # else a part of it may be held
            assert check("COST", 1000, "DRAIN")[b"allowed"] is True
        assert sum(check()[b"allowed"] for _ in range(1200)) <= 1000 + held


# --- the command ---------------------------------------------------------------------------------


def ration(*words):
    return subprocess.run([BUILD / "ration", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE)


def test_check_drains(tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "envoy.yaml").write_text("domain: shop\ndescriptors: []\n")
    files = ["check", "--state", tmp_path / "state", tmp_path / "rules.yaml", "user=ann"]
    assert ration(*files, "--cost", 97).returncode == 0
    assert ration(*files, "--cost", 5, "--drain").returncode == 1
    assert ration(*files).returncode == 1, "the three that were left are gone"
    answer = ration("check", tmp_path / "envoy.yaml", "domain=shop", "a=b", "--drain")
    assert answer.returncode == 2 and "--drain is for rules in the native format" in answer.stderr
    with Daemon(tmp_path, RULES) as d:
        asked = ["check", "--http", d.addresses["http"], "user=ann"]
        assert ration(*asked, "--cost", 97).returncode == 0
        assert ration(*asked, "--cost", 5, "--drain").returncode == 1
        assert ration(*asked).returncode == 1
