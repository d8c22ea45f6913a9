# SPDX-License-Identifier: Apache-2.0
"""What an operator does with `ration`, and what it answers.

RATION_BUILD names the build directory.
"""

import os
import re
import shutil
import subprocess

import pytest

from daemon import ROOT
from ration_command import RATION, Answer

RULES = """\
limits:
  - name: login
    when: { method: POST, path: /login }
    key: ip
    limit: 5 per minute
    algorithm: sliding-log
    response: { status: 403, message: Go away. }
  - name: api
    when: { path: /api/**, session: { present: true } }
    key: [user or ip, method]
    limit: { by: tier, free: [2 per second, 50 per minute], pro: unlimited }
  - name: everything
    key: ip
    limit: 100 per second
"""
LOGIN = ["method=POST", "path=/login", "ip=192.0.2.7"]

ENVOY = """\
domain: auth
descriptors:
  - key: auth_type
    value: login
    descriptors:
      - key: window
        value: minute
        rate_limit: {unit: minute, requests_per_unit: 5}
      - key: window
        value: day
        rate_limit: {unit: day, requests_per_unit: 5}
  - key: client
    value: mon*
"""


@pytest.fixture
def ration(tmp_path):
    """Runs ration in a folder with rules.yaml and envoy.yaml."""
    (tmp_path / "rules.yaml").write_text(RULES)
    (tmp_path / "envoy.yaml").write_text(ENVOY)

    def run(*args, stdin="", env=None):
        return Answer(subprocess.run([RATION, *args], cwd=tmp_path, input=stdin, text=True,
                                     capture_output=True, timeout=30,
                                     env={**os.environ, **(env or {})}))

    run.folder = tmp_path
    return run


# --- finding one's way ---------------------------------------------------------------


def test_help_lists_the_commands_and_each_has_a_page(ration):
    answer = ration("help")
    assert answer.status == 0
    for command in ("check", "explain", "lint"):
        assert re.search(rf"^  {command} ", answer.out, re.M)
        page = ration("help", command)
        assert page.status == 0 and page.out.startswith(f"usage: ration {command} ")
        assert ration(command, "--help").out == page.out == ration(command, "-h").out
    assert ration("help", "help").out == answer.out


def test_version(ration):
    answer = ration("--version")
    assert answer.status == 0 and re.fullmatch(r"ration \d+\.\d+\.\d+\n", answer.out)


def test_without_arguments_usage_goes_to_stderr(ration):
    answer = ration()
    assert answer.status == 2 and answer.out == "" and "usage: ration" in answer.err


@pytest.mark.parametrize("args,message", [
    (["--admin", ":8082", "top"], 'expected a command before "--admin"; "ration help" lists all'),
    (["chekc"], 'there is no command "chekc"; did you mean check?'),
    (["frobnicate"], 'there is no command "frobnicate"; "ration help" lists all'),
    (["help", "lnit"], 'there is no command "lnit"; did you mean lint?'),
    (["check"], "no request given; write for example ration check path=/login ip=192.0.2.7, which "
                "asks rationd, or ration check rules.yaml path=/login ip=192.0.2.7"),
    (["lint"], "no rules file given; write for example ration lint rules.yaml"),
    (["check", "--tmies", "3", "rules.yaml"],
     'there is no option "--tmies"; did you mean --times?'),
    (["lint", "--frob", "rules.yaml"],
     'there is no option "--frob"; "ration help lint" lists all'),
    (["lint", "--state", "x", "rules.yaml"],
     'lint takes no --state; "ration help lint" lists its options'),
    (["check", "rules.yaml", "--cost"], "--cost needs a value; write for example --cost 5"),
    (["check", "--times", "0", "rules.yaml"],
     '--times: found "0", expected a number from 1 to 1000000'),
    (["check", "--at", "2027-02-30", "rules.yaml"],
     '--at: found "2027-02-30", expected a time such as +30s or 2027-01-31T23:59:00Z'),
    (["check", "--at", "2020-01-01", "rules.yaml"],
     "--at: that time has passed; give one to come, or a length such as +30s"),
    (["check", "--json=yes", "rules.yaml"], "--json takes no value; write it alone"),
    (["check", "--color", "blue", "rules.yaml"],
     '--color: found "blue", expected auto, always or never'),
    (["check", "rules.yaml", "ip"],
     'there is no file "ip"; if it is an attribute, write ip=VALUE'),
    (["lint", "none.yaml"], '"none.yaml" cannot be opened: No such file or directory'),
    (["lint", "rules.yaml", "a=b"],
     'lint takes no attributes, found "a=b"; if it is a file, put ./ before it'),
    (["check", "rules.yaml", "--", "ip"],
     'found "ip" after --, expected an attribute such as ip=192.0.2.7'),
    (["lint", "-", "rules.yaml"], "- is standard input; give either - or files, not both"),
    (["explain", "--state", "none", "rules.yaml"],
     'there is no state file "none"; ration check --state makes one'),
    (["check", "envoy.yaml", "ip=192.0.2.7"],
     "these rules are in Envoy's format; begin the request with its domain, as in domain=\"auth\", "
     "then give the pairs of a descriptor in order"),
])
def test_mistakes_are_answered_with_what_would_be_right(ration, args, message):
    answer = ration(*args)
    assert (answer.status, answer.out, answer.err) == (2, "", f"ration: {message}\n")


