# SPDX-License-Identifier: Apache-2.0
"""The gateway: nginx decides by our rules before it does anything else."""

import contextlib
import json
import os
import pathlib
import pwd
import re
import shutil
import socket
import subprocess

import pytest

from daemon import wait_for
from gateway import (BUILD, BY_WORKER, MODULE, PLACES, STATUSES, THREE, assert_statuses_in_words_of_nginx,
                     assert_workers_admit, begin, proxied, sanitizer, telling_statuses)

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")


# --- configuration ---------------------------------------------------------------------

def test_a_mistake_in_the_rules_is_reported_with_its_place_and_that_of_the_directive(gateway):
    g = gateway("limits:\n  - name: api\n    key: ip\n    limit: 3 per minit\n", start=False)
    code, text = g.test()
    line = (g.folder / "nginx.conf").read_text().splitlines().index(
        f"  ration_rules {g.folder}/rules.yaml;") + 1
    assert code != 0
    assert re.search(rf'\[emerg\].*rules\.yaml:4:\d+: unknown period "minit"; write .* in '
                     rf'{re.escape(str(g.folder))}/nginx\.conf:{line}\n', text)


def test_all_mistakes_in_the_rules_are_reported_at_once(gateway):
    g = gateway("limits:\n  - {name: a, key: ip, limit: 3 per minit}\n"
                "  - {name: b, kee: ip, limit: 1 per day}\n", start=False)
    text = g.test()[1]
    assert "rules.yaml:2:" in text and "rules.yaml:3:" in text


@pytest.mark.parametrize("settings, message", [
    ({"zone": "ration_zone 1k;"}, 'zone of "1k" is too small'),
    ({"zone": "ration_zone many;"}, 'invalid size "many"'),
    ({"zone": "ration_zone 8m size=3;"}, 'invalid parameter "size=3"; there are state=FILE and usage=SIZE only'),
    ({"zone": "ration_zone 8m; ration_zone 8m;"}, '"ration_zone" directive is duplicate'),
    ({"http": "ration maybe;"}, 'invalid value "maybe"'),
    ({"http": "ration_status 200;"}, "value must be between 400 and 599"),
    ({"http": "ration_headers y;"}, 'invalid value "y"'),
    ({"http": "ration_error_body xml;"}, 'invalid value "xml"'),
    ({"http": "ration_log_level loud;"}, 'invalid value "loud"'),
    ({"http": "ration_attribute user;"}, "invalid number of arguments"),
    ({"http": "ration_rules other.yaml;"}, "is duplicate: name all files in one"),
])
def test_a_mistake_in_a_directive_is_reported(gateway, settings, message):
    code, text = gateway(start=False, **settings).test()
    assert code != 0 and message in text and "nginx.conf:" in text


def test_an_unknown_variable_is_reported(gateway):
    code, text = gateway(start=False, http="ration_attribute user $nobody_knows;").test()
    assert code != 0 and 'unknown "nobody_knows" variable' in text


def test_rules_are_needed_where_a_location_is_limited(gateway):
    g = gateway(start=False)
    conf = g.folder / "nginx.conf"
    conf.write_text(conf.read_text().replace(f"ration_rules {g.folder}/rules.yaml;", ""))
    code, text = g.test()
    assert code != 0 and '"ration" is on and there are no rules; add "ration_rules FILE;"' in text


def test_a_test_of_the_configuration_touches_no_state(gateway):
    g = gateway(start=False)
    assert g.test()[0] == 0
    assert not (g.folder / "state").exists()


def test_a_state_that_cannot_be_used_prevents_the_start(gateway):
    g = gateway(start=False)
    (g.folder / "state").write_text("precious " * 1000)
    done = subprocess.run(g.command(), capture_output=True, text=True, timeout=60,
                          env={**os.environ, **sanitizer(g.folder)})
    assert done.returncode != 0 and "not a ration state file" in done.stderr + g.log("error")
    assert (g.folder / "state").read_text() == "precious " * 1000


