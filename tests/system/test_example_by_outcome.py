# SPDX-License-Identifier: Apache-2.0
"""examples/by-outcome: proxies that report how a request ended, so that only failed logins are charged."""

import json

import pytest

import proxies
from daemon import ROOT, Daemon, free_port, wait_for
from proxies import Upstream, UpstreamHandler, installed

EXAMPLES = ROOT / "examples/by-outcome"
MOST = 5 # failed logins
# Nothing grows back while a test runs.
RULES = (EXAMPLES / "ration.yaml").read_text().replace("per 10 minutes", "per day").replace("per minute", "per day")


class Application(Upstream):
    """Knows one password. Notes which headers it was sent."""

    def __init__(self):
        super().__init__()
        self.headers = []
        self.RequestHandlerClass = ApplicationHandler


class ApplicationHandler(UpstreamHandler):
    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = {b"right": 200, b"closed": 403}.get(body, 401) if self.path == "/login" else 200
        with self.server.lock:
            self.server.seen.append((self.command, self.path, status))
            self.server.headers.append(self.headers)
        self.send_response(status)
        self.send_header("Set-Cookie", "visit=1")
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    do_POST = do_GET


class Caddy(proxies.Caddy):
    examples, keeps_body = EXAMPLES, False


class Nginx(proxies.Nginx):
    examples, keeps_body = EXAMPLES, True


class Haproxy(proxies.Haproxy):
    examples, keeps_body = EXAMPLES, True

    def command(self):
        self.ports["8079"] = str(free_port())
        self.copy("report.lua")
        self.examples = EXAMPLES.parent / "forward-auth"
        self.copy("ration.lua")
        self.examples = EXAMPLES
        return ["haproxy", "-db", "-f", self.copy("haproxy.cfg", lambda text: text.replace("../forward-auth/", ""))]


class GuardedSite:
    """An application behind a proxy that asks and reports to a rationd."""

    def __init__(self, kind, folder, policy=None):
        port = str(free_port())
        self.daemon, self.app = Daemon(folder, RULES, ["--http", f"127.0.0.1:{port}"]), Application()
        try:
            self.proxy = kind(folder, {"8080": port, "3000": str(self.app.port)}, policy)
        except BaseException:
            self.daemon.kill()
            raise

    def log_in(self, password, client="127.0.0.2", **headers):
        return self.proxy.ask("POST", "/login", client, {k.replace("_", "-"): v for k, v in headers.items()}, password)

    def left(self, client="127.0.0.2"):
        """How many failures the client has left."""
        answer = self.daemon.http("POST", "/v1/check", {"peek": True, "attributes": {
            "method": "POST", "path": "/login", "ip": client}})
        return next(limit["remaining"] for limit in answer.json["limits"] if limit["rule"] == "failed-logins")

    def close(self):
        self.proxy.close()
        self.app.shutdown()
        self.app.server_close()
        if self.daemon.process:
            self.daemon.thaw()
            self.daemon.stop()


KINDS = {"caddy": Caddy, "nginx": Nginx, "haproxy": Haproxy}


@pytest.fixture(params=KINDS)
def kind(request):
    return installed(KINDS, request.param)


@pytest.fixture
def made():
    sites = []

    def make(*args):
        sites.append(GuardedSite(*args))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


@pytest.fixture
def site(kind, tmp_path, made):
    return made(kind, tmp_path)


def test_failed_logins_are_charged_and_others_are_not(site):
    assert [site.log_in("right").status for _ in range(8)] == [200] * 8
    assert site.proxy.ask("GET", "/").status == 200
    assert site.left() == MOST
    for failures, (password, status) in enumerate([("wrong", 401), ("closed", 403), *[("wrong", 401)] * 3], 1):
        answer = site.log_in(password)
        assert answer.status == status and answer.headers["Set-Cookie"] == "visit=1", answer
        assert answer.body == (b"hello" if site.proxy.keeps_body else b'{"error":"login_failed"}'), answer
        wait_for(lambda: site.left() == MOST - failures, "the failure is charged")
    refused = site.log_in("right")
    assert refused.status == 429 and int(refused.headers["Retry-After"]) > 0
    assert refused.json["error"] == "rate_limited"
    assert site.log_in("wrong", client="127.0.0.3").status == 401
    assert [status for method, _, status in site.app.seen if method == "POST"] == [200] * 8 + [401, 403, 401, 401, 401, 401]


def test_clients_cannot_send_or_see_what_is_charged(site):
    mine = json.loads(site.daemon.http("POST", "/v1/check", {"attributes": {
        "method": "POST", "path": "/login", "ip": "192.0.2.1"}}).body)["charge"]
    answers = [site.log_in("wrong", X_Ration_Charge=mine, X_Ration_Status="200"),
               site.proxy.ask("GET", "/login", headers={"X-Ration-Charge": mine, "X-Ration-Status": "401"})]
    assert answers[0].status == 401 # of the GET the application says so, too, but it is not limited
    wait_for(lambda: site.left() == MOST - 1, "the failure is charged")
    assert site.left("192.0.2.1") == MOST
    for answer in answers:
        assert "X-Ration-Charge" not in answer.headers
    assert all(headers.get("X-Ration-Charge") in (None, mine) for headers in site.app.headers)


@pytest.mark.parametrize("away", ["frozen", "killed"])
def test_without_rationd_clients_get_their_answers_and_when_it_is_back_the_limit_holds(kind, tmp_path, made, away):
    site = made(kind, tmp_path, "allow") # with the deadlines of the example: a report may miss them on a busy machine
    wait_for(lambda: site.log_in("wrong").status == 401 and site.left() < MOST, "a failure is charged")
    if away == "frozen":
        site.daemon.freeze()
    else:
        site.daemon.kill()
    assert site.log_in("right").status == 200
    assert site.log_in("wrong").status == 401
    if away == "frozen":
        site.daemon.thaw()
    else:
        site.daemon.start()
    wait_for(lambda: site.log_in("wrong").status == 429, "the limit holds again")


def test_an_outcome_can_be_reported_in_headers(tmp_path):
    with Daemon(tmp_path, RULES) as daemon:
        attributes = {"attributes": {"method": "POST", "path": "/login", "ip": "192.0.2.1"}}
        charge = daemon.http("POST", "/v1/check", attributes).json["charge"]

        def report(charge=None, status=None):
            headers = {"X-Ration-Charge": charge, "X-Ration-Status": status}
            return daemon.http("GET", "/v1/charge", headers={k: v for k, v in headers.items() if v is not None})

        assert report(charge, "200").json == {"charged": False}
        assert report(charge, "401").json == {"charged": True}
        assert report(charge, "401").json == {"charged": False}
        assert report("", "401").json == report(None, "401").json == {"charged": False}
        for status in (None, "", "99", "1000", "401 ok", "-1", "x"):
            answer = report(charge, status)
            assert answer.status == 400 and "X-Ration-Status must be" in answer.json["message"], status
        damaged = report(charge[:-1] + ("A" if charge[-1] != "A" else "B"), "401")
        assert damaged.status == 400 and "did not sign it" in damaged.json["message"]
        assert daemon.http("POST", "/v1/check", attributes).json["limits"][0]["remaining"] == MOST - 1
