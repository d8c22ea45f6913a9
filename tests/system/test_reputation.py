# SPDX-License-Identifier: Apache-2.0
"""Bans by rules with `escalate` and what clients earn, as operators see them: the admin API, `ration`, the log,
the metrics. What the refused clients are told is in tests/contract/bans.yaml."""

import json
import re

import pytest

import rls
from admin_port import log_line, refused
from daemon import Daemon
from ration_command import run
from stillclock import StillClock

RULES = """
limits:
  - name: login
    when: {path: /login}
    key: ip
    limit: 1 per 52 weeks
    escalate: {after: 3 refusals within 24h, ban: 1h, grow: 4x, up_to: 24h, forget: 7d}
  - name: api
    when: {path: /api}
    key: [user, ip]
    limit: 1 per 52 weeks
    escalate: {after: 1 refusal within 24h, ban: 1h}
  - name: plain
    when: {path: /plain}
    key: ip
    limit: 1 per 52 weeks
"""
EARN = """
limits:
  - name: partner
    key: user
    limit: 10 per hour
    earn: {every: 24h, add: 10%, up_to: 150%}
"""
IP = "192.0.2.7"


def login(ip=IP):
    return {"ip": ip, "path": "/login"}


def ask(d, attributes, times=1):
    for _ in range(times):
        answer = d.http("POST", "/v1/check", {"attributes": attributes})
    return answer


def ban(d, attributes=None):
    """Three refusals after an admission, and one more, which the ban makes."""
    answer = ask(d, attributes or login(), 5)
    assert answer.status == 403 and answer.json["banned"], answer


def listed(d, query=""):
    answer = d.admin("GET", "/v1/reputation" + query)
    assert answer.status == 200, answer
    return answer.json["clients"]


def lift(d, **body):
    return d.admin("DELETE", "/v1/reputation", body)


def metric(d, name):
    text = d.admin("GET", "/metrics").text
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """Tests use addresses of their own."""
    with Daemon(tmp_path_factory.mktemp("reputation"), RULES) as d:
        yield d


@pytest.fixture
def own(tmp_path):
    """With a clock that stands still."""
    clock = StillClock(tmp_path / "clock")
    with Daemon(tmp_path, RULES, env=clock.env()) as d:
        d.clock = clock
        env = {"RATION_HTTP": d.addresses["http"], "RATION_ADMIN": d.addresses["admin"], **clock.env()}
        d.ration = lambda *args: run(*args, env=env)
        yield d


# --- listing and lifting ---------------------------------------------------------------------

def test_a_banned_client_is_listed_and_lifted(own):
    ban(own)
    one, = listed(own)
    assert re.fullmatch("[0-9a-f]{16}", one.pop("hash"))
    assert 3599.9 <= one.pop("ends_after") <= 3600
    assert one == {"rule": "login", "key": IP, "banned": True, "level": 1, "refusals": 0, "earned": 1}
    assert lift(own, rule="login", attributes=login()).json == {"lifted": 1}
    assert listed(own) == []
    assert ask(own, login()).status == 429  # the limit is still spent
    assert lift(own, attributes=login("192.0.2.8")).json == {"lifted": 0}


def test_a_client_is_lifted_by_its_hash(own):
    ban(own)
    ban(own, login("192.0.2.8"))
    first, second = sorted(listed(own), key=lambda one: one["key"])
    assert lift(own, rule="api", hash=first["hash"]).json == {"lifted": 0}
    assert lift(own, rule="login", hash=first["hash"]).json == {"lifted": 1}
    assert lift(own, rule="login", hash=first["hash"]).json == {"lifted": 0}
    assert listed(own) == [second]


def test_lifting_without_a_rule_is_for_all_that_apply(own):
    own.admin("PUT", "/v1/rules", RULES.replace("path: /api", "path: /login"))
    attributes = {**login(), "user": "ann"}
    ask(own, attributes, 5)
    banned = {one["rule"] for one in listed(own)}
    assert banned == {"login", "api"}
    assert lift(own, attributes=attributes).json == {"lifted": 2}
    assert listed(own) == []


