# SPDX-License-Identifier: Apache-2.0
"""`ration report`: each finding is brought about by real requests, and is absent without them."""

import collections
import concurrent.futures
import json
import re

import pytest

from daemon import Daemon, wait_for
from page_check import check_page
from ration_command import run
from stillclock import StillClock

RULES = """
signals:
  backlog: { source: push, expires: 1h }
limits:
  - { name: api, when: { path: "/api/**" }, key: user, limit: 100 per hour }
  - { name: narrow, when: { path: /api/items }, key: user, limit: 200 per hour }
  - { name: spare, when: { path: /spare }, key: user, limit: 10000 per hour burst 4000 }
  - { name: never, when: { path: /never }, key: user, limit: 5 per hour }
  - { name: trial, when: { path: /trial }, key: user, limit: 1 per hour, mode: shadow }
  - { name: follows, when: { path: /follows }, key: user, limit: 100 per hour,
      adapt: { when: backlog above 1000, to: 50% } }
"""


class Reported:
    """A daemon whose time stands still, and what a report says about it."""

    def __init__(self, folder, rules=RULES, options=()):
        clock = StillClock(folder / "clock")
        self.clock = clock
        self.daemon = Daemon(folder, rules, options, env=clock.env())

    def __enter__(self):
        self.daemon.__enter__()
        return self

    def __exit__(self, *why):
        self.daemon.__exit__(*why)

    def send(self, path, users, times=1, method="GET"):
        checks = [{"attributes": {"path": path, "user": user, "method": method}} for user in users for _ in range(times)]
        for at in range(0, len(checks), 500):
            assert self.daemon.http("POST", "/v1/check", {"checks": checks[at:at + 500]}).status == 200

    def report(self, *options):
        answer = run("report", "--json", "--admin", self.daemon.addresses["admin"], *options)
        assert answer.status == 0, answer
        return answer.json

    def findings(self, *options):
        found = collections.defaultdict(dict)
        for each in self.report(*options)["findings"]:
            found[each["kind"]].setdefault(each.get("rule", each.get("request")), each["message"])
        return found

    def facts(self, rule):
        return next(each for each in self.report()["facts"]["rules"] if each["rule"] == rule)


@pytest.fixture
def reported(tmp_path):
    with Reported(tmp_path) as reported:
        yield reported


def about(estimate, count):
    """Keys hash under a secret that is different in each run; five standard errors, and 4 for few clients."""
    return abs(int(estimate) - count) <= max(4, count * 0.23)


def users(count, prefix="user"):
    return [f"{prefix}-{i}" for i in range(count)]


def test_before_any_request_all_rules_are_unmet_and_nothing_else_is_found(reported):
    reported.daemon.admin("GET", "/v1/signals")
    found = reported.findings()
    assert set(found["never_hit"]) == {"api", "narrow", "spare", "never", "trial", "follows"}
    assert set(found) <= {"never_hit", "signal_never_fired"}


def test_a_rule_that_was_met_is_not_unmet(reported):
    reported.send("/api/x", ["ada"])
    found = reported.findings()
    assert "api" not in found["never_hit"] and "narrow" in found["never_hit"]


def test_a_rule_that_refuses_many_clients(reported):
    reported.send("/api/x", users(90))
    assert "refuses_many" not in reported.findings("--share", "4%")
    reported.send("/api/x", users(10, "greedy"), 101)
    found = reported.findings("--share", "4%")
    told = re.search(r'"api" has refused about (\d+) of (\d+) clients \((.*) %\), 10 requests of 1100', found["refuses_many"]["api"])
    assert about(told[1], 10) and about(told[2], 100) and abs(float(told[3]) - 100 * int(told[1]) / int(told[2])) < 1
    assert "ration suggest" in found["suggestion"]["api"]
    assert "refuses_many" not in reported.findings("--share", "20%")
    facts = reported.facts("api")
    assert about(facts["clients"], 100) and about(facts["clients_refused"], 10) and facts["refused"] == 10
    assert facts["limits"][0]["most_used"] == 100


