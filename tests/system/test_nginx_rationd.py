# SPDX-License-Identifier: Apache-2.0
"""The gateway that asks rationd: nginx decides by what one server says, and by
itself when the server says nothing."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

import http2
import test_nginx_upgrades
from daemon import Daemon, PATIENCE
from gateway import GIF, MODULE, SANITIZED, expect_turns, proxied, wait_until
from redis_server import RedisServer
from test_nginx import begin, wrk_beyond_limit

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")

# Far apart, so that it is plain who has decided.
THEIRS = "limits:\n  - {name: api, key: ip, limit: 5 per 7 days}\n"
OURS = "limits:\n  - {name: own, key: ip, limit: 2 per 7 days%s}\n"
UP = '" answers\n'  # as the log tells it
PATIENT = "timeout=10s"  # for tests in which rationd is well, however busy the machine
LOG = ("log_format source '$status $request_uri verdict=$ration_verdict rule=$ration_rule "
       "source=$ration_source delay=$ration_delay';")


class Rationd(Daemon):
    """One on a unix socket, which can be stopped and started again."""

    def __init__(self, folder, rules=THEIRS, resp=None, state="none", **more):
        home = folder / "rationd"
        home.mkdir(exist_ok=True)
        super().__init__(home, rules, ["--resp", resp or f"unix:{home}/resp.sock", "--state", state,
                                       "--http", "none", "--workers", "1"], **more)

    @property
    def address(self):
        return self.addresses["resp"]

    def freeze(self):
        """Until no thread of it runs any more."""
        threads = pathlib.Path(f"/proc/{self.process.pid}/task")
        os.kill(self.process.pid, signal.SIGSTOP)
        wait_until(lambda: all(") T " in (thread / "stat").read_text() for thread in threads.iterdir()),
                   "all threads stand still")

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self):
        with contextlib.suppress(OSError):
            self.thaw()
        super().kill()


class Fake:
    """A server that says what a test wants: `answer` gets the commands of one read as
    bytes and returns bytes, or None to end the connection. PING is answered unless
    `answer` is to see it."""

    def __init__(self, path, answer, pings=True):
        self.answer, self.pings, self.seen, self.connections = answer, pings, [], 0
        self.open = self.most_at_once = 0
        self.path = str(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return "unix:" + self.path

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.open += 1
            self.most_at_once = max(self.most_at_once, self.open)
            self.connections += 1
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        with s:
            with contextlib.suppress(OSError):
                self.talk(s)
            self.open -= 1

    def talk(self, s):
        while data := s.recv(65536):
            self.seen.append(data)
            if self.pings and data.startswith(b"*1\r\n$4\r\nPING\r\n"):
                s.sendall(b"+PONG\r\n")
                data = data[14:]
            reply = self.answer(data) if data or not self.pings else b""
            if reply is None:
                return
            s.sendall(reply)

    def close(self):
        self.listener.close()


@pytest.fixture
def gateway(gateway, tmp_path):
    """Makes gateways that ask."""
    def make(asked, rules=OURS % "", server=GIF, parameters=PATIENT, http="", **settings):
        directive = f"ration_server {asked} {parameters};" if asked else ""
        access = f"{LOG} access_log {tmp_path}/source.log source;"
        return gateway(rules, server, http=f"{directive} {access} {http}", **settings)

    return make


@pytest.fixture
def rationd(tmp_path):
    made = []

    def make(*args, **more):
        made.append(Rationd(tmp_path, *args, **more))
        return made[-1]

    yield make
    for each in made:
        if each.process is not None:
            with contextlib.suppress(OSError):
                each.thaw()
            each.stop()


@pytest.fixture
def fake(tmp_path):
    made = []

    def make(answer, **more):
        made.append(Fake(tmp_path / "fake.sock", answer, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def answers(g):
    """Until rationd can be asked."""
    g.wait_for_log(UP, "error", int(g.settings["workers"]))
    return g


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
    ("127.0.0.1 connections=65", 'and connections=NUMBER, from 1 to 64'),
    ("127.0.0.1 connections=few", 'invalid parameter "connections=few"'),
    ("127.0.0.1 timeout=1s timeout=2s timeout=3s", "invalid number of arguments"),
    ("off timeout=1s", '"ration_server" directive is off and has a parameter'),
    ("127.0.0.1; ration_server 127.0.0.1", '"ration_server" directive is duplicate'),
])
def test_a_mistake_in_the_directive_is_told(gateway, asked, message):
    code, text = gateway("", start=False, http=f"ration_server {asked};").test()
    assert code != 0 and message in text and "nginx.conf:" in text


@pytest.mark.parametrize("asked", ["127.0.0.1", "127.0.0.1:6380", "localhost:6380", "[::1]:6380",
                                   "unix:/nonexistent/socket", "127.0.0.1 timeout=1500ms", "127.0.0.1 connections=64 timeout=60s",
                                   "off"])
def test_an_address_is_that_of_a_socket_or_a_host(gateway, asked):
    code, text = gateway("", start=False, http=f"ration_server {asked};").test()
    assert code == 0, text


def test_rules_are_needed_for_what_is_decided_alone(gateway):
    g = gateway("unix:/nonexistent/socket", start=False)
    conf = g.folder / "nginx.conf"
    conf.write_text(conf.read_text().replace(f"ration_rules {g.folder}/rules.yaml;", ""))
    code, text = g.test()
    assert code != 0 and '"ration" is on and there are no rules' in text


# --- decisions ---------------------------------------------------------------------------

@pytest.mark.parametrize("resp", [None, "127.0.0.1:0"])
def test_rationd_decides_over_a_unix_socket_and_over_tcp(gateway, rationd, resp):
    g = answers(gateway(rationd(resp=resp).address))
    assert g.statuses(6) == [200] * 5 + [429]
    g.wait_for_log("429 / verdict=refused rule=api source=rationd", "source")


def test_locations_may_ask_others_or_nobody(gateway, rationd):
    g = gateway("", server=f"""
        ration on; ration_server {rationd().address} {PATIENT};
        location / {{ empty_gif; }}
        location /alone {{ ration_server off; empty_gif; }}
        location /dead {{ ration_server unix:/nonexistent/socket; empty_gif; }}""")
    g.wait_for_log(UP, "error")
    assert g.statuses(6) == [200] * 5 + [429]
    assert g.statuses(2, "/alone") + g.statuses(1, "/dead") == [200] * 2 + [429]


def test_headers_and_bodies_are_those_of_a_gateway_that_decides_itself(gateway, rationd):
    rules = ("limits:\n  - {name: api, key: ip, limit: 2 per hour, soft: 50%, when: {path: /a/**}}\n"
             "  - {name: day, key: ip, limit: 9 per 7 days, algorithm: fixed-window, when: {path: /a/**}}\n"
             "  - {name: told, key: ip, limit: 1 per hour, when: {path: /told},"
             "     response: {status: 418, message: Tea only., headers: ietf}}\n"
             "  - {name: seen, key: ip, limit: 1 per hour, mode: shadow, when: {path: /seen}}\n"
             "deny:\n  - {path: /never}\n")
    g = answers(gateway(rationd(rules).address, rules, """ration on;
        location / { empty_gif; }
        location /zone/ { ration_server off; ration_attribute path $arg_as; empty_gif; }"""))

    def told(path, **headers):
        status, head, body = g.ask(path, **headers)
        names = [n for n in head if n.lower().startswith(("x-ratelimit", "ratelimit", "retry"))]
        if head["content-type"] not in ("image/gif", "text/html"):
            body = re.sub(rb'("(?:reset_after|retry_after|reset)":)[\d.]+', rb"\1N", body)
        return (status, head["content-type"], body,
                {n.lower(): re.sub(r"(t=|^)\d{4,}", "", head[n]) for n in names})

    for path, times in (("/a/x", 5), ("/told", 2), ("/seen", 3), ("/never", 1), ("/free", 1)):
        for _ in range(times):
            for accept in ("*/*", "application/problem+json"):
                assert told(path, accept=accept) == told(f"/zone/?as={path}", accept=accept), path
    wait_until(lambda: g.log("source").count("source=rationd") == g.log("source").count("source=zone"),
               "either has decided as often")


def test_the_location_has_its_say_about_refusals(gateway, rationd):
    g = answers(gateway(rationd().address, server="ration on; ration_status 503; ration_headers x; "
                        "ration_error_body problem; location / { empty_gif; }"))
    g.statuses(5)
    status, headers, body = g.ask()
    assert status == 503 and headers["ratelimit"] is None and headers["x-ratelimit-limit"] == "5"
    assert json.loads(body)["status"] == 503


def test_an_error_page_is_preferred_and_asks_nobody(gateway, rationd):
    g = answers(gateway(rationd().address,
                        server="ration on; error_page 429 /busy; location / { empty_gif; } "
                               "location = /busy { internal; return 200 later; }"))
    assert g.statuses(5) == [200] * 5
    assert g.ask()[::2] == (429, b"later")


def test_in_shadow_mode_everything_is_counted_and_nothing_refused(gateway, rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 3 per 7 days, when: {path: /a}}\n"
                "  - {name: line, key: ip, limit: 1 per 7 days queue 9, when: {path: /line}}\n")
    g = answers(gateway(d.address, server="ration shadow; location / { empty_gif; } "
                                          "location /a { ration on; empty_gif; } "
                                          "location /a/shadow { ration shadow; "
                                          "ration_attribute path /a; empty_gif; }"))
    assert g.statuses(5, "/a/shadow") == [200] * 5
    assert g.ask("/a")[0] == 429
    assert g.statuses(3, "/line") == [200] * 3
    g.wait_for_log("/line", "source", 3)
    assert re.findall(r"shadow verdict=(\w+)", g.log("source")) == ["allowed"] * 3 + ["shadow"] * 2
    assert set(re.findall(r"/line verdict=\w+ rule=\S+ source=(\w+)", g.log("source"))) == {"rationd"}


def test_a_request_counts_once_whatever_happens_to_it_inside(gateway, rationd):
    g = answers(gateway(rationd().address, server="ration on; root /nonexistent; "
                        "location / { auth_request /sub; try_files /none /other; } "
                        "location /sub { return 204; } location /other { empty_gif; }"))
    assert g.statuses(6) == [200] * 5 + [429]


def test_a_large_body_is_passed_on_or_refused_and_the_connection_goes_on(gateway, rationd, upstream):
    g = answers(gateway(rationd().address, server=proxied(upstream) + " client_max_body_size 20m;"))
    body = b"x" * 3_000_000
    with contextlib.closing(g.connection()) as connection:
        assert [g.ask_on(connection, method="POST", body=body)[0] for _ in range(7)] == \
            [200] * 5 + [429] * 2
    assert [a[3] for a in upstream.arrivals] == [len(body)] * 5


def test_more_headers_than_rationd_takes_hide_no_key(gateway, rationd):
    g = answers(gateway(rationd("limits:\n  - {name: api, key: header.x-key, limit: 1 per 7 days}\n")
                        .address))
    few = {f"x_junk_{i}": "v" for i in range(100)}
    many = {f"x_junk_{i}": "v" for i in range(200)}
    assert [g.ask(**few, x_key="k")[0] for _ in range(2)] == [200, 429]
    assert g.ask(**many, x_key="k")[0] == 400


# --- delays --------------------------------------------------------------------------------

def test_delays_are_told_by_rationd_and_waited_for_in_nginx(gateway, rationd, upstream):
    d = rationd("limits:\n  - {name: line, key: ip, limit: 20 per second queue 10, wait: hold}\n")
    expect_turns(answers(gateway(d.address, server=proxied(upstream))), upstream)


def test_a_request_that_waits_for_its_turn_keeps_nobody_from_asking(gateway, rationd):
    d = rationd("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 3, when: {path: /line},"
                " wait: hold}\n")
    g = answers(gateway(d.address))
    assert g.ask("/line")[0] == 200
    waiting = [begin(g, "/line") for _ in range(3)]
    g.wait_for_log("delayed by", "error", 3)
    assert g.ask("/line")[0] == 429
    assert g.statuses(3, "/free") == [200] * 3
    for s in waiting:
        s.close()
    g.wait_for_log("499 /line", "source", 3)


# --- places ----------------------------------------------------------------------------------

PLACES = "limits:\n  - {name: places, key: ip, limit: 2 concurrent, lease: %s, when: {path: /hold}}\n"


def test_places_are_free_when_requests_end(gateway, rationd, upstream):
    g = answers(gateway(rationd(PLACES % "60s").address, server=proxied(upstream)))
    first = [begin(g, "/hold") for _ in range(2)]
    wait_until(lambda: upstream.count("/hold") == 2, "both arrive")
    assert g.ask("/hold")[0] == 429
    upstream.release.set()
    for s in first:
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        s.close()
    assert g.statuses(5, "/hold") == [200] * 5


def test_places_are_free_when_clients_go_away(gateway, rationd, upstream):
    g = answers(gateway(rationd(PLACES % "600s").address, server=proxied(upstream)))
    first = [begin(g, "/hold") for _ in range(2)]
    wait_until(lambda: upstream.count("/hold") == 2, "both arrive")
    assert g.ask("/hold")[0] == 429
    for s in first:
        s.close()
    g.wait_for_log("499 /hold", "source", 2)
    upstream.release.set()
    assert g.ask("/hold")[0] == 200


def test_places_are_free_when_the_upstream_fails(gateway, rationd):
    g = answers(gateway(rationd(PLACES % "600s").address,
                        server="ration on; location / { proxy_pass http://127.0.0.1:1; }"))
    assert g.statuses(6, "/hold") == [502] * 6


def test_a_place_is_kept_longer_than_its_lease_while_the_request_lasts(gateway, rationd, upstream):
    g = answers(gateway(rationd(PLACES % "1s").address, server=proxied(upstream)))
    first = [begin(g, "/hold") for _ in range(2)]
    wait_until(lambda: upstream.count("/hold") == 2, "both arrive")
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        assert g.ask("/hold")[0] == 429
        time.sleep(0.1)
    upstream.release.set()
    for s in first:
        s.close()


def test_a_place_that_was_given_too_late_is_given_back(gateway, rationd, upstream):
    d = rationd(PLACES % "600s")
    g = answers(gateway(d.address, OURS % "", proxied(upstream), parameters="timeout=50ms"))
    upstream.release.set()
    d.freeze()
    assert g.statuses(2, "/hold") == [200] * 2  # by our own rules
    d.thaw()
    with d.resp() as redis:
        wait_until(lambda: places_taken(redis) == 0, "no place is taken")
    assert "source=rationd" not in g.log("source")


def places_taken(redis):
    reply = redis("RATION.CHECK", "ip", "127.0.0.1", "path", "/hold", "PEEK")
    return 2 - reply[reply.index(b"remaining") + 1]


def test_a_place_that_ends_while_rationd_restarts_is_released_afterwards(gateway, rationd, upstream,
                                                                        tmp_path):
    d = rationd(PLACES % "600s", state=tmp_path / "rationd-state")
    g = answers(gateway(d.address, server=proxied(upstream)))
    with begin(g, "/hold") as s:
        wait_until(lambda: upstream.count("/hold") == 1, "it arrives")
        d.kill()
        g.wait_for_log("until it answers again", "error")
        upstream.release.set()
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    g.wait_for_log("200 /hold", "source")
    d.start()
    g.wait_for_log(UP, "error", 2)
    with d.resp() as redis:
        wait_until(lambda: places_taken(redis) == 0, "its place is free")


def test_what_is_charged_by_outcome_is_charged_in_rationd(gateway, rationd):
    d = rationd("limits:\n  - {name: failures, key: ip, limit: 2 per 7 days, charge_on: status 404}\n")
    g = answers(gateway(d.address, server="ration on; root /nonexistent; location / { empty_gif; } "
                        "location /lost { try_files $uri =404; }"))
    assert g.statuses(4) + g.statuses(3, "/lost") == [200] * 4 + [404, 404, 429]
    g.wait_for_log("429 /lost verdict=refused rule=failures source=rationd", "source")


# --- without rationd -----------------------------------------------------------------------

POLICIES = ("limits:\n  - {name: own, key: ip, limit: 2 per 7 days, when: {path: /local}}\n"
            "  - {name: open, key: ip, limit: 1 per 7 days, on_store_failure: allow, when: {path: /open}}\n"
            "  - {name: shut, key: ip, limit: 9 per 7 days, on_store_failure: refuse, when: {path: /shut},"
            " response: {status: 503, message: Not now.}}\n"
            "  - {name: seen, key: ip, limit: 9 per 7 days, on_store_failure: refuse, mode: shadow,"
            " when: {path: /seen}}\n"
            "  - {name: both, key: ip, limit: 1 per 7 days, when: {path: /both}}\n"
            "  - {name: also, key: ip, limit: 9 per 7 days, on_store_failure: refuse, when: {path: /both}}\n")


def by_policy(g):
    assert g.statuses(3, "/local") == [200] * 2 + [429]
    assert g.statuses(3, "/open") == [200] * 3
    assert g.statuses(2, "/seen") == [200] * 2
    assert g.statuses(2, "/other") == [200] * 2
    assert g.statuses(2, "/both") == [429] * 2
    status, headers, body = g.ask("/shut")
    answer = json.loads(body)
    assert status == 503 and headers["retry-after"] == "1" and headers["x-ratelimit-limit"] is None
    assert answer["rule"] == "shut" and answer["limit"] is None and answer["limits"] == []
    assert answer["message"] == "Not now."
    g.wait_for_log("503 /shut verdict=refused rule=shut source=zone", "source")
    g.wait_for_log("200 /open verdict=allowed rule=- source=zone", "source")


def test_a_rationd_that_is_not_there_leaves_it_to_the_rules(gateway):
    g = gateway("unix:/nonexistent/socket", POLICIES)
    by_policy(g)
    assert g.log("error").count('rationd at "unix:/nonexistent/socket" cannot be reached; until it '
                                'answers again rules decide by on_store_failure (2: No such file') == 1


def test_a_rationd_that_refuses_connections_leaves_it_to_the_rules(gateway):
    g = gateway("127.0.0.1:1", POLICIES)
    by_policy(g)
    assert g.log("error").count("cannot be reached") == 1 and "(111: " in g.log("error")


def test_a_rationd_that_is_killed_leaves_it_to_the_rules_until_it_is_back(gateway, rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 1000 per 7 days}\n")
    g = answers(gateway(d.address, POLICIES))
    assert g.statuses(3, "/shut") == [200] * 3
    d.kill()
    g.wait_for_log("until it answers again", "error")
    by_policy(g)
    d.start()
    g.wait_for_log(UP, "error", 2)
    assert g.statuses(3, "/shut") == [200] * 3
    assert g.log("error").count("until it answers again") == 1


def test_a_rationd_that_is_frozen_costs_a_few_requests_their_patience_and_then_nothing(gateway,
                                                                                      rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 1000 per 7 days}\n")
    g = answers(gateway(d.address, "limits:\n  - {name: own, key: ip, limit: 1000 per 7 days}\n",
                        parameters="timeout=1s"))
    d.freeze()
    threads = [threading.Thread(target=g.ask, args=("/frozen",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "does not answer in time; until it answers again" in g.log("error")
    began = time.monotonic()
    assert g.statuses(50, "/later") == [200] * 50
    assert time.monotonic() - began < 25  # had each waited, it were 50 at least
    g.wait_for_log("source=zone", "source", 58)
    d.thaw()
    g.wait_for_log(UP, "error", 2)
    g.ask("/back")
    g.wait_for_log("200 /back verdict=allowed rule=api source=rationd", "source")


def test_a_late_answer_is_nobody_elses(gateway, rationd):
    rules = "".join(f"  - {{name: rule-{i}, key: ip, limit: 9 per 7 days, when: {{path: /{i}}}}}\n"
                    for i in range(4))
    d = rationd("limits:\n" + rules)
    g = answers(gateway(d.address, "limits: []\n", parameters="timeout=100ms", server=f"""ration on;
        location / {{ empty_gif; }}
        location /3 {{ ration_server {d.address} {PATIENT}; empty_gif; }}"""))
    d.freeze()
    assert [g.ask(f"/{i}")[0] for i in range(3)] == [200] * 3  # nobody has decided
    with begin(g, "/3") as patient:
        time.sleep(0.05)
        d.thaw()
        assert patient.recv(100).startswith(b"HTTP/1.1 200")
    g.wait_for_log("200 /3 verdict=allowed rule=rule-3 source=rationd", "source")


@pytest.mark.parametrize("reply", [
    b"+OK\r\n", b":1\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*0\r\n", b"*3\r\n:1\r\n:2\r\n:3\r\n",
    b"*2\r\n$7\r\nallowed\r\n:1\r\n", b"$-1\r\n", b"\0\0\0", b"*1\r\n" * 50 + b":1\r\n",
    b"$99999999\r\n", b"+PONG\r\n+PONG\r\n", b"*2\r\n$7\r\nallowed\r\n:1\r\n" * 3,
])
def test_nonsense_is_no_answer(gateway, fake, reply):
    server = fake(lambda _: reply)
    g = answers(gateway(server.address))
    assert g.ask()[0] == 200
    g.wait_for_log("says what is no answer; until it answers again", "error")
    g.wait_for_log("200 / verdict=allowed rule=own source=zone", "source")
    assert g.statuses(2) == [200, 429]


def test_a_reply_without_an_end_is_waited_for_in_vain(gateway, fake):
    g = answers(gateway(fake(lambda _: b"*2\r\n$7\r\nallo").address, parameters="timeout=100ms"))
    assert g.statuses(3) == [200, 200, 429]
    assert "source=rationd" not in g.log("source")


def test_who_greets_wrongly_is_not_asked(gateway, fake):
    server = fake(lambda _: b"-NOAUTH who are you\r\n", pings=False)
    g = gateway(server.address)
    g.wait_for_log("says what is no answer", "error")
    assert g.statuses(3) == [200, 200, 429]
    assert not any(b"RATION" in seen for seen in server.seen[1:])


def test_an_error_of_rationds_is_told_once_and_leaves_it_to_the_rules(gateway, fake):
    server = fake(lambda data: b"-STORE no answer of Redis\r\n" * data.count(b"RATION.CHECK"))
    g = answers(gateway(server.address))
    assert g.statuses(3) == [200, 200, 429]
    assert g.log("error").count("could not decide: STORE no answer of Redis;") == 1
    assert server.connections == 1


def test_a_command_is_never_sent_twice(gateway, fake):
    server = fake(lambda data: None if b"RATION" in data else b"")
    g = answers(gateway(server.address))
    assert [g.ask(f"/{i}")[0] for i in range(1)] == [200]
    wait_until(lambda: server.connections >= 2, "it is connected to again")
    assert b"".join(server.seen).count(b"RATION.CHECK") == 1


def test_attempts_are_made_one_at_a_time(gateway, fake):
    server = fake(lambda _: None, pings=False)
    gateway(server.address)
    wait_until(lambda: server.connections >= 4, "four attempts")
    assert server.most_at_once == 1


def test_a_client_that_goes_away_before_the_answer_leaves_nothing_behind(gateway, rationd):
    d = rationd()
    g = answers(gateway(d.address))
    d.freeze()
    for turn in range(1, 4):
        with begin(g, "/gone"):
            time.sleep(0.02)
        g.wait_for_log("499 /gone", "source", turn)
    d.thaw()
    assert g.ask("/")[0] == 200
    g.wait_for_log("200 / verdict=allowed rule=api source=rationd", "source")


def test_questions_of_one_round_go_out_together(gateway, fake):
    gate = threading.Event()

    def answer(data):
        gate.wait(PATIENCE)
        return b"-ERR not now\r\n" * data.count(b"RATION.CHECK")

    server = fake(answer)
    g = answers(gateway(server.address, listen="http2"))
    process = subprocess.Popen(["h2load", "-n", "40", "-c", "1", "-m", "40",
                                f"http://127.0.0.1:{g.port}/"], stdout=subprocess.PIPE, text=True)
    wait_until(lambda: b"".join(server.seen).count(b"RATION.CHECK") >= 1, "the first question")
    gate.set()
    assert "40 done, 2 succeeded" in process.communicate(timeout=60)[0]
    assert server.connections == 1
    assert len(server.seen) < 40


def test_every_stream_of_an_http2_connection_is_asked_about(gateway, rationd):
    g = answers(gateway(rationd().address, listen="http2"))
    out = subprocess.run(["h2load", "-n", "20", "-c", "2", "-m", "10", f"http://127.0.0.1:{g.port}/"],
                         capture_output=True, text=True, timeout=60).stdout
    assert "status codes: 5 2xx, 0 3xx, 15 4xx, 0 5xx" in out


def test_a_stream_that_is_reset_before_the_answer_leaves_nothing_behind(gateway, rationd):
    d = rationd()
    g = answers(gateway(d.address, listen="http2"))
    d.freeze()
    with http2.Peer(socket.create_connection(("127.0.0.1", g.port), PATIENCE)) as peer:
        for stream in (1, 3, 5):
            peer.send(http2.get(stream, "/reset"), http2.frame(http2.PING, 0, 0, b"behind  "))
            peer.until(http2.PING)  # so it is known by now
            peer.send(http2.frame(http2.RST_STREAM, 0, stream, http2.CANCEL))
            g.wait_for_log("/reset", "source", stream // 2 + 1)
        d.thaw()
        peer.send(http2.get(7, "/"))
        g.wait_for_log("200 / verdict=allowed rule=api source=rationd", "source")


def test_several_connections_are_one_server_to_the_log(gateway, rationd):
    d = rationd()
    g = answers(gateway(d.address, parameters=PATIENT + " connections=8"))
    wait_until(lambda: connections(d) == 8, "eight connections")
    assert g.statuses(6) == [200] * 5 + [429]
    d.kill()
    g.wait_for_log("until it answers again", "error")
    assert g.statuses(3) == [200] * 2 + [429]
    d.start()
    wait_until(lambda: connections(d) == 8, "eight connections again")
    assert g.log("error").count(UP) == 2 and g.log("error").count("until it answers again") == 1


def connections(d):
    return int(re.search(r'connections{[^}]*listener="resp"[^}]*} (\d+)',
                         d.admin("GET", "/metrics").text).group(1))


def test_a_slow_question_holds_up_only_its_own_connection(gateway, fake):
    """As with a rationd that asks Redis, which answers a connection one by one."""
    gates = {}

    def answer(data):
        path = re.search(rb"path\r\n\$\d+\r\n(\S+)\r\n", data).group(1)
        gates.setdefault(path, threading.Event()).wait(PATIENCE)
        return b"-ERR done\r\n" * data.count(b"RATION.CHECK")

    server = fake(answer)
    g = answers(gateway(server.address, "limits: []\n", parameters=PATIENT + " connections=2"))
    wait_until(lambda: b"".join(server.seen).count(b"PING") == 2, "both are greeted")
    gates[b"/fast"] = threading.Event()
    gates[b"/fast"].set()
    assert g.ask("/fast")[0] == 200
    with begin(g, "/slow") as slow:
        wait_until(lambda: b"/slow" in gates, "it is asked")
        assert g.ask("/fast")[0] == 200
        assert "/slow" not in g.log("source")
        gates[b"/slow"].set()
        assert slow.recv(100).startswith(b"HTTP/1.1 200")


# --- many at once -----------------------------------------------------------------------------

class Crowd(test_nginx_upgrades.Crowd):
    """One that ends with its block."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def test_workers_and_gateways_share_what_rationd_counts_and_not_one_more(gateway, rationd, tmp_path):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 3000 per 7 days}\n")
    g = answers(gateway(d.address, OURS % ", on_store_failure: refuse", workers=3))
    count, refused = wrk_beyond_limit(g)
    assert count > 1000 and count - refused <= 3000
    wait_until(lambda: g.log("source").count("verdict=") >= count, "all are logged")
    assert g.log("source").count("verdict=allowed") == 3000
    assert "source=zone" not in g.log("source")


