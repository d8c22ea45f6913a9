# SPDX-License-Identifier: Apache-2.0
"""Rules on trial: they count what they would refuse, beside the rules in force, and change nothing."""

import random
import subprocess

import pytest
import yaml

from admin_port import log_line, refused
from daemon import BUILD, Daemon, wait_for
from redis_server import RedisServer

IN_FORCE = """
attributes:
  tenant: { header: x-tenant }
limits:
  - { name: api, when: { path: /api/** }, key: ip, limit: 1000 per day }
  - name: plans
    key: user
    limit: { by: plan, free: 500 per day, pro: 900 per day, default: free }
  - { name: tenants, key: tenant, limit: 700 per day, algorithm: sliding-log }
"""
STRICTER = IN_FORCE.replace("1000 per day", "20 per day").replace("free: 500", "free: 5").replace("pro: 900", "pro: 25")


def begin(d, text, **headers):
    return d.admin("POST", "/v1/rules/trial", text, headers)


def end(d, **headers):
    return d.admin("DELETE", "/v1/rules/trial", None, headers)


def rules(d):
    return {rule["name"]: rule for rule in d.admin("GET", "/v1/rules").json["rules"]}


def names(d):
    return list(rules(d))


def trial(d):
    return d.admin("GET", "/v1/rules").json["trial"]


def check(d, **attributes):
    return d.http("POST", "/v1/check", {"attributes": attributes})


@pytest.fixture
def own(tmp_path):
    with Daemon(tmp_path, IN_FORCE, ["--state", tmp_path / "state"]) as d:
        yield d


# --- what is tried ---------------------------------------------------------------------------------


def test_rules_that_are_new_or_differ_are_tried(own):
    text = STRICTER.replace("tenants, key: tenant, limit: 700", "seats, key: user, limit: 7")
    answer = begin(own, text)
    assert answer.status == 200 and answer.headers["ETag"] == '"2"' and answer.json["version"] == 2
    assert answer.json["added"] == ["api.trial", "plans.trial", "seats.trial"]
    assert (answer.json["changed"], answer.json["removed"]) == (["api", "plans"], ["tenants"])
    assert answer.json["note"] == "these rules last until they are replaced or deleted"
    listed = rules(own)
    assert list(listed) == ["api", "plans", "tenants", "api.trial", "plans.trial", "seats.trial"]
    assert [rule["mode"] for rule in listed.values()] == ["enforce"] * 3 + ["shadow"] * 3
    assert listed["api"]["limits"] == ["1000 per day"] and listed["api.trial"]["limits"] == ["20 per day"]
    assert trial(own)["rules"] == answer.json["added"] and trial(own)["by"].startswith("127.0.0.1:")
    version = own.admin("GET", "/v1/rules/versions").json["versions"][0]
    assert (version["how"], version["rules"]) == ("trial", 6)
    assert log_line(own, "rules.trial")["version"] == "2"


def test_without_a_trial_there_is_none(own):
    assert trial(own) is None
    refused(end(own), 404, "no_trial")


def test_a_trial_refuses_delays_bans_and_bills_nothing(tmp_path):
    text = """
limits:
  - name: api
    key: ip
    limit: 2 per day
    escalate: { after: 1 refusals within 1m, ban: 1h }
    earn: { every: 1m, add: 10%, up_to: 150%, lost_by: 2 refusals within 1m }
    usage: true
    response: { status: 503 }
  - { name: slow, key: ip, limit: 3 per day, throttle: { from: 10%, max_delay: 10s } }
  - { name: held, key: ip, limit: 1 per hour, queue: { size: 5, max_wait: 20s } }
  - { name: leaky, key: ip, limit: 1 per minute queue 3, wait: hold }
"""
    with Daemon(tmp_path, "limits: [{name: api, key: ip, limit: 50 per day}]", ["--state", tmp_path / "state"]) as d:
        assert begin(d, text).json["added"] == ["api.trial", "slow.trial", "held.trial", "leaky.trial"]
        for _ in range(12):
            answer = check(d, ip="192.0.2.7")
            assert (answer.status, answer.json["allowed"], answer.json["delay"]) == (200, True, 0), answer
        listed = rules(d)
        assert listed["api.trial"]["shadowed"] == 10 and listed["held.trial"]["shadowed"] == 11
        assert all(rule["refused"] == rule["delayed"] == 0 for rule in listed.values())
        assert d.admin("GET", "/v1/reputation").json["clients"] == []
        assert d.admin("GET", "/v1/usage").json["usage"] == []
        assert d.admin("GET", "/v1/top").json["keys"] == []


