# SPDX-License-Identifier: Apache-2.0
"""Pauses in every protocol: set over HTTP, RESP and by command, in force everywhere, also in nginx and after a
kill. How nodes share them: test_fleet_pauses.py."""

import calendar
import concurrent.futures
import json
import shutil
import time

import pytest

import rls
from daemon import Daemon, RespError, wait_for
from gateway import GIF, MODULE, SANITIZED
from ration_command import run

RULES = """
apply_to_envoy: true
limits:
  - name: stripe
    when: { path: /pay }
    key: account
    limit: 1000 per minute
    response: { status: 503 }
  - name: user
    key: user
    limit: 1000 per minute
  - { name: proxied, when: { path: /proxied }, key: header.x-user, limit: 1000 per minute }
"""
ENVOY = """
domain: shop
descriptors:
  - key: basket
    rate_limit: { unit: minute, requests_per_unit: 1000 }
"""
ANN, BOB = ({"account": name, "path": "/pay"} for name in ("ann", "bob"))
LIMIT = "1000 per minute"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pause")
    (folder / "shop.yaml").write_text(ENVOY)
    with Daemon(folder, RULES, ["--workers", 2, "--memory", "8M", "--grpc", "127.0.0.1:0",
                                "--config", folder / "shop.yaml"]) as daemon:
        yield daemon


def pause(daemon, **body):
    return daemon.http("POST", "/v1/pause", body)


def check(daemon, attributes, **headers):
    return daemon.http("POST", "/v1/check", {"attributes": attributes}, headers)


def throttle(daemon, key, limit=LIMIT, **more):
    return daemon.http("POST", "/v1/throttle", {"key": key, "limit": limit, **more})


def test_a_paused_key_is_refused_whatever_its_limit(daemon):
    assert throttle(daemon, "up").status == 200
    answer = pause(daemon, key="up", **{"for": 600})
    assert answer.status == 200 and answer.json == {"paused": True, "rest": 600}
    for limit in (LIMIT, "5 per hour"):
        answer = throttle(daemon, "up", limit)
        told = answer.json
        assert answer.status == 429 and (told["allowed"], told["paused"], told["error"]) == (False, True, "paused")
        assert 500 < told["retry_after"] <= 600 and told["limits"] == [] and told["limit"] is None
        assert told["message"].startswith("Requests of this key are paused. Try again in ")
        assert 500 < int(answer.headers["Retry-After"]) <= 600
        assert answer.headers["X-RateLimit-Limit"] is None
    assert throttle(daemon, "up", peek=True).json["paused"]
    assert throttle(daemon, "down").status == 200
    with daemon.resp() as resp:
        allowed, limit, left, retry, reset = resp("CL.THROTTLE", "up", "5", "10", "60")
        assert (allowed, limit, left) == (1, 6, 0) and 500 < retry <= 600 and 500 < reset <= 600
        assert b"paused" in resp("RATION.TAKE", "up", LIMIT) and b"paused" in resp("RATION.PEEK", "up", LIMIT)
        assert b"paused" in resp("RATION.ACQUIRE", "up", "5 concurrent")
        assert b"paused" in resp("RATION.RESERVE", "up", LIMIT, "3")
    answer = daemon.http("DELETE", "/v1/pause?key=up")
    assert answer.json["lifted"] and 500 < answer.json["rest"] <= 600
    assert daemon.http("DELETE", "/v1/pause", {"key": "up"}).json == {"lifted": False, "rest": 0}
    assert throttle(daemon, "up").status == 200


def test_a_paused_client_is_refused_under_the_rule(daemon):
    assert pause(daemon, attributes=ANN, rule="stripe", **{"for": "10m"}).json == {"paused": True, "rest": 600}
    answer = check(daemon, ANN)
    assert answer.status == 503 and answer.json["rule"] == "stripe" and answer.json["paused"]
    assert 500 < int(answer.headers["Retry-After"]) <= 600
    problem = check(daemon, ANN, Accept="application/problem+json")
    assert problem.headers["Content-Type"] == "application/problem+json"
    assert problem.json["type"].endswith("#temporary-reduced-capacity") and problem.json["status"] == 503
    assert check(daemon, BOB).status == 200
    with daemon.resp() as resp:
        words = resp("RATION.CHECK", "account", "ann", "path", "/pay", "FULL")
        told = dict(zip(words[::2], words[1::2]))
        assert (told[b"allowed"], told[b"paused"], told[b"by"], told[b"status"]) == (0, 1, b"limits", 503)
        assert 0 < resp("RATION.PAUSE", "RULES", "account", "ann", "path", "/pay", "RULE", "stripe") <= 600_000
        assert resp("RATION.PAUSE", "RULES", "account", "bob", "path", "/pay") == 0
    state = daemon.admin("GET", "/v1/state?account=ann&path=/pay").json
    assert state["paused"][0]["rule"] == "stripe" and 500 < state["paused"][0]["rest"] <= 600
    assert state["limits"][0]["remaining"] == 1000
    assert "paused" not in daemon.admin("GET", "/v1/state?account=bob&path=/pay").json
    told = daemon.admin("POST", "/v1/explain", {"attributes": ANN, "matching": True}).json
    assert told["decision"]["paused"] and 500 < told["rules"][0]["paused_for"] <= 600
    answer = daemon.http("GET", "/v1/pause?account=ann&path=/pay&rule=stripe")
    assert answer.json["paused"] and 500 < answer.json["rest"] <= 600
    with daemon.resp() as resp:
        assert 500_000 < resp("RATION.PAUSE", "RULES", "account", "ann", "path", "/pay", "LIFT") <= 600_000
        assert resp("RATION.PAUSE", "RULES", "account", "ann", "path", "/pay", "LIFT") == 0
    assert check(daemon, ANN).status == 200


