# SPDX-License-Identifier: Apache-2.0
"""Proxies that ask rationd about each request, as examples/forward-auth/ sets them up.

Clients come from addresses of their own in 127.0.0.0/8; only 127.0.0.1, the proxy's,
is trusted to name the client.
"""

import concurrent.futures
import contextlib
import http.client
import json

import pytest

from daemon import PATIENCE, Answer, Daemon
from proxies import RULES, Site, kind, port_of


@pytest.fixture
def site(kind, tmp_path):
    with Site(kind, tmp_path, RULES) as site:
        yield site


def test_allowed_requests_reach_the_application_and_refused_ones_learn_when_to_return(site):
    answers = [site.ask(path=f"/page?{n}") for n in range(23)]
    allowed = [a for a in answers if a.status == 200]
    refused = [a for a in answers if a.status == 429]
    assert len(allowed) == 20 and len(refused) == 3, answers
    assert all(a.body == b"app" for a in allowed)
    assert site.app.seen == [("GET", f"/page?{n}") for n in range(20)]
    for answer in refused:
        assert 800 < int(answer.headers["Retry-After"]) <= 864, answer.headers
        assert answer.headers["X-RateLimit-Limit"] == "20"
        assert answer.headers["X-RateLimit-Remaining"] == "0"
        assert int(answer.headers["X-RateLimit-Reset"]) > 1.7e9
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json["error"] == "rate_limited" and answer.json["retry_after"] > 0
        if site.proxy.passes_body:
            assert answer.json["rule"] == "site" and answer.json["limits"][0]["limit"] == 20
            assert answer.headers["RateLimit"].startswith('"site";r=0;t=')


def test_clients_are_distinguished_by_the_address_that_the_proxy_sees(site):
    assert [site.ask(client="127.0.0.2").status for _ in range(21)] == [200] * 20 + [429]
    assert site.ask(client="127.0.0.3").status == 200
    assert site.ask(client="127.0.0.2").status == 429


@pytest.mark.parametrize("forged", [
    {"X-Forwarded-For": "198.51.100.{n}"},
    {"X-Forwarded-For": "198.51.100.{n}, 127.0.0.1"},
    {"Forwarded": "for=198.51.100.{n}"},
    {"X-Real-IP": "198.51.100.{n}"},
    {"X-Forwarded-Uri": "/{n}", "X-Original-URI": "/{n}", "X-Forwarded-Method": "PUT"},
], ids=["one", "chain", "forwarded", "real-ip", "path"])
def test_forged_headers_do_not_help(site, forged):
    def attempt(n):
        headers = {name: value.format(n=n) for name, value in forged.items()}
        return site.ask("POST", "/login", headers=headers, body="user=ada").status
    assert [attempt(n) for n in range(7)] == [200] * 5 + [429] * 2


def test_headers_that_rules_use_reach_rationd(kind, tmp_path):
    rules = ("attributes: {ip: {trusted_proxies: [127.0.0.1]}}\n"
             "limits: [{name: keys, key: header.x-api-key or ip, limit: 2 per day}]\n")
    with Site(kind, tmp_path, rules) as site:
        def ask(client="127.0.0.2", **headers):
            return [site.ask(client=client, headers=headers).status for _ in range(3)]
        assert ask(**{"X-Api-Key": "ann"}) == [200, 200, 429]
        assert ask(**{"x-api-key": "bob"}) == [200, 200, 429]
        assert ask("127.0.0.3", **{"X-Api-Key": "ann"}) == [429] * 3
        assert ask() == ask("127.0.0.3") == [200, 200, 429], "without a key each address counts"


def test_clients_choose_how_a_refusal_is_written(site):
    for _ in range(6):
        answer = site.ask("POST", "/login", headers={"Accept": "application/problem+json"}, body="x")
    assert answer.status == 429
    if site.proxy.passes_body:
        assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_rule_for_one_path_and_method_applies_to_no_other(site):
    assert [site.ask("POST", "/login", body="user=ada").status for _ in range(6)] == [200] * 5 + [429]
    answer = site.ask("POST", "/login?next=/", body="user=ada")
    assert answer.status == 429 and int(answer.headers["Retry-After"]) > 30
    if site.proxy.passes_body:
        assert answer.json["message"] == "Too many attempts to log in. Please wait a minute."
    assert site.ask("GET", "/login").status == 200
    assert site.ask("POST", "/logins", body="").status == 200
    assert ("POST", "/login") in site.app.seen and len(site.app.seen) == 7