def test_refusals_that_are_counted_are_listed_too(own):
    ask(own, login(), 3)
    one, = listed(own)
    assert (one["banned"], one["refusals"], one["level"]) == (False, 2, 0) and "ends_after" not in one
    assert listed(own, "?banned=true") == []
    ban(own, login("192.0.2.8"))
    assert [one["key"] for one in listed(own, "?banned=true")] == ["192.0.2.8"]
    assert len(listed(own, "?banned=false&rule=login")) == 2 and listed(own, "?rule=api") == []


def test_a_reset_forgets_what_limits_count_and_lifts_no_ban(own):
    ban(own)
    assert own.admin("POST", "/v1/state/reset", {"attributes": login()}).json == {"reset": 1}
    assert ask(own, login()).status == 403
    lift(own, attributes=login())
    assert ask(own, login()).status == 200


def test_pages_have_every_client_once(own):
    names = {f"198.51.100.{n}" for n in range(40)}
    for name in names:
        ask(own, {"path": "/api", "user": "u", "ip": name}, 2)
    found, after = [], 0
    while after is not None:
        page = own.admin("GET", f"/v1/reputation?limit=7&after={after}").json
        assert len(page["clients"]) <= 7
        found += [one["key"] for one in page["clients"]]
        after = page.get("next")
    assert len(found) == 40 and {name.split()[-1] for name in found} == names, found


def test_bans_of_operators_are_listed_apart(own):
    own.admin("PUT", "/v1/bans", {"attributes": {"ip": "198.51.100.1"}})
    assert own.admin("GET", "/v1/bans").json["automatic"] == 0
    ban(own)
    answer = own.admin("GET", "/v1/bans").json
    assert len(answer["bans"]) == 1 and answer["automatic"] == 1
    assert "rules ban 1 client: ration reputation list --banned" in own.ration("ban", "list").out


def test_bans_survive_a_restart_and_a_reload_with_a_state_file(tmp_path):
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as d:
        ban(d)
        d.admin("POST", "/v1/rules/reload")
        assert ask(d, login()).status == 403
        d.stop()
        d.start()
        answer = ask(d, login())
        assert answer.status == 403 and answer.json["level"] == 1
        assert [one["key"] for one in listed(d)] == [IP]
        assert not any("event=ban.begin" in line for line in d.log)  # it began before
        (tmp_path / "rules.yaml").write_text(RULES.replace("name: login", "name: other"))
        assert d.admin("POST", "/v1/rules/reload").status == 200
        assert ask(d, login()).status == 200  # the ban was of a rule that is gone; its limit has a new name
        assert [(one["rule"], one["banned"]) for one in listed(d)] == [(None, False)]


# --- explain and state -----------------------------------------------------------------------

PLAN = {"after": 3, "within": 86400, "ban": 3600, "grow": 4, "up_to": 86400, "forget": 604800}


def test_explain_and_state_show_what_is_kept_of_a_client(own):
    def shown():
        query = f"/v1/state?ip={IP}&path=/login"
        state = own.admin("GET", query).json
        explained = own.admin("POST", "/v1/explain", {"attributes": login()}).json
        rule = next(r for r in explained["rules"] if r["rule"] == "login")
        one, = state["reputation"]
        assert one == {"rule": "login", "escalate": rule["escalate"]}
        assert state["limits"] == rule["limits"] and rule["limits"][0]["limit"] == 1
        kept = dict(rule["escalate"])
        assert {name: kept.pop(name) for name in PLAN} == PLAN
        return kept, explained["decision"]

    assert shown()[0] == {"banned": False, "level": 0, "refusals": 0, "next_ban": 3600}
    ask(own, login(), 3)
    assert shown()[0] == {"banned": False, "level": 0, "refusals": 2, "next_ban": 3600}
    ban(own)
    kept, decision = shown()
    assert 3599.9 <= kept.pop("ends_after") <= 3600
    assert kept == {"banned": True, "level": 1, "refusals": 0, "next_ban": 14400}
    assert (decision["allowed"], decision["banned"], decision["level"], decision["rule"]) == \
        (False, True, 1, "login")
    own.clock.advance(3600)
    assert shown()[0] == {"banned": False, "level": 1, "refusals": 0, "next_ban": 14400}
    plain = own.admin("GET", f"/v1/state?ip={IP}&path=/plain").json
    assert "reputation" not in plain