def test_an_enforced_rule_is_charged_once(own):
    assert begin(own, STRICTER).status == 200
    decision = check(own, ip="192.0.2.1", path="/api/a").json
    assert (decision["rule"], decision["remaining"]) == ("api", 999)
    assert [(limit["rule"], limit["remaining"], limit.get("shadow", False)) for limit in decision["limits"]] == [
        ("api", 999, False), ("api.trial", 19, True)]


def many(count, limit):
    return "limits:\n" + "".join(f"  - {{ name: r{n}, key: ip, limit: {limit} }}\n" for n in range(count))


@pytest.mark.parametrize("base, other, tried, ask", [
    (many(40, "100 per day"), many(40, "50 per day"), 24, {}),
    (many(64, "100 per day"), many(64, "50 per day"), 0, {}),
    (many(4, "5 concurrent"), many(4, "4 concurrent"), 0, {}),
    (many(1, "100 per day"), many(1, "50 per day"), 0, {"drain": True}),
    ("limits: []", many(1, "[50 per day, 5 per hour]"), 0, {"drain": True}),
    ("limits: []", many(1, "5 concurrent"), 1, {"drain": True})],
    ids=["limits", "rules", "places", "drain", "drain of several", "drain of places"])
def test_a_trial_makes_no_request_fail(tmp_path, base, other, tried, ask):
    """A request takes so many limits and places, and `drain` one limit: what does not fit is not tried."""
    def asked():
        answer = d.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.8"}, **ask})
        return answer.status, answer.json.get("allowed"), answer.json.get("message")

    with Daemon(tmp_path, base) as d:
        assert asked() == (200, True, None)
        assert begin(d, other).status == 200
        assert asked() == (200, True, None)
        counted = [rule["name"] for rule in rules(d).values() if rule["mode"] == "shadow" and rule["allowed"] == 1]
        assert counted == [f"r{n}.trial" for n in range(tried)]
        assert all(rule["allowed"] == 2 for rule in rules(d).values() if rule["mode"] == "enforce")


def test_a_rule_in_shadow_mode_takes_no_place_of_another(tmp_path):
    first = "limits:\n  - { name: seen, key: ip, limit: 1 per day, mode: shadow }\n"
    with Daemon(tmp_path, first + many(64, "100 per day").split("\n", 1)[1]) as d:
        assert [check(d, ip="192.0.2.8").json.get("allowed") for _ in range(2)] == [True, True]
        listed = rules(d)
        assert listed["r63"]["allowed"] == 2 and listed["seen"]["allowed"] == 0


TRAFFIC_RULES = ["api", "plans", "tenants"]


def traffic(d, mark, seed):
    """The same requests of the same clients, but for their names."""
    chance = random.Random(seed)
    with d.resp() as resp:
        for _ in range(3000):
            client = chance.randrange(40)
            attributes = ["ip", f"10.{mark}.0.{client}", "user", f"{mark}-{client}", "header.x-tenant", f"{mark}-{client % 7}",
                          "plan", chance.choice(["free", "pro", "other"]), "path", chance.choice(["/api/a", "/b"])]
            resp("RATION.CHECK", *attributes)


@pytest.mark.parametrize("seed", range(2))
def test_a_trial_counts_what_the_rules_refuse_once_they_are_applied(own, seed):
    """Each rule by itself: a request that another rule refuses is not charged to it."""
    for rule in TRAFFIC_RULES:
        parts = {"api": ("1000 per day", "20 per day"), "plans": ("free: 500", "free: 5"), "tenants": ("700 per day", "90 per day")}
        text = IN_FORCE.replace(*parts[rule])
        mark = 10 * (TRAFFIC_RULES.index(rule) + 1)
        assert begin(own, text).json["added"] == [f"{rule}.trial"]
        traffic(own, mark, seed)
        counted = rules(own)[f"{rule}.trial"]["shadowed"]
        before = rules(own)[rule]["refused"]
        assert own.admin("PUT", "/v1/rules", text).status == 200 and trial(own) is None
        traffic(own, mark + 1, seed)
        assert rules(own)[rule]["refused"] - before == counted > 100
        assert own.admin("DELETE", "/v1/rules").status == 200