def test_few_clients_are_no_share(reported):
    reported.send("/api/x", users(3), 101)
    found = reported.findings()
    assert "refuses_many" not in found and 1 <= reported.facts("api")["clients_refused"] <= 3


def test_shadow_mode_tells_which_clients_it_would_refuse(reported):
    reported.send("/trial", users(20), 2)
    message = reported.findings()["refuses_many"]["trial"]
    told = re.match(r'"trial" would have refused about (\d+) of (\d+) clients \(100 %\), 20 requests of 40', message)
    assert about(told[1], 20) and about(told[2], 20)
    assert "never_hit" not in reported.findings() or "trial" not in reported.findings()["never_hit"]


def test_a_rule_that_a_narrower_limit_shadows(reported):
    """`narrow` is about some requests of `api`, and larger."""
    reported.send("/api/items", ["ada"], 100)
    assert "shadowed" not in reported.findings()
    reported.send("/api/items", ["ada"], 7)
    message = reported.findings()["shadowed"]["narrow"]
    assert '"api" applies to all of its requests, and has refused 7 of them while "narrow" had room' in message
    assert "api" not in reported.findings()["shadowed"]


def test_a_rule_with_requests_of_its_own_is_not_shadowed(tmp_path):
    rules = """limits:
  - { name: login, when: { path: /login }, key: user, limit: 2 per hour }
  - { name: all, key: user, limit: 100 per hour }
"""
    with Reported(tmp_path, rules) as reported:
        reported.send("/login", ["ada"], 5)
        facts = reported.facts("all")
        assert facts["beside"] == {"rule": "login", "refused": 3, "always": False}
        assert "shadowed" not in reported.findings()


def test_clients_near_their_limit_are_named(reported):
    reported.send("/api/x", ["ada", "bob"], 80)
    assert "near_limit" not in reported.findings()
    reported.send("/api/x", ["ada"], 2)
    message = reported.findings()["near_limit"]["api"]
    assert message.startswith('"api": about 1 client (') and message.endswith('such as "ada"')


def test_requests_that_no_rule_covers(reported):
    reported.send("/api/x", ["ada"], 10)
    assert "uncovered" not in reported.findings()
    reported.send("/accounts/4711/secret?token=x", ["ada"], 30)
    reported.send("/<script>", ["ada"], 2, method="POST")
    found = reported.findings()["uncovered"]
    assert set(found) == {"GET /accounts/{id}/**", "POST /?script?"}
    assert "about 30 requests (71 % of all)" in found["GET /accounts/{id}/**"]
    facts = reported.report()["facts"]
    assert facts["unmatched"] == 32 and [each["requests"] for each in facts["uncovered"]] == [30, 2]


def test_a_signal_that_never_fired(reported):
    def tick():
        reported.clock.advance(2)
        listed = reported.daemon.admin("GET", "/v1/report").json["signals"]
        return next((each["fired"] for each in listed if each["rule"] == "follows"), None)

    wait_for(lambda: tick() is False, "the signals to be evaluated")
    assert '"backlog" has never changed the limits of "follows"' in reported.findings()["signal_never_fired"]["follows"]
    assert reported.daemon.admin("PUT", "/v1/signals/backlog", {"value": 2000}).status == 200
    wait_for(tick, "the signal to fire")
    assert reported.daemon.admin("PUT", "/v1/signals/backlog", {"value": 0}).status == 200
    tick()
    assert "signal_never_fired" not in reported.findings()


def test_room_that_nobody_needs(reported):
    reported.send("/spare", users(20), 4)
    assert "suggestion" not in reported.findings() # too few requests
    reported.send("/spare", users(20), 6)
    message = reported.findings()["suggestion"]["spare"]
    assert '10000 per hour burst 13 would have refused nothing: no client has used more than 10 of 4000 at once' in message
    reported.send("/spare", ["greedy"], 3000)
    assert "suggestion" not in reported.findings()