# --- lint ------------------------------------------------------------------------------


def test_lint_of_sound_rules_says_how_many_there_are(ration):
    (ration.folder / "good.yaml").write_text(
        "limits:\n"
        "  - {name: pages, when: {path: /pages/**}, key: ip, limit: 5 per second}\n"
        "  - {name: rest, key: ip, limit: 9 per second}\n")
    answer = ration("lint", "good.yaml")
    assert (answer.status, answer.out) == (0, "ok: 2 rules, 2 limits, no warnings\n")


def test_lint_warns_and_strict_makes_that_count(ration):
    answer = ration("lint", "rules.yaml")
    assert answer.status == 0
    assert 'that "api" does not list, are not limited; add a default' in answer.out
    assert answer.out.endswith("ok: 3 rules, 4 limits, 1 warning\n")
    assert ration("lint", "--strict", "rules.yaml").status == 1


def test_lint_reports_all_errors_of_all_files(ration):
    (ration.folder / "a.yaml").write_text("limits:\n  - name: a\n    lmit: 5 per minute\n")
    (ration.folder / "b.yaml").write_text("limits:\n  - name: b\n    limit: 5 per minuet\n")
    answer = ration("lint", "a.yaml", "b.yaml")
    assert answer.status == 2
    assert 'a.yaml:3:5: error: unknown key "lmit"; did you mean "limit"?\n' in answer.out
    assert "        lmit: 5 per minute\n        ^\n" in answer.out
    assert "b.yaml:3:18: error: " in answer.out
    assert answer.out.endswith("\n2 errors\n")


def test_lint_of_a_directory_and_of_standard_input(ration):
    (ration.folder / "d").mkdir()
    shutil.copy(ration.folder / "rules.yaml", ration.folder / "d")
    shutil.copy(ration.folder / "envoy.yaml", ration.folder / "d")
    assert "ok: 5 rules, 6 limits" in ration("lint", "d").out
    answer = ration("lint", "-", stdin="limits: 7\n")
    assert answer.status == 2 and answer.out.startswith("stdin:1:9: error: ")


def test_lint_for_programs(ration):
    answer = ration("lint", "--json", "rules.yaml")
    assert (answer.status, answer.json["errors"], answer.json["warnings"]) == (0, 0, 1)
    assert (answer.json["rules"], answer.json["limits"]) == (3, 4)
    answer = ration("lint", "--json", "-", stdin="limits:\n  - name: \"a\\tb\"\n    limit: x\n")
    assert answer.status == 2
    first = answer.json["diagnostics"][0]
    assert (first["severity"], first["file"], first["line"], first["column"]) == \
        ("error", "stdin", 2, 11)
    assert "is not a name" in first["message"]