def test_a_proxy_is_told_of_a_pause(daemon):
    def ask(user):
        return daemon.http("GET", "/v1/auth", headers={"X-Forwarded-Uri": "/proxied", "X-Forwarded-Method": "GET",
                                                       "X-User": user})
    assert ask("eve").status == 200
    eve = {"path": "/proxied", "header.x-user": "eve"}
    assert pause(daemon, attributes=eve, rule="proxied", **{"for": 600}).status == 200
    answer = ask("eve")
    assert answer.status == 429 and answer.json["paused"] and 500 < int(answer.headers["Retry-After"]) <= 600
    assert ask("adam").status == 200


def test_envoy_is_told_of_a_pause_under_native_rules(daemon):
    with rls.Client(daemon.addresses["grpc"]) as client:
        assert client.code("shop", {"user": "zoe"}) == rls.OK
        assert pause(daemon, attributes={"user": "zoe"}, rule="user", **{"for": 600}).status == 200
        answer = client.should(rls.request("shop", {"basket": "1"}, {"user": "zoe"}))
        assert answer.overall_code == rls.OVER_LIMIT
        assert [s.code for s in answer.statuses] == [rls.OK, rls.OVER_LIMIT]
        assert 500 < answer.statuses[1].duration_until_reset.seconds <= 600
        assert client.code("shop", {"user": "yan"}) == rls.OK
        told = daemon.http("POST", "/json", {"domain": "shop", "descriptors": [
            {"entries": [{"key": "user", "value": "zoe"}]}]})
        assert told.status == 429


def test_requests_that_wait_go_ahead_when_the_pause_is_lifted(daemon):
    def waiting():
        return next(int(line.split()[1]) for line in daemon.admin("GET", "/metrics").text.splitlines()
                    if line.startswith("ration_waiting "))
    pause(daemon, key="held", **{"for": 50})
    pause(daemon, attributes=ANN, rule="stripe", **{"for": 50})
    with concurrent.futures.ThreadPoolExecutor() as pool:
        held = [pool.submit(throttle, daemon, "held", wait=60),
                pool.submit(daemon.http, "POST", "/v1/check", {"attributes": ANN, "wait": 60})]
        wait_for(lambda: waiting() == 2, "both wait")
        assert throttle(daemon, "held", wait=1).status == 429, "it would wait, but not for so long"
        daemon.http("DELETE", "/v1/pause?key=held")
        daemon.http("DELETE", "/v1/pause", {"attributes": ANN})
        answers = [future.result() for future in held]
    assert [answer.status for answer in answers] == [200, 200]
    assert all(0 < answer.json["waited"] for answer in answers)
    assert waiting() == 0


def in_http(seconds):
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(seconds))


def test_a_retry_after_header_is_taken_as_it_was_received(daemon):
    now = calendar.timegm(time.gmtime())
    assert pause(daemon, key="h1", **{"for": "120"}).json["rest"] == 120
    assert pause(daemon, key="h1", **{"for": "30"}).json["rest"] > 100, "the later end counts"
    assert 3000 < pause(daemon, key="h2", **{"for": in_http(now + 3600)}).json["rest"] <= 3600
    assert pause(daemon, key="h3", **{"for": in_http(now - 3600)}).json == {"paused": False, "rest": 0}
    assert pause(daemon, key="h1", **{"for": 0}).json["rest"] > 100, "0 does not lift"
    assert pause(daemon, key="h4", **{"for": 0.25}).json["rest"] == 0.25
    for key, header in [("h7", "172800"), ("h8", in_http(now + 10 * 86400))]:
        assert pause(daemon, key=key, **{"for": header}).json["rest"] == 86400, "Retry-After is cut to 24 hours"
    with daemon.resp() as resp:
        assert 3_000_000 < resp("RATION.PAUSE", "h5", in_http(now + 3600)) <= 3_600_000
        assert resp("RATION.PAUSE", "h6", "250ms") == 250
        assert resp("RATION.PAUSE", "h6", "0") <= 250