def test_explain_of_files_and_of_the_daemon_are_the_same_bytes(tmp_path):
    clock = StillClock(tmp_path / "clock")
    state = tmp_path / "state"
    with Daemon(tmp_path, RULES, ["--state", state], env=clock.env()) as d:
        env = {"RATION_ADMIN": d.addresses["admin"], **clock.env()}
        attributes = [f"ip={IP}", "path=/login"]
        for times in (1, 2, 3):
            ask(d, login(), times)
            daemon = run("explain", "--json", *attributes, env=env)
            files = run("explain", "--json", "--state", state, d.file, *attributes, env=env)
            assert daemon.status == files.status and daemon.out == files.out
            both = [run("explain", *more, *attributes, env=env).out for more in ([], ["--state", state, d.file])]
            assert len({out.replace(" (status 429)", "").replace(" (status 403)", "") for out in both}) == 1
        assert '"banned":true' in daemon.out


def test_explain_shows_what_was_earned(tmp_path):
    clock = StillClock(tmp_path / "clock")
    with Daemon(tmp_path, EARN, env=clock.env()) as d:
        ask(d, {"user": "ann"})
        clock.advance(86400)
        ask(d, {"user": "ann"})
        rule, = d.admin("POST", "/v1/explain", {"attributes": {"user": "ann"}}).json["rules"]
        assert rule["earn"] == {"every": 86400, "add": 0.1, "up_to": 1.5, "lost_by": 3, "lost_within": 3600,
                                "forget": 2592000, "earned": 1.1}
        assert rule["limits"][0]["limit"] == 11 and rule["limits"][0]["text"] == "10 per hour"
        one, = [one for one in listed(d) if one["earned"] != 1]
        assert (one["rule"], one["earned"], one["banned"]) == ("partner", 1.1, False)
        assert metric(d, "ration_reputation_earned_steps_total") == 1
        env = {"RATION_ADMIN": d.addresses["admin"], **clock.env()}
        assert "partner earn    110% of the limit; 10% more for each 1 d, up to 150%" in \
            run("state", "user=ann", env=env).out
        assert "110%" in run("reputation", "list", env=env).out


# --- ration ----------------------------------------------------------------------------------

def test_the_command_lists_and_lifts(own):
    assert own.ration("reputation", "list").out == "no rule keeps anything of a client\n"
    assert own.ration("reputation", "list", "--banned").out == "no rule bans a client\n"
    ban(own)
    lines = own.ration("reputation", "list").out.splitlines()
    assert lines[0].split() == ["rule", "client", "hash", "banned", "for", "level"]
    assert lines[1].split()[:2] == ["login", IP] and lines[1].split()[-1] == "1"
    one, = own.ration("reputation", "list", "--rule", "login", "--banned", "--json").json["clients"]
    assert one["key"] == IP
    state = own.ration("state", f"ip={IP}", "path=/login").out
    assert "login escalate banned for " in state and ", level 1; the next ban takes 4 h" in state
    assert "    escalate banned for " in own.ration("explain", f"ip={IP}", "path=/login").out
    check = own.ration("check", f"ip={IP}", "path=/login")
    assert check.status == 1 and "refused by a ban of level 1 under login; try again in" in check.out
    assert own.ration("reputation", "lift", "--rule", "login", "--hash", one["hash"]).out == "forgotten under 1 rule\n"
    again = own.ration("reputation", "lift", f"ip={IP}", "path=/login")
    assert (again.status, again.out) == (1, "no rule has banned it or counts its refusals\n")


