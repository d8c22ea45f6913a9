# SPDX-License-Identifier: Apache-2.0
"""What the proxies of examples/forward-auth/ do when rationd is dead, frozen, or makes no
decision; and that clients cannot bring that about."""

import itertools
import subprocess
import time

import pytest

from daemon import Daemon, RespError, wait_for
from proxies import RULES, Haproxy, Site, kind

LATE = 2.5 # seconds: five times the deadline that every example sets, for a busy machine
BODY = "x" * 100_000


@pytest.fixture(params=["allow", "refuse"])
def site(request, kind, tmp_path):
    with Site(kind, tmp_path, RULES, policy=request.param) as site:
        yield site


def answers_in_time_by_policy(site):
    """At the first attempt, unless the machine is too busy."""
    taken = []
    while len(taken) < 5:
        began = time.monotonic()
        answer = site.ask("POST", "/upload", body=BODY)
        taken.append(time.monotonic() - began)
        if site.proxy.policy == "allow":
            assert answer.status == 200 and answer.text == "app" + BODY
        else:
            assert answer.status == 503
        if taken[-1] < LATE:
            return
    pytest.fail(f"not once in time: {taken}")


def log_in(site, client="127.0.0.2"):
    return site.ask("POST", "/login", client, body="x").status


def limits_are_back(site):
    """Only rationd says 429; and where the policy is to refuse, only rationd lets anybody pass."""
    wait_for(lambda: log_in(site) == 429, "rationd is asked again")
    wait_for(lambda: log_in(site, "127.0.0.3") == 200, "others may log in")


def test_a_frozen_rationd_is_answered_for_by_policy_within_the_deadline(site):
    assert site.ask().status == 200
    with site.frozen():
        answers_in_time_by_policy(site)
    limits_are_back(site)


def test_a_dead_rationd_is_answered_for_by_policy_within_the_deadline(site):
    assert site.ask().status == 200
    site.daemon.kill()
    answers_in_time_by_policy(site)
    site.daemon.start()
    limits_are_back(site)


def test_an_application_that_fails_is_not_mistaken_for_rationd(site):
    """It closes the connection without an answer. The request must not be sent to it again."""
    assert site.ask("POST", "/broken", body="x").status >= 500
    assert site.app.seen == [("POST", "/broken")]


@pytest.mark.parametrize("status", [503, 599, 418])
def test_a_refusal_is_one_whatever_its_status(kind, tmp_path, status):
    rules = RULES + f"  - {{name: closed, limit: 0 per day, response: {{status: {status}}}}}\n"
    with Site(kind, tmp_path, rules) as site:
        assert 400 <= log_in(site) <= 599
        assert site.app.seen == []


def no_room_for(resp, clients):
    """Whether most of them are too many."""
    for client in clients:
        resp.send("RATION.CHECK", "header.x-client", client)
    refused = 0
    for _ in clients:
        try:
            resp.read()
        except RespError:
            refused += 1
    return refused > len(clients) / 2


def test_no_decision_is_a_refusal(kind, tmp_path):
    """The table is full, and the rule says that no client may be forgotten for another one."""
    rules = RULES + ("  - {name: all, key: header.x-client or ip, limit: 9 per day, on_full: refuse, "
                     "algorithm: sliding-log}\n")
    with Site(kind, tmp_path, rules, ["--memory", "1M"]) as site:
        with site.daemon.resp() as resp:
            clients = itertools.count()
            while not no_room_for(resp, [next(clients) for _ in range(1000)]):
                pass
        statuses = [site.ask(client=f"127.0.0.{n}").status for n in range(2, 32)]
        refusal = site.proxy.no_decision
        assert refusal in statuses and set(statuses) <= {200, refusal}, statuses
        assert len(site.app.seen) == statuses.count(200)


def test_an_error_in_the_script_of_haproxy_is_a_refusal(tmp_path):
    class Broken(Haproxy):
        def copy(self, name, edit=lambda text: text):
            return super().copy(name, lambda text: edit(
                text.replace("local answer = ", 'local answer = nil + ')))

    with Site(Broken, tmp_path, RULES) as site:
        assert site.ask().status == 503
        assert site.app.seen == []


# --- what clients send -------------------------------------------------------------------


def login(headers=b"", uri=b"/login", connection=b"close", length=b"Content-Length: 1\r\n", body=b"x"):
    return (b"POST " + uri + b" HTTP/1.1\r\nHost: a\r\nConnection: " + connection + b"\r\n" + length +
            headers + b"\r\n" + body)


def lines(count, value=b"x"):
    return b"".join(b"X-Padding-%d: %s\r\n" % (n, value) for n in range(count))