def test_the_zone_is_by_default_in_shared_memory_under_the_name_of_the_configuration(gateway):
    g = gateway(zone="", start=False)
    state = pathlib.Path("/dev/shm/ration-nginx" + str(g.folder).replace("/", "-"))
    try:
        g.start()
        assert g.statuses(4) == [200] * 3 + [429]
        assert state.is_file()
    finally:
        g.stop()
        state.unlink(missing_ok=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start workers as another user")
def test_a_state_that_root_makes_belongs_to_the_workers(gateway, tmp_path):
    state = pathlib.Path("/dev/shm") / f"ration-test-{os.getpid()}-{tmp_path.name}"
    try:
        g = gateway(zone=f"ration_zone 8m state={state};", user="user nobody nogroup;")
        assert state.stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert g.statuses(4) == [200] * 3 + [429]
        assert "emerg" not in g.log("error")
    finally:
        state.unlink(missing_ok=True)


# --- answers -------------------------------------------------------------------------------

def test_a_limit_admits_what_it_says_and_then_refuses_with_headers_and_a_body(gateway):
    g = gateway("limits:\n  - {name: api, key: ip, limit: 2 per hour}\n")
    status, headers, _ = g.ask()
    assert status == 200
    assert (headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]) == ("2", "1")
    assert headers["ratelimit-policy"] == '"api";q=2;w=3600'
    assert headers["retry-after"] is None
    g.ask()
    status, headers, body = g.ask()
    answer = json.loads(body)
    assert status == 429 and headers["content-type"] == "application/json"
    assert 1790 < int(headers["retry-after"]) <= 1800
    assert answer["error"] == "rate_limited" and answer["rule"] == "api" and not answer["allowed"]


def test_a_client_that_knows_about_problems_gets_one(gateway):
    g = gateway()
    g.statuses(3)
    _, headers, body = g.ask(accept="application/problem+json, */*;q=0.1")
    assert headers["content-type"] == "application/problem+json"
    assert json.loads(body)["violated-policies"] == ["api"]


@pytest.mark.parametrize("setting, content_type", [
    ("json", "application/json"), ("problem", "application/problem+json"), ("off", "text/html")])
def test_the_body_of_a_refusal_can_be_chosen(gateway, setting, content_type):
    g = gateway(http=f"ration_error_body {setting};")
    g.statuses(3)
    status, headers, _ = g.ask(accept="application/problem+json" if setting == "json" else "*/*")
    assert status == 429 and headers["content-type"] == content_type
    assert headers["retry-after"]


def test_an_error_page_is_preferred_and_counts_nothing(gateway):
    g = gateway(server="ration on; error_page 429 /busy; location / { empty_gif; } "
                       "location = /busy { internal; default_type text/plain; return 200 later; }")
    assert g.statuses(3) == [200] * 3
    status, headers, body = g.ask()
    assert (status, body) == (429, b"later") and headers["retry-after"]


def test_the_status_of_refusals_can_be_chosen_but_not_that_of_the_deny_list(gateway):
    g = gateway(THREE + "deny:\n  - {header.x-bad: '*'}\n", http="ration_status 503;")
    assert g.statuses(4) == [200] * 3 + [503]
    assert g.ask(x_bad="1")[0] == 403


@pytest.mark.parametrize("family, x, ietf", [
    ("rule", False, True), ("both", True, True), ("x", True, False), ("ietf", False, True),
    ("none", False, False)])
def test_the_family_of_headers_is_the_rules_or_the_locations(gateway, family, x, ietf):
    g = gateway("limits:\n  - {name: api, key: ip, limit: 3 per hour, response: {headers: ietf}}\n",
                http=f"ration_headers {family};")
    headers = g.ask()[1]
    assert (headers["x-ratelimit-limit"] is not None, headers["ratelimit"] is not None) == (x, ietf)


def test_head_requests_are_refused_without_a_body(gateway):
    g = gateway()
    g.statuses(3)
    with contextlib.closing(g.connection()) as connection:
        for _ in range(2):
            status, _, body = g.ask_on(connection, method="HEAD")
            assert (status, body) == (429, b"")


# --- where ------------------------------------------------------------------------------------

def test_locations_inherit_and_differ(gateway):
    g = gateway(http="ration on;", server="""
        location / { empty_gif; }
        location /free { ration off; empty_gif; }
        location /free/not { ration on; empty_gif; }""")
    assert g.statuses(5, "/free") == [200] * 5
    assert g.statuses(2, "/") + g.statuses(2, "/free/not") == [200] * 3 + [429]