def test_clients_of_a_rule_in_force_keep_their_overrides(own):
    body = '{"rule": "api", "attributes": {"ip": "192.0.2.9"}, "limit": "1 per day"}'
    assert own.admin("PUT", "/v1/overrides", body).status == 200
    assert begin(own, STRICTER).status == 200
    assert [check(own, ip="192.0.2.9", path="/api/a").status for _ in range(2)] == [200, 429]


# --- what differs besides --------------------------------------------------------------------------


def test_new_attributes_and_signals_are_taken_along(tmp_path):
    base = IN_FORCE + "signals: { backlog: { source: push, expires: 30s } }\n"
    text = """
attributes: { tenant: { header: x-tenant }, device: { header: x-device }, team: { path: "/teams/{team}/**" } }
signals: { backlog: { source: push, expires: 30s }, load: { source: push, expires: 60s } }
limits:
  - { name: devices, key: [device, team], limit: 2 per day, adapt: { when: load above 5, to: 50% } }
"""
    with Daemon(tmp_path, base) as d:
        answer = begin(d, text).json
        assert answer["added"] == ["devices.trial"] and "not tried" not in answer["note"]
        for _ in range(3):
            assert check(d, path="/teams/red/x", **{"header.x-device": "d1"}).json["allowed"]
        assert rules(d)["devices.trial"]["shadowed"] == 1
        assert [s["name"] for s in d.admin("GET", "/v1/signals").json["signals"]] == ["backlog", "load"]


@pytest.mark.parametrize("base, other, words", [
    ("mode: enforce", "mode: shadow", "mode"),
    ("paths: { case: match }", "paths: { case: ignore }", "paths"),
    ("attributes: { who: { header: x-a } }", "attributes: { who: { header: x-b } }", "attributes of the same name"),
    ("signals: { load: { source: push, expires: 30s } }", "signals: { load: { source: push, expires: 40s } }", "signals of the same name"),
    ("deny: [{ ip: 203.0.113.0/24 }]", "deny: [{ ip: 203.0.113.0/25 }]", "allow and deny")])
def test_other_differences_are_said_and_not_tried(tmp_path, base, other, words):
    rule = "limits:\n  - {{ name: a, key: [ip, who], limit: {} per day }}\n"
    with Daemon(tmp_path, f"{base}\n" + rule.format(10)) as d:
        before = d.admin("GET", "/v1/rules").json["text"]
        answer = begin(d, f"{other}\n" + rule.format(5)).json
        assert answer["added"] == ["a.trial"] and f"not tried: {words}; these rules" in answer["note"]
        text = d.admin("GET", "/v1/rules").json["text"]
        assert text.split("\n", 1)[1].startswith(before), "what is in force stays as it is"
        refused(begin(d, f"{other}\n" + rule.format(10)), 400, "nothing_to_try", words)


def test_an_attribute_in_force_does_not_change_its_meaning(tmp_path):
    """`who` comes with requests; the other text reads it from a header."""
    with Daemon(tmp_path, "limits: [{ name: a, key: who, limit: 10 per day }]") as d:
        text = "attributes: { who: { header: x-who } }\nlimits: [{ name: a, key: who, limit: 5 per day }]"
        assert "attributes of the same name" in begin(d, text).json["note"]
        assert check(d, who="ada").json["remaining"] == 9