@pytest.mark.parametrize("body, words", [
    ({"for": 3}, "give \"key\""),
    ({"key": "a", "attributes": {"user": "b"}, "for": 3}, "not both"),
    ({"key": "a", "rule": "user", "for": 3}, "\"rule\" goes with \"attributes\""),
    ({"key": "a"}, "\"for\" is missing"),
    ({"key": "a", "for": "soon"}, "\"soon\" is not a length; write whole seconds"),
    ({"key": "a", "for": "25h"}, "\"25h\" is longer than 24 hours"),
    ({"key": "a", "for": 86401}, "up to 86400 (24 hours)"),
    ({"key": "a", "for": -1}, "\"for\" must be seconds"),
    ({"key": "a", "for": None}, "\"for\" must be seconds"),
    ({"key": "a", "fro": 3}, "did you mean \"for\"?"),
    ({"attributes": {"": None}, "for": 3}, "an attribute has no name"),
    ({"attributes": {"x": "y"}, "for": 3}, "no rule with a limit applies"),
    ({"attributes": {"account": "ann", "path": "/x"}, "rule": "stripe", "for": 3}, "does not match /pay"),
])
def test_mistakes_are_named(daemon, body, words):
    answer = daemon.http("POST", "/v1/pause", body)
    assert answer.status == 400 and words in answer.json["message"]


def test_a_parameter_needs_a_name(daemon):
    answer = daemon.http("GET", "/v1/pause?account=ann&=1")
    assert answer.status == 400 and answer.json["message"] == "a parameter has no name"


def test_a_rule_that_does_not_exist_is_named(daemon):
    answer = pause(daemon, attributes=ANN, rule="strip", **{"for": 3})
    assert answer.status == 404 and "did you mean \"stripe\"?" in answer.json["message"]
    with daemon.resp() as resp:
        for words, text in [
            (["RULES", "account", "ann", "path", "/pay", "FOR", "3", "RULE", "strip"], "there is no rule"),
            (["RULES", "account", "ann", "path", "/x", "FOR", "3", "RULE", "stripe"], "does not apply"),
            (["RULES", "x", "y", "FOR", "3"], "no rule with a limit applies"),
            (["RULES", "FOR", "3"], "RATION.PAUSE"), (["a", "3", "4"], "RATION.PAUSE"),
            (["a", "soon"], "is not a length"), (["a", "2 days"], "longer than 24 hours"),
        ]:
            with pytest.raises(RespError, match=text):
                resp("RATION.PAUSE", *words)


def test_the_command_pauses_tells_and_lifts(daemon):
    admin = ["--admin", daemon.addresses["admin"]]
    answer = run("pause", *admin, "cmd", "10m")
    assert (answer.status, answer.out) == (0, "paused for 10 min\n")
    assert run("pause", *admin, "cmd").status == 0 and throttle(daemon, "cmd").status == 429
    assert run("pause", *admin, "--json", "cmd").json["paused"]
    answer = run("pause", *admin, "cmd", "--lift")
    assert answer.status == 0 and answer.out.startswith("lifted; ")
    for words in (["cmd"], ["cmd", "--lift"]):
        answer = run("pause", *admin, *words)
        assert (answer.status, answer.out) == (1, "not paused\n")
    assert run("pause", *admin, "--rule", "stripe", "account=cli", "path=/pay", "600").status == 0
    assert "stripe paused for " in run("state", *admin, "account=cli", "path=/pay").out
    told = run("explain", *admin, "--server", "account=cli", "path=/pay").out
    assert "    paused  for " in told and "would be refused by a pause under stripe; try again in " in told
    for words, text in [([], "pause what?"), (["a", "b", "c"], "found \"c\""), (["a", "1", "--lift"], "not both"),
                        (["--rule", "stripe", "a", "1"], "--rule goes with attributes"),
                        (["a", "25h"], "ration: \"25h\" is longer than 24 hours"),
                        (["a", "soon"], "ration: \"soon\" is not a length")]:
        answer = run("pause", *admin, *words)
        assert answer.status == 2 and text in answer.err, answer
    answer = run("pause", *admin, "a", "Sun, 06 Nov 1994 08:49:37 GMT")
    assert (answer.status, answer.out) == (0, "not paused: the length is 0, or the date has passed\n")