def test_the_example_is_sound(ration):
    answer = ration("lint", "--strict", ROOT / "examples" / "ration.yaml")
    assert answer.status == 0, answer.out


# --- explain ----------------------------------------------------------------------------


def test_explain_gives_the_reason_for_each_rule(ration):
    answer = ration("explain", "rules.yaml", *LOGIN)
    assert answer.status == 0
    assert "login applies  rules.yaml:2\n" in answer.out
    assert '    + method "POST" is POST\n    + path "/login" matches /login\n' in answer.out
    assert '    key     ip "192.0.2.7"\n' in answer.out
    assert "    limit   5 per minute, sliding-log; 5 of 5 left\n" in answer.out
    assert "api does not apply  rules.yaml:8\n" in answer.out
    assert '    - path "/login" does not match /api/**\n' in answer.out
    assert "    - session is absent; it must be present\n" in answer.out
    assert answer.out.endswith(
        "would be allowed; login is nearest its limit\nnothing was counted\n")


def test_explain_shows_tier_key_and_missing_parts(ration):
    common = ["explain", "rules.yaml", "path=/api/x", "session=s", "tier=free"]
    answer = ration(*common, "ip=2001:db8::1", "method=GET")
    assert '    key     ip "2001:db8::/64", method "GET"\n' in answer.out
    assert "    tier    free, by tier\n" in answer.out
    assert "    limit   2 per second; 2 of 2 left\n" in answer.out
    assert "    limit   50 per minute; 50 of 50 left\n" in answer.out
    assert "    - no key: user and ip are absent\n" in ration(*common, "method=GET").out
    assert "    - no key: method is absent\n" in ration(*common, "user=ada").out
    answer = ration("explain", "rules.yaml", "path=/api/x", "session=s", "user=a", "method=GET",
                    "tier=gold")
    assert '    - no tier: tier "gold" is none of free, pro, and there is no default' in answer.out


def test_explain_counts_nothing_and_sees_what_was_counted(ration):
    for _ in range(3):
        assert ration("check", "--state", "s", "rules.yaml", *LOGIN).status == 0
    for _ in range(2):
        answer = ration("explain", "--state", "s", "--matching", "rules.yaml", *LOGIN)
        assert "sliding-log; 2 of 5 left" in answer.out
        assert "1 rule does not apply" in answer.out
    assert ration("check", "--state", "s", "--times", "2", "rules.yaml", *LOGIN).status == 0
    answer = ration("explain", "--state", "s", "rules.yaml", *LOGIN)
    assert answer.status == 1 and "would be refused by login; try again in" in answer.out


def test_explain_points_out_what_no_rule_looks_at(ration):
    answer = ration("explain", "rules.yaml", "metod=POST")
    assert '    metod "POST"  no rule looks at it; did you mean method?\n' in answer.out


def test_what_a_caller_sends_never_reaches_the_terminal_raw(ration):
    answer = ration("explain", "rules.yaml", "path=/login", "method=\x1b[2J\xe9\u202e", "ip=\"\\")
    assert "\x1b" not in answer.out and "\u202e" not in answer.out
    assert r'method "\x1b[2J' in answer.out
    assert r'ip "\"\\"' in answer.out


def test_explain_for_programs(ration):
    answer = ration("explain", "--json", "rules.yaml", *LOGIN)
    rules = {rule["rule"]: rule for rule in answer.json["rules"]}
    assert rules["login"]["applies"] and rules["login"]["key"] == {"ip": "192.0.2.7"}
    assert rules["login"]["limits"][0]["remaining"] == 5
    assert not rules["api"]["applies"] and rules["api"]["why"] == "condition"
    path = rules["api"]["conditions"][0]
    assert (path["found"], path["values"], path["holds"]) == ("/login", ["/api/**"], False)
    assert answer.json["decision"]["allowed"] and answer.json["decision"]["rule"] == "login"