def test_in_shadow_mode_everything_is_counted_and_nothing_refused_or_delayed(gateway):
    g = gateway("limits:\n  - {name: api, key: ip, limit: 3 per 7 days, when: {path: /a}}\n"
                "  - {name: line, key: ip, limit: 1 per 7 days queue 9, when: {path: /line}}\n",
                server="ration shadow; location / { empty_gif; } location /b { ration on; empty_gif; }")
    assert g.statuses(5, "/a") == [200] * 5
    assert g.statuses(3, "/line") == [200] * 3
    g.wait_for_log("/line", count=3)
    verdicts = re.findall(r"/a verdict=(\w+)", g.log())
    assert verdicts == ["allowed"] * 3 + ["shadow"] * 2
    assert g.log("error").count('"api" would refuse, in shadow mode') == 2
    assert re.findall(r"/line verdict=(\w+) .* delay=(\S+)", g.log()) == [
        ("allowed", "0.000"), ("shadow_delayed", "0.000"), ("shadow_delayed", "0.000")]
    delays = [int(ms) for ms in re.findall(r'"line" would delay for (\d+) ms, in shadow mode', g.log("error"))]
    assert [round(ms / 86400000) for ms in delays] == [7, 14]


def test_a_log_line_about_shadow_mode_names_the_rule_that_is_in_it(gateway):
    g = gateway("limits:\n  - {name: real, key: ip, limit: 3 per 7 days}\n"
                "  - {name: trial, key: ip, limit: 1 per 7 days, mode: shadow}\n")
    assert g.statuses(2) == [200] * 2
    g.wait_for_log('"trial" would refuse, in shadow mode', "error")


def test_each_kind_of_limit_has_a_status_of_its_own(gateway, upstream):
    assert_statuses_in_words_of_nginx(gateway(STATUSES, server=telling_statuses(upstream)), upstream)


def test_requests_that_no_rule_applies_to_go_through_untold(gateway):
    g = gateway("limits:\n  - {name: api, key: ip, limit: 1 per day, when: {path: /api}}\n")
    for _ in range(3):
        status, headers, _ = g.ask("/other")
        assert status == 200 and headers["x-ratelimit-limit"] is None
    g.wait_for_log("200 /other verdict=allowed rule=- remaining=- delay=0.000", count=3)


# --- attributes ----------------------------------------------------------------------------------

def test_any_variable_becomes_an_attribute_and_an_empty_one_is_not_limited(gateway):
    g = gateway("limits:\n  - {name: api, key: user, limit: 1 per 7 days}\n",
                http="ration_attribute user $arg_user;")
    assert g.statuses(2, "/?user=ann") == [200, 429]
    assert g.statuses(2, "/?user=bob") == [200, 429]
    assert g.statuses(3, "/?user=") + g.statuses(3, "/") == [200] * 6


def test_an_attribute_of_the_configuration_takes_the_place_of_nginxs_own(gateway):
    g = gateway(http="ration_attribute ip $arg_as;")
    assert g.statuses(4, "/?as=192.0.2.1") == [200] * 3 + [429]
    assert g.ask("/?as=192.0.2.2")[0] == 200


def test_an_attribute_is_taken_from_the_path(gateway):
    g = gateway("attributes:\n  user: {path: '/users/{user}/**'}\n"
                "limits:\n  - {name: api, key: user, limit: 1 per 7 days}\n")
    assert g.statuses(2, "/users/ann/a") == [200, 429]
    assert g.statuses(2, "/users/bob/a") == [200, 429]
    assert g.statuses(2, "/ann") == [200, 200]


def test_tiers_come_from_a_header(gateway):
    g = gateway("limits:\n  - name: api\n    key: header.x-user\n    limit:\n      by: header.x-tier\n"
                "      free: 1 per 7 days\n      pro: 4 per 7 days\n      default: free\n")
    assert g.statuses(5, x_user="a", x_tier="pro") == [200] * 4 + [429]
    assert g.statuses(2, x_user="b") == [200, 429]


@pytest.mark.parametrize("condition, yes, no", [
    ("method: POST", {"method": "POST"}, {"method": "GET"}),
    ("host: api.example.org", {"host": "API.example.org:80"}, {"host": "example.org"}),
    ("header.x-kind: a", {"x_kind": "a"}, {"x_kind": "b"}),
    ("scheme: http", {}, None),
    ("path: /api/**", {"path": "/%61pi/./x//y"}, {"path": "/x/../apis/x"}),
    ("path: /x", {"path": "/x?a=/y"}, {"path": "/y?/x"}),
])
def test_rules_see_what_nginx_knows(gateway, condition, yes, no):
    g = gateway(f"limits:\n  - {{name: it, key: ip, limit: 1 per 7 days, when: {{{condition}}}}}\n",
                server="ration on; merge_slashes on; location / { empty_gif; error_page 405 =200 /; }")

    def refused(ask):
        return [g.ask(**{"body": b"", **ask})[0] for _ in range(2)][1] == 429

    assert no is None or not refused(no)
    assert refused(yes)