def test_two_rationd_that_share_a_redis_admit_the_limit_and_not_one_more(gateway, tmp_path):
    rules = "limits:\n  - {name: api, key: ip, limit: 500 per 7 days, algorithm: fixed-window}\n"
    homes = [tmp_path / name for name in ("one", "other")]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(tmp_path))
        nodes = []
        for home in homes:
            home.mkdir()
            nodes.append(stack.enter_context(Daemon(home, rules, [
                "--resp", f"unix:{home}/resp", "--http", "none", "--admin", "none",
                "--redis", f"redis+unix://{server.path}", "--redis-deadline", "10s"])))
        g = gateway(nodes[0].addresses["resp"], "limits: []\n", parameters=PATIENT + " connections=8",
                    server=f"""ration on; location / {{ empty_gif; }}
                    location /other {{ ration_server {nodes[1].addresses["resp"]} {PATIENT}
                                       connections=8; empty_gif; }}""")
        g.wait_for_log(UP, "error", 2)
        with Crowd(g), Crowd(g, path="/other"):
            wait_until(lambda: g.log("source").count("verdict=refused") > 50, "the limit is reached")
        g.stop()
    log = g.log("source")
    assert log.count("verdict=allowed") == 500 and "source=zone" not in log
    assert re.search(r"/other verdict=allowed", log) and re.search(r" / verdict=allowed", log)


