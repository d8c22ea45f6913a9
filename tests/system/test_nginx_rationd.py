# SPDX-License-Identifier: Apache-2.0
"""The gateway that asks rationd: nginx decides by what one server says."""

import contextlib
import json
import re
import shutil

import pytest

from daemon import wait_for
from gateway import (MODULE, PLACES, STATUSES, assert_statuses_in_words_of_nginx, begin, proxied,
                     telling_statuses)
from nginx_rationd import OURS, PATIENT, UP, answers
from redis_server import RedisServer

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")


# --- the directive -----------------------------------------------------------------------

@pytest.mark.parametrize("asked, message", [
    ("", "invalid number of arguments"),
    ("unix:", "no path in the unix domain socket in \"unix:\"; write off, unix:PATH or host:port"),
    ("127.0.0.1:0", 'invalid port in "127.0.0.1:0"'),
    ("127.0.0.1:99999", 'invalid port in "127.0.0.1:99999"'),
    ("nobody.invalid:6380", 'host not found in "nobody.invalid:6380"'),
    ("127.0.0.1 timeout=0", 'invalid parameter "timeout=0"; there are timeout=TIME, from 1ms to 60s'),
    ("127.0.0.1 timeout=", 'invalid parameter "timeout="'),
    ("127.0.0.1 timeout=61s", 'invalid parameter "timeout=61s"'),
    ("127.0.0.1 timeout=soon", 'invalid parameter "timeout=soon"'),
    ("127.0.0.1 patience=1s", 'invalid parameter "patience=1s"'),
    ("127.0.0.1 connections=0", 'invalid parameter "connections=0"'),
    ("127.0.0.1 connections=65", 'connections=NUMBER, from 1 to 64'),
    ("127.0.0.1 connections=few", 'invalid parameter "connections=few"'),
    ("127.0.0.1 timeout=1s timeout=2s", 'invalid parameter "timeout=2s"; there are timeout=TIME'),
    ("off timeout=1s", '"ration_server" directive is off and has a parameter'),
    ("127.0.0.1; ration_server 127.0.0.1", '"ration_server" directive is duplicate'),
])
def test_a_mistake_in_the_directive_is_reported(asking, asked, message):
    code, text = asking("", start=False, http=f"ration_server {asked};").test()
    assert code != 0 and message in text and "nginx.conf:" in text


@pytest.mark.parametrize("asked", ["127.0.0.1", "127.0.0.1:6380", "localhost:6380", "[::1]:6380",
                                   "unix:/nonexistent/socket", "127.0.0.1 timeout=1500ms", "127.0.0.1 connections=64 timeout=60s",
                                   "off"])
def test_an_address_is_that_of_a_socket_or_a_host(asking, asked):
    code, text = asking("", start=False, http=f"ration_server {asked};").test()
    assert code == 0, text


def test_rules_are_needed_for_what_is_decided_alone(asking):
    g = asking("unix:/nonexistent/socket", start=False)
    conf = g.folder / "nginx.conf"
    conf.write_text(conf.read_text().replace(f"ration_rules {g.folder}/rules.yaml;", ""))
    code, text = g.test()
    assert code != 0 and '"ration" is on and there are no rules' in text


# --- decisions ---------------------------------------------------------------------------

@pytest.mark.parametrize("resp", [None, "127.0.0.1:0"])
def test_rationd_decides_over_a_unix_socket_and_over_tcp(asking, rationd, resp):
    g = answers(asking(rationd(resp=resp).address))
    assert g.statuses(6) == [200] * 5 + [429]
    g.wait_for_log("429 / verdict=refused rule=api source=rationd", "source")


def test_locations_may_ask_another_rationd_or_none(asking, rationd):
    g = asking("", server=f"""
        ration on; ration_server {rationd().address} {PATIENT};
        location / {{ empty_gif; }}
        location /alone {{ ration_server off; empty_gif; }}
        location /dead {{ ration_server unix:/nonexistent/socket; empty_gif; }}""")
    g.wait_for_log(UP, "error")
    assert g.statuses(6) == [200] * 5 + [429]
    assert g.statuses(2, "/alone") + g.statuses(1, "/dead") == [200] * 2 + [429]


