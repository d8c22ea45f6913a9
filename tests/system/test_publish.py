# SPDX-License-Identifier: Apache-2.0
"""The limits for users of an API: `ration publish`, GET /limits and GET /v1/limits, compared with the rules, with what
the headers of real answers say, and with the samples run as they stand."""

import html
import json
import re
import subprocess

import pytest

from daemon import ROOT, Daemon
from page_check import check_page
from ration_command import run

HOSTILE = '<script>alert(1)</script> | *bold* [x](http://evil) `code` & "quotes"'
RULES = f"""
limits:
  - {{ name: login, when: {{ method: POST, path: /login }}, key: ip, limit: 5 per minute, algorithm: sliding-log }}
  - name: api
    when: {{ path: /api/** }}
    key: api_key or ip
    limit:
      by: tier
      free: [100 per minute burst 20, 1000 per calendar month]
      pro: 10000 per minute
      enterprise: unlimited
      default: free
    response: {{ message: '{HOSTILE}' }}
  - {{ name: heavy, when: {{ path: /heavy, header.x-secret-plan: gold }}, key: header.x-internal-id, limit: 3 concurrent }}
  - {{ name: units, when: {{ path: /units }}, key: user, limit: 50 per hour, cost: {{ attribute: weight, default: 2 }} }}
  - {{ name: hidden, when: {{ path: /hidden }}, key: user, limit: 7 per minute, publish: false }}
  - {{ name: trial, when: {{ path: /trial }}, key: user, limit: 8 per minute, mode: shadow }}
"""
PUBLIC = ["--publish", "public"]
TYPES = {"html": "text/html", "markdown": "text/markdown", "json": "application/json"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("publish"), RULES, PUBLIC) as daemon:
        yield daemon


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    return path


def limits(daemon, format, **headers):
    return daemon.http("GET", "/limits", headers={"Accept": TYPES[format], **headers})


def test_it_is_off_by_default_and_the_admin_port_still_tells(tmp_path):
    with Daemon(tmp_path, RULES) as daemon:
        for format in TYPES:
            answer = limits(daemon, format)
            assert answer.status == 404 and answer.json["error"] == "not_found"
            assert "api" not in answer.json["message"].replace("publish", "")
        assert daemon.admin("GET", "/v1/limits", headers={"Accept": "application/json"}).json["limits"][0]["name"] == "login"


@pytest.mark.parametrize("format", TYPES)
def test_all_ways_to_it_agree(daemon, file, format):
    answer = limits(daemon, format)
    assert answer.status == 200
    assert answer.headers["Content-Type"].split(";")[0] == TYPES[format]
    assert run("publish", "--format", format, file).out == answer.text
    assert run("publish", "--format", format, "--admin", daemon.addresses["admin"]).out == answer.text
    assert daemon.admin("GET", "/v1/limits", headers={"Accept": TYPES[format]}).text == answer.text


def test_the_limits_are_those_of_the_rules(daemon):
    told = {each["name"]: each for each in limits(daemon, "json").json["limits"]}
    assert list(told) == ["login", "api", "heavy", "units"]
    assert told["login"]["requests"] == "POST /login" and told["login"]["counted_for"] == "each IP address"
    assert told["api"]["counted_for"] == "each API key, or without it each IP address"
    tiers = {each["tier"]: each for each in told["api"]["tiers"]}
    assert [each["text"] for each in tiers["free"]["limits"]] == [
        "100 requests per minute, up to 20 at once", "1000 requests per calendar month (UTC)"]
    assert [each["default"] for each in told["api"]["tiers"]] == [True, False, False]
    assert tiers["enterprise"]["limits"] == []
    assert told["heavy"]["tiers"][0]["limits"][0]["text"] == "3 requests at the same time"
    assert told["units"]["tiers"][0]["limits"][0]["text"] == "50 units per hour"
    assert "cost different numbers of units" in told["units"]["notes"]


@pytest.mark.parametrize("format", TYPES)
def test_nothing_internal_is_told(daemon, format):
    text = limits(daemon, format).text
    text = re.sub("<style>.*?</style>", "", text, flags=re.S)
    for word in ("hidden", "trial", "secret", "gold", "internal", "weight", ".yaml", "shadow"):
        assert word not in text, word
    assert "some of them" in text # heavy has a condition that users need not know


