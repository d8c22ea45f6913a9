# SPDX-License-Identifier: Apache-2.0
"""What an operator asks a running daemon with `ration`, and what it prints."""

import re
import shlex

import pytest
import yaml

from daemon import ROOT, Daemon
from ration_command import LOGIN, RULES, daemon, fresh, ration, refuse, run, server  # noqa: F401 (fixtures)


# --- health ----------------------------------------------------------------------------


def test_health_is_ready_without_a_token_and_an_error_without_a_daemon(tmp_path, ration):
    answer = ration("health")
    assert (answer.status, answer.out) == (0, "ready\n"), answer
    assert ration("health", "--json").json["ready"] is True
    answer = run("health", "--admin", f"unix:{tmp_path}/none")
    assert answer.status == 2 and "is it running?" in answer.err
    with Daemon(tmp_path, RULES, ["--trust-local", "false"], env={"RATION_ADMIN_TOKEN": "secret"}) as guarded:
        assert run("health", "--admin", guarded.addresses["admin"]).status == 0


def test_health_says_that_a_daemon_is_about_to_end():
    body = b'{"ready":false,"reason":"draining"}'
    reply = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with server(reply + body) as address:
        answer = run("health", "--admin", address)
    assert (answer.status, answer.out) == (1, "not ready: draining\n"), answer


# --- check and explain ----------------------------------------------------------------


def test_check_without_a_file_asks_the_daemon_and_counts_there(ration):
    answer = ration("check", "--times", "6", *LOGIN, "ip=192.0.2.1")
    assert answer.status == 1, answer
    assert answer.out.startswith("1-5       allowed\n6         refused by login; try again in ")
    assert " (status 403)\n5 allowed, 1 refused\nmessage: Go away.\n" in answer.out
    assert re.search(r"^> login +0 of 5 +1 h", answer.out, re.M)
    assert ration("check", *LOGIN, "ip=192.0.2.1").status == 1
    assert ration("check", "--server", *LOGIN, "ip=192.0.2.2").status == 0


def test_check_names_lists_and_says_when_no_rule_applies(ration):
    answer = ration("check", "ip=203.0.113.5")
    assert answer.status == 1 and answer.out.startswith("refused by the deny list\n")
    answer = ration("check", "path=/x")
    assert (answer.status, answer.out, answer.err) == (0, "allowed: no rule applies\n", "")
    answer = ration("check", "domain=edge", "remote_address=192.0.2.7")
    assert answer.status == 0 and "name their files here, or send it to POST /json" in answer.err
    answer = ration("check", "path=/api/x", "user=a", "tier=pro")
    assert (answer.status, answer.out) == (0, "allowed: unlimited\n")


def test_check_takes_costs(ration):
    answer = ration("check", "--cost", "6", *LOGIN, "ip=192.0.2.3")
    assert answer.status == 1 and "it costs more than the limit ever admits" in answer.out
    answer = ration("check", "--cost", "4", "--json", *LOGIN, "ip=192.0.2.3")
    assert answer.status == 0 and answer.json["remaining"] == 1


def test_check_reports_statuses_to_the_daemon(tmp_path):
    rules = "limits: [{name: guesses, key: ip, limit: 3 per hour, charge_on: status 401}]"
    with Daemon(tmp_path, rules) as daemon:
        def check(status, *more):
            return run("check", "--http", daemon.addresses["http"], "--times", 5, "--status", status, *more)

        assert check(200, "ip=192.0.2.1").status == 0
        assert "3 allowed, 2 refused" in check(401, "ip=192.0.2.1").out
        answer = check(401, "--json", "ip=192.0.2.2")
        assert (answer.json["allowed"], answer.json["refused"]) == (3, 2)


def test_check_for_programs_is_what_the_daemon_said(ration):
    answer = ration("check", "--json", *LOGIN, "ip=192.0.2.4")
    assert answer.json["rule"] == "login" and answer.json["limit"] == 5
    answer = ration("check", "--json", "--times", "6", *LOGIN, "ip=192.0.2.4")
    assert (answer.status, answer.json["allowed"], answer.json["refused"]) == (1, 4, 2)
    assert answer.json["decisions"][-1]["message"] == "Go away."


