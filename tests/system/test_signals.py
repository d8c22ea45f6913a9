# SPDX-License-Identifier: Apache-2.0
"""Limits that follow signals: pushed values, outcomes, the machine, and a real Prometheus that
hangs, lies or vanishes. The time of the limiter stands still and is moved by the tests."""

import contextlib
import http.server
import os
import re
import shutil
import signal
import subprocess
import threading

import pytest

from daemon import Daemon, RespError, free_port, wait_for
from gateway import MODULE, proxied
from ration_command import run
from stillclock import StillClock

PUSHED = """
signals:
  backlog: { source: push, expires: 30s }
limits:
  - name: api
    key: user
    limit: 100 per hour
    adapt: { when: backlog above 1000, to: 50%, restore: { for: 5s, every: 2s } }
    elastic: { up_to: 120%, while: backlog below 10, for: 5s, every: 2s }
"""


class Stepped:
    """A daemon whose time passes a second at a time."""

    def __init__(self, folder, rules, options=()):
        self.clock = StillClock(folder / "clock")
        self.daemon = Daemon(folder, rules, options, env=self.clock.env())

    def factor(self, rule="api"):
        listed = self.daemon.admin("GET", "/v1/signals").json["factors"]
        return {each["rule"]: each["factor"] for each in listed}[rule]

    def signal(self, name):
        listed = self.daemon.admin("GET", "/v1/signals").json["signals"]
        return {each["name"]: each for each in listed}[name]

    def push(self, value, name="backlog"):
        answer = self.daemon.admin("PUT", f"/v1/signals/{name}", {"value": value})
        assert answer.status == 200, answer

    def pass_second(self):
        """Moves the clock, and waits until rationd has looked at the signals once."""
        self.clock.advance(1)
        wait_for(lambda: self.daemon.admin("GET", "/v1/signals").json["looked"] == 0, "a look at the signals")

    def until(self, factor, value=None, rule="api"):
        """Lets seconds pass until the factor is this; returns how many."""
        for seconds in range(300):
            if self.factor(rule) == factor:
                return seconds
            if value is not None:
                self.push(value)
            self.pass_second()
        raise AssertionError(f"the factor is {self.factor(rule)}, not {factor}")

    def limit(self, user="ann"):
        return self.daemon.http("POST", "/v1/check", {"attributes": {"user": user}}).json["limit"]


@pytest.fixture
def stepped(tmp_path):
    with contextlib.ExitStack() as stack:
        def make(rules=PUSHED, options=()):
            made = Stepped(tmp_path, rules, options)
            stack.enter_context(made.daemon)
            return made

        yield make


def test_a_pushed_value_lowers_and_calm_restores_in_steps(stepped):
    s = stepped()
    s.push(5000)
    s.until(0.5)
    assert s.limit() == 50
    line = s.daemon.logged(" event=factor.changed ")
    assert "rule=api from_percent=100 to_percent=50 signal=backlog value=5000" in line
    taken = sum(s.daemon.http("POST", "/v1/check", {"attributes": {"user": "bob"}}).status == 200
                for _ in range(60))
    assert taken == 50
    assert s.until(0.6, value=500) == 6
    assert s.until(1, value=500) == 8
    assert s.limit("cid") == 100
    assert s.until(1.2, value=5) == 8
    assert s.limit("dan") == 120
    s.push(5000)
    s.until(0.5)


def test_a_pushed_value_goes_stale(stepped):
    s = stepped()
    s.push(5)
    s.until(1.1, value=5)
    s.clock.advance(30)
    s.pass_second()
    assert s.factor() == 1
    s.daemon.logged(" event=signal.stale ")
    assert s.signal("backlog")["stale"] is True
    assert 'ration_signal_stale{signal="backlog",source="push"} 1' in s.daemon.admin("GET", "/metrics").text
    s.push(5000)
    s.until(0.5)
    s.clock.advance(31)
    s.until(1)  # restored in steps, although nothing is known


def test_the_command_line_shows_the_factor(stepped):
    s = stepped()
    admin = ["--admin", s.daemon.addresses["admin"]]
    assert [line.split() for line in run("state", *admin, "user=ann").out.splitlines()] == [
        ["rule", "limit", "factor", "left", "resets", "in"],
        ["api", "100", "per", "hour", "100%", "100", "of", "100", "now"]]
    s.push(5000)
    s.until(0.5)
    assert "  100 per hour  50%     50 of 50  " in run("state", *admin, "user=ann").out
    explained = run("explain", *admin, "user=ann").out
    assert "limit   100 per hour; 50 of 50 left, at a factor of 50%\n" in explained