EITHER = (
    "limits:\n"
    "  - name: heavy\n"
    "    when:\n"
    "      - {path: /export/**}\n"
    "      - {method: POST, size: {above: 10}}\n"
    "    limit: 5 per minute\n")


def test_explain_names_the_alternative(ration):
    (ration.folder / "either.yaml").write_text(EITHER)
    answer = ration("explain", "either.yaml", "path=/x", "method=POST", "size=11")
    assert ("heavy applies  either.yaml:2\n"
            "    alternative 2 of 2\n"
            '    + method "POST" is POST\n'
            '    + size "11" is above 10\n') in answer.out
    answer = ration("explain", "either.yaml", "path=/x", "method=POST", "size=many")
    assert ("heavy does not apply  either.yaml:2\n"
            "    alternative 1 of 2\n"
            '    - path "/x" does not match /export/**\n'
            "    alternative 2 of 2\n"
            '    - size "many" is not a number; it must be above 10\n') in answer.out


def test_explain_of_alternatives_for_programs(ration):
    (ration.folder / "either.yaml").write_text(EITHER)
    rule = ration("explain", "--json", "either.yaml", "method=POST", "size=11").json["rules"][0]
    assert (rule["applies"], rule["alternative"]) == (True, 2) and "conditions" not in rule
    first, second = rule["alternatives"]
    assert (first["line"], second["line"]) == (4, 5)
    assert [c["holds"] for c in first["conditions"]] == [False]
    assert [(c["test"], c["values"], c["holds"]) for c in second["conditions"]] == [
        ("one_of", ["POST"], True), ("above", ["10"], True)]
    rule = ration("explain", "--json", "either.yaml", "method=GET").json["rules"][0]
    assert (rule["applies"], rule["why"], rule["alternative"]) == (False, "condition", None)


def test_explain_names_the_client_behind_a_proxy_and_its_list(ration):
    (ration.folder / "lists.yaml").write_text(
        "attributes:\n"
        "  ip: {trusted_proxies: [10.0.0.0/8]}\n"
        "deny:\n"
        "  - {ip: 203.0.113.0/24}\n"
        "limits:\n"
        "  - {name: all, key: ip, limit: 1 per second}\n")
    answer = ration("explain", "lists.yaml", "ip=10.0.0.1",
                    "header.X-Forwarded-For=192.0.2.1, 203.0.113.9")
    assert answer.status == 1
    assert '    ip "203.0.113.9"  from header x-forwarded-for\n' in answer.out
    assert "deny list applies  lists.yaml:4\n" in answer.out
    assert '    + ip "203.0.113.9" is in 203.0.113.0/24\n' in answer.out
    assert "would be refused by the deny list (lists.yaml:4)\n" in answer.out


# --- Envoy ------------------------------------------------------------------------------


def test_explain_follows_a_descriptor_down_the_tree(ration):
    answer = ration("explain", "envoy.yaml", "domain=auth", "auth_type=login", "window=minute")
    assert "descriptor finds auth.auth_type_login.window_minute" in answer.out
    assert '    key     auth_type "login", window "minute"\n' in answer.out
    answer = ration("explain", "envoy.yaml", "domain=auth", "auth_type=login", "window=hour")
    assert '    + auth_type "login" is login  line 3\n' in answer.out
    assert '    - window "hour" is not found; known here: ' in answer.out
    answer = ration("explain", "envoy.yaml", "domain=auth", "auth_type=login")
    assert "no limit here: the descriptor must have more pairs; known here: " in answer.out
    answer = ration("explain", "envoy.yaml", "domain=oauth", "a=b")
    assert "no file has this domain; known: auth" in answer.out
    answer = ration("explain", "envoy.yaml", "domain=auth", "client=monitor")
    assert "is white-listed" in answer.out and '+ client "monitor" matches mon*' in answer.out


def test_check_of_a_descriptor(ration):
    request = ["envoy.yaml", "domain=auth", "auth_type=login", "window=day"]
    answer = ration("check", "--state", "s", "--times", "6", *request)
    assert answer.status == 1 and "5 allowed, 1 refused\n" in answer.out
    answer = ration("explain", "--state", "s", "--json", *request)
    assert answer.status == 1 and answer.json["decision"]["remaining"] == 0
    assert answer.json["rules"][0]["key"] == ["auth_type", "login", "window", "day"]