HOSTILE = {
    "nothing odd": login(),
    "a path for Envoy": login(b"X-Envoy-Original-Path: /x\r\n"),
    "paths of all kinds": login(b"X-Forwarded-Uri: /x\r\nX-Original-URI: /x\r\nX-Rewrite-URL: /x\r\n"),
    "methods of all kinds": login(b"X-Forwarded-Method: GET\r\nX-Original-Method: GET\r\n"
                                  b"X-HTTP-Method-Override: GET\r\n"),
    "names with underscores": login(b"X_Forwarded_Uri: /x\r\nX_Original_URI: /x\r\n"
                                    b"X_Forwarded_For: 192.0.2.1\r\n"),
    "headers that belong to the connection": login(
        connection=b"close, X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-For, X-Original-URI, "
                   b"X-Original-Method, X-Forwarded-Host, X-Ration-Answered"),
    "an answer of rationd": login(b"X-Ration-Answered: yes\r\nX-Ration-Status: 200\r\n"),
    "a web socket": login(b"Upgrade: websocket\r\nSec-WebSocket-Key: a\r\nSec-WebSocket-Version: 13\r\n",
                          connection=b"Upgrade"),
    "HTTP/2 without TLS": login(b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
                                connection=b"Upgrade, HTTP2-Settings"),
    "waiting to send": login(b"Expect: 100-continue\r\n"),
    "an odd expectation": login(b"Expect: 200-ok\r\n"),
    "chunks": login(length=b"Transfer-Encoding: chunked\r\n", body=b"1\r\nx\r\n0\r\n\r\n"),
    "two hosts": login(b"Host: b\r\n"),
    "bytes above ASCII": login(b"X-Y: \xff\xfe\x80\r\n"),
    "a control character": login(b"X-Y: a\x01b\r\n"),
    "an empty address": login(b"X-Forwarded-For: \r\n"),
    "many addresses": login(b"X-Forwarded-For: 192.0.2.1\r\n" * 80),
    **{f"{count} keys": login(b"X-Api-Key: a\r\n" * count) for count in range(80, 105)},
    **{f"{count} headers": login(lines(count)) for count in (*range(90, 105), 300, 2000)},
    **{f"a URI of {size}": login(uri=b"/login?" + b"a" * size)
       for size in (4000, 8000, 8300, 12_000, *range(14_000, 16_500, 250), 32_000, 300_000)},
    **{f"a key of {size}": login(b"X-Api-Key: " + b"a" * size + b"\r\n")
       for size in (4000, 8000, 8300, 12_000, *range(14_000, 16_500, 250), 32_000, 300_000)},
    **{f"{count} headers of 4000": login(lines(count, b"a" * 4000)) for count in (2, 3, 4, 5, 8, 99)},
}


def test_no_request_makes_rationd_or_the_proxy_fail_open(kind, tmp_path):
    rules = RULES.replace("100 per day burst 20", "1000 per day")
    with Site(kind, tmp_path, rules) as site:
        assert [site.proxy.send(login()) for _ in range(6)] == [200] * 5 + [429]
        answers = {name: site.proxy.send(request) for name, request in HOSTILE.items()}
        assert len(site.app.seen) == 5, {n: s for n, s in answers.items() if s == 200}
        assert site.proxy.process.poll() is None, "the proxy crashed"
        assert site.proxy.send(login(), "127.0.0.3") == 200
        # Headers that rules do not use cost no client an answer, up to what the proxies themselves take.
        assert {answers[f"{count} headers"] for count in range(90, 93)} == {429}


# Of HTTP, of WebDAV, of RTSP and other relatives of HTTP, and of nobody.
METHODS = ["OPTIONS", "TRACE", "PURGE", "PROPFIND", "M-SEARCH", "QUERY", "SOURCE", "MSEARCH", "PRI", "PLAY", "DESCRIBE",
           "FLUSH", "GET_PARAMETER", "BREW", "post", "a.b!", "X" * 300]


def http2(site, method):
    """By a client that speaks HTTP/2 without asking, where any word is a method. Proxies that do not speak
    it answer nothing."""
    subprocess.run(["curl", "--silent", "--http2-prior-knowledge", "--interface", "127.0.0.2", "--request", method,
                    f"http://127.0.0.1:{site.proxy.port}/page"], stdout=subprocess.DEVNULL, check=False, timeout=60)


def test_no_method_gets_past_a_spent_limit(kind, tmp_path):
    with Site(kind, tmp_path, RULES) as site: # lets requests pass if rationd fails
        wait_for(lambda: site.ask().status == 429, "a spent limit")
        passed = len(site.app.seen)
        for method in METHODS:
            site.proxy.send(b"%s /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % method.encode())
            http2(site, method)
        for line in (b"CONNECT a:443 HTTP/1.1", b"CONNECT /page HTTP/1.1", b"OPTIONS * HTTP/1.1",
                     b"GET http://a/page HTTP/1.1", b"GET /page HTTP/1.0", b"GET /page HTTP/1.2", b"GET /page HTTP/3.0"):
            site.proxy.send(line + b"\r\nHost: a\r\nConnection: close\r\n\r\n")
        for coding in (b"gzip, chunked", b"identity", b"gzip", b"xchunked"):
            site.proxy.send(b"GET /page HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: " + coding +
                            b"\r\n\r\n0\r\n\r\n")
        assert site.app.seen[passed:] == []


@pytest.mark.parametrize("request_line, coding", [
    (b"BREW /v1/auth/page HTTP/1.1", None), (b"PLAY /v1/auth HTTP/1.1", None), (b"CONNECT a:443 HTTP/1.1", None),
    (b"CONNECT /v1/auth/page HTTP/1.1", None), (b"BREW http://a/v1/auth/page HTTP/1.1", None),
    (b"GET /v1/auth/page HTTP/2.0", None), (b"GET /v1/auth/page HTTP/1.1", b"gzip")])
def test_what_rationd_cannot_read_about_forward_auth_is_no_failure_of_its_own(tmp_path, request_line, coding):
    """Envoy lets a request pass if rationd answers 5xx."""
    head = request_line + b"\r\nHost: a\r\n" + (b"Transfer-Encoding: %s\r\n" % coding if coding else b"") + b"\r\n"
    with Daemon(tmp_path, RULES) as daemon:
        for pieces in ([head], [head[:9], head[9:]]):
            with daemon.socket() as s:
                for piece in pieces:
                    s.sendall(piece)
                assert s.makefile("rb").readline().startswith(b"HTTP/1.1 400 "), request_line