def test_rules_of_teams_are_in_the_text(tmp_path):
    """What is printed of them loads as the same rules."""
    folder = tmp_path / "rules"
    (folder / "red").mkdir(parents=True)
    (folder / "root.yaml").write_text("attributes: { ip: { forwarded: x-forwarded-for, trusted_proxies: [127.0.0.0/8] } }\n"
                                      "limits: [{ name: all, key: ip, limit: 100 per day }]\n")
    (folder / "red" / "a.yaml").write_text("attributes: { device: { header: x-device } }\n"
                                           "limits: [{ name: api, key: device, limit: 3 per day }]\n")
    with Daemon(tmp_path, None, ["--config", folder]) as d:
        before = d.admin("GET", "/v1/rules").json
        text = before["text"].replace("3 per day", "1 per day")
        assert begin(d, text).json["added"] == ["red.api.trial"]
        tried = d.admin("GET", "/v1/rules").json
        assert [(r["name"], r["limits"], r["key"]) for r in tried["rules"][:2]] == [
            (r["name"], r["limits"], r["key"]) for r in before["rules"]]
        for _ in range(3):
            assert check(d, ip="192.0.2.1", **{"header.x-device": "x"}).json["allowed"]
        assert not check(d, ip="192.0.2.1", **{"header.x-device": "x"}).json["allowed"]
        assert rules(d)["red.api.trial"]["shadowed"] == 2
        assert end(d).status == 200 and d.admin("GET", "/v1/rules").json["text"] == before["text"]


# --- what cannot be tried --------------------------------------------------------------------------

ENVOY = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 3}\n"


def test_bad_trials_say_what_would_be_right(own):
    refused(begin(own, IN_FORCE), 400, "nothing_to_try", "no rule of this text is new")
    refused(begin(own, "limits: []"), 400, "nothing_to_try", "rules that this text lacks")
    refused(begin(own, ""), 400, "bad_request", "empty")
    refused(begin(own, STRICTER, **{"If-Match": '"7"'}), 412, "changed")
    bad = begin(own, "limits: [{ name: a, lmit: 5 per day }]")
    assert refused(bad, 422, "bad_rules") and bad.json["diagnostics"][0]["line"] == 1
    long = begin(own, f"limits:\n  - {{ name: {'n' * 58}, key: ip, limit: 5 per day }}\n")
    assert refused(long, 422, "bad_rules") and long.json["diagnostics"][0]["line"] == 2
    assert "give it a name of at most 57" in long.json["report"]
    taken = begin(own, "limits: [{ name: a, key: ip, limit: 5 per day }, { name: a.trial, key: ip, limit: 5 per day }]")
    assert refused(taken, 422, "bad_rules") and "there is a rule of that name already" in taken.json["report"]
    envoy = begin(own, ENVOY)
    assert refused(envoy, 422, "bad_rules") and "shadow_mode" in envoy.json["report"]
    assert own.admin("GET", "/v1/rules").json["version"] == 1 and trial(own) is None


@pytest.mark.parametrize("put", [False, True])
def test_beside_envoys_rules_nothing_can_be_tried(tmp_path, put):
    with Daemon(tmp_path, "limits: []" if put else ENVOY) as d:
        if put:
            assert d.admin("PUT", "/v1/rules", ENVOY).status == 200
        refused(begin(d, STRICTER), 409, "envoy", "shadow_mode")


def test_a_reader_tries_nothing(tmp_path):
    token = "a token of the tests, thirty-two bytes"
    with Daemon(tmp_path, IN_FORCE + f"server:\n  tokens:\n    page: {{token: '{token}', scope: read}}\n") as d:
        refused(begin(d, STRICTER, Authorization=f"Bearer {token}"), 403, "forbidden", "admin")
        refused(end(d, Authorization=f"Bearer {token}"), 403, "forbidden", "admin")


# --- the end ---------------------------------------------------------------------------------------


def test_the_end_brings_the_files_back(own):
    before = own.admin("GET", "/v1/rules").json
    assert begin(own, STRICTER).status == 200
    refused(end(own, **{"If-Match": '"1"'}), 412, "changed")
    assert end(own).json["version"] == 3
    after = own.admin("GET", "/v1/rules").json
    assert (after["source"], after["text"], after["trial"]) == ("file", before["text"], None)
    log_line(own, "rules.trial_ended")


def test_the_end_brings_back_a_text_as_it_was_put(own):
    text = STRICTER + "# with a comment\n"
    assert own.admin("PUT", "/v1/rules", text).status == 200
    assert begin(own, STRICTER.replace("20 per day", "10 per day")).json["changed"] == ["api"]
    own.kill()
    own.start()
    assert trial(own)["rules"] == ["api.trial"]
    assert end(own).json["note"] == "these rules last until they are replaced or deleted"
    after = own.admin("GET", "/v1/rules").json
    assert (after["source"], after["text"], after["trial"]) == ("api", text, None)