# --- check ------------------------------------------------------------------------------


def test_check_allows_and_prints_what_is_left(ration):
    answer = ration("check", "rules.yaml", *LOGIN)
    assert answer.status == 0
    assert answer.out == (
        "allowed\n"
        "  rule        limit                      left       resets in\n"
        "> login       5 per minute, sliding-log  4 of 5     1 min\n"
        "  everything  100 per second             99 of 100  10 ms\n")


def test_check_refuses_with_status_message_and_wait(ration):
    answer = ration("check", "--times", "6", "rules.yaml", *LOGIN)
    assert answer.status == 1
    assert answer.out == (
        "1-5       allowed\n"
        "6         refused by login; try again in 1 min (status 403)\n"
        "5 allowed, 1 refused\n"
        "message: Go away.\n"
        "  rule        limit                      left       resets in  retry in\n"
        "> login       5 per minute, sliding-log  0 of 5     1 min      1 min\n"
        "  everything  100 per second             95 of 100  50 ms\n")


def test_check_remembers_only_in_a_state_file(ration):
    for _ in range(6):
        assert ration("check", "rules.yaml", *LOGIN).status == 0
    statuses = [ration("check", "--state", "s", "rules.yaml", *LOGIN).status for _ in range(7)]
    assert statuses == [0, 0, 0, 0, 0, 1, 1]
    assert ration("check", "--state", "s", "--at", "+61s", "rules.yaml", *LOGIN).status == 0


def test_check_of_what_nothing_applies_to(ration):
    answer = ration("check", "rules.yaml", "path=/x")
    assert (answer.status, answer.out) == (0, "allowed: no rule applies\n")
    answer = ration("check", "rules.yaml", "path=/api/x", "session=s", "user=a", "method=GET",
                    "tier=pro")
    assert (answer.status, answer.out) == (0, "allowed: unlimited\n")


def test_check_takes_costs_and_knows_what_never_fits(ration):
    answer = ration("check", "--cost", "4", "--times", "2", "rules.yaml", *LOGIN)
    assert answer.status == 1 and "1         allowed\n2         refused by login" in answer.out
    answer = ration("check", "--json", "--cost", "6", "rules.yaml", *LOGIN)
    assert answer.status == 1 and answer.json["retry_after"] is None
    assert "it costs more than the limit ever admits" in ration(
        "check", "--cost=6", "rules.yaml", *LOGIN).out


OUTCOMES = """\
limits:
  - { name: guesses, key: ip, limit: 3 per minute, charge_on: "status 401, 5xx" }
  - { name: everything, key: ip, limit: 100 per minute }
"""


def test_check_reports_the_outcome_of_its_requests(ration):
    (ration.folder / "rules.yaml").write_text(OUTCOMES)
    ask = ["--times", "5", "rules.yaml", "ip=192.0.2.7"]
    assert ration("check", *ask).status == ration("check", "--status", "200", *ask).status == 0
    answer = ration("check", "--json", "--status=503", *ask)
    assert (answer.json["allowed"], answer.json["refused"]) == (3, 2)
    assert "3 allowed, 2 refused" in ration("check", "--status", "401", *ask).out
    assert ration("check", "--status", "99", *ask).err.strip() == \
        'ration: --status: found "99", expected a status from 100 to 599'


@pytest.mark.parametrize("throttle, told", [
    ("{from: 80%, max_delay: 2s}", "from 80% on, up to 2.0 s"),
    ("{from: 3 requests, max_delay: 2s}", "from 3 requests on, up to 2.0 s"),
    ("{from: 3 requests}", "from 3 requests on, at the rate of the limit"),
])
def test_explain_says_where_throttling_begins(ration, throttle, told):
    (ration.folder / "slow.yaml").write_text(
        f"limits:\n  - {{name: slow, key: user, limit: 10 per second burst 6, throttle: {throttle}}}\n")
    answer = ration("explain", "slow.yaml", "user=ann")
    assert f"throttle {told}\n" in answer.out