def test_pauses_are_counted_and_logged(tmp_path):
    with Daemon(tmp_path, RULES, ["--workers", 1, "--memory", "2M"]) as daemon:
        def metric(name):
            return float(next(line.split()[1] for line in daemon.admin("GET", "/metrics").text.splitlines()
                              if line.startswith(name + " ")))
        assert metric("ration_pause_rest_seconds") == 0
        pause(daemon, key="a-long-key-of-an-upstream", **{"for": 600})
        pause(daemon, attributes=ANN, rule="stripe", **{"for": 300})
        assert [throttle(daemon, "a-long-key-of-an-upstream").status, check(daemon, ANN).status] == [429, 503]
        daemon.http("DELETE", "/v1/pause?key=a-long-key-of-an-upstream")
        assert [metric(f"ration_{name}_total") for name in ("pauses", "pauses_lifted", "pause_refusals")] == [2, 1, 2]
        assert metric('ration_decisions_total{decision="refused"}') == 2
        assert 0 < metric("ration_pause_rest_seconds") <= 600
        assert " key=a-lo..." in daemon.logged(" event=pause.set ")
        daemon.logged(" event=pause.lift ")


def test_a_pause_survives_a_kill(tmp_path):
    with Daemon(tmp_path, RULES, ["--workers", 1, "--memory", "2M", "--state", tmp_path / "state"]) as daemon:
        pause(daemon, key="k", **{"for": 3600})
        pause(daemon, attributes=ANN, rule="stripe", **{"for": 3600})
        daemon.kill()
        daemon.start()
        assert throttle(daemon, "k").status == 429 and check(daemon, ANN).status == 503
        assert 3000 < daemon.http("GET", "/v1/pause?key=k").json["rest"] <= 3600


def test_strangers_may_not_pause(tmp_path):
    rules = RULES + "server:\n  admin_token: s3cret\n  tokens:\n    eye: { token: l00k, scope: read }\n"
    with Daemon(tmp_path, rules, ["--workers", 1, "--memory", "2M", "--trust-local", "false"]) as daemon:
        body = {"key": "k", "for": 600}
        assert daemon.http("POST", "/v1/pause", body).status == 401
        assert daemon.http("POST", "/v1/pause", body, {"Authorization": "Bearer l00k"}).status == 403
        assert daemon.http("DELETE", "/v1/pause?key=k").status == 401
        with daemon.resp() as resp:
            with pytest.raises(RespError, match="NOAUTH"):
                resp("RATION.PAUSE", "k", "10m")
            assert resp("RATION.PAUSE", "k") == 0, "looking needs no token"
            resp("AUTH", "s3cret")
            assert resp("RATION.PAUSE", "k", "10m") == 600_000
        assert daemon.http("GET", "/v1/pause?key=k").json["paused"]
        assert daemon.http("DELETE", "/v1/pause?key=k", headers={"Authorization": "Bearer s3cret"}).json["lifted"]


NEEDS_NGINX = pytest.mark.skipif(SANITIZED is not None or not MODULE.exists() or not shutil.which("nginx"),
                                 reason="needs nginx and the module")
SITE = "limits:\n  - {name: site, key: ip, limit: 1000 per minute}\n"


@NEEDS_NGINX
def test_nginx_on_the_same_state_file_knows_pauses(gateway, tmp_path):
    g = gateway(SITE, GIF, workers=2)
    folder = tmp_path / "rationd"
    folder.mkdir()
    with Daemon(folder, SITE, ["--state", tmp_path / "state", "--workers", "1"]) as daemon:
        assert g.ask()[0] == 200
        who = {"attributes": {"ip": "127.0.0.1"}, "rule": "site"}
        assert daemon.http("POST", "/v1/pause", {**who, "for": 3600}).status == 200
        for _ in range(10):  # in both workers, at once
            status, headers, body = g.ask()
            assert status == 429 and json.loads(body)["paused"] and 3000 < int(headers["retry-after"]) <= 3600
        assert daemon.http("DELETE", "/v1/pause", who).json["lifted"]
        assert [g.ask()[0] for _ in range(10)] == [200] * 10


@NEEDS_NGINX
def test_nginx_that_asks_rationd_passes_a_pause_on(asking, rationd):
    daemon = rationd(SITE)
    g = asking(daemon.address, "limits: []\n")
    assert g.ask()[0] == 200
    with daemon.resp() as resp:
        assert resp("RATION.PAUSE", "RULES", "ip", "127.0.0.1", "FOR", "1h", "RULE", "site") == 3_600_000
    status, headers, body = g.ask()
    assert status == 429 and json.loads(body)["paused"] and 3000 < int(headers["retry-after"]) <= 3600