def test_rules_see_the_headers_of_every_alternative(gateway):
    g = gateway("limits:\n  - {name: it, key: ip, limit: 2 per 7 days,"
                " when: [{header.x-kind: a}, {header.x-size: {above: 10}}]}\n",
                server="ration on; location / { empty_gif; }")
    assert g.statuses(3, x_kind="b", x_size="10") == [200] * 3
    assert g.statuses(2, x_kind="a", x_size="11") == [200] * 2  # both, charged once
    assert g.statuses(1, x_size="10.5") == [429]
    assert g.statuses(1, x_kind="a") == [429]


SPELLINGS = ["/items/a/buy", "/items/a%3Fb/buy", "/items/%23/buy", "/items/a%2Fb/buy", "/items/%2e%2e/buy",
             "/%69tems/a/buy?x=/y", "/items/a\\b/buy", "//items/a//buy/", "/x/../items/a/buy", "/items/a#/buy",
             "/items/a;b/buy", "/items/a/bu%2579", "/items/%ff/buy", "/x%2F../items/a/buy"]


def test_no_spelling_that_nginx_passes_on_is_uncounted(gateway, upstream):
    """nginx decodes %3F and %23, and a path that it has decoded must not be cut there."""
    g = gateway("limits:\n  - {name: buy, key: ip, limit: 1 per 7 days, when: {path: '/items/*/buy'}}\n",
                server=proxied(upstream))
    assert [g.ask("/items/7/buy")[0], g.ask("/items/buy")[0]] == [200, 200]
    got = {path: g.ask(path)[0] for path in SPELLINGS}
    assert {status for status in got.values()} <= {400, 429}, got  # 400: nginx refuses it itself
    assert sum(status == 429 for status in got.values()) >= 12, got
    assert upstream.count("/") == 2


def test_the_path_is_the_clients_whatever_it_is_rewritten_to(gateway):
    g = gateway("limits:\n  - {name: old, key: ip, limit: 1 per 7 days, when: {path: /old/**}}\n",
                server="ration on; rewrite ^/old/(.*) /new/$1; location /new/ { empty_gif; }")
    assert g.statuses(2, "/old/./%61") == [200, 429]
    assert g.statuses(2, "/new/a") == [200, 200]


def test_a_key_behind_hundreds_of_headers_is_still_seen(gateway):
    g = gateway("limits:\n  - {name: api, key: header.x-key, limit: 1 per 7 days}\n")
    many = {f"x_junk_{i}": "v" for i in range(400)}
    assert [g.ask(**many, x_key="k")[0] for _ in range(2)] == [200, 429]


# --- once ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("server", [
    "location / { try_files /none /other; } location /other { empty_gif; }",
    "location / { try_files /none @named; } location @named { empty_gif; }",
    "location / { rewrite ^ /other last; } location /other { empty_gif; }",
    "location / { error_page 404 =200 /other; } location /other { empty_gif; }",
    "location / { auth_request /sub; empty_gif; } location /sub { return 204; }",
    "location / { auth_request /sub; empty_gif; } location /sub { try_files /none /sub2; } "
    "location /sub2 { empty_gif; }",
    "location / { add_after_body /other; empty_gif; } location /other { empty_gif; }",
    "location / { error_page 403 =200 /other; deny all; } location /other { allow all; empty_gif; }",
])
def test_a_request_counts_once_whatever_happens_to_it_inside(gateway, server):
    g = gateway(server="ration on; root /nonexistent; " + server)
    assert g.statuses(4) == [200] * 3 + [429]


def test_a_request_that_is_limited_only_where_it_ends_counts_there(gateway):
    g = gateway(server="root /nonexistent; location / { try_files /none /other; } "
                       "location /other { ration on; empty_gif; }")
    assert g.statuses(4) == [200] * 3 + [429]