def test_explain_says_when_an_outcome_is_charged(ration):
    (ration.folder / "rules.yaml").write_text(OUTCOMES)
    answer = ration("explain", "rules.yaml", "ip=192.0.2.7")
    assert answer.out.count("charged when the answer is known, if its status is 401, 5xx\n") == 1
    rules = ration("explain", "--json", "rules.yaml", "ip=192.0.2.7").json["rules"]
    assert [rule.get("charge_on") for rule in rules] == ["401, 5xx", None]


def test_a_log_of_a_minute_resets_in_a_minute(ration):
    """It is empty after 60.001 s, which should not be called 1 min 1 s."""
    (ration.folder / "log.yaml").write_text(
        "limits:\n  - {name: log, key: ip, limit: 5 per minute, algorithm: sliding-log}\n")
    assert re.search(r"4 of 5  1 min\n", ration("check", "log.yaml", "ip=192.0.2.7").out)


def test_check_for_programs(ration):
    answer = ration("check", "--json", "rules.yaml", *LOGIN)
    decision = answer.json
    assert decision["allowed"] and decision["rule"] == "login"
    assert (decision["limit"], decision["remaining"], decision["retry_after"]) == (5, 4, 0)
    assert 59 < decision["reset_after"] <= 60.01
    assert [limit["rule"] for limit in decision["limits"]] == ["login", "everything"]
    answer = ration("check", "--json", "--times", "6", "rules.yaml", *LOGIN)
    assert (answer.json["allowed"], answer.json["refused"]) == (5, 1)
    last = answer.json["decisions"][-1]
    assert (last["error"], last["message"]) == ("rate_limited", "Go away.")
    answer = ration("check", "--json", "rules.yaml")
    assert answer.json["rule"] is None and answer.json["limit"] is None


def test_check_points_out_a_misspelled_attribute(ration):
    answer = ration("check", "rules.yaml", "metod=POST")
    assert answer.status == 0
    assert answer.err == 'ration: note: no rule looks at "metod"; did you mean method?\n'


def test_check_with_bad_rules_shows_them_on_stderr(ration):
    answer = ration("check", "-", "ip=192.0.2.7", stdin="limits:\n  - name: a\n    limit: 5\n")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("stdin:3:13: error: ")


def test_check_leaves_a_foreign_file_alone(ration):
    answer = ration("check", "--state", "rules.yaml", "rules.yaml", *LOGIN)
    assert answer.status == 2 and "not a ration state file" in answer.err
    assert (ration.folder / "rules.yaml").read_text() == RULES


def test_attributes_with_odd_names_go_behind_two_hyphens(ration):
    (ration.folder / "odd.yaml").write_text(
        "domain: d\ndescriptors:\n  - {key: 9/k, rate_limit: {unit: day, requests_per_unit: 0}}\n")
    assert ration("check", "odd.yaml", "--", "domain=d", "9/k=v").status == 1


# --- looks ------------------------------------------------------------------------------


def test_colours_are_for_terminals_or_on_request(ration):
    args = ["check", "rules.yaml", *LOGIN]
    assert "\x1b[" not in ration(*args).out
    assert "\x1b[1;32mallowed\x1b[0m" in ration("check", "--color", "always", *args[1:]).out
    on_terminal = ["script", "-qec", " ".join([str(RATION), *args]), "/dev/null"]
    if shutil.which("script"):
        for setting, coloured in ((None, True), ("1", False), ("", True)):
            env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
            env["TERM"] = "xterm"
            if setting is not None:
                env["NO_COLOR"] = setting
            done = subprocess.run(on_terminal, cwd=ration.folder, env=env, text=True,
                                  capture_output=True, stdin=subprocess.DEVNULL)
            assert ("\x1b[1;32mallowed" in done.stdout) == coloured, setting


def test_a_full_disk_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run([RATION, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "ration: the output could not be written\n")