def test_rationd_restarts_under_load_and_every_request_is_answered(gateway, rationd, tmp_path):
    most, own = 3000, 200
    d = rationd(f"limits:\n  - {{name: api, key: ip, limit: {most} per 7 days, algorithm: fixed-window}}\n",
                state=tmp_path / "rationd-state")
    g = answers(gateway(d.address, f"limits:\n  - {{name: own, key: ip, limit: {own} per 7 days}}\n",
                        workers=2))
    with Crowd(g) as crowd:
        for turn in range(1, 4):
            seen = len(crowd.answers)
            wait_until(lambda: len(crowd.answers) > seen + 100, "it goes on")
            d.kill()
            g.wait_for_log("until it answers again", "error", 2 * turn)  # both workers
            seen = len(crowd.answers)
            wait_until(lambda: len(crowd.answers) > seen + 100, "it goes on without")
            d.start()
            g.wait_for_log(UP, "error", 2 * (turn + 1))
    assert not crowd.lost and set(crowd.answers) <= {200, 429}
    allowed = re.findall(r"verdict=allowed rule=\S+ source=(\w+)", g.log("source"))
    assert allowed.count("rationd") <= most and allowed.count("zone") <= own
    assert "source=rationd" in g.log("source")


def test_a_frozen_rationd_under_load_delays_and_loses_nobody(gateway, rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 100000 per 7 days}\n")
    g = answers(gateway(d.address, "limits: []\n", workers=2, parameters="timeout=20ms"))
    with Crowd(g) as crowd:
        def ask_it():  # workers, each of which tells when it begins to, and when it ends
            log = g.log("error")
            return log.count(UP) - log.count("until it answers again")

        for _ in range(3):
            d.freeze()
            wait_until(lambda: ask_it() == 0, "it is noticed")
            d.thaw()
            wait_until(lambda: ask_it() == 2, "it is back")
    assert not crowd.lost and set(crowd.answers) == {200}