def test_every_request_of_a_connection_counts(gateway):
    g = gateway()
    with contextlib.closing(g.connection()) as connection:
        assert [g.ask_on(connection)[0] for _ in range(5)] == [200] * 3 + [429] * 2


def test_every_stream_of_an_http2_connection_counts(gateway):
    g = gateway(listen="http2")
    out = subprocess.run(["h2load", "-n", "8", "-c", "1", "-m", "4", f"http://127.0.0.1:{g.port}/"],
                         capture_output=True, text=True, timeout=60).stdout
    assert "status codes: 3 2xx, 0 3xx, 5 4xx, 0 5xx" in out


def test_several_limits_are_charged_all_or_none(gateway):
    g = gateway("limits:\n  - {name: narrow, key: header.x-user, limit: 1 per 7 days}\n"
                "  - {name: wide, key: ip, limit: 4 per 7 days}\n")
    assert g.statuses(3, x_user="a") == [200, 429, 429]
    assert [g.ask(x_user=u)[0] for u in "bcde"] == [200, 200, 200, 429]


def test_logs_can_tell_what_was_decided(gateway):
    g = gateway()
    g.statuses(4, "/x")
    g.wait_for_log("429 /x verdict=refused rule=api remaining=0 delay=0.000")
    assert "200 /x verdict=allowed rule=api remaining=2 delay=0.000" in g.log()


def test_a_map_may_use_the_verdict(gateway):
    g = gateway(http="map $ration_verdict $told { refused yes; default no; } "
                     "add_header x-told $told always;")
    assert [g.ask()[1]["x-told"] for _ in range(4)] == ["no"] * 3 + ["yes"]


@pytest.mark.parametrize("level, told", [("error", True), ("notice", False)])
def test_refusals_are_logged_at_the_level_that_was_chosen(gateway, level, told):
    g = gateway(http=f"ration_log_level {level};", log_level="warn")
    g.statuses(4)
    g.wait_for_log("429 ")
    assert ('ration: refused by "api", retry after' in g.log("error")) == told


# --- bodies, and clients that go away ------------------------------------------------------------

def test_a_large_body_is_passed_on_or_refused_and_the_connection_goes_on(gateway, upstream):
    g = gateway(server=proxied(upstream) + " client_max_body_size 20m;")
    body = b"x" * 5_000_000
    with contextlib.closing(g.connection()) as connection:
        assert [g.ask_on(connection, method="POST", body=body)[0] for _ in range(5)] == \
            [200] * 3 + [429] * 2
    assert [a[3] for a in upstream.arrivals] == [len(body)] * 3


# --- in the place of limit_req ---------------------------------------------------------------------

@pytest.mark.parametrize("theirs, ours", [
    ("limit_req zone=a;", "1 per minute burst 1"),
    ("limit_req zone=a burst=5 nodelay;", "1 per minute burst 6"),
    ("limit_req zone=a burst=2 delay=2;", "1 per minute burst 3"),
])
def test_limits_are_translated_from_limit_req_as_the_documentation_says(gateway, theirs, ours):
    g = gateway(f"limits:\n  - {{name: api, key: ip, limit: {ours}}}\n",
                http="limit_req_zone $binary_remote_addr zone=a:1m rate=1r/m; limit_req_status 429;",
                server=f"location /theirs {{ {theirs} empty_gif; }} location /ours {{ ration on; empty_gif; }}")
    assert g.statuses(9, "/ours") == g.statuses(9, "/theirs")


@pytest.mark.parametrize("server", ["limit_req zone=a burst=3;", "ration on;"])
def test_a_queue_is_as_long_as_the_burst_of_limit_req(gateway, server):
    g = gateway("limits:\n  - {name: line, key: ip, limit: 1 per minute queue 3}\n",
                http="limit_req_zone $binary_remote_addr zone=a:1m rate=1r/m; limit_req_status 429;",
                server=f"location / {{ {server} empty_gif; }}")
    assert g.ask()[0] == 200
    with contextlib.ExitStack() as stack:
        for n in range(3):
            stack.enter_context(begin(g, "/"))
            g.wait_for_log("delay", "error", n + 1)
        assert g.statuses(2) == [429] * 2


# --- places -----------------------------------------------------------------------------------------

