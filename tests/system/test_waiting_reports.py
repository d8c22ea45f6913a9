# SPDX-License-Identifier: Apache-2.0
"""What rationd tells of requests that wait in line: metrics, status, explain, state, `ration top`; and --waiting.

The clock stands still, so nobody's turn comes before it is moved.
"""

import concurrent.futures
import contextlib
import re

import pytest

from concurrent_clients import check, post, read_http
from daemon import Daemon, wait_for
from ration_command import run
from stillclock import StillClock

RULES = """
limits:
  - name: api
    when: { path: /api }
    key: user
    limit: 1 per 10 seconds
    queue: { size: 5, max_wait: 60s }
  - name: reports
    when: { path: /reports }
    key: user
    limit: 1 concurrent
    lease: 1h
    priority: { by: importance, levels: { high: 0%, low: 0% }, default: low }
    queue: { size: 5, max_wait: 3s, by: arrival }
  - name: ranked
    when: { path: /ranked }
    key: user
    limit: [10 per 10 seconds, 100 per hour]
    algorithm: token-bucket
    priority: { by: importance, levels: { high: 0%, low: 50% }, default: low }
    queue: { size: 5, max_wait: 30s }
  - name: plain
    when: { path: /plain }
    key: user
    limit: 1 per 10 seconds
"""
ADA = {"path": "/api", "user": "ada"}


@pytest.fixture
def clock(tmp_path):
    return StillClock(tmp_path / "clock")


@contextlib.contextmanager
def daemon_with(tmp_path, clock, *options):
    with Daemon(tmp_path, RULES, ["--workers", "1", *options], env=clock.env()) as d:
        yield d


@pytest.fixture
def daemon(tmp_path, clock):
    with daemon_with(tmp_path, clock) as d:
        yield d


def metrics(d):
    """Every sample, by its name with labels as on the page."""
    lines = d.admin("GET", "/metrics").text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def until_waiting(d, count):
    return wait_for(lambda: metrics(d)["ration_waiting"] == count, f"{count} in line")


class Waiter:
    """A connection whose request waits."""

    def __init__(self, d, request, waiting):
        self.socket = d.socket()
        self.file = self.socket.makefile("rb")
        self.socket.sendall(request)
        until_waiting(d, waiting)

    def status(self):
        return read_http(self.file)[0]

    def leave(self):
        self.file.close()
        self.socket.close()


def spend(d, **attributes):
    assert d.http("POST", "/v1/check", {"attributes": attributes}).status == 200


def line_of(d, rule, **attributes):
    """The line of a rule's first limit, as /v1/explain and /v1/state tell it."""
    answer = d.admin("POST", "/v1/explain", {"attributes": attributes}).json
    explained = next(r for r in answer["rules"] if r["rule"] == rule)["limits"][0].get("line")
    query = "&".join(f"{name}={value}" for name, value in attributes.items())
    state = next(l for l in d.admin("GET", f"/v1/state?{query}").json["limits"] if l["rule"] == rule)
    assert state.get("line") == explained
    return explained


def test_a_line_is_told_where_it_is(daemon, clock):
    spend(daemon, **ADA)
    assert line_of(daemon, "api", **ADA) is None
    first, second = (Waiter(daemon, check(**ADA), n) for n in (1, 2))
    assert line_of(daemon, "api", **ADA) == {"waiting": 2, "ahead": 2, "opens_after": 10, "wait_at_least": 30}
    assert line_of(daemon, "api", path="/api", user="bob") is None
    rules = daemon.admin("POST", "/v1/explain", {"attributes": ADA}).json["rules"]
    assert rules[0]["queue"] == {"size": 5, "max_wait": 60, "by": "priority"}
    status = daemon.admin("GET", "/v1/status").json
    assert status["waiting"] == {"requests": 2, "lines": 1, "most": 10000}
    assert status["decisions"]["refused"] == 0 # what waits is not counted

    asked = ["--admin", daemon.addresses["admin"], "path=/api", "user=ada"]
    told = "2 wait, 2 of them ahead of this request; its turn comes in 30.0 s at the earliest\n"
    explained = run("explain", *asked)
    assert "    queue   5 may wait in line, up to 1 min, by priority\n" in explained.out, explained
    assert f"    line    {told}" in explained.out, explained
    assert ", or wait in line until then\n" in explained.out, explained
    assert f"api line    {told}" in run("state", *asked).out
    top = run("top", "--once", "--admin", daemon.addresses["admin"])
    assert "; 2 wait in 1 line\n" in top.out, top
    assert run("top", "--once", "--json", "--admin", daemon.addresses["admin"]).json["waiting"] == 2

    clock.advance(10)
    assert first.status() == 200
    until_waiting(daemon, 1)
    second.leave()
    until_waiting(daemon, 0)
    assert line_of(daemon, "api", **ADA) is None
    assert "wait in" not in run("top", "--once", "--admin", daemon.addresses["admin"]).out


def test_those_ahead_are_told_by_priority_and_limit(daemon, clock):
    ranked = {"path": "/ranked", "user": "ada"}
    for _ in range(10):
        spend(daemon, **ranked, importance="high")
    waiter = Waiter(daemon, check(**ranked), 1)
    low, high = (line_of(daemon, "ranked", **ranked, importance=i) for i in ("low", "high"))
    assert (low["waiting"], low["ahead"], high["waiting"], high["ahead"]) == (1, 1, 1, 0)
    state = daemon.admin("GET", "/v1/state?path=/ranked&user=ada").json["limits"]
    assert ["line" in limit for limit in state] == [True, False]
    clock.advance(10)
    assert waiter.status() == 200