def test_json_of_a_decision_is_the_same_from_rules_and_from_a_daemon(ration, tmp_path):
    """The same members, and the same values but for times."""
    (tmp_path / "rules.yaml").write_text(RULES)
    for more in ([], ["--times", "6"], ["--cost", "6"]):
        there = ration("check", "--json", *more, *LOGIN, "ip=192.0.2.40").json
        here = ration("check", "--json", *more, tmp_path / "rules.yaml", *LOGIN, "ip=192.0.2.40").json
        ration("reset", *LOGIN, "ip=192.0.2.40")

        def shape(value):
            if isinstance(value, dict):
                return {k: "time" if k.startswith(("reset", "retry")) else shape(v) for k, v in value.items()}
            return [shape(v) for v in value] if isinstance(value, list) else value
        assert shape(here) == shape(there)


def test_explain_for_programs_leaves_out_rules_that_do_not_apply(ration):
    rules = ration("explain", "--json", *LOGIN, "ip=192.0.2.41").json["rules"]
    matching = ration("explain", "--json", "--matching", *LOGIN, "ip=192.0.2.41").json["rules"]
    assert len(rules) == 3 and matching == [rule for rule in rules if rule["applies"]] != rules


def test_explain_uses_the_daemons_rules_and_counts_nothing(ration):
    for _ in range(2):
        answer = ration("explain", *LOGIN, "ip=192.0.2.5")
        assert answer.status == 0, answer
        assert 'request\n    method "POST"\n    path "/login"\n    ip "192.0.2.5"\n\n' in answer.out
        assert re.search(r"^login applies  \S*rules.yaml:\d+\n    \+ method \"POST\" is POST\n", answer.out, re.M)
        assert '    key     ip "192.0.2.5"\n    limit   5 per hour, sliding-log; 5 of 5 left\n    cost    1\n' in answer.out
        assert re.search(r'^api does not apply  \S*rules.yaml:\d+\n    - path "/login" does not match /api/\*\*$',
                         answer.out, re.M), answer
        assert answer.out.endswith("\nnothing was counted\n")
    answer = ration("explain", "--matching", *LOGIN, "ip=192.0.2.5")
    assert "api does not apply" not in answer.out and "1 rule does not apply\n" in answer.out
    assert ration("explain", "--json", "ip=192.0.2.5").json["decision"]["allowed"]


@pytest.mark.parametrize("more", [[], ["--matching"], ["--cost", "6"]])
@pytest.mark.parametrize("request_", [
    [*LOGIN, "ip=192.0.2.42"], ["path=/api/x", "user=a", "tier=pro"], ["path=/api/x", "user=a"], ["path=/api/x"],
    ["ip=203.0.113.5"], ["path=/a%2fb"], ["path=/a%2f../b", "user=a"], ["header.x-a=\x1b\""], ["metod=POST"], []])
@pytest.mark.parametrize("form, start", [(["--json"], '{"decision":'), ([], "request\n")])
def test_explain_is_the_same_from_rules_and_from_a_daemon(ration, daemon, request_, more, form, start):
    there = ration("explain", *form, *more, *request_)
    here = ration("explain", *form, *more, daemon.file, *request_)
    assert re.sub(r" \(status \d+\)", "", here.out) == there.out and here.out.startswith(start)
    assert (here.status, here.err) == (there.status, there.err)


def test_explain_for_programs_has_one_shape_whatever_was_counted(ration, daemon):
    ration("check", "--times", "3", *LOGIN, "ip=192.0.2.43")
    there = ration("explain", "--json", *LOGIN, "ip=192.0.2.43").json
    here = ration("explain", "--json", daemon.file, *LOGIN, "ip=192.0.2.43").json
    there_login, here_login = (next(rule for rule in told["rules"] if rule["rule"] == "login")
                               for told in (there, here))
    assert (there_login["limits"][0]["remaining"], here_login["limits"][0]["remaining"]) == (2, 5)
    assert there_login.keys() == here_login.keys() and there["decision"].keys() == here["decision"].keys()
    assert there_login["limits"][0].keys() == here_login["limits"][0].keys()