def test_headers_of_answers_are_those_that_are_explained_and_say_the_same(daemon):
    told = limits(daemon, "json").json
    explained = {each["name"].lower() for each in told["headers"]}
    seen = set()
    for path, method, tier, rule in (("/login", "POST", None, "login"), ("/api/x", "GET", "free", "api"), ("/api/x", "GET", "pro", "api")):
        attributes = {"ip": "192.0.2.1", "path": path, "method": method, "api_key": f"key-{tier}", **({"tier": tier} if tier else {})}
        told_limits = next(each for each in told["limits"] if each["name"] == rule)["tiers"]
        expected = next(each for each in told_limits if tier in (None, each["tier"]))["limits"]
        answer = daemon.http("POST", "/v1/check", {"attributes": attributes})
        assert answer.status == 200
        policies = re.findall(r'"([^"]+)";q=(\d+);w=(\d+)', answer.headers["RateLimit-Policy"])
        assert policies[0][0] == rule
        assert [int(q) for _, q, _ in policies] == [each["at_once"] for each in expected]
        for (_, q, w), each in zip(policies, expected): # a bucket of 20 at 100 a minute: 20 in 12 seconds
            assert int(q) / int(w) == pytest.approx(each["amount"] / each["period"], rel=0.01)
        assert int(answer.headers["X-RateLimit-Limit"]) in [each["at_once"] for each in expected]
        for _ in range(20):
            answer = daemon.http("POST", "/v1/check", {"attributes": attributes})
            seen |= {name.lower() for name in answer.headers if "ratelimit" in name.lower() or name.lower() == "retry-after"}
    assert seen == explained