def test_a_reload_keeps_what_is_known_of_rules_that_stay(reported):
    reported.send("/api/x", users(50), 2)
    reported.send("/api/x", ["greedy"], 101)
    before = reported.facts("api")
    assert reported.daemon.admin("PUT", "/v1/rules", RULES.replace("name: never", "name: other")).status == 200
    after = reported.facts("api")
    assert after == {**before, "file": after["file"]}
    assert set(reported.findings()["never_hit"]) >= {"other"} and "api" not in reported.findings()["never_hit"]
    reported.send("/api/x", users(50), 1)
    assert reported.facts("api")["clients"] == before["clients"] # the same clients


@pytest.mark.parametrize("key, attributes", [
    ("[user, path]", lambda i: {"user": f"u{i}", "path": "/x"}),
    ("user or ip", lambda i: {"ip": f"192.0.2.{i}", "path": "/x"}),
])
def test_clients_are_values_of_the_whole_key(tmp_path, key, attributes):
    rules = f"limits: [{{name: api, key: {key}, limit: 100 per hour, soft: 10%}}]\n"
    with Reported(tmp_path, rules) as reported:
        for i in range(30):
            assert reported.daemon.http("POST", "/v1/check", {"attributes": attributes(i)}).status == 200
        assert about(reported.facts("api")["clients"], 30)


def test_descriptors_of_envoy_are_reported_too(tmp_path):
    rules = "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 2}}]\n"
    with Reported(tmp_path, rules) as reported:
        for user in users(30):
            for _ in range(3):
                reported.daemon.http("POST", "/json", {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": user}]}]})
        message = list(reported.findings()["refuses_many"].values())[0]
        told = re.search(r"about (\d+) of (\d+) clients", message)
        assert about(told[1], 30) and about(told[2], 30)


def test_many_threads_and_clients_give_an_estimate_that_is_close(tmp_path):
    rules = "limits: [{name: api, key: user, limit: 1 per hour}]\n"
    with Reported(tmp_path, rules, ["--workers", "2"]) as reported:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda part: reported.send("/x", users(2000, part)), "abcd"))
            list(pool.map(lambda part: reported.send("/x", users(200, part)), "abcd"))
        facts = reported.facts("api")
        assert facts["allowed"] == 8000 and facts["refused"] == 800
        assert 8000 * 0.8 < facts["clients"] < 8000 * 1.2 and 800 * 0.8 < facts["clients_refused"] < 800 * 1.2


def test_text_and_page_say_the_same_and_escape(tmp_path, reported):
    reported.send("/api/x", ['<b>"ada"\x1b[31m'], 90)
    reported.send("/api/x", users(12), 101)
    reported.send("/elsewhere", ["ada"], 3)
    address = reported.daemon.addresses["admin"]
    messages = [each["message"] for each in reported.report()["findings"]]
    text = run("report", "--admin", address)
    assert text.status == 0 and "\x1b" not in text.out
    for message in messages:
        assert f"  {message}\n" in text.out
    page = tmp_path / "page.html"
    assert run("report", "--admin", address, "--html", page).status == 0
    shown = check_page(page.read_text())
    for message in messages:
        assert message in shown
    shown = check_page(run("report", "--admin", address, "--html", "-").out)
    assert all(message in shown for message in messages)


def test_no_name_of_a_client_makes_a_report_unreadable(tmp_path, reported):
    """Our reader of JSON refuses a NUL."""
    with reported.daemon.resp() as resp:
        for _ in range(90):
            resp("RATION.CHECK", "path", "/api/x", "user", b"\0ada\xff")
    assert reported.facts("api")["near"] == ["\ufffdada\ufffd"] and "api" in reported.findings()["near_limit"]
    rules, log = tmp_path / "path.yaml", tmp_path / "access.log"
    rules.write_text("limits: [{name: api, key: user, limit: 1 per hour}]")
    log.write_text(LOG.format(client=1, second=1, path="/x").replace(" - - ", " - a\0da ") * 3)
    replayed = run("replay", "--rules", rules, "--json", log)
    assert replayed.json["replayed"]["top"][0]["client"] == "a\ufffdda"
    assert run("report", "--replay", "-", stdin=replayed.out).status == 0