def test_explain_says_how_a_path_is_read(ration):
    answer = ration("explain", "path=/a%2fb")
    assert '    path is read as "/a/b"\n                 or "/a%2Fb"\n' in answer.out
    assert "path can be read in too many ways" in ration("explain", "path=/a%2f../b").out
    assert "is read as" not in ration("explain", "path=/a").out


def test_explain_says_which_list_applies(ration, daemon):
    answer = ration("explain", "ip=203.0.113.5")
    assert answer.status == 1
    assert re.search(r"^deny list applies  \S*rules.yaml:2\n    \+ ip .*\n    so no rule is asked\n", answer.out,
                     re.M), answer
    assert "would be refused by the deny list" in answer.out


SHADOWED = "mode: shadow\ndeny: [{ip: 203.0.113.0/24}]\nlimits: [{name: a, key: ip, limit: 5 per minute}]\n"
OF_ENVOY = "domain: shop\ndescriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 5}}]\n"


@pytest.mark.parametrize("rules, asked, says, never", [
    (SHADOWED, "ip=203.0.113.5", "would be allowed though on the deny list", "allow list"),
    (OF_ENVOY, "user=ann", "would be allowed", "no rule looks at it")])
def test_explain_of_a_daemon_names_the_list_and_knows_rules_of_envoy(tmp_path, rules, asked, says, never):
    with Daemon(tmp_path, rules) as daemon:
        answer = run("explain", asked, env={"RATION_ADMIN": daemon.addresses["admin"]})
    assert says in answer.out and never not in answer.out, answer


# --- clients --------------------------------------------------------------------------


def test_state_reset_and_adjust_of_one_client(ration):
    who = [*LOGIN, "ip=192.0.2.6"]
    ration("check", "--times", "3", *who)
    answer = ration("state", *who)
    assert answer.status == 0
    assert re.search(r"^login +5 per hour +2 of 5 +", answer.out, re.M)
    assert re.search(r"^everything +1000 per hour +99[78] of 1000 +", answer.out, re.M)
    answer = ration("state", "--rule", "login", "--json", *who)
    assert [limit["remaining"] for limit in answer.json["limits"]] == [2]

    answer = ration("adjust", "--rule", "login", "--add", "1", *who)
    assert answer.status == 0 and re.search(r"^login +5 per hour +1 of 5", answer.out, re.M), answer
    assert "4 of 5" in ration("adjust", "--rule", "login", "--add", "-3", *who).out
    assert "0 of 5" in ration("adjust", "--rule", "login", "--remaining", "0", *who).out
    assert ration("check", *who).status == 1

    answer = ration("reset", "--rule", "login", *who)
    assert (answer.status, answer.out) == (0, "1 limit reset\n")
    assert ration("check", *who).status == 0
    assert ration("reset", *who).out == "2 limits reset\n"
    assert ration("reset", "--json", *who).json == {"reset": 2}


def test_state_of_a_request_that_no_limit_applies_to(ration):
    answer = ration("state", "path=/x")
    assert (answer.status, answer.out) == (1, "no limit applies\n")
    answer = ration("reset", "path=/x")
    assert (answer.status, answer.out) == (1, "no limit applies, nothing was reset\n")


def test_odd_values_arrive_as_they_are(ration):
    for user in ("a b&c=d%41+e", 'q"u\\o', "é€", "x" * 300):
        who = ["path=/api/x", f"user={user}"]
        assert ration("check", *who).status == 0
        answer = ration("state", "--rule", "api", "--json", *who)
        assert answer.json["limits"][0]["remaining"] == 9, user