@pytest.mark.parametrize("words, says", [
    (["lift"], "which client?"),
    (["lift", "--hash", "0123456789abcdef", "ip=192.0.2.7"], "shows them; not both"),
    (["lift", "ip=192.0.2.7"], "no rule with escalate applies to these attributes"),
    (["lift", "--hash", "0123456789abcdef"], '"rule" is missing'),
    (["lift", "--rule", "login", "--hash", "xyz"], "16 hexadecimal digits"),
    (["lift", "--rule", "logn", "ip=192.0.2.7"], 'did you mean "login"?'),
    (["list", "--rule", "logn"], 'did you mean "login"?'),
    (["list", "ip=192.0.2.7"], "takes no"),
])
def test_the_command_explains_mistakes(daemon, words, says):
    done = run("reputation", *words, env={"RATION_ADMIN": daemon.addresses["admin"]})
    assert done.status == 2 and says in done.err, done


# --- bad input -------------------------------------------------------------------------------

@pytest.mark.parametrize("body, status, error, says", [
    ({}, 400, "bad_request", 'give "attributes"'),
    ({"rule": "login"}, 400, "bad_request", 'give "attributes"'),
    ({"rule": "login", "hash": "0" * 16, "attributes": {"ip": IP}}, 400, "bad_request", "not both"),
    ({"hash": "0" * 16}, 400, "bad_request", '"rule" is missing'),
    ({"rule": "login", "hash": "0" * 15}, 400, "bad_request", "16 hexadecimal digits"),
    ({"rule": "login", "hash": "0" * 17}, 400, "bad_request", "16 hexadecimal digits"),
    ({"rule": "login", "hash": "0123456789ABCDEF"}, 400, "bad_request", "16 hexadecimal digits"),
    ({"rule": "login", "hash": "\u0000" * 16}, 400, "bad_request", ""),
    ({"rule": "login", "hash": 12}, 400, "bad_request", "hash"),
    ({"rule": "logn", "attributes": {"ip": IP}}, 404, "no_rule", 'did you mean "login"?'),
    ({"rule": "login", "attributes": {"ip": IP, "path": "/other"}}, 400, "unmatched", "does not apply"),
    ({"attributes": {"ip": IP}}, 400, "unmatched", "no rule with escalate applies to these attributes; give all"),
    ({"attributes": {"ip": IP, "path": "/plain"}}, 400, "unmatched", "no rule with escalate applies"),
    ({"rule": "login", "attributes": ["ip"]}, 400, "bad_request", "attributes"),
    ({"rulle": "login"}, 400, "bad_request", 'did you mean "rule"?'),
    ([], 400, "bad_request", ""),
])
def test_a_lift_that_makes_no_sense(daemon, body, status, error, says):
    assert refused(daemon.admin("DELETE", "/v1/reputation", body), status, error, says)


@pytest.mark.parametrize("query, status, says", [
    ("limit=0", 400, "from 1 to 10000"), ("limit=10001", 400, "from 1 to 10000"),
    ("limit=-1", 400, "from 1 to 10000"), ("after=x", 400, "after must be"),
    ("banned=maybe", 400, "true or false"), ("baned=true", 400, 'did you mean "banned"?'),
    ("rule=logn", 404, "did you mean"), ("ip=192.0.2.7", 400, "unknown parameter"),
    ("rule=%zz", 400, "query string")])
def test_a_list_that_makes_no_sense(daemon, query, status, says):
    answer = daemon.admin("GET", "/v1/reputation?" + query)
    assert answer.status == status and says.replace('"', '') in answer.json["message"].replace('"', ''), answer


@pytest.mark.parametrize("after", ["1", "4095", str(2**31), str(2**63), str(2**64 - 1)])
def test_a_cursor_from_elsewhere_does_no_harm(daemon, after):
    ban(daemon, login("203.0.113.1")) if not listed(daemon, "?rule=login&banned=true") else None
    answer = daemon.admin("GET", f"/v1/reputation?after={after}")
    assert answer.status == 200 and all(one["rule"] for one in answer.json["clients"])