LOG = """192.0.2.{client} - - [19/Nov/2026:10:00:{second:02d} +0000] "GET {path} HTTP/1.1" 200 12 "-" "x"\n"""


def test_a_replayed_log_is_reported_too(tmp_path):
    rules, log, result = tmp_path / "rules.yaml", tmp_path / "access.log", tmp_path / "replay.json"
    rules.write_text("limits:\n  - {name: api, when: {path: /api/**}, key: ip, limit: 3 per hour}\n"
                     "  - {name: never, when: {path: /never}, key: ip, limit: 3 per hour}\n")
    log.write_text("".join(LOG.format(client=i % 20, second=i // 2, path="/api/x" if i % 20 else "/x") for i in range(60)) +
                   "".join(LOG.format(client=7, second=59, path="/api/x") for _ in range(2)))
    result.write_text(run("replay", "--rules", rules, "--json", log).out)
    answer = run("report", "--json", "--replay", result)
    assert answer.status == 0, answer
    found = {each["kind"]: each["message"] for each in answer.json["findings"]}
    assert set(found) == {"never_hit", "refuses_many", "uncovered", "suggestion"}
    assert '"never"' in found["never_hit"] and found["uncovered"] == "3 requests (4.8 % of all)"
    assert re.search(r'"api" has refused about 1 of (19|20) clients \(5\.\d %\), 2 requests of 59', found["refuses_many"])
    assert run("report", "--replay", "-", stdin=result.read_text()).out == run("report", "--replay", result).out
    # Clients near their limit are not known, and shares are rounded.
    assert re.search(r"^api +59 +2 +(19|20) +1 +-$", run("report", "--replay", result).out, re.M)
    page = tmp_path / "page.html"
    assert run("report", "--replay", result, "--html", page).status == 0
    assert "estimate" not in check_page(page.read_text())
    before = result.read_text()
    answer = run("report", "--replay", result, "--html", result)
    assert answer.status == 2 and "is the replay to read" in answer.err and result.read_text() == before
    assert found["refuses_many"] in check_page(page.read_text())
    for text in ("", "{}", "[]", '{"replayed": {}}', '{"replayed":', "\0", '{"replayed": {"rules": [1, null, {}]}}'):
        answer = run("report", "--replay", "-", stdin=text)
        assert answer.status in (0, 2) and (answer.status == 0 or "is not what ration replay --json prints" in answer.err), text


def test_misuse_is_told(tmp_path, reported):
    address = reported.daemon.addresses["admin"]
    for share in ("x", "100%", "-1%", "5%%", "nan", "", "0.05"):
        answer = run("report", "--admin", address, f"--share={share}")
        assert answer.status == 2 and "--share" in answer.err, share
    answer = run("report", "--admin", address, "--html", tmp_path / "none" / "page.html")
    assert answer.status == 2 and "cannot be written: No such file or directory" in answer.err
    assert "give either --replay or --admin" in run("report", "--admin", address, "--replay", "-", stdin="").err
    assert "--json writes to standard output" in run("report", "--admin", address, "--json", "--html", "-").err
    assert "did you mean --token-file?" in run("report", "--token", "secret").err
    answer = run("report", "--admin", f"unix:{tmp_path}/none")
    assert answer.status == 2 and "is it running?" in answer.err


def test_without_rules_there_is_nothing_to_say(tmp_path):
    with Daemon(tmp_path) as daemon:
        answer = run("report", "--admin", daemon.addresses["admin"])
        assert answer.status == 0 and "nothing to change" in answer.out
        assert json.loads(daemon.admin("GET", "/v1/report").body)["rules"] == []