def test_an_override_is_set_listed_and_deleted(ration):
    who = ["path=/api/x", "user=grace"]
    answer = ration("override", "set", "api", "user=grace", "--limit", "20 per hour", "--for", "2h",
                    "--note", "moving house")
    assert (answer.status, answer.out) == \
        (0, 'user "grace" may have 20 per hour of api for 2 h\n'), answer
    assert ration("check", "--json", *who).json["limit"] == 20
    answer = ration("override", "list", "--rule", "api")
    assert re.search(r"^api +user=grace +20 per hour +(2 h|1 h 59 min|1 h 60 min) +moving house$",
                     answer.out, re.M), answer
    answer = ration("override", "list", "--json")
    assert answer.json["overrides"][0]["attributes"] == {"user": "grace"}
    assert (ration("override", "list", "--rule", "login").out) == "no overrides\n"
    answer = ration("override", "delete", "api", "user=grace")
    assert (answer.status, answer.out) == (0, "deleted\n")
    answer = ration("override", "delete", "api", "user=grace")
    assert (answer.status, answer.out) == (1, "there was no such override\n")
    assert ration("check", "--json", *who).json["limit"] == 10


def test_a_ban_is_added_listed_and_deleted(ration):
    answer = ration("ban", "add", "ip=198.51.100.0/24", "--for", "10m", "--reason", "scraping")
    assert (answer.status, answer.out) == (0, 'ip "198.51.100.0/24" is banned for 10 min\n'), answer
    answer = ration("check", "ip=198.51.100.9", "path=/x")
    assert answer.status == 1 and answer.out.startswith("refused by a ban; try again in "), answer
    answer = ration("ban", "list")
    assert re.search(r"^ip=198\.51\.100\.0/24 +(10|9) min.* +scraping$", answer.out, re.M), answer
    assert len(ration("ban", "list", "--json").json["bans"]) == 1
    answer = ration("ban", "delete", "ip=198.51.100.0/24")
    assert (answer.status, answer.out) == (0, "deleted\n")
    answer = ration("ban", "delete", "ip=198.51.100.0/24")
    assert (answer.status, answer.out) == (1, "there was no such ban\n")
    assert ration("ban", "list").out == "no bans\n"
    assert ration("check", "ip=198.51.100.9", "path=/x").status == 0


# --- rules and shadow mode ------------------------------------------------------------


def rules_of(daemon):
    """Names of the rules in force."""
    return [rule["name"] for rule in yaml.safe_load(daemon.ration("rules", "get").out)["limits"]]


def test_rules_are_read_tried_replaced_and_reloaded(fresh):
    other = "limits:\n  - {name: only, key: ip, limit: 1 per hour}\n"
    assert rules_of(fresh) == ["login", "api", "everything"]
    version = fresh.ration("rules", "get", "--json").json["version"]

    answer = fresh.ration("rules", "validate", "-", stdin=other)
    assert answer.status == 0 and answer.out.endswith("valid\n"), answer
    assert rules_of(fresh) == ["login", "api", "everything"]

    answer = fresh.ration("rules", "push", "-", "--if-version", version, stdin=other)
    assert answer.status == 0 and f"in force: version {version + 1}\n" in answer.out, answer
    answer = fresh.ration("rules", "push", "-", "--if-version", version, stdin=other)
    assert answer.status == 2 and f"no longer version {version};" in answer.err, answer
    assert fresh.ration("check", "--times", "2", "ip=192.0.2.7").status == 1

    answer = fresh.ration("rules", "reload")
    assert answer.status == 0 and answer.out.startswith("reloaded: version "), answer
    assert rules_of(fresh) == ["login", "api", "everything"]


def test_bad_rules_are_reported_and_change_nothing(fresh):
    bad = "limits:\n  - name: a\n    lmit: 5 per minute\n"
    for verb in ("validate", "push"):
        answer = fresh.ration("rules", verb, "-", stdin=bad)
        assert (answer.status, answer.out) == (2, "")
        assert 'error: unknown key "lmit"; did you mean "limit"?\n' in answer.err
        assert "        lmit: 5 per minute\n" in answer.err
        answer = fresh.ration("rules", verb, "--json", "-", stdin=bad)
        assert answer.status == 2 and answer.json["error"] == "bad_rules"
    assert rules_of(fresh) == ["login", "api", "everything"]
    fresh.file.write_text(bad)
    answer = fresh.ration("rules", "reload")
    assert answer.status == 2 and 'unknown key "lmit"' in answer.err


