# SPDX-License-Identifier: Apache-2.0
"""The admin port of rationd: what single clients have left, overrides and bans."""

import pytest

from admin_port import daemon, log_line, login, own, refused, spend, state  # noqa: F401 (fixtures)


# --- explain and state ----------------------------------------------------------------


def test_explain_gives_the_reason_for_each_rule(daemon):
    body = {"attributes": {"ip": "192.0.2.3", "method": "GET", "path": "/api/x", "api_key": "k",
                           "tier": "pro"}}
    answer = daemon.admin("POST", "/v1/explain", body)
    rules = {r["rule"]: r for r in answer.json["rules"]}
    assert (rules["login"]["applies"], rules["login"]["why"]) == (False, "condition")
    assert rules["login"]["reason"] == 'method "GET" is not POST'
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
    assert (answer["list"]["list"], answer["list"]["file"]) == ("deny", str(daemon.file))
    assert answer["list"]["line"] == 22 and answer["list"]["conditions"][0]["holds"]


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


# --- overrides and bans ---------------------------------------------------------------


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
    assert line["client"] == "api_key=... ip=192.0.2.7"
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