@pytest.mark.parametrize("query", ["cost=0", "deny=599", "wait=hold&cost=0", "c=%zz", "cost=0?"])
def test_a_query_is_the_clients_and_asks_nothing_of_rationd(site, query):
    statuses = [site.ask("POST", "/login?" + query, body="x").status for _ in range(6)]
    assert statuses == [200] * 5 + [429]


def test_bodies_reach_the_application_whole(site):
    body = "x" * 100_000
    assert site.ask("POST", "/upload", body=body).text == "app" + body


def test_denied_clients_stay_denied(kind, tmp_path):
    with Site(kind, tmp_path, RULES + "deny: [{ ip: 127.0.0.66 }]\n") as site:
        answer = site.ask(client="127.0.0.66")
        assert answer.status == 403 and answer.json["error"] == "denied"
        assert site.ask(client="127.0.0.67").status == 200


def test_counts_are_exact_under_concurrent_requests(site):
    """200 at a time, 4 clients: each gets what it may have, and no more."""
    clients = [f"127.0.1.{n}" for n in range(4)]

    def attempt(n):
        client = clients[n % 4]
        return client, site.ask("POST", "/login", client, body="x").status

    with concurrent.futures.ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(attempt, range(400)))
    assert {status for _, status in answers} <= {200, 429}, answers
    for client in clients:
        assert answers.count((client, 200)) == 5, client
    assert len(site.app.seen) == 20


# --- without a proxy ------------------------------------------------------------------

@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, RULES + "deny: [{ ip: 192.0.2.66 }]\n") as daemon:
        yield daemon


def test_the_application_may_tell_the_outcome_that_a_proxy_does_not(tmp_path):
    rules = "limits: [{name: guesses, key: header.x-user, limit: 2 per hour, charge_on: status 401}]"

    with Daemon(tmp_path, rules) as daemon:
        def ask():
            return daemon.http("GET", "/v1/auth", headers={"X-User": "ann"})

        assert [ask().headers["X-RateLimit-Remaining"] for _ in range(3)] == ["2"] * 3
        for _ in range(2):
            charge = ask().headers["X-Ration-Charge"]
            answer = daemon.http("POST", "/v1/charge", {"charge": charge, "status": 401})
            assert answer.json == {"charged": True}
        assert ask().status == 429
        assert ask().headers["X-Ration-Charge"] is None


def test_two_lines_of_forwarded_addresses_are_one_list(daemon):
    """As HAProxy's `option forwardfor` leaves a forged one and adds its own below."""
    def ask(n, padding=0):
        lines = [f"X-Forwarded-For: 198.51.100.{n}", *[f"X-P{p}: x" for p in range(padding)],
                 "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Method: POST", "X-Forwarded-Uri: /login"]
        with daemon.socket() as s:
            s.sendall("\r\n".join(["GET /v1/auth HTTP/1.1", "Host: a", "Connection: close", *lines,
                                   "", ""]).encode())
            return int(s.makefile("rb").readline().split()[1])
    assert [ask(n) for n in range(6)] == [200] * 5 + [429]
    padded = [ask(n, padding) for n, padding in enumerate((20, 50, 55, 57, 58, 59, 60, 90))]
    assert 200 not in padded, padded


def test_a_peer_that_is_no_proxy_is_the_client_whatever_it_says(daemon):
    def ask(n, source):
        connection = http.client.HTTPConnection("127.0.0.1", port_of(daemon.addresses["http"]),
                                                timeout=PATIENCE, source_address=(source, 0))
        with contextlib.closing(connection):
            connection.request("GET", "/v1/auth", headers={
                "X-Forwarded-For": f"198.51.100.{n}", "X-Forwarded-Method": "POST",
                "X-Forwarded-Uri": "/login"})
            return Answer(connection.getresponse()).status
    assert [ask(n, "127.0.0.5") for n in range(6)] == [200] * 5 + [429]
    assert [ask(n, "127.0.0.1") for n in range(6)] == [200] * 6


def test_nginx_gets_the_real_status_beside_403(daemon):
    headers = {"X-Original-URI": "/login", "X-Original-Method": "POST", "X-Forwarded-For": "192.0.2.9"}
    statuses = [daemon.http("GET", "/v1/auth?deny=403", headers=headers) for _ in range(6)]
    assert [a.status for a in statuses] == [200] * 5 + [403]
    assert statuses[-1].headers["X-Ration-Status"] == "429" and statuses[-1].headers["Retry-After"]
    assert json.loads(statuses[-1].body)["error"] == "rate_limited"
    denied = daemon.http("GET", "/v1/auth?deny=403", headers={"X-Forwarded-For": "192.0.2.66"})
    assert denied.status == 403 and denied.headers["X-Ration-Status"] == "403"