def test_shadow_mode_is_switched(fresh):
    assert fresh.ration("shadow", "status").out == "shadow mode is off: limits are enforced\n"
    answer = fresh.ration("shadow", "on")
    assert (answer.status, answer.out) == (0, "shadow mode is on: no request is refused\n")
    answer = fresh.ration("check", "--times", "6", *LOGIN, "ip=192.0.2.9")
    assert answer.status == 0 and "though login would refuse (shadow mode)" in answer.out or \
        "being in shadow mode" in answer.out, answer
    assert fresh.ration("shadow", "status", "--json").json == {"shadow": True}
    assert fresh.ration("shadow", "off").out == "shadow mode is off: limits are enforced\n"
    assert fresh.ration("check", *LOGIN, "ip=192.0.2.9").status == 1


# --- mistakes -------------------------------------------------------------------------


@pytest.mark.parametrize("args,message", [
    (["override", "set", "appi", "user=ada", "--limit", "5 per minute"], "appi"),
    (["state", "--rule", "logn", *LOGIN, "ip=192.0.2.7"], "logn"),
    (["reset", "--rule", "logn", "ip=192.0.2.7"], "logn"),
    (["adjust", "--rule", "logn", "--add", "1", "ip=192.0.2.7"], "logn"),
    (["override", "set", "api", "user=ada", "--limit", "5 per minuet"], "minuet"),
    (["override", "set", "api", "ip=192.0.2.7", "--limit", "5 per minute"], "user"),
    (["ban", "add", "ip=300.1.1.1"], "300.1.1.1"),
])
def test_the_daemon_says_what_is_wrong(ration, args, message):
    answer = ration(*args)
    assert (answer.status, answer.out) == (2, ""), answer
    assert answer.err.startswith("ration: ") and message in answer.err, answer


@pytest.mark.parametrize("args,message", [
    (["override"], "override what? write one of list, set, delete after it"),
    (["ban", "ad"], 'there is no ban "ad"; write one of list, add, delete'),
    (["overide", "list"], 'there is no command "overide"; did you mean override?'),
    (["override", "set"], "no RULE given; write for example ration override set api user=ada "
                          '--limit "1000 per minute"'),
    (["override", "set", "api", "user=ada"],
     'which limit? write for example ration override set api user=ada --limit "1000 per minute"'),
    (["override", "delete", "a", "b"], 'override delete takes one RULE, found "a" and "b"'),
    (["override", "list", "--limit", "x"],
     'override list takes no --limit; "ration help override list" lists its options'),
    (["ban", "add"], "which client? write for example ration ban add ip=192.0.2.7 --for 10m"),
    (["ban", "add", "ip=192.0.2.7", "--for", "soon"],
     '--for: found "soon", expected a length of time such as 10m or 2 hours'),
    (["reset"], "which client? write for example ration reset ip=192.0.2.7, or --rule NAME for a rule that "
                "has one counter for all"),
    (["reset", "192.0.2.7"], 'reset: found "192.0.2.7", expected an attribute such as ip=192.0.2.7'),
    (["top", "fast"], 'top: found "fast", expected options only'),
    (["adjust", "ip=192.0.2.7"],
     "which rule? write for example ration adjust --rule api --add -10 user=ada"),
    (["adjust", "--rule", "a", "ip=192.0.2.7"],
     "give either --add N, which charges N more (or gives back, if N is negative), or "
     "--remaining N, which sets what is left"),
    (["adjust", "--rule", "a", "--add", "1.5", "ip=192.0.2.7"],
     '--add: found "1.5", expected a number such as 5 or -5'),
    (["adjust", "--rule", "a", "--remaining", "-1", "ip=192.0.2.7"],
     '--remaining: found "-1", expected a number from 0 on'),
    (["rules", "push"], "no FILE given; write for example ration rules push rules.yaml"),
    (["rules", "push", "/nonexistent/rules.yaml"],
     '"/nonexistent/rules.yaml" cannot be read: No such file or directory'),
    (["rules", "push", "/dev/null"], '"/dev/null" is empty; expected rules'),
    (["shadow", "on", "--admin", "localhost"],
     '--admin: "localhost" is not an address: it has no port; write one such as 127.0.0.1:8080, :8080, '
     "[::1]:8080 or unix:/run/ration.sock"),
    (["shadow", "on", "--admin", "::1:80"],
     '--admin: "::1:80" is not an address: an IPv6 address must be in brackets; write one such as '
     "127.0.0.1:8080, :8080, [::1]:8080 or unix:/run/ration.sock"),
    (["check", "--server", "rules.yaml", "ip=192.0.2.7"],
     "give either rules files or the address of a daemon, which has its own rules"),
    (["check", "--state", "s", "ip=192.0.2.7"],
     "--state is for rules files; the daemon has its own state"),
    (["check", "--at", "+1s", "ip=192.0.2.7"],
     "--at is for rules files; the daemon has its own time"),
    (["check", "ip=\udcff"], '"ip=\\xff" is not UTF-8; the daemon takes no other text'),
    (["shadow", "on", "--token-file", "/nonexistent/token"],
     '--token-file: "/nonexistent/token" cannot be opened: No such file or directory'),
])
def test_mistakes_are_answered_with_what_would_be_right(args, message):
    answer = run(*args)
    assert (answer.status, answer.out, answer.err) == (2, "", f"ration: {message}\n")