def test_reloads_under_load_lose_no_request_and_no_count(gateway, rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 1000000 per 7 days, algorithm: fixed-window}\n")
    g = answers(gateway(d.address, OURS % ", on_store_failure: refuse", workers=2))
    with Crowd(g) as crowd:
        for _ in range(10):
            g.reload()
    assert not crowd.lost and set(crowd.answers) == {200}
    assert int(g.ask()[1]["x-ratelimit-remaining"]) == 1_000_000 - len(crowd.answers) - 1
    assert "open socket" not in g.log("error")


def test_a_worker_that_ends_finishes_what_it_has_asked(gateway, rationd):
    d = rationd()
    g = answers(gateway(d.address))
    d.freeze()
    with begin(g, "/") as s:
        time.sleep(0.05)
        os.kill(g.master, signal.SIGQUIT)
        g.wait_for_log("gracefully shutting down", "error")
        d.thaw()
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    g.wait_for_log("200 / verdict=allowed rule=api source=rationd", "source")
    assert g.process.wait(PATIENCE) == 0
    assert "open socket" not in g.log("error")


@pytest.mark.skipif(SANITIZED is not None or not shutil.which("valgrind"), reason="needs valgrind")
def test_valgrind_finds_nothing_wrong(gateway, rationd, upstream):
    d = rationd(THEIRS + PLACES[8:] % "1s")
    g = gateway(d.address, start=False, server=proxied(upstream), top="master_process off;")
    g.start("valgrind", "--error-exitcode=77", "--quiet", f"--log-file={g.folder}/valgrind.log")
    answers(g)
    upstream.release.set()
    assert g.statuses(3, "/hold") == [200] * 3
    d.freeze()
    with begin(g, "/gone"):
        time.sleep(0.1)
    g.wait_for_log("499 /gone", "source")
    d.thaw()
    assert g.statuses(3) == [200, 200, 429] or g.statuses(1) == [429]
    d.kill()
    g.wait_for_log("until it answers again", "error")
    assert g.ask()[0] == 200
    g.process.send_signal(3)  # SIGQUIT: a clean end
    assert g.process.wait(60) == 0
    assert "nginx" not in (g.folder / "valgrind.log").read_text()
