# SPDX-License-Identifier: Apache-2.0
"""The admin port of rationd: every endpoint, what it changes, what it refuses, and its log lines.

Called as a program, this file asks a daemon from another machine's address: see the tests of
callers from elsewhere.
"""

import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest
import yaml

from daemon import PATIENCE, ROOT, Daemon

RULES = """
limits:
  - name: login
    when: { method: POST, path: /login }
    key: ip
    limit: 5 per minute
    algorithm: sliding-log
  - name: api
    when: { path: /api/** }
    key: [api_key, ip]
    limit:
      by: tier
      free: 100 per minute
      pro: 10000 per minute burst 500
      enterprise: unlimited
      default: free
  - name: seats
    when: { path: /seats }
    key: user
    limit: 3 concurrent
deny:
  - { ip: 203.0.113.0/24 }
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("admin"), RULES) as d:
        yield d


@pytest.fixture
def own(tmp_path):
    """A daemon that the test may change as it likes."""
    with Daemon(tmp_path, RULES) as d:
        yield d


def until(found):
    """Waits until `found()` is true, and returns it."""
    end = time.monotonic() + PATIENCE
    while not (result := found()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return result


def log_line(d, event):
    """The line of that event, once it is there: a dict of its pairs."""
    line = until(lambda: next((l for l in d.log if f" {event} " in l), None))
    return {name: re.sub(r"\\(.)", r"\1", quoted) or plain
            for name, quoted, plain in re.findall(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\S+))', line)}


def login(ip, **more):
    return {"ip": ip, "method": "POST", "path": "/login", **more}


def state(d, rule, **attributes):
    query = "&".join(f"{k}={v}" for k, v in attributes.items())
    answer = d.admin("GET", f"/v1/state?rule={rule}&{query}")
    assert answer.status == 200, answer
    return answer.json["limits"]


def spend(d, n, attributes):
    for _ in range(n):
        d.http("POST", "/v1/check", {"attributes": attributes})


def refused(answer, status, error, *words):
    """That it is this error and its message has all of the words."""
    assert (answer.status, answer.json["error"]) == (status, error), answer
    for word in words:
        assert word in answer.json["message"], answer
    return True


# --- health and status -------------------------------------------------------------


def test_health_and_readiness(daemon):
    answer = daemon.admin("GET", "/healthz")
    assert (answer.status, answer.text) == (200, "ok\n")
    assert daemon.admin("GET", "/readyz").json == {"ready": True, "rules_version": 1}
    assert daemon.admin("HEAD", "/healthz").body == b""


def is_draining(d):
    """Either nobody answers any more, or with 503."""
    try:
        answer = d.admin("GET", "/readyz")
    except (OSError, http.client.HTTPException):
        return True
    assert answer.status == 200 or answer.json == {"ready": False, "reason": "draining"}
    return answer.status == 503


def test_while_it_drains_it_is_not_ready(own):
    busy = own.socket("http") # a request on its way keeps the drain going
    busy.sendall(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
    until(lambda: own.admin("GET", "/v1/status").json["connections"]["http"]["open"] == 1)
    own.process.terminate()
    until(lambda: is_draining(own))
    assert own.process.poll() is None
    busy.sendall(b"}")
    assert busy.recv(4096).startswith(b"HTTP/1.1 ")
    busy.close()
    assert own.process.wait(PATIENCE) == 0


def test_status_tells_what_there_is(daemon):
    status = daemon.admin("GET", "/v1/status").json
    assert status["rules"]["count"] == 3 and status["rules"]["source"] == "file"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", status["rules"]["loaded_at"])
    assert status["listeners"] == {k: v for k, v in daemon.addresses.items() if v != "none"}
    assert status["connections"]["admin"]["open"] >= 1
    assert status["memory"]["slots"] > 1000 and status["workers"] >= 1
    assert status["shadow"] is False


# --- rules ---------------------------------------------------------------------------


def test_rules_are_told_with_their_totals(daemon):
    before = {r["name"]: r for r in daemon.admin("GET", "/v1/rules").json["rules"]}
    spend(daemon, 7, login("192.0.2.1"))
    answer = daemon.admin("GET", "/v1/rules")
    rules = {r["name"]: r for r in answer.json["rules"]}
    assert answer.headers["ETag"] == '"1"' and answer.json["version"] == 1
    assert answer.json["files"] == [str(daemon.file)]
    assert list(rules) == ["login", "api", "seats"]
    assert rules["login"]["limits"] == ["5 per minute"]
    assert rules["login"]["algorithm"] == "sliding-log" and rules["login"]["key"] == "ip"
    assert rules["login"]["allowed"] - before["login"]["allowed"] == 5
    assert rules["login"]["refused"] - before["login"]["refused"] == 2
    assert rules["api"]["limits"][:2] == ["free: 100 per minute", "pro: 10000 per minute burst 500"]
    assert rules["api"]["key"] == "api_key, ip" and rules["api"]["mode"] == "enforce"


def test_rules_as_yaml_are_rules_that_can_be_put(own):
    answer = own.admin("GET", "/v1/rules", headers={"Accept": "application/yaml"})
    assert answer.headers["Content-Type"] == "application/yaml"
    assert [r["name"] for r in yaml.safe_load(answer.text)["limits"]] == ["login", "api", "seats"]
    assert own.admin("PUT", "/v1/rules", answer.body).json["version"] == 2
    again = own.admin("GET", "/v1/rules", headers={"Accept": "application/yaml"})
    assert again.body == answer.body and again.headers["ETag"] == '"2"'


def test_put_rules_are_in_force_until_a_reload(own):
    text = "limits:\n  - { name: all, key: ip, limit: 2 per minute } # mine\n"
    answer = own.admin("PUT", "/v1/rules", text)
    assert answer.status == 200 and answer.json["version"] == 2 and answer.json["warnings"] == []
    assert "restart" in answer.json["note"]
    rules = own.admin("GET", "/v1/rules").json
    assert (rules["source"], rules["text"]) == ("api", text)
    assert [own.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.2"}}).status
            for _ in range(3)] == [200, 200, 429]
    assert log_line(own, "rules.put")["version"] == "2"
    assert own.admin("POST", "/v1/rules/reload").json["version"] == 3
    assert own.admin("GET", "/v1/rules").json["source"] == "file"
    assert log_line(own, "rules.reload")["by"].startswith("127.0.0.1:")


def test_put_rules_can_be_deleted_and_the_files_hold_again(own):
    assert own.admin("PUT", "/v1/rules", "limits: []").status == 200
    refused(own.admin("DELETE", "/v1/rules", headers={"If-Match": '"1"'}), 412, "changed")
    assert own.admin("DELETE", "/v1/rules", headers={"If-Match": '"2"'}).json["version"] == 3
    assert own.admin("GET", "/v1/rules").json["source"] == "file"
    own.file.write_text("limits: [{}]")
    refused(own.admin("DELETE", "/v1/rules"), 422, "bad_rules")


def test_warnings_come_with_rules_that_are_put(own):
    text = "limits: [{ name: a, when: { method: [GET, GET] }, key: ip, limit: 5 per minute }]"
    answer = own.admin("PUT", "/v1/rules", text)
    assert answer.status == 200
    assert any("warning:" in line for line in answer.json["warnings"]), answer


@pytest.mark.parametrize("method, path", [("PUT", "/v1/rules"), ("POST", "/v1/rules/validate")])
def test_bad_rules_are_reported_and_change_nothing(daemon, method, path):
    answer = daemon.admin(method, path, "limits:\n  - name: a\n    key: ip\n    lmit: 5 per minute\n")
    assert refused(answer, 422, "bad_rules", "1 error")
    assert 'rules:4:5: error: unknown key "lmit"; did you mean "limit"?' in answer.json["report"]
    assert daemon.admin("GET", "/v1/rules").json["version"] == 1


def test_validation_changes_nothing(daemon):
    answer = daemon.admin("POST", "/v1/rules/validate", '{"limits": []}')
    assert (answer.status, answer.json) == (200, {"valid": True, "warnings": []})
    assert daemon.admin("GET", "/v1/rules").json["version"] == 1


def test_rules_of_nothing_are_refused(daemon):
    assert refused(daemon.admin("PUT", "/v1/rules"), 400, "bad_request", "empty")


@pytest.mark.parametrize("tag, status", [('"1"', 200), ('"2"', 412), ('"7", "1"', 200), ("*", 200),
                                         ("1", 412), ('W/"1"', 412)])
def test_rules_are_put_only_in_the_place_of_those_that_were_meant(own, tag, status):
    answer = own.admin("PUT", "/v1/rules", "limits: []", {"If-Match": tag})
    assert answer.status == status, answer
    assert own.admin("GET", "/v1/rules").json["version"] == (2 if status == 200 else 1)
    if status == 412:
        assert refused(answer, 412, "changed", '"1"', tag)


def test_a_reload_of_bad_files_keeps_the_rules(own):
    own.file.write_text("limits: [{ name: a }]")
    answer = own.admin("POST", "/v1/rules/reload")
    assert refused(answer, 422, "bad_rules") and "rules.yaml" in answer.json["report"]
    assert own.admin("GET", "/v1/rules").json["version"] == 1
    assert own.admin("GET", "/v1/status").json["rules"]["last_reload_failed"] is True
    assert "ration_rules_last_reload_successful 0" in own.admin("GET", "/metrics").text


# --- explain and state ----------------------------------------------------------------


def test_explain_says_why_of_each_rule(daemon):
    body = {"attributes": {"ip": "192.0.2.3", "method": "GET", "path": "/api/x", "api_key": "k",
                           "tier": "pro"}}
    answer = daemon.admin("POST", "/v1/explain", body)
    rules = {r["rule"]: r for r in answer.json["rules"]}
    assert rules["login"] == {"rule": "login", "applies": False, "reason": 'method "GET" is not POST'}
    assert rules["api"]["applies"] and rules["api"]["key"] == {"api_key": "k", "ip": "192.0.2.3"}
    assert rules["api"]["tier"] == "pro"
    assert rules["api"]["limits"][0]["text"] == "10000 per minute burst 500"
    assert answer.json["decision"]["rule"] == "api" and answer.json["decision"]["remaining"] == 500


def test_explain_charges_nothing(daemon):
    for _ in range(9):
        answer = daemon.admin("POST", "/v1/explain", {"attributes": login("192.0.2.4"), "cost": 5})
        assert answer.json["decision"]["allowed"]
    assert daemon.admin("POST", "/v1/explain", {"attributes": login("192.0.2.4"), "cost": 6}
                        ).json["decision"]["allowed"] is False


@pytest.mark.parametrize("attributes, reason", [
    ({"path": "/api/x", "ip": "192.0.2.5"}, "no key: api_key is absent"),
    ({"path": "/other"}, 'path "/other" does not match /api/**'),
    ({}, "path is absent; it must match /api/**"),
    ({"path": "/api/\x07\"é"}, "no key: api_key is absent"),
])
def test_reasons_are_sentences(daemon, attributes, reason):
    answer = daemon.admin("POST", "/v1/explain", {"attributes": attributes})
    assert next(r for r in answer.json["rules"] if r["rule"] == "api")["reason"] == reason


def test_reasons_escape_what_a_client_sent(daemon):
    answer = daemon.admin("POST", "/v1/explain", {"attributes": {"path": "/\x1b[2J\"é"}})
    assert answer.json["rules"][0]["reason"] == "method is absent; it must be POST"
    assert answer.json["rules"][1]["reason"] == 'path "/\\x1b[2J\\"é" does not match /api/**'


def test_explain_names_the_list_that_takes_a_request_aside(daemon):
    answer = daemon.admin("POST", "/v1/explain", {"attributes": login("203.0.113.9")}).json
    assert answer["decision"]["allowed"] is False and answer["decision"]["retry_after"] is None
    assert answer["list"] == {"list": "deny", "file": str(daemon.file), "line": 22}


def test_the_state_of_a_client(daemon):
    spend(daemon, 3, login("192.0.2.6"))
    limit, = state(daemon, "login", **login("192.0.2.6"))
    assert (limit["limit"], limit["remaining"], limit["text"]) == (5, 2, "5 per minute")
    assert 0 < limit["reset_after"] <= 61 and limit["retry_after"] == 0
    spend(daemon, 2, login("192.0.2.6"))
    limit, = state(daemon, "login", **login("192.0.2.6"))
    assert limit["remaining"] == 0 and 0 < limit["retry_after"] <= 61


def test_the_state_of_an_unlimited_tier(daemon):
    limit, = state(daemon, "api", path="/api/x", ip="192.0.2.6", api_key="k", tier="enterprise")
    assert (limit["limit"], limit["remaining"], limit["text"]) == (None, None, "unlimited")


def test_parameters_are_decoded(daemon):
    answer = daemon.admin("POST", "/v1/explain",
                          {"attributes": {"path": "/api/x", "ip": "::1", "api_key": "a b&c=d"}})
    key = answer.json["rules"][1]["key"]
    query = "path=%2Fapi%2fx&ip=%3A%3A1&api_key=a+b%26c%3Dd"
    spend(daemon, 1, {"path": "/api/x", "ip": "::1", "api_key": key["api_key"]})
    limits = daemon.admin("GET", "/v1/state?" + query).json["limits"]
    assert [l["remaining"] for l in limits] == [99]


def test_state_of_rules_that_do_not_apply(daemon):
    assert refused(daemon.admin("GET", "/v1/state?rule=lgin"), 404, "no_rule", 'did you mean "login"?')
    assert refused(daemon.admin("GET", "/v1/state?rule=zzzzzz"), 404, "no_rule", "GET /v1/rules")
    assert refused(daemon.admin("GET", "/v1/state?rule=login&method=POST&path=/login"), 400,
                   "unmatched", "no key: ip is absent")
    assert refused(daemon.admin("GET", "/v1/state?ip=%4"), 400, "bad_request", "query string")
    assert daemon.admin("GET", "/v1/state").json == {"limits": []}


def test_reset_gives_a_client_a_fresh_start(daemon):
    spend(daemon, 5, login("192.0.2.8"))
    answer = daemon.admin("POST", "/v1/state/reset", {"attributes": login("192.0.2.8")})
    assert answer.json == {"reset": 1}
    assert state(daemon, "login", **login("192.0.2.8"))[0]["remaining"] == 5
    line = log_line(daemon, "state.reset")
    assert line["rule"] == "all" and line["limits"] == "1"
    assert line["client"] == "ip=192.0.2.8 method=POST path=/login"
    assert line["by"].startswith("127.0.0.1:")


def test_adjust_charges_and_gives_back(daemon):
    def adjust(**change):
        answer = daemon.admin("POST", "/v1/state/adjust",
                              {"attributes": login("192.0.2.9"), "rule": "login", **change})
        assert answer.status == 200, answer
        return answer.json["limits"][0]["remaining"]

    assert adjust(add=3) == 2
    assert adjust(add=-1) == 3
    assert adjust(add=-100) == 5
    assert adjust(remaining=1) == 1
    assert adjust(remaining=100) == 5
    assert log_line(daemon, "state.adjust")["add"] == "3"


@pytest.mark.parametrize("path, body, status, error, words", [
    ("reset", {}, 400, "bad_request", ['"attributes" are missing']),
    ("reset", {"attributes": {}, "rule": "logn"}, 404, "no_rule", ['"login"']),
    ("reset", {"attributes": {"ip": "192.0.2.9"}, "rule": "login"}, 400, "unmatched", ["method"]),
    ("reset", {"attributes": login("203.0.113.1"), "rule": "login"}, 400, "unmatched",
     ["deny list", "rules.yaml:22"]),
    ("reset", {"attribute": {}}, 400, "bad_request", ["column 2", '"attributes"?']),
    ("reset", {"attributes": [1]}, 400, "bad_request", ["column 16", "an object", "found a list"]),
    ("adjust", {"attributes": {}}, 400, "bad_request", ['"add"', '"remaining"']),
    ("adjust", {"attributes": {}, "add": 1, "remaining": 1}, 400, "bad_request", ["not both"]),
    ("adjust", {"attributes": {}, "add": 1.5}, 400, "bad_request", ["whole number"]),
    ("adjust", {"attributes": {}, "add": "1"}, 400, "bad_request", ["whole number"]),
    ("adjust", {"attributes": {}, "remaining": -1}, 400, "bad_request", ["0 or more"]),
    ("adjust", {"attributes": {"path": "/seats", "user": "ada"}, "rule": "seats", "add": 1}, 400,
     "bad_request", ["concurrency"]),
])
def test_changes_of_state_that_make_no_sense(daemon, path, body, status, error, words):
    assert refused(daemon.admin("POST", "/v1/state/" + path, body), status, error, *words)


@pytest.mark.parametrize("body, words", [
    ("", ["empty"]), ("{", ["column 2"]), ("[]", ["object"]), ("{}\n x", ["line 2 column 2"]),
    ('{"shadow": 1}', ["true or false", "found a number"]), ("{}", ["missing"]),
    ('{"shadow": true, "shadow": false}', ["twice"]), (b'{"shadow\xff": 1}', ["UTF-8"]),
])
def test_bodies_that_cannot_be_read(daemon, body, words):
    assert refused(daemon.admin("PUT", "/v1/shadow", body), 400, "bad_request", *words)


# --- overrides and bans -----------------------------------------------------------------


def test_an_override_from_its_beginning_to_its_end(own):
    key = {"api_key": "k1", "ip": "192.0.2.7"}
    answer = own.admin("PUT", "/v1/overrides", {"rule": "api", "attributes": key,
                                                "limit": "7 per minute", "note": "a note"})
    assert answer.status == 200, answer
    override = answer.json
    assert override["active"] and override["expires_after"] is None
    assert own.admin("GET", "/v1/overrides").json == {"overrides": [override]}
    assert own.admin("GET", "/v1/overrides?rule=login").json == {"overrides": []}
    limit, = state(own, "api", path="/api/x", **key)
    assert (limit["limit"], limit["text"], limit["override"]) == (7, "7 per minute", True)
    assert own.http("POST", "/v1/check", {"attributes": {"path": "/api/x", **key}}
                    ).json["remaining"] == 6
    line = log_line(own, "override.set")
    assert (line["rule"], line["limit"]) == ("api", "7 per minute")
    assert line["client"] == "api_key=k1 ip=192.0.2.7"
    assert own.admin("POST", "/v1/rules/reload").status == 200
    assert own.admin("GET", "/v1/overrides").json["overrides"] == [override]
    assert own.admin("DELETE", "/v1/overrides", {"rule": "api", "attributes": key}
                     ).json == {"deleted": True}
    assert own.admin("DELETE", "/v1/overrides", {"rule": "api", "attributes": key}
                     ).json == {"deleted": False}
    assert state(own, "api", path="/api/x", **key)[0]["limit"] == 100
    assert log_line(own, "override.delete")["rule"] == "api"


def test_an_override_replaces_one_of_the_same_key_and_is_deleted_by_id(own):
    put = [own.admin("PUT", "/v1/overrides", {"rule": "login", "attributes": {"ip": "192.0.2.7"},
                                              "limit": limit, "for": 3600}).json
           for limit in ("unlimited", "9 per minute")]
    listed, = own.admin("GET", "/v1/overrides").json["overrides"]
    assert listed["id"] == put[1]["id"] > put[0]["id"] and listed["limit"] == "9 per minute"
    assert 0 < listed["expires_after"] <= 3600
    assert own.admin("DELETE", f"/v1/overrides/{put[0]['id']}").json == {"deleted": False}
    assert own.admin("DELETE", f"/v1/overrides/{put[1]['id']}").json == {"deleted": True}
    assert own.admin("GET", "/v1/overrides").json == {"overrides": []}
    line = log_line(own, "override.delete")
    assert (line["rule"], line["client"]) == ("login", "ip=192.0.2.7")


@pytest.mark.parametrize("body, status, error, words", [
    ({"attributes": {"ip": "192.0.2.7"}, "limit": "unlimited"}, 400, "bad_request", ['"rule"']),
    ({"rule": "logn", "attributes": {"ip": "192.0.2.7"}, "limit": "unlimited"}, 404, "no_rule",
     ['"login"']),
    ({"rule": "login", "attributes": {"ip": "192.0.2.7"}}, 400, "bad_request", ['"limit"']),
    ({"rule": "login", "attributes": {"ip": "192.0.2.7"}, "limit": "5 a day"}, 400, "bad_request",
     ["per"]),
    ({"rule": "api", "attributes": {"ip": "192.0.2.7"}, "limit": "unlimited"}, 400, "bad_request",
     ["api_key"]),
    ({"rule": "login", "attributes": {"ip": "192.0.2.7"}, "limit": "unlimited", "for": -1}, 400,
     "bad_request", ['"for"', "null"]),
    ({"rule": "login", "attributes": {"ip": "192.0.2.7"}, "limit": "unlimited", "notes": ""}, 400,
     "bad_request", ['did you mean "note"?']),
])
def test_overrides_that_make_no_sense(daemon, body, status, error, words):
    assert refused(daemon.admin("PUT", "/v1/overrides", body), status, error, *words)


def test_a_ban_from_its_beginning_to_its_end(own):
    who = {"ip": "198.51.100.0/24"}
    ban = own.admin("PUT", "/v1/bans", {"attributes": who, "for": 600, "reason": "scraping"}).json
    assert ban["attributes"] == who and ban["expires_after"] == 600
    listed, = own.admin("GET", "/v1/bans").json["bans"]
    assert listed["id"] == ban["id"] and 0 < listed["expires_after"] <= 600
    answer = own.http("POST", "/v1/check", {"attributes": {"ip": "198.51.100.9"}})
    assert answer.status == 429 and answer.json["error"] == "banned", answer
    assert answer.json["banned"] is True and answer.json["message"] == "scraping"
    assert own.http("POST", "/v1/check", {"attributes": {"ip": "198.51.101.9"}}).status == 200
    line = log_line(own, "ban.set")
    assert (line["client"], line["reason"]) == ("ip=198.51.100.0/24", "scraping")
    assert own.admin("DELETE", "/v1/bans", {"attributes": who}).json == {"deleted": True}
    assert own.http("POST", "/v1/check", {"attributes": {"ip": "198.51.100.9"}}).status == 200
    ban = own.admin("PUT", "/v1/bans", {"attributes": {"user": "eve"}, "for": None}).json
    assert ban["expires_after"] is None
    assert own.admin("DELETE", f"/v1/bans/{ban['id']}").json == {"deleted": True}
    assert own.admin("DELETE", f"/v1/bans/{ban['id']}").json == {"deleted": False}


def test_bans_that_make_no_sense(daemon):
    assert refused(daemon.admin("PUT", "/v1/bans", {}), 400, "bad_request", '"attributes"')
    assert refused(daemon.admin("PUT", "/v1/bans", {"attributes": {"ip": "1.2.3"}}), 400,
                   "bad_request", "1.2.3")
    assert refused(daemon.admin("DELETE", "/v1/bans/x"), 400, "bad_request", "number")


# --- top, shadow, paths -------------------------------------------------------------------


def test_who_is_refused_most(own):
    spend(own, 5 + 4, login("192.0.2.20"))
    spend(own, 5 + 2, login("192.0.2.21"))
    keys = own.admin("GET", "/v1/top").json["keys"]
    assert [(k["rule"], k["key"], k["refused"]) for k in keys] == \
        [("login", "192.0.2.20", 4), ("login", "192.0.2.21", 2)]
    assert len(own.admin("GET", "/v1/top?count=1").json["keys"]) == 1
    assert refused(own.admin("GET", "/v1/top?count=0"), 400, "bad_request", "1 to 1000")
    assert refused(own.admin("GET", "/v1/top?cout=1"), 400, "bad_request", "did you mean count?")


def test_shadow_mode_refuses_nobody(own):
    assert own.admin("GET", "/v1/shadow").json == {"shadow": False}
    assert own.admin("PUT", "/v1/shadow", {"shadow": True}).json == {"shadow": True}
    answers = [own.http("POST", "/v1/check", {"attributes": login("192.0.2.22")})
               for _ in range(6)]
    assert [a.status for a in answers] == [200] * 6 and answers[-1].json["shadow"] is True
    assert log_line(own, "shadow.set")["shadow"] == "on"
    assert own.admin("PUT", "/v1/shadow", {"shadow": False}).json == {"shadow": False}
    assert own.http("POST", "/v1/check", {"attributes": login("192.0.2.22")}).status == 429


def test_paths_and_methods_that_are_not_there(daemon):
    assert refused(daemon.admin("GET", "/v1/nothing"), 404, "not_found", "/v1/rules", "/v1/bans")
    answer = daemon.admin("POST", "/v1/rules")
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD, PUT, DELETE"


def test_the_log_escapes_what_a_caller_sent(own):
    own.admin("PUT", "/v1/bans", {"attributes": {"user": 'a"\nrationd: forged \x1b[2J'}})
    line = log_line(own, "ban.set")
    assert line and not any(l.startswith("rationd: forged") for l in own.log)
    assert not any("\x1b" in l for l in own.log)


# --- who may ask ---------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [
    {"X-Forwarded-For": "192.0.2.7"}, {"Forwarded": "for=192.0.2.7"},
    {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"},
    {"Host": "evil.example:9090"}, {"Origin": "null"},
])
def test_a_local_connection_of_somebody_else_needs_the_token(tmp_path, headers):
    with Daemon(tmp_path, RULES, env={"RATION_ADMIN_TOKEN": "s3cret"}) as d:
        answer = d.admin("GET", "/v1/rules", headers=headers)
        assert refused(answer, 401, "unauthorized", "Authorization: Bearer")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert d.admin("GET", "/healthz", headers=headers).status == 200
        headers["Authorization"] = "Bearer s3cret"
        assert d.admin("GET", "/v1/rules", headers=headers).status == 200


@pytest.mark.parametrize("host", ["localhost:9090", "[::1]:9090", "127.0.0.1", "ration:9090"])
def test_a_local_caller_needs_no_token(daemon, host):
    assert daemon.admin("GET", "/v1/rules", headers={"Host": host}).status == 200
    origin = {"Host": host, "Origin": "http://" + host, "Sec-Fetch-Site": "same-origin"}
    assert daemon.admin("GET", "/v1/rules", headers=origin).status == 200


def test_a_unix_socket_is_local(tmp_path):
    with Daemon(tmp_path, RULES, options=["--admin", f"unix:{tmp_path}/admin"]) as d:
        assert d.admin("GET", "/v1/rules").status == 200
        assert d.admin("PUT", "/v1/shadow", {"shadow": True}).status == 200
        assert log_line(d, "shadow.set")["by"] == "unix"


def ask_from_elsewhere(folder, token):
    """In a network of its own: a daemon on an address that is not loopback, asked from there."""
    for command in ("link set lo up", "addr add 192.0.2.1/32 dev lo"):
        subprocess.run(["ip", *command.split()], check=True)
    asked = [("GET", "/healthz", None), ("GET", "/readyz", None), ("GET", "/metrics", None),
             ("GET", "/v1/rules", None), ("PUT", "/v1/shadow", None),
             ("GET", "/v1/rules", "Bearer wrong!"), ("GET", "/v1/rules", "Basic s3cret"),
             ("GET", "/v1/rules", "Bearer s3cre"), ("GET", "/v1/rules", "Bearer s3crets"),
             ("GET", "/v1/rules", "Bearer "), ("GET", "/v1/rules", "Bearer s3cret"),
             ("GET", "/metrics", "bearer  s3cret")]
    env = {"RATION_ADMIN_TOKEN": token} if token else None
    with Daemon(folder, RULES, options=["--admin", "192.0.2.1:0"], env=env) as d:
        answers = [d.admin(method, path, headers={"Authorization": a} if a else None)
                   for method, path, a in asked]
        return [[*ask, answer.status, answer.text[:400]] for ask, answer in zip(asked, answers)]


def run_elsewhere(folder, token):
    unshare = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("no network namespaces here")
    done = subprocess.run([*unshare, sys.executable, __file__, str(folder), token],
                          capture_output=True, text=True, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_caller_from_elsewhere_needs_the_token(tmp_path):
    for method, path, given, status, text in run_elsewhere(tmp_path, "s3cret"):
        free = path in ("/healthz", "/readyz")
        known = given in ("Bearer s3cret", "bearer  s3cret")
        assert status == (200 if free or known else 401), (method, path, given, status)
        if status == 401:
            assert "another machine" in text and "s3cret" not in text
            assert ("not the admin token" in text) == (given is not None)


def test_without_a_token_nobody_from_elsewhere_is_let_in(tmp_path):
    for _, path, given, status, text in run_elsewhere(tmp_path, ""):
        assert status == (200 if path in ("/healthz", "/readyz") else 401), (path, given)
        if status == 401:
            assert "set admin_token" in text and "RATION_ADMIN_TOKEN" in text


# --- docs -------------------------------------------------------------------------------------


def same(expected, actual):
    """Equal but for what the page leaves open."""
    if expected == "…":
        return True
    if isinstance(expected, dict):
        return isinstance(actual, dict) and list(expected) == list(actual) and \
            all(same(v, actual[k]) for k, v in expected.items())
    if isinstance(expected, list):
        return isinstance(actual, list) and len(expected) == len(actual) and \
            all(map(same, expected, actual))
    return expected == actual


def test_the_examples_of_the_page_are_true(tmp_path):
    page = (ROOT / "docs/admin.md").read_text()
    rules = re.search(r"^```yaml\n(.*?)^```", page, re.S | re.M).group(1)
    examples = re.findall(r"^```console\n\$ ((?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```", page, re.S | re.M)
    assert len(examples) > 20
    with Daemon(tmp_path, rules) as d:
        for command, expected in examples:
            command = command.replace("127.0.0.1:9090", d.addresses["admin"])
            answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True,
                                    timeout=PATIENCE).stdout
            if not expected.startswith("{"):
                assert answer == expected, command
                continue
            answer = answer.replace(str(d.file), "rules.yaml")
            expected = json.loads(re.sub(r"(?<=[:,\[])…", '"…"', expected))
            assert same(expected, json.loads(answer)), (command, expected, answer)


def test_the_page_has_every_endpoint():
    source = (ROOT / "src/front/admin.c").read_text()
    page = (ROOT / "docs/admin.md").read_text()
    for path in re.findall(r'\{RN_\w+, "([^"]+)"', source):
        assert re.search(r"`[^`\n]*" + re.escape(path.rstrip("/")) + r"\b", page), path


if __name__ == "__main__":
    print(json.dumps(ask_from_elsewhere(pathlib.Path(sys.argv[1]), sys.argv[2])))