def test_without_escalate_there_is_nothing(tmp_path):
    with Daemon(tmp_path, "limits: [{name: plain, key: ip, limit: 1 per hour}]\n") as d:
        assert d.admin("GET", "/v1/reputation").json == {"clients": []}
        assert lift(d, rule="plain", attributes={"ip": IP}).json == {"lifted": 0}
        assert lift(d, rule="plain", hash="0" * 16).json == {"lifted": 0}
        assert d.admin("GET", "/v1/bans").json == {"bans": []}
        assert metric(d, "ration_reputation_capacity") == 0


# --- names of clients ------------------------------------------------------------------------

HOSTILE = ['"}],"x":[{', "a\nb\rc\td", "\x1b[2J\x07", "<script>", "\u202eevil", "\u00e9\u20ac", "x" * 300, "\\", "%s%n", " "]


def test_names_of_clients_are_escaped_wherever_they_are_shown(own):
    for name in HOSTILE:
        ask(own, {"path": "/api", "ip": IP, "user": name}, 2)
    text = own.admin("GET", "/v1/reputation").text
    keys = {one["key"] for one in json.loads(text)["clients"]}
    assert len(keys) == len(HOSTILE) and not re.search("[\x00-\x09\x0b-\x1f]", text)
    for name in HOSTILE:
        assert any(key.startswith(name[:80]) for key in keys), (name, keys)
    out = own.ration("reputation", "list").out
    assert len(out.splitlines()) == len(HOSTILE) + 1 and "\x1b" not in out and "\x07" not in out
    assert "\x1b" not in own.ration("--color", "never", "reputation", "list").out
    own.logged("event=ban.begin")
    assert not any("\x1b" in line or "\x07" in line for line in own.log)


def test_bytes_that_are_no_text_are_shown_as_such(own):
    with own.resp() as redis:
        for _ in range(2):
            redis("RATION.CHECK", "path", "/api", "ip", IP, "user", b"\xff\xfe\x00z")
    one, = listed(own)
    assert "\ufffd" in one["key"]
    assert own.ration("reputation", "list").status == 0


# --- the log and the metrics -----------------------------------------------------------------

@pytest.mark.parametrize("keys, address, other", [
    ("masked", IP, "..."), ("full", IP, "sk_live_0123456789 " + IP), ("none", "...", "...")])
def test_the_log_tells_of_bans_and_keeps_secrets(tmp_path, keys, address, other):
    with Daemon(tmp_path, RULES, ["--log-keys", keys]) as d:
        ban(d)
        line = log_line(d, "ban.begin")
        assert (line["rule"], line["client"], line["level"], line["seconds"]) == ("login", address, "1", "3600")
        ask(d, {"path": "/api", "ip": IP, "user": "sk_live_0123456789"}, 2)
        line = d.logged("event=ban.begin", "rule=api")
        if keys == "full":
            assert "sk_live_0123456789" in line
        else:
            assert "sk_live_0123" not in line and "..." in line
        lift(d, rule="login", attributes=login())
        line = log_line(d, "ban.lift")
        assert line["rule"] == "login" and line["lifted"] == "1" and line["by"].startswith("127.0.0.1:")


def test_metrics_count_bans_by_rule_and_in_all(own):
    assert metric(own, "ration_reputation_capacity") > 1000
    ban(own)
    ask(own, login(), 2)
    assert metric(own, 'ration_rule_bans_begun_total{rule="login"}') == 1
    assert metric(own, 'ration_rule_bans_begun_total{rule="api"}') == 0
    assert metric(own, "ration_bans_begun_total") == 1
    assert metric(own, 'ration_rule_ban_refusals_total{rule="login"}') == 3
    assert metric(own, "ration_ban_refusals_total") == 3
    assert metric(own, 'ration_rule_decisions_total{rule="login",decision="refused"}') == 6
    assert metric(own, "ration_reputation_banned") == metric(own, "ration_reputation_records") == 1
    lift(own, attributes=login())
    assert metric(own, 'ration_rule_bans_lifted_total{rule="login"}') == metric(own, "ration_bans_lifted_total") == 1
    assert metric(own, "ration_reputation_banned") == 0
    assert metric(own, 'ration_reputation_lost_total{kind="ban"}') == 0