def test_headers_and_bodies_are_those_of_a_gateway_that_decides_itself(asking, rationd):
    rules = ("limits:\n  - {name: api, key: ip, limit: 2 per hour, soft: 50%, when: {path: /a/**}}\n"
             "  - {name: day, key: ip, limit: 9 per 7 days, algorithm: fixed-window, when: {path: /a/**}}\n"
             "  - {name: told, key: ip, limit: 1 per hour, when: {path: /told},"
             "     response: {status: 418, message: Tea only., headers: ietf}}\n"
             "  - {name: partner, key: ip, limit: 1 per hour, when: {path: /partner},"
             "     response: {retry_header: X-RateLimit-RetryAfter}}\n"
             "  - {name: seen, key: ip, limit: 1 per hour, mode: shadow, when: {path: /seen}}\n"
             "deny:\n  - {path: /never}\n")
    g = answers(asking(rationd(rules).address, rules, """ration on;
        location / { empty_gif; }
        location /zone/ { ration_server off; ration_attribute path $arg_as; empty_gif; }"""))

    def told(path, **headers):
        status, head, body = g.ask(path, **headers)
        names = [n for n in head if n.lower().startswith(("x-ratelimit", "ratelimit", "retry"))]
        if head["content-type"] not in ("image/gif", "text/html"):
            body = re.sub(rb'("(?:reset_after|retry_after|reset)":)[\d.]+', rb"\1N", body)
        return (status, head["content-type"], body,
                {n.lower(): re.sub(r"(t=|^)\d{4,}", "", head[n]) for n in names})

    for path, times in (("/a/x", 5), ("/told", 2), ("/partner", 2), ("/seen", 3), ("/never", 1), ("/free", 1)):
        for _ in range(times):
            for accept in ("*/*", "application/problem+json"):
                assert told(path, accept=accept) == told(f"/zone/?as={path}", accept=accept), path
    assert "x-ratelimit-retryafter" in told("/partner")[3]
    assert "x-ratelimit-retryafter" in told("/zone/?as=/partner")[3]
    wait_for(lambda: g.log("source").count("source=rationd") == g.log("source").count("source=zone"),
               "either has decided as often")


def test_the_location_has_its_say_about_refusals(asking, rationd):
    g = answers(asking(rationd().address, server="ration on; ration_status 503; ration_headers x; "
                        "ration_error_body problem; location / { empty_gif; }"))
    g.statuses(5)
    status, headers, body = g.ask()
    assert status == 503 and headers["ratelimit"] is None and headers["x-ratelimit-limit"] == "5"
    assert json.loads(body)["status"] == 503


def test_an_error_page_is_preferred_and_needs_no_decision(asking, rationd):
    g = answers(asking(rationd().address,
                        server="ration on; error_page 429 /busy; location / { empty_gif; } "
                               "location = /busy { internal; return 200 later; }"))
    assert g.statuses(5) == [200] * 5
    assert g.ask()[::2] == (429, b"later")


def test_in_shadow_mode_everything_is_counted_and_nothing_refused(asking, rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 3 per 7 days, when: {path: /a}}\n"
                "  - {name: line, key: ip, limit: 1 per 7 days queue 9, when: {path: /line}}\n")
    g = answers(asking(d.address, server="ration shadow; location / { empty_gif; } "
                                          "location /a { ration on; empty_gif; } "
                                          "location /a/shadow { ration shadow; "
                                          "ration_attribute path /a; empty_gif; }"))
    assert g.statuses(5, "/a/shadow") == [200] * 5
    assert g.ask("/a")[0] == 429
    assert g.statuses(3, "/line") == [200] * 3
    g.wait_for_log("/line", "source", 3)
    assert re.findall(r"shadow verdict=(\w+)", g.log("source")) == ["allowed"] * 3 + ["shadow"] * 2
    assert set(re.findall(r"/line verdict=\w+ rule=\S+ source=(\w+)", g.log("source"))) == {"rationd"}
    assert re.findall(r"/line verdict=(\w+)", g.log("source")) == ["allowed"] + ["shadow_delayed"] * 2
    assert re.search(r'"line" would delay for \d+ ms, in shadow mode', g.log("error"))


def test_each_kind_of_limit_has_a_status_of_its_own(asking, rationd, upstream):
    g = answers(asking(rationd(STATUSES).address, server=telling_statuses(upstream)))
    assert_statuses_in_words_of_nginx(g, upstream)


def test_a_request_counts_once_whatever_happens_to_it_inside(asking, rationd):
    g = answers(asking(rationd().address, server="ration on; root /nonexistent; "
                        "location / { auth_request /sub; try_files /none /other; } "
                        "location /sub { return 204; } location /other { empty_gif; }"))
    assert g.statuses(6) == [200] * 5 + [429]


def test_a_large_body_is_passed_on_or_refused_and_the_connection_goes_on(asking, rationd, upstream):
    g = answers(asking(rationd().address, server=proxied(upstream) + " client_max_body_size 20m;"))
    body = b"x" * 3_000_000
    with contextlib.closing(g.connection()) as connection:
        assert [g.ask_on(connection, method="POST", body=body)[0] for _ in range(7)] == \
            [200] * 5 + [429] * 2
    assert [a[3] for a in upstream.arrivals] == [len(body)] * 5


def test_more_headers_than_rationd_takes_hide_no_key(asking, rationd):
    g = answers(asking(rationd("limits:\n  - {name: api, key: header.x-key, limit: 1 per 7 days}\n")
                        .address))
    few = {f"x_junk_{i}": "v" for i in range(100)}
    many = {f"x_junk_{i}": "v" for i in range(200)}
    assert [g.ask(**few, x_key="k")[0] for _ in range(2)] == [200, 429]
    assert g.ask(**many, x_key="k")[0] == 400


# --- delays --------------------------------------------------------------------------------