def test_values_over_resp_and_what_is_wrong_with_them(stepped):
    s = stepped()
    with s.daemon.resp() as redis:
        assert redis("RATION.SIGNAL", "backlog", "5000") == 1
        s.until(0.5)
        for words, problem in [(("load", "1"), 'there is no signal "load"'),
                               (("backlog", "much"), 'the value must be a number, such as 0.7, found "much"'),
                               (("backlog", "1e13"), "the value must be a number from -1e12 to 1e12"),
                               (("backlog", "NaN"), "must be a number")]:
            with pytest.raises(RespError, match=re.escape(problem)):
                redis("RATION.SIGNAL", *words)
    for body, problem in [({}, '"value" is missing'), ({"value": "7"}, '"value" must be a number'),
                          ({"valeu": 7}, "valeu")]:
        answer = s.daemon.admin("PUT", "/v1/signals/backlog", body)
        assert answer.status == 400 and problem in answer.json["message"], answer
    assert s.daemon.admin("PUT", "/v1/signals/load", {"value": 1}).status == 400
    assert s.daemon.admin("PUT", "/v1/signals/", {"value": 1}).status == 404
    assert s.signal("backlog")["value"] == 5000


def test_a_reload_keeps_the_factor_and_bad_rules_keep_the_old_ones(stepped):
    s = stepped()
    s.push(5000)
    s.until(0.5)
    answer = s.daemon.admin("PUT", "/v1/rules", PUSHED.replace("100 per hour", "200 per hour"))
    assert answer.status == 200, answer
    assert s.factor() == 0.5 and s.limit() == 100
    bad = PUSHED.replace("backlog above", "backlgo above")
    answer = s.daemon.admin("PUT", "/v1/rules", bad)
    assert answer.status == 422 and "did you mean" in answer.text
    assert s.factor() == 0.5 and s.limit("bob") == 100


def test_a_restart_begins_at_the_factor_it_ended_with(tmp_path):
    options = ["--state", str(tmp_path / "state")]
    s = Stepped(tmp_path, PUSHED, options)
    with s.daemon:
        s.push(5000)
        s.until(0.5)
    s.daemon.start()
    with s.daemon:
        assert s.factor() == 0.5 and s.limit() == 50
        s.pass_second()
        assert s.factor() == 0.5


def test_told_outcomes_lower_a_limit(stepped):
    s = stepped("""
signals:
  slow: { source: latency, of: api, quantile: 90%, over: 10s }
  errors: { source: status, of: api, status: 5xx, over: 10s }
limits:
  - name: api
    key: user
    limit: 100 per hour
    adapt: [{ when: slow above 250ms, to: 50% }, { when: errors above 20%, to: 10% }]
""")
    for _ in range(20):
        answer = s.daemon.http("POST", "/v1/outcome", {"rule": "api", "status": 200, "duration": 0.5})
        assert answer.status == 200 and answer.json == {"noted": True}
    s.until(0.5)
    assert 0.4 < s.signal("slow")["value"] < 0.6
    with s.daemon.resp() as redis:
        for _ in range(20):
            assert redis("RATION.OUTCOME", "api", "503", "0.001") == 1
        s.until(0.1)
        with pytest.raises(RespError, match='there is no rule "none"'):
            redis("RATION.OUTCOME", "none", "200")
        with pytest.raises(RespError, match="status must be"):
            redis("RATION.OUTCOME", "api", "ok")
        for text in ["-1", "", "nan", "inf", "abc", "1e", "e5", "1.2.3", "-", "1e" + "!" * 30, "1e10"]:
            with pytest.raises(RespError, match="must be seconds"):
                redis("RATION.OUTCOME", "api", "200", text)
    assert s.daemon.http("POST", "/v1/outcome", {"rule": "none", "status": 200}).status == 404
    assert s.daemon.http("POST", "/v1/outcome", {"rule": "api"}).status == 400
    assert s.daemon.http("POST", "/v1/outcome", {"status": 200}).status == 400


def test_a_charge_tells_signals_how_long_it_took(stepped):
    s = stepped("""
signals: { slow: { source: latency, of: login, quantile: 50% } }
limits:
  - name: login
    key: user
    limit: 100 per hour
    charge_on: status 401
    adapt: { when: slow above 2s, to: 50% }
""")
    tickets = [s.daemon.http("POST", "/v1/check", {"attributes": {"user": "ann"}}).json["charge"]
               for _ in range(12)]
    s.clock.advance(3)
    for ticket in tickets:
        assert s.daemon.http("POST", "/v1/charge", {"charge": ticket, "status": 200}).status == 200
    s.until(0.5, rule="login")


