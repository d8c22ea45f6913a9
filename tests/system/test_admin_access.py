# SPDX-License-Identifier: Apache-2.0
"""The admin port of rationd: which callers may ask.

Called as a program, this file asks a daemon from another machine's address: see the tests of
callers from elsewhere.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from admin_port import RULES, daemon, log_line, refused  # noqa: F401 (fixtures)
from daemon import PATIENCE, Daemon, RespError, connect, wait_for

@pytest.mark.parametrize("headers", [
    {"X-Forwarded-For": "192.0.2.7"}, {"Forwarded": "for=192.0.2.7"},
    {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"},
    {"Host": "evil.example:8082"}, {"Origin": "null"},
])


def test_a_local_connection_of_another_user_needs_the_token(tmp_path, headers):
    with Daemon(tmp_path, RULES, env={"RATION_ADMIN_TOKEN": "s3cret"}) as d:
        answer = d.admin("GET", "/v1/rules", headers=headers)
        assert refused(answer, 401, "unauthorized", "Authorization: Bearer")
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert d.admin("GET", "/healthz", headers=headers).status == 200
        headers["Authorization"] = "Bearer s3cret"
        assert d.admin("GET", "/v1/rules", headers=headers).status == 200


@pytest.mark.parametrize("host", ["localhost:8082", "[::1]:8082", "127.0.0.1", "ration:8082"])
def test_a_local_caller_needs_no_token(daemon, host):
    assert daemon.admin("GET", "/v1/rules", headers={"Host": host}).status == 200
    origin = {"Host": host, "Origin": "http://" + host, "Sec-Fetch-Site": "same-origin"}
    assert daemon.admin("GET", "/v1/rules", headers=origin).status == 200


def test_a_token_counts_for_its_own_request_only(tmp_path):
    rules = RULES + "\nserver: {tokens: {grafana: {token: l00k, scope: read}}}\n"
    with Daemon(tmp_path, rules) as d, connect(d.addresses["admin"]) as c:
        c.sendall(b"GET /v1/shadow HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer l00k\r\n\r\n"
                  b"PUT /v1/shadow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16\r\n"
                  b"Connection: close\r\n\r\n{\"shadow\": true}")
        answers = b""
        while more := c.recv(4096):
            answers += more
        assert answers.count(b"HTTP/1.1 200 ") == 2, answers


PAGES = [
    {"Origin": "http://evil.example", "Content-Type": "text/plain"},
    {"Sec-Fetch-Site": "same-site", "Content-Type": "text/plain"},
    {"Origin": "http://evil.example:9090", "Host": "evil.example:9090"},  # rebound to 127.0.0.1
    {"Host": "evil.example:9090"},
]


@pytest.mark.parametrize("headers", PAGES, ids=["origin", "site", "rebinding", "host"])
def test_a_web_page_changes_nothing(daemon, headers):
    for method, path, body in (("PUT", "/v1/shadow", {"shadow": True}), ("PUT", "/v1/rules", {"limits": []}),
                               ("POST", "/v1/state/reset", {"attributes": {"ip": "192.0.2.7"}}),
                               ("POST", "/v1/rules/reload", None),
                               ("PUT", "/v1/bans", {"attributes": {"ip": "192.0.2.7"}})):
        assert daemon.admin(method, path, body, headers=headers).status == 401
    assert daemon.admin("GET", "/v1/shadow").json == {"shadow": False}
    assert daemon.admin("GET", "/v1/rules").json["version"] == 1


def test_a_web_page_spends_nothing(daemon):
    login = {"attributes": {"method": "POST", "path": "/login", "ip": "192.0.2.7"}}
    for origin in ("http://evil.example", "null", "http://" + daemon.addresses["http"]):
        answer = daemon.http("POST", "/v1/check", login, headers={"Origin": origin})
        assert refused(answer, 403, "forbidden", "a web page sent this")
    assert log_line(daemon, "http.browser_refused")["path"] == "/v1/check"
    assert daemon.http("POST", "/v1/check", login).json["remaining"] == 4
    # Forward-auth passes on the headers of the request that it asks about.
    assert daemon.http("POST", "/v1/auth/login", headers={"Origin": "http://shop.example"}).status == 200


@pytest.mark.parametrize("place", ["127.0.0.1:0", "unix:"])
def test_without_trust_in_local_callers_all_need_the_token(tmp_path, place):
    def at(name):
        return place if place[0] == "1" else f"unix:{tmp_path}/{name}"

    with Daemon(tmp_path, RULES + "server: {trust_local: false, admin_token: s3cret}\n",
                options=["--admin", at("admin"), "--resp", at("resp")]) as d, d.resp() as redis:
        bearer = {"Authorization": "Bearer s3cret"}
        for method, path in (("GET", "/v1/rules"), ("GET", "/metrics"), ("PUT", "/v1/shadow")):
            assert refused(d.admin(method, path), 401, "unauthorized", "trust_local is false")
        assert d.admin("GET", "/v1/rules", headers=bearer).status == 200
        assert d.admin("GET", "/healthz").status == d.admin("GET", "/readyz").status == 200
        with pytest.raises(RespError, match="NOAUTH"):
            redis("RATION.RESET", "ann", "5 per hour")
        assert redis("AUTH", "s3cret") == b"OK"
        assert redis("RATION.RESET", "ann", "5 per hour") == 1


def test_trusting_no_local_client_needs_a_token(tmp_path):
    with pytest.raises(RuntimeError, match="--trust-local .*false.*; set admin_token or tokens, too"):
        Daemon(tmp_path, RULES, options=["--trust-local", "false"])


def test_guessing_the_token_is_slow(tmp_path):
    with Daemon(tmp_path, RULES, env={"RATION_ADMIN_TOKEN": "s3cret"}) as d, d.resp() as known:
        assert known("AUTH", "s3cret") == b"OK"
        page = {"Origin": "http://evil.example"}
        statuses = [d.admin("GET", "/v1/rules", headers={**page, "Authorization": f"Bearer {n}"}).status
                    for n in range(40)]
        assert statuses[:10] == [401] * 10 and statuses.count(429) >= 15
        right = {**page, "Authorization": "Bearer s3cret"}
        errors = []
        with d.resp() as guesser:
            for n in range(30):
                with pytest.raises(RespError) as error:
                    guesser("AUTH", "default", str(n)) if n % 2 else guesser("HELLO", 3, "AUTH", "x", str(n))
                errors.append(str(error.value))
            assert guesser("PING") == b"PONG"
        assert sum("too many wrong tokens from this address" in error for error in errors) >= 10
        # Connections that were let in before go on, and so do callers that need no token.
        assert known("AUTH", "s3cret") == b"OK"
        assert d.admin("GET", "/v1/rules").status == 200
        assert d.admin("GET", "/v1/rules", headers={"Authorization": "Bearer wrong"}).status == 200
        # The right token gets in again when a wrong one is forgotten.
        wait_for(lambda: d.admin("GET", "/v1/rules", headers=right).status == 200, "the token")
        wrong = [line for line in d.admin("GET", "/metrics").text.splitlines()
                 if line.startswith("ration_wrong_tokens_total")]
        assert 'ration_wrong_tokens_total{protocol="resp"} 30' in wrong


def test_a_unix_socket_is_local(tmp_path):
    with Daemon(tmp_path, RULES, options=["--admin", f"unix:{tmp_path}/admin"]) as d:
        assert d.admin("GET", "/v1/rules").status == 200
        assert d.admin("PUT", "/v1/shadow", {"shadow": True}).status == 200
        assert log_line(d, "shadow.set")["by"] == "unix"


def ask_from_elsewhere(folder, token):
    """In a separate network: a daemon on an address that is not loopback, asked from there."""
    for command in ("link set lo up", "addr add 192.0.2.1/32 dev lo"):
        subprocess.run(["ip", *command.split()], check=True)
    asked = [("GET", "/healthz", None), ("GET", "/readyz", None), ("GET", "/metrics", None),
             ("GET", "/v1/rules", None), ("PUT", "/v1/shadow", None),
             ("GET", "/v1/rules", "Bearer wrong!"), ("GET", "/v1/rules", "Basic s3cret"),
             ("GET", "/v1/rules", "Bearer s3cre"), ("GET", "/v1/rules", "Bearer s3crets"),
             ("GET", "/v1/rules", "s3cret"), ("GET", "/v1/rules", "Bearer "), ("GET", "/v1/rules", "Bearer s3cret"),
             ("GET", "/metrics", "bearer  s3cret")]
    env = {"RATION_ADMIN_TOKEN": token} if token else None
    with Daemon(folder, RULES, options=["--admin", "192.0.2.1:0"], env=env) as d:
        answers = [d.admin(method, path, headers={"Authorization": a} if a else None)
                   for method, path, a in asked]
        return [[*ask, answer.status, answer.text[:400]] for ask, answer in zip(asked, answers)]


def run_elsewhere(folder, token):
    unshare = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    if subprocess.run([*unshare, "true"], capture_output=True).returncode != 0:
        pytest.skip("no network namespaces here")
    done = subprocess.run([*unshare, sys.executable, __file__, str(folder), token],
                          capture_output=True, text=True, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_caller_from_elsewhere_needs_the_token(tmp_path):
    for method, path, given, status, text in run_elsewhere(tmp_path, "s3cret"):
        free = path in ("/healthz", "/readyz")
        known = given in ("Bearer s3cret", "bearer  s3cret")
        assert status == (200 if free or known else 401), (method, path, given, status)
        if status == 401:
            assert "another machine" in text and "s3cret" not in text
            assert ("token is not known" in text or "this is not a token" in text) == (given is not None)
            assert ("has one word only" in text) == (given in ("s3cret", "Bearer ")), (given, text)
            assert ("another word than Bearer" in text) == (given == "Basic s3cret")


def test_without_a_token_other_machines_are_refused(tmp_path):
    for _, path, given, status, text in run_elsewhere(tmp_path, ""):
        assert status == (200 if path in ("/healthz", "/readyz") else 401), (path, given)
        if status == 401:
            assert "set admin_token" in text and "RATION_ADMIN_TOKEN" in text


if __name__ == "__main__":
    print(json.dumps(ask_from_elsewhere(pathlib.Path(sys.argv[1]), sys.argv[2])))
