# SPDX-License-Identifier: Apache-2.0
"""The gateway and limits that are charged by the status of the answer."""

import contextlib
import shutil
import socket
import subprocess

import pytest

from daemon import ROOT, wait_for
from gateway import MODULE, LoopingClients, proxied, wrk

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")

FAILURES = "limits:\n  - {name: logins, key: ip, limit: 3 per 7 days, charge_on: \"status 401, 403\"%s}\n"


def left(g, path="/status/200"):
    """What is left, told by a request that charges nothing. Outcomes are charged
    after the answer has been sent."""
    return int(g.ask(path)[1]["x-ratelimit-remaining"])


def test_failures_are_charged_and_successes_are_not(gateway, upstream):
    g = gateway(FAILURES % "", server=proxied(upstream))
    assert g.statuses(5, "/status/200") == [200] * 5
    assert left(g) == 3
    g.ask("/status/401")
    wait_for(lambda: left(g) == 2, "the failure is charged")
    assert g.statuses(5, "/status/404") == [404] * 5
    assert left(g) == 2
    g.ask("/status/403")
    g.ask("/status/401")
    wait_for(lambda: g.ask("/status/200")[0] == 429, "the third failure is charged")
    assert upstream.count("/status/401") == 2


def test_refusals_and_what_is_not_limited_are_not_charged(gateway, upstream):
    g = gateway(FAILURES % ", response: {status: 403}",
                server=proxied(upstream, "ration_status 401;") +
                " location /free/ { ration off; return 401; }")
    g.statuses(3, "/status/401")
    assert g.statuses(4, "/free/") == [401] * 4
    wait_for(lambda: "retry-after" in g.ask("/status/200")[1], "the failures are charged")
    retry = int(g.ask("/status/200")[1]["retry-after"])
    assert g.statuses(5, "/status/200") == [401] * 5
    assert int(g.ask("/status/200")[1]["retry-after"]) <= retry


@pytest.mark.parametrize("server, told, charged", [
    # What the client gets counts, wherever it comes from, and once.
    ("proxy_intercept_errors on; error_page 401 /sorry;", 401, 1),
    ("proxy_intercept_errors on; error_page 401 =200 /sorry;", 200, 0),
    ("proxy_intercept_errors on; error_page 401 = @sorry;", 403, 1),
    ("auth_request /ask;", 401, 1),
])
def test_the_status_is_the_one_that_the_client_gets_through_pages_and_redirects(gateway, upstream,
                                                                               server, told, charged):
    g = gateway(FAILURES % "", server=proxied(upstream, server) + """
        location = /sorry { internal; empty_gif; }
        location @sorry { return 403; }
        location = /ask { internal; proxy_pass http://127.0.0.1:%d/status/401; }
        location /plain { empty_gif; }""" % upstream.port)
    assert g.ask("/status/401")[0] == told
    g.wait_for_log(f"{told} /status/401 verdict=allowed")
    assert left(g, "/plain") == 3 - charged


def test_a_status_that_is_returned_by_the_access_phase_is_charged(gateway):
    g = gateway(FAILURES % "", server="ration on; location / { empty_gif; } "
                                      "location /closed { deny all; empty_gif; }")
    assert g.statuses(4, "/closed") == [403] * 3 + [429]
    assert g.ask("/")[0] == 429


def test_a_client_that_goes_away_is_status_499(gateway, upstream):
    g = gateway("limits:\n  - {name: hasty, key: ip, limit: 2 per 7 days, charge_on: status 499}\n",
                server=proxied(upstream))
    for turn in range(2):
        with socket.create_connection(("127.0.0.1", g.port), 30) as s:
            s.sendall(b"GET /hold HTTP/1.1\r\nhost: x\r\n\r\n")
            wait_for(lambda: upstream.count("/hold") == turn + 1, "it arrives")
        g.wait_for_log("499 /hold", count=turn + 1)
    assert g.ask()[0] == 429


def test_a_client_that_leaves_while_its_error_page_is_made_has_failed(gateway, upstream):
    g = gateway(FAILURES % "", server=proxied(upstream, "proxy_intercept_errors on; error_page 401 /hold;"))
    with socket.create_connection(("127.0.0.1", g.port), 30) as s:
        s.sendall(b"GET /status/401 HTTP/1.1\r\nhost: x\r\n\r\n")
        wait_for(lambda: upstream.count("/hold"), "the page is asked for")
    g.wait_for_log("401 /status/401")
    assert left(g) == 2


def test_every_request_of_a_connection_has_an_outcome_of_its_own(gateway, upstream):
    g = gateway(FAILURES % "", server=proxied(upstream))
    with contextlib.closing(g.connection()) as connection:
        answers = [g.ask_on(connection, f"/status/{status}")[0]
                   for status in (401, 200, 403, 200, 401, 200, 401)]
    assert answers == [401, 200, 403, 200, 401, 429, 429]