def test_a_request_that_waits_for_its_turn_blocks_no_other_request(asking, rationd):
    d = rationd("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 3, when: {path: /line},"
                " wait: hold}\n")
    g = answers(asking(d.address))
    assert g.ask("/line")[0] == 200
    waiting = [begin(g, "/line") for _ in range(3)]
    g.wait_for_log("delayed by", "error", 3)
    assert g.ask("/line")[0] == 429
    assert g.statuses(3, "/free") == [200] * 3
    for s in waiting:
        s.close()
    g.wait_for_log("499 /line", "source", 3)


def test_a_client_that_leaves_before_the_decision_makes_room(asking, rationd):
    d = rationd("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 1}\n", resp="127.0.0.1:0")
    g = answers(asking(d.address))
    assert g.ask()[0] == 200
    d.freeze()
    with begin(g, "/line"):
        wait_for(lambda: d.waiting()[0] > 0, "it is asked about")
    g.wait_for_log("499 /line", "source")
    d.thaw()
    with d.resp() as redis:
        wait_for(lambda: left(redis) == 1, "the queue is empty")


def test_a_turn_that_was_given_too_late_stays_taken(asking, rationd):
    """The request has been decided here: both have charged it."""
    d = rationd("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 2}\n")
    g = answers(asking(d.address, "limits: []\n", parameters="timeout=50ms"))
    assert g.ask()[0] == 200
    d.freeze()
    assert g.ask("/late")[0] == 200
    d.thaw()
    with d.resp() as redis:
        wait_for(lambda: left(redis) == 1, "it was charged")
    g.wait_for_log("200 /late verdict=allowed rule=- source=zone", "source")
    with begin(g, "/next"):
        g.wait_for_log("delayed by", "error")
        assert g.ask()[0] == 429


def left(redis, path="/"):
    """As rationd has it for our address."""
    reply = redis("RATION.CHECK", "ip", "127.0.0.1", "path", path, "PEEK")
    return reply[reply.index(b"remaining") + 1]


def test_a_client_that_leaves_a_queue_while_rationd_restarts_makes_room_afterwards(asking, rationd, tmp_path):
    d = rationd("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 1}\n",
                state=tmp_path / "rationd-state")
    g = answers(asking(d.address))
    assert g.ask()[0] == 200
    with begin(g, "/line"):
        g.wait_for_log("delayed by", "error")
        d.kill()
        g.wait_for_log("until it answers again", "error")
    g.wait_for_log("499 /line", "source")
    d.start()
    g.wait_for_log(UP, "error", 2)
    with begin(g, "/line"):
        g.wait_for_log("delayed by", "error", 2)
    assert "refused by" not in g.log("error")


def test_a_client_that_leaves_a_shared_queue_makes_room(asking, rationd, tmp_path):
    with RedisServer(tmp_path) as server:
        d = rationd("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 1}\n",
                    options=["--redis", server.url, "--redis-deadline", "10s"])
        g = answers(asking(d.address))
        assert g.ask()[0] == 200
        for turn in range(1, 4):
            with begin(g, "/line"):
                g.wait_for_log("delayed by", "error", turn)
            g.wait_for_log("499 /line", "source", turn)
        assert "refused by" not in g.log("error")
        d.stop()


# --- places ----------------------------------------------------------------------------------

def test_a_place_that_was_given_too_late_is_given_back(asking, rationd, upstream):
    d = rationd(PLACES % "600s")
    g = answers(asking(d.address, OURS % "", proxied(upstream), parameters="timeout=50ms"))
    upstream.release.set()
    d.freeze()
    assert g.statuses(2, "/hold") == [200] * 2  # by our own rules
    d.thaw()
    with d.resp() as redis:
        wait_for(lambda: left(redis, "/hold") == 2, "no place is taken")
    assert "source=rationd" not in g.log("source")


def test_a_place_that_ends_while_rationd_restarts_is_released_afterwards(asking, rationd, upstream,
                                                                        tmp_path):
    d = rationd(PLACES % "600s", state=tmp_path / "rationd-state")
    g = answers(asking(d.address, server=proxied(upstream)))
    with begin(g, "/hold") as s:
        wait_for(lambda: upstream.count("/hold") == 1, "it arrives")
        d.kill()
        g.wait_for_log("until it answers again", "error")
        upstream.release.set()
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    g.wait_for_log("200 /hold", "source")
    d.start()
    g.wait_for_log(UP, "error", 2)
    with d.resp() as redis:
        wait_for(lambda: left(redis, "/hold") == 2, "its place is free")


def test_outcomes_are_charged_in_rationd(asking, rationd):
    d = rationd("limits:\n  - {name: failures, key: ip, limit: 2 per 7 days, charge_on: status 404}\n")
    g = answers(asking(d.address, server="ration on; root /nonexistent; location / { empty_gif; } "
                        "location /lost { try_files $uri =404; }"))
    assert g.statuses(4) + g.statuses(3, "/lost") == [200] * 4 + [404, 404, 429]
    g.wait_for_log("429 /lost verdict=refused rule=failures source=rationd", "source")