def test_without_the_former_text_its_rules_come_back(own):
    assert own.admin("PUT", "/v1/rules", STRICTER + "# with a comment\n").status == 200
    text = own.admin("POST", "/v1/rules/validate", STRICTER) and yaml.safe_load(STRICTER)
    assert begin(own, STRICTER.replace("20 per day", "10 per day")).status == 200
    own.kill()
    (own.folder / "state.versions").unlink()
    own.start()
    assert end(own).status == 200
    after = own.admin("GET", "/v1/rules").json
    assert after["source"] == "api" and [r["name"] for r in after["rules"]] == [limit["name"] for limit in text["limits"]]
    assert after["rules"][0]["limits"] == ["20 per day"] and after["trial"] is None


def test_a_second_trial_replaces_the_first(own):
    assert begin(own, STRICTER).json["added"] == ["api.trial", "plans.trial"]
    second = IN_FORCE.replace("700 per day", "30 per day")
    assert begin(own, second).json["added"] == ["tenants.trial"]
    assert names(own) == ["api", "plans", "tenants", "tenants.trial"]
    shown = own.admin("GET", "/v1/rules", headers={"Accept": "application/yaml"}).text
    assert begin(own, shown.replace("700 per day", "40 per day")).json["added"] == ["tenants.trial"], "the text of the trial, edited"
    refused(begin(own, IN_FORCE), 400, "nothing_to_try")
    assert end(own).status == 200
    assert names(own) == ["api", "plans", "tenants"] and own.admin("GET", "/v1/rules").json["source"] == "file"


def test_the_text_of_a_trial_is_put_as_it_is_or_not_at_all(own):
    """Its first line says that its rules refuse nothing, and its end would lose what was changed."""
    assert begin(own, STRICTER).status == 200
    shown = own.admin("GET", "/v1/rules").json
    for changed in (shown["text"].replace("mode: shadow", "mode: enforce"), shown["text"].replace("1000 per day", "2000 per day"),
                    shown["text"] + "# more\n"):
        refused(own.admin("PUT", "/v1/rules", changed), 409, "trial", "without the rules on trial", "POST /v1/rules/trial")
    assert own.admin("GET", "/v1/rules").json == shown
    assert own.admin("DELETE", "/v1/rules").status == 200 and trial(own) is None
    assert own.admin("PUT", "/v1/rules", shown["text"]).status == 200 and trial(own) == shown["trial"]
    assert own.admin("PUT", "/v1/rules", "# trial of new limits\n" + IN_FORCE).status == 200 and trial(own) is None


def test_counters_of_the_rules_in_force_live_through_a_trial(own):
    for n, change in enumerate((lambda: None, lambda: begin(own, STRICTER), lambda: end(own))):
        change()
        assert check(own, ip="192.0.2.3", path="/api/a").json["remaining"] == 999 - n


def test_a_trial_survives_restarts_and_reloads(own):
    assert begin(own, STRICTER).status == 200
    check(own, ip="192.0.2.3", path="/api/a")
    own.kill()
    own.start()
    assert trial(own)["rules"] == ["api.trial", "plans.trial"]
    limits = check(own, ip="192.0.2.3", path="/api/a").json["limits"]
    assert [limit["remaining"] for limit in limits] == [998, 18], "its counters are durable, too"
    own.reload()
    log_line(own, "rules.files_overridden")
    assert trial(own)["rules"] == ["api.trial", "plans.trial"]


def test_a_rollback_to_a_trial_is_a_trial(own):
    assert begin(own, STRICTER).status == 200
    assert own.admin("PUT", "/v1/rules", STRICTER).status == 200 and trial(own) is None
    assert own.admin("POST", "/v1/rules/rollback", '{"version": 2}').status == 200
    assert trial(own)["rules"] == ["api.trial", "plans.trial"]
    assert end(own).status == 200 and own.admin("GET", "/v1/rules").json["source"] == "file"