# --- other ways in ---------------------------------------------------------------------------

def test_forward_auth_and_batches_tell_of_a_ban(own):
    ban(own)
    ban(own, login("127.0.0.1"))
    auth = own.http("GET", "/v1/auth", headers={"X-Forwarded-Uri": "/login",
                                                "Accept": "application/problem+json"})
    assert auth.status == 403 and auth.headers["x-ratelimit-ban-level"] == "1", auth
    assert auth.headers["retry-after"] == "3600" and auth.json["title"] == "Abnormal Usage Detected"
    both = own.http("POST", "/v1/check", {"checks": [{"attributes": login()},
                                                     {"attributes": login("192.0.2.9")}]}).json["results"]
    assert [(one["allowed"], one.get("banned"), one.get("level")) for one in both] == \
        [(False, True, 1), (True, None, None)]


def test_reservations_and_places_are_refused_to_a_banned_client(own):
    ban(own)
    answer = own.http("POST", "/v1/reserve", {"attributes": login(), "cost": 1})
    assert answer.status == 403 and answer.json["level"] == 1 and "lease" not in answer.json
    with own.resp() as redis:
        redis("HELLO", 3)
        answer = redis("RATION.RESERVE", "RULES", "path", "/login", "ip", IP)
        assert answer[b"banned"] is True and answer[b"level"] == 1
        full = redis("RATION.CHECK", "path", "/login", "ip", IP, "WAIT", "return", "LEASE", "FULL")
        assert (full[b"by"], full[b"status"], full[b"level"], full[b"decided_by"]) == (b"ban", 403, 1, -1)


def test_envoy_is_told_over_grpc_and_json(tmp_path):
    clock = StillClock(tmp_path / "clock")
    rules = "apply_to_envoy: true\nserver: {rls_headers: true}\n" + RULES
    options = ["--grpc", "127.0.0.1:0", "--workers", 1]
    with Daemon(tmp_path, rules, options, env=clock.env()) as d, rls.Client(d.addresses["grpc"]) as client:
        told = [client.ask("shop", {"path": "/login", "ip": IP}) for _ in range(4)]
        assert [t.overall_code for t in told] == [rls.OK] + [rls.OVER_LIMIT] * 3
        for _ in range(2):
            over = client.ask("shop", {"path": "/plain", "ip": IP}, {"path": "/login", "ip": IP})
            assert over.overall_code == rls.OVER_LIMIT
            assert [s.code for s in over.statuses] == [rls.OK, rls.OVER_LIMIT]
            assert over.statuses[1].duration_until_reset.seconds == 3600
            assert {h.key: h.value for h in over.response_headers_to_add}["retry-after"] == "3600"
        entries = [{"key": "path", "value": "/login"}, {"key": "ip", "value": IP}]
        over = d.http("POST", "/json", {"domain": "shop", "descriptors": [{"entries": entries}]})
        assert over.status == 429 and over.json["overallCode"] == "OVER_LIMIT", over
        # What was refused has charged nothing, and other protocols know the ban.
        assert client.code("shop", {"path": "/plain", "ip": IP}) == rls.OK
        assert ask(d, login()).status == 403
        assert metric(d, 'ration_rule_ban_refusals_total{rule="login"}') == 4


def test_top_marks_banned_clients(own):
    ban(own)
    ask(own, {"path": "/plain", "ip": IP}, 2)
    keys = {one["rule"]: one for one in own.admin("GET", "/v1/top").json["keys"]}
    assert 3599 < keys["login"]["banned_for"] <= 3600 and "banned_for" not in keys["plain"]
    out = run("top", "--once", "--interval", "100ms", env={"RATION_ADMIN": own.addresses["admin"]}).out
    assert re.search(rf"login +{IP} +1 h$", out, re.M) and "banned for" in out