def test_places_of_a_killed_worker_come_free_by_themselves(gateway, upstream):
    g = gateway(PLACES % "1s", server=proxied(upstream), killed=True)
    first = [begin(g, "/hold") for _ in range(2)]
    wait_for(lambda: upstream.count("/hold") == 2, "both arrive")
    for worker in g.workers():
        os.kill(worker, 9)
    upstream.release.set()
    with contextlib.suppress(OSError):
        wait_for(g.accepts, "a new worker")

    def freed():
        with contextlib.suppress(OSError):
            return g.ask("/hold")[0] == 200

    wait_for(freed, "a place is free")
    for s in first:
        s.close()


# --- many at once ----------------------------------------------------------------------------------

SHARED = "limits:\n  - {name: api, key: ip, limit: %d per 7 days}\n"


def test_four_workers_hammered_on_one_key_admit_the_limit_and_not_one_more(gateway):
    g = gateway(SHARED % 5000, workers=4, log_level="error", listen="reuseport", http=BY_WORKER)
    assert_workers_admit(g, 5000)


def test_a_reload_swaps_the_rules_and_keeps_what_was_spent(gateway):
    g = gateway(SHARED % 4)
    assert g.statuses(3) == [200] * 3
    g.write(rules=SHARED % 400)
    g.reload()

    def told_by_new_rules():
        headers = g.ask()[1]
        return headers if headers["x-ratelimit-limit"] == "400" else None

    told = wait_for(told_by_new_rules, "the new rules")
    assert int(told["x-ratelimit-remaining"]) < 100, "three quarters are spent"


def test_a_reload_with_bad_rules_keeps_the_old_ones(gateway):
    g = gateway()
    g.write(rules="limits: 7\n")
    os.kill(g.master, 1)
    g.wait_for_log("rules.yaml:1", "error")
    assert g.statuses(4) == [200] * 3 + [429]


def test_another_size_waits_until_the_zone_is_unused(gateway):
    g = gateway()
    with socket.create_connection(("127.0.0.1", g.port), 30) as s:
        s.sendall(b"GET / HTTP/1.1\r\n") # the old worker waits for the rest
        assert g.statuses(2) == [200] * 2
        g.write(zone=f"ration_zone 16m state={g.folder}/state;")
        g.reload()
        g.wait_for_log("ration_zone keeps its old size for now", "error")
    assert g.statuses(2) == [200, 429]
    g.stop()
    g.start()
    assert (g.folder / "state").stat().st_size == 16 << 20
    assert g.ask()[0] == 429


def test_the_command_line_sees_the_same_counters(gateway):
    g = gateway()
    g.statuses(2)
    done = subprocess.run([str(BUILD / "ration"), "check", "--json", "--state",
                           str(g.folder / "state"), str(g.folder / "rules.yaml"), "ip=127.0.0.1"],
                          capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["remaining"] == 0, done.stderr
    assert g.ask()[0] == 429


def test_a_file_of_envoy_loads(gateway):
    g = gateway("domain: edge\ndescriptors:\n  - key: remote_address\n"
                "    rate_limit: {unit: minute, requests_per_unit: 1}\n", start=False)
    assert g.test()[0] == 0


# --- the example -----------------------------------------------------------------------------------

def test_the_example_does_what_its_rules_say(gateway, upstream, tmp_path):
    example = BUILD.parent / "examples/nginx"
    g = gateway(start=False)
    shutil.copy(example / "ration.yaml", tmp_path)
    (tmp_path / "modules").symlink_to(MODULE.parent)
    conf = (example / "nginx.conf").read_text().replace("127.0.0.1:8000", f"127.0.0.1:{g.port}")
    conf = conf.replace("127.0.0.1:3000", f"127.0.0.1:{upstream.port}")
    (tmp_path / "nginx.conf").write_text(g.settings["user"] + "daemon off;\n" + conf)
    g.start()
    logins = [g.ask("/login", method="POST", body=b"")[0] for i in range(6)]
    assert logins == [200] * 5 + [429]
    assert g.statuses(11, "/api/items") == [200] * 10 + [429]
    invented = [g.ask("/api/items", x_api_key=f"key-{i}")[0] for i in range(200)]
    assert invented == [429] * 200, "an unknown key is counted by address"
    assert g.statuses(30, "/api/items", x_api_key="pro-example") == [200] * 30
    assert g.statuses(30, "/health") == [200] * 30
    assert g.statuses(12, "/api/beta/x") == [200] * 12
    g.wait_for_log("/api/beta/x HTTP/1.1\" 200 shadow rule=api left=0 delay=0.000 waited=0.000")