def test_many_rules_can_be_tried(own):
    def text(limit):
        return "limits:\n" + "".join(f"  - {{ name: rule-{n}, key: ip, limit: {limit} per day, when: {{ path: /{n}/** }} }}\n"
                                     for n in range(5000))
    assert own.admin("PUT", "/v1/rules", text(10)).status == 200
    answer = begin(own, text(9)).json
    assert len(answer["added"]) == len(answer["changed"]) == 5000
    assert len(trial(own)["rules"]) == 5000
    assert end(own).status == 200 and own.admin("GET", "/v1/rules").json["text"] == text(10)


# --- nodes, the command ----------------------------------------------------------------------------


@pytest.fixture
def pair(tmp_path):
    """Two nodes that share a Redis; each keeps its own state and versions."""
    with RedisServer(tmp_path) as server:
        nodes = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            nodes.append(Daemon(tmp_path / name, IN_FORCE, ["--redis", server.url, "--workers", 1, "--state",
                                                            tmp_path / name / "state"]))
        try:
            yield nodes
        finally:
            for node in nodes:
                node.stop()


def how(d):
    return [(v["how"], v["by"] if v["by"] == "fleet" else "") for v in d.admin("GET", "/v1/rules/versions").json["versions"]]


def test_nodes_share_a_trial_and_its_end(pair):
    one, two = pair
    assert one.admin("PUT", "/v1/rules", STRICTER + "# put\n").status == 200
    wait_for(lambda: names(two) and two.admin("GET", "/v1/rules").json["source"] == "api", "the rules on the other node")
    assert begin(one, IN_FORCE).status == 200
    wait_for(lambda: trial(two), "the trial on the other node")
    assert trial(two) == trial(one)
    assert how(two)[:2] == [("other node", "fleet"), ("other node", "fleet")] and how(one)[0] == ("trial", "")
    assert check(two, ip="192.0.2.1", path="/api/a").json["limits"][1]["rule"] == "api.trial"
    assert end(two).status == 200
    wait_for(lambda: trial(one) is None, "the end on the other node")
    for node in pair:
        assert node.admin("GET", "/v1/rules").json["text"] == STRICTER + "# put\n", "as it was put"
    assert begin(two, IN_FORCE).status == 200
    wait_for(lambda: trial(one), "the second trial")
    assert one.admin("DELETE", "/v1/rules").status == 200
    wait_for(lambda: two.admin("GET", "/v1/rules").json["source"] == "file", "the files")
    assert trial(two) is None and how(two)[0] == ("other node", "fleet")


def test_a_rollback_on_one_node_is_one_on_all(pair):
    one, two = pair
    for n in (20, 30):
        assert one.admin("PUT", "/v1/rules", IN_FORCE.replace("700 per day", f"{n} per day")).status == 200
        wait_for(lambda: rules(two)["tenants"]["limits"] == [f"{n} per day"], "the rules on the other node")
    assert two.admin("POST", "/v1/rules/rollback", '{"version": 2}').status == 200
    wait_for(lambda: rules(one)["tenants"]["limits"] == ["20 per day"], "the rollback on the first node")
    assert how(two)[0] == ("rollback", "") and how(one)[0] == ("other node", "fleet")


def test_the_command_tries_rules_and_ends_the_trial(own, tmp_path):
    def ration(*words, status=0):
        done = subprocess.run([BUILD / "ration", "rules", "trial", *words, "--admin", own.addresses["admin"]],
                              capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == status, done
        return done

    (tmp_path / "new.yaml").write_text(STRICTER)
    lines = ration("new.yaml").stdout.splitlines()
    assert lines[0] == "on trial: version 2"
    assert "tried, and refusing nothing: api.trial, plans.trial" in lines
    assert "they differ from those in force: api, plans" in lines
    assert ration("--end").stdout.startswith("the trial has ended: version 3")
    assert "no rules are on trial" in ration("--end", status=2).stderr
    assert "takes one FILE, or --end" in ration(status=2).stderr
    assert "takes one FILE, or --end" in ration("new.yaml", "--end", status=2).stderr
    (tmp_path / "new.yaml").write_text("limits: [{ name: a, lmit: 1 }]")
    assert "new.yaml:1:21: error" in ration("new.yaml", status=2).stderr