def test_the_load_of_the_machine_is_known(tmp_path):
    rules = PUSHED.replace("source: push, expires: 30s", "source: cpu")
    rules = rules.replace("above 1000", "above 100%").replace("below 10", "below 0%")
    with Daemon(tmp_path, rules) as daemon:
        def known():
            listed = daemon.admin("GET", "/v1/signals").json["signals"][0]
            return listed["value"] is not None and 0 <= listed["value"] <= 1 and not listed["stale"]

        wait_for(known, "a share of the processors")


# --- Prometheus ------------------------------------------------------------------------------------

ASKED = """
signals:
  db: { source: prometheus, url: "http://127.0.0.1:%d", query: '%s', every: 1s, expires: 5s }
limits:
  - name: api
    key: user
    limit: 100 per hour
    adapt: { when: db above 0.5, to: 50%%, restore: { for: 2s, every: 1s } }
"""


def log_of(daemon, what):
    return [line for line in daemon.log if f" event={what} " in line]


@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs prometheus")
def test_a_prometheus_is_asked_and_may_freeze_and_die(tmp_path, stepped):
    port = free_port()
    config = tmp_path / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    command = ["prometheus", f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
               f"--storage.tsdb.path={tmp_path}/tsdb", "--log.level=error"]
    s = stepped(ASKED % (port, "vector(0.75)"))
    s.daemon.logged("no connection could be made")
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        s.until(0.5)
        assert s.signal("db")["value"] == 0.75
        os.kill(server.pid, signal.SIGSTOP)
        s.daemon.logged("there was no answer in time")
        s.clock.advance(6)
        wait_for(lambda: s.signal("db")["stale"], "a stale signal")
        s.daemon.logged(" event=signal.stale ")
        s.until(1)  # restored in steps
        os.kill(server.pid, signal.SIGCONT)
        s.until(0.5)
        server.kill()
        server.wait()
        before = len(log_of(s.daemon, "signal.query_failed"))
        wait_for(lambda: len(log_of(s.daemon, "signal.query_failed")) > before, "the loss in the log")
        failures = re.search(r'query_failures_total\{signal="db"\} (\d+)', s.daemon.admin("GET", "/metrics").text)
        assert int(failures[1]) >= 2
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGCONT)
        server.kill()
        server.wait()


class Liar:
    """An HTTP server that answers as told."""

    def __init__(self):
        liar = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                liar.asked.append(self.path)
                self.wfile.write(liar.answer)

            def log_message(self, *_):
                pass

        self.asked, self.answer = [], b""
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def success(result, kind="vector"):
    return (b'HTTP/1.0 200 OK\r\n\r\n{"status":"success","data":{"resultType":"%s","result":%s}}'
            % (kind.encode(), result.encode()))


def test_a_prometheus_that_lies_leaves_the_signal_stale(stepped):
    liar = Liar()
    try:
        s = stepped(ASKED % (liar.port, "sum(a)"))
        one = '{"metric":{},"value":[1,"%s"]}'
        for answer, problem in [
                (b"", "closed without an answer"), (b"hello\r\n\r\n", "not HTTP"),
                (success("[]"), "yields nothing"), (success(f"[{one % 1},{one % 2}]"), "yields 2 values"),
                (success(f"[{one % 'NaN'}]"), "which is not a number"), (success("[]", "matrix"), "matrix"),
                (success(f"[{one % '1e300'}]"), "beyond 1e12"),
                (b"HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "redirects are not followed"),
                (b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 100000, "longer than 64 KiB"),
                (b'HTTP/1.0 400 Bad\r\n\r\n{"status":"error","error":"parse error"}', "parse error")]:
            liar.answer = answer
            s.daemon.logged(problem)
        assert s.signal("db")["value"] is None and s.factor() == 1
        assert all(path == "/api/v1/query?query=sum%28a%29" for path in liar.asked)
        liar.answer = success(f"[{one % 0.6}]")
        s.until(0.5)
    finally:
        liar.close()


# --- nginx ---------------------------------------------------------------------------------------------

@pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"), reason="needs nginx and the module")
def test_nginx_lowers_a_limit_by_the_statuses_that_all_workers_see(gateway, upstream):
    g = gateway("""
signals: { errors: { source: status, of: api, status: 5xx, over: 10m } }
limits:
  - name: api
    key: ip
    limit: 1000 per 7 days
    adapt: { when: errors above 50%, to: 40%, restore: { for: 24h } }
""", server=proxied(upstream), workers=2)

    def limits():
        return {int(g.ask("/status/500")[1]["x-ratelimit-limit"]) for _ in range(8)}

    assert g.ask("/status/200")[1]["x-ratelimit-limit"] == "1000"
    wait_for(lambda: limits() == {400}, "the lowered limit in all workers")
    assert 'factor of "api" from 100% to 40%' in g.log("error")