def test_only_headers_that_are_sent_are_explained(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("limits: [{name: api, key: ip, limit: 5 per hour, response: {headers: x, retry_header: X-RateLimit-RetryAfter}}]\n")
    names = [each["name"] for each in run("publish", "--json", file).json["headers"]]
    assert names == ["Retry-After", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-RetryAfter"]
    file.write_text("limits: [{name: api, key: ip, limit: 5 per hour, response: {headers: ietf}}]\n")
    assert [each["name"] for each in run("publish", "--json", file).json["headers"]] == ["Retry-After", "RateLimit-Policy", "RateLimit"]


def test_the_page_is_well_formed_stands_alone_and_escapes(daemon):
    answer = limits(daemon, "html")
    shown = check_page(answer.text)
    assert HOSTILE in shown and html.escape(HOSTILE) in answer.text
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for word in ("login", "100 requests per minute, up to 20 at once", "enterprise", "no limit", "Retry-After"):
        assert word in shown


def test_markdown_escapes(daemon):
    text = limits(daemon, "markdown").text
    line = next(line for line in text.splitlines() if "alert" in line)
    assert r"\<script\>alert(1)\</script\> \| \*bold\* \[x\](http://evil) \`code\` \& " in line
    for row in re.findall(r"^\| .*$", text, re.M):
        assert len(re.findall(r"(?<!\\)\|", row)) == 3, row


@pytest.mark.parametrize("accept, type", [
    (None, "text/markdown; charset=utf-8"), ("*/*", "text/markdown; charset=utf-8"),
    ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"), ("application/*", "application/json"),
])
def test_accept_chooses(daemon, accept, type):
    answer = daemon.http("GET", "/limits", headers={"Accept": accept} if accept else {})
    assert (answer.status, answer.headers["Content-Type"], answer.headers["Vary"]) == (200, type, "Accept")


@pytest.mark.parametrize("accept", ["image/png", "text/html;q=0", ",;,;" * 500, "\x80\xff;q", ";" * 4000, "a" * 4000, "*/*;q=0" + "9" * 1000])
def test_an_accept_header_that_fits_nothing_is_told_so(daemon, accept):
    answer = daemon.http("GET", "/limits", headers={"Accept": accept.encode("latin-1")})
    assert answer.status in (200, 406), answer
    if answer.status == 406:
        assert answer.json["error"] == "not_acceptable"
    assert daemon.http("GET", "/healthz").status == 200


def test_it_is_cached_until_the_rules_change(tmp_path):
    with Daemon(tmp_path, RULES, PUBLIC) as daemon:
        first = limits(daemon, "json")
        tag = first.headers["ETag"]
        assert first.headers["Cache-Control"] == "public, max-age=60"
        again = limits(daemon, "json", **{"If-None-Match": tag})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
        assert limits(daemon, "html").headers["ETag"] != tag
        assert daemon.admin("PUT", "/v1/rules", RULES.replace("5 per minute", "6 per minute")).status == 200
        changed = limits(daemon, "json", **{"If-None-Match": tag})
        assert changed.status == 200 and changed.headers["ETag"] != tag
        assert changed.json["limits"][0]["tiers"][0]["limits"][0]["amount"] == 6
        head = daemon.http("HEAD", "/limits", headers={"Accept": "application/json"})
        assert (head.status, head.body, int(head.headers["Content-Length"])) == (200, b"", len(changed.body))
        assert daemon.http("POST", "/limits", "{}").status == 405


def test_a_service_in_shadow_mode_has_no_limits(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("mode: shadow\n" + RULES)
    assert run("publish", "--json", file).json["limits"] == []
    assert "No limits are published." in run("publish", file).out


def test_nothing_to_publish_is_said(tmp_path):
    file = tmp_path / "rules.yaml"
    for text in ("limits: [{name: a, key: ip, limit: 5 per minute, publish: false}]",
                 "domain: a\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]"):
        file.write_text(text)
        done = run("publish", file)
        assert done.status == 0 and "no limit to publish: rules in shadow mode, in Envoy's format" in done.err
        assert "No limits are published." in done.out and "Headers" not in done.out


def test_queues_are_in_words(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("limits: [{name: a, key: ip, limit: 2 per second queue 10}]")
    assert "| all | 2 requests per second; up to 10 more wait for their turn |" in run("publish", file).out
    assert "give one of them" in run("publish", "--json", "--format", "html", file).err


def test_many_rules_are_published_once(tmp_path):
    rules = "limits:\n" + "".join(f"  - {{name: r{i}, when: {{path: /p{i}}}, key: user, limit: {i + 1} per hour}}\n" for i in range(3000))
    with Daemon(tmp_path, rules, PUBLIC) as daemon:
        for _ in range(3):
            assert len(limits(daemon, "json").json["limits"]) == 3000
        check_page(limits(daemon, "html").text)


def samples(text, language):
    return re.search(rf"^```{language}\n(.*?)^```", text, re.M | re.S)[1]


def test_the_samples_run_and_come_back(tmp_path):
    rules = "limits: [{name: few, key: ip, limit: 1 per second}]\n"
    with Daemon(tmp_path, rules, PUBLIC) as daemon:
        text = limits(daemon, "markdown").text
        url = f"http://{daemon.addresses['http']}/v1/auth"
        python = samples(text, "python") + f"\nfor _ in range(2):\n    get({url!r})\nprint('served')\n"
        done = subprocess.run(["/usr/bin/python3", "-"], input=python, text=True, capture_output=True, timeout=60)
        assert done.stdout == "served\n", done
        script = samples(text, "javascript") + f"\nget({json.dumps(url)}).then(() => get({json.dumps(url)})).then(a => console.log(a.status))\n"
        done = subprocess.run(["node", "-"], input=script, text=True, capture_output=True, timeout=60)
        assert done.stdout == "200\n", done
        curl = samples(text, "sh").replace("https://api.example.com/items", url)
        done = subprocess.run(["sh", "-ec", curl + curl], text=True, capture_output=True, timeout=60)
        assert done.returncode == 0, done


def test_misuse_is_told(tmp_path, file):
    answer = run("publish", "--format", "pdf", file)
    assert answer.status == 2 and '--format: there is no "pdf"; write html, markdown or json' in answer.err
    file.write_text("limits: [{name: api, limit: 5}]\n")
    assert run("publish", file).status == 2
    answer = run("publish", "--admin", f"unix:{tmp_path}/none")
    assert answer.status == 2 and "is it running?" in answer.err
    done = subprocess.run([ROOT / "build" / "rationd", "--publish", "yes"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and '--publish "yes"; write off or public' in done.stderr