# --- what is documented ---------------------------------------------------------------


def documented():
    """Sessions in docs/cli.md that need a daemon: [(command, what is shown)]."""
    text = (ROOT / "docs" / "cli.md").read_text()
    text = text[text.index("## A running daemon"):]
    for block in re.findall(r"^```\n(\$ ration .*?)^```$", text, re.M | re.S):
        session = re.findall(r"^\$ ration (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
        yield pytest.param(session, id=session[0][0])


def pattern_of(shown):
    """Times and rates differ; columns are as wide as need be; `...` is any lines."""
    text = re.escape(shown.replace("...\n", "\0"))
    text = re.sub(r"(\\ )+", " +", text)
    text = re.sub(r"(now|\d[\d\\.]* \+(ms|us|s|min|h|d)( \+\d+ \+(s|min|h))?)\b", r".*?", text)
    text = re.sub(r"\d+ \+of \+100\b", r"\\d+ +of +100", text) # refilled within milliseconds
    text = re.sub(r"127\\\.0\\\.0\\\.1:\d+", r"\\S+", text)
    return text.replace("\0", "(?:.*\n)*")


@pytest.mark.parametrize("session", list(documented()))
def test_the_documentation_shows_what_a_daemon_answers(tmp_path, session):
    with Daemon(tmp_path, (ROOT / "examples" / "ration.yaml").read_text()) as daemon:
        env = {"RATION_HTTP": daemon.addresses["http"], "RATION_ADMIN": daemon.addresses["admin"]}
        if session[0][0].startswith("state"):
            run("check", "--times", "5", *LOGIN, "ip=192.0.2.7", env=env)
        for command, shown in session:
            words = shlex.split(command)
            if words[0] in ("top", "bench"): # figures of some machine: only the words are true
                words += ["--interval", "100ms"] if words[0] == "top" else \
                    ["--resp", daemon.addresses["resp"], "--requests", "1000"]
                words = [w for w in words if w not in ("--duration", "5s")]
                refuse(daemon, "192.0.2.7", 8)
                refuse(daemon, "192.0.2.80", 7)
                answer = run(*words, env=env)
                assert re.findall(r"[a-z]+", answer.out.splitlines()[1]) == \
                    re.findall(r"[a-z]+", shown.splitlines()[1]), answer
                assert re.findall("[a-z]+", shown)[:1] == re.findall("[a-z]+", answer.out)[:1]
                continue
            answer = run(*words, env=env, cwd=ROOT)
            assert re.fullmatch(pattern_of(shown), answer.out), (command, answer)