def test_every_stream_has_an_outcome_of_its_own(gateway, upstream):
    g = gateway("limits:\n  - {name: errors, key: ip, limit: 1000 per 7 days, algorithm: "
                "fixed-window, charge_on: status 5xx}\n", server=proxied(upstream), listen="http2")
    out = subprocess.run(["h2load", "-n", "40", "-c", "2", "-m", "4",
                          f"http://127.0.0.1:{g.port}/status/503"],
                         capture_output=True, text=True, timeout=60).stdout
    assert "40 5xx" in out
    g.wait_for_log("503 /status/503", count=40)
    g.stop()
    g.write(listen="")
    g.start()
    assert left(g) == 960


def test_other_limits_are_charged_on_arrival_and_all_or_none(gateway, upstream):
    g = gateway("limits:\n"
                "  - {name: attempts, key: ip, limit: 9 per 7 days, algorithm: fixed-window}\n"
                "  - {name: failures, key: ip, limit: 2 per 7 days, algorithm: fixed-window, "
                "charge_on: status 401}\n", server=proxied(upstream))
    assert g.statuses(2, "/status/401") == [401] * 2
    wait_for(lambda: g.ask("/status/200")[0] == 429, "both failures are charged")
    body = g.ask("/status/200")[2]
    assert b'"rule":"failures"' in body
    # Between the second failure and the first refusal others may have got through.
    used = g.log().count(" verdict=allowed")
    assert f'"rule":"attempts","limit":9,"remaining":{9 - used}'.encode() in body


def log_in(g):
    """Sends a login and does not wait for the answer."""
    s = socket.create_connection(("127.0.0.1", g.port), 30)
    s.sendall(b"POST /login?account=ada HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
    return s


def statuses_of(sockets):
    answers = []
    for s in sockets:
        with s:
            answers.append(int(s.recv(100).split()[1]))
    return sorted(answers)


def login(upstream):
    """A server in front of a login that always fails, from the moment a test says so."""
    return ("ration on; ration_attribute account $arg_account; location = /login { "
            f"proxy_pass http://127.0.0.1:{upstream.port}/hold/401; }}")


def test_requests_under_way_together_all_pass_and_the_next_does_not(decided, upstream):
    g = decided(FAILURES % "", server=login(upstream))
    together = [log_in(g) for _ in range(6)]
    wait_for(lambda: upstream.count("/hold") == 6, "all are let in")
    upstream.release.set()
    assert statuses_of(together) == [401] * 6
    assert statuses_of([log_in(g)]) == [429]


def recipe(heading):
    """The rules that the documentation has under this heading."""
    text = (ROOT / "docs" / "rules.md").read_text().split(f"### {heading}\n")[1]
    return text.split("```yaml\n")[1].split("```")[0]


def test_a_concurrency_limit_beside_it_bounds_how_many_can_fail(decided, upstream):
    """The recipe of the documentation: five, and two at a time."""
    g = decided(recipe("Failed logins, many at once"), server=login(upstream))
    failed = 0
    for _ in range(2):
        upstream.release.clear()
        together = [log_in(g) for _ in range(2)]
        wait_for(lambda: upstream.count("/hold") == failed + 2, "two are let in")
        assert statuses_of([log_in(g) for _ in range(4)]) == [429] * 4
        upstream.release.set()
        assert statuses_of(together) == [401] * 2
        failed += 2
    upstream.release.clear()
    last = [log_in(g) for _ in range(2)]  # there is room for one: both are let in
    wait_for(lambda: upstream.count("/hold") == 6, "two are let in")
    upstream.release.set()
    assert statuses_of(last) == [401] * 2
    assert statuses_of([log_in(g) for _ in range(4)]) == [429] * 4
    assert upstream.count("/hold") == 6


def test_a_crowd_of_guessers_fails_no_more_often_than_the_documentation_says(decided, upstream):
    upstream.release.set()
    g = decided(recipe("Failed logins, many at once"), server=login(upstream), workers=2)
    with LoopingClients(g, size=8, path="/login?account=ada", method="POST") as clients:
        wait_for(lambda: 'refused by "guesses"' in g.log("error") and len(clients.answers) > 200,
                   "the limit is reached")
    assert not clients.lost and set(clients.answers) == {401, 429}
    assert 5 <= upstream.count("/hold") <= 6


def test_in_shadow_mode_outcomes_are_charged_and_no_request_is_refused(gateway, upstream):
    g = gateway(FAILURES % "", server=proxied(upstream).replace("ration on", "ration shadow"))
    assert g.statuses(6, "/status/401") == [401] * 6
    wait_for(lambda: g.ask("/status/200")[0] == 200 and "verdict=shadow" in g.log(), "it would refuse")


def test_all_workers_charge_the_same_and_no_failure_is_lost(gateway, upstream):
    # More than a quick machine can fail in some seconds.
    g = gateway("limits:\n  - {name: errors, key: ip, limit: 100000000 per 7 days, algorithm: "
                "fixed-window, charge_on: status 4xx}\n",
                server="ration on; location / { empty_gif; } location /no { deny all; empty_gif; }",
                workers=4, log_level="crit")
    failed = 0
    while failed <= 1000:
        failed += wrk(g, "/no")[1]
    wait_for(lambda: left(g, "/") == 100_000_000 - g.log().count("403 /no"), "all are charged")
    assert g.log().count("403 /no") >= failed