def test_the_command_line_tells_how_long_a_request_waited(daemon, clock):
    spend(daemon, **ADA)
    asked = ["check", "--timeout", "60s", "--http", daemon.addresses["http"], "path=/api", "user=ada"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(run, *asked)
        until_waiting(daemon, 1)
        clock.advance(10)
        assert answer.result().out.startswith("allowed, after 10.0 s in line\n"), answer.result()


def test_what_became_of_those_that_waited_is_counted(daemon, clock):
    spend(daemon, **ADA)
    first, second = (Waiter(daemon, check(**ADA), n) for n in (1, 2))
    second.leave()
    until_waiting(daemon, 1)
    late = daemon.http("POST", "/v1/check", {"attributes": ADA, "wait": 5})
    assert late.status == 429
    clock.advance(10)
    assert first.status() == 200
    m = metrics(daemon)
    assert {r: m[f'ration_waited_total{{result="{r}"}}'] for r in ("admitted", "left", "timed_out")} == \
        {"admitted": 1, "left": 1, "timed_out": 0}
    assert m['ration_wait_refused_total{reason="late"}'] == 1
    assert m['ration_wait_refused_total{reason="full"}'] == 0
    assert m["ration_wait_seconds_count"] == 1 and m["ration_wait_seconds_sum"] == 10
    assert m['ration_wait_seconds_bucket{le="5"}'] == 0 and m['ration_wait_seconds_bucket{le="10"}'] == 1
    assert m["ration_waiting_lines"] == 0
    assert m['ration_decisions_total{decision="allowed"}'] == 2
    assert m['ration_decisions_total{decision="refused"}'] == 1
    assert m['ration_rule_waited_total{rule="api"}'] == 1
    assert m['ration_rule_wait_timeouts_total{rule="api"}'] == 0


def test_those_whose_time_is_over_are_counted(daemon, clock):
    reports = {"path": "/reports", "user": "ada"}
    assert daemon.http("POST", "/v1/acquire", {"attributes": reports}).status == 200
    acquire = post("/v1/acquire", {"attributes": reports})
    waiter = Waiter(daemon, acquire, 1)
    line = line_of(daemon, "reports", **reports, importance="high")
    assert (line["waiting"], line["ahead"]) == (1, 1) # by arrival, whatever the priority
    clock.advance(3)
    assert waiter.status() == 429
    m = metrics(daemon)
    assert m['ration_waited_total{result="timed_out"}'] == m['ration_rule_wait_timeouts_total{rule="reports"}'] == 1
    assert m['ration_decisions_total{decision="refused"}'] == 1


def test_the_daemon_has_a_bound_for_all_lines(tmp_path, clock):
    with daemon_with(tmp_path, clock, "--waiting", "2") as d:
        for user in "ada", "bob", "eve":
            spend(d, path="/api", user=user)
        waiters = [Waiter(d, check(path="/api", user=user), n) for n, user in enumerate(("ada", "bob"), 1)]
        assert d.http("POST", "/v1/check", {"attributes": {"path": "/api", "user": "eve"}}).status == 429
        m = metrics(d)
        assert m["ration_waiting_capacity"] == m["ration_waiting"] == m["ration_waiting_lines"] == 2
        assert m['ration_wait_refused_total{reason="full"}'] == 1
        clock.advance(10)
        assert [w.status() for w in waiters] == [200, 200]


def test_a_higher_priority_has_room_in_its_own_line_where_no_more_may_wait(tmp_path, clock):
    def ranked(user, level):
        return {"path": "/ranked", "user": user, "importance": level}

    with daemon_with(tmp_path, clock, "--waiting", "2") as d:
        for user in "ada", "bob":
            assert d.http("POST", "/v1/check", {"attributes": ranked(user, "high"), "cost": 10}).status == 200
        first, last = (Waiter(d, check(**ranked("ada", "low")), n) for n in (1, 2))
        assert d.http("POST", "/v1/check", {"attributes": ranked("bob", "high")}).status == 429, "a line of its own"
        assert d.http("POST", "/v1/check", {"attributes": ranked("ada", "low")}).status == 429, "no higher priority"
        high = Waiter(d, check(**ranked("ada", "high")), 2)
        assert last.status() == 429
        until_waiting(d, 2)
        clock.advance(20)
        assert [high.status(), first.status()] == [200, 200]


def test_nobody_waits_if_the_daemon_says_so(tmp_path, clock):
    with daemon_with(tmp_path, clock, "--waiting", "0") as d:
        spend(d, **ADA)
        assert d.http("POST", "/v1/check", {"attributes": ADA}).status == 429
        assert d.http("POST", "/v1/check", {"attributes": ADA, "wait": 50}).status == 429
        spend(d, path="/plain", user="ada")
        assert d.http("POST", "/v1/check", {"attributes": {"path": "/plain", "user": "ada"}, "wait": 50}).status == 429
        assert metrics(d)["ration_waiting"] == 0


def test_the_setting_may_stand_in_the_file(tmp_path):
    with Daemon(tmp_path, "server: {waiting: 7}\n" + RULES) as d:
        assert d.admin("GET", "/v1/status").json["waiting"] == {"requests": 0, "lines": 0, "most": 7}


def test_files_tell_the_queue_of_a_rule(tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES)
    explained = run("explain", tmp_path / "rules.yaml", "path=/reports", "user=ada")
    assert re.search(r"\n    queue   5 may wait in line, up to 3.0 s, by arrival\n", explained.out), explained
    assert "    line " not in explained.out
