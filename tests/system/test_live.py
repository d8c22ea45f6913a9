# SPDX-License-Identifier: Apache-2.0
"""What rationd has decided: the stream of each second, the history, and rules by their activity."""

import concurrent.futures
import contextlib
import http.client
import json
import threading
import time

import pytest

from daemon import Daemon, free_port, wait_for
from live_stream import Stream, history, metric, names, sums

KINDS = ["allowed", "refused", "delayed", "shadowed"]
TOTALS = [*KINDS, "errors", "near", "unmatched"]
RULES = """
limits:
  - {name: api, when: {path: /api}, key: ip, limit: 5 per hour}
  - {name: web, when: {path: /web}, key: ip, limit: 3 per hour, mode: shadow}
  - {name: idle, when: {path: /idle}, key: ip, limit: 3 per hour}
"""
HOSTILE = """
domain: "shop,100%"
descriptors:
  - key: "<script>alert(1)</script>"
    value: "a,b%2C\\u202e\\U0001F4A5\\"'&"
    rate_limit: {unit: hour, requests_per_unit: 2}
"""


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        yield d


def ask(d, path, count=1, ip="192.0.2.1"):
    with contextlib.closing(d.connection()) as connection:
        for _ in range(count):
            connection.request("POST", "/v1/check", json.dumps({"attributes": {"ip": ip, "path": path}}))
            connection.getresponse().read()


def by_name(line):
    return {rule["name"]: rule for rule in line["rules"]}


# --- the stream --------------------------------------------------------------------------------------


def test_the_first_line_comes_at_once_and_then_one_each_second(daemon):
    with Stream(daemon, ["web", "api"]) as stream:
        assert stream.answer.headers["Content-Type"] == "application/x-ndjson"
        assert stream.answer.headers["Cache-Control"] == "no-store"
        lines = [stream.line() for _ in range(4)]
    times = [line["time"] for line in lines]
    assert times == list(range(times[0], times[0] + 4)) and abs(times[-1] - time.time()) < 60
    for line in lines:
        assert list(line) == ["time", "total", "waiting", "shadow", "rules_version", "live_keys", "capacity", "store", "rules"]
        assert list(line["total"]) == [*TOTALS, "p50", "p99"]
        assert (line["shadow"], line["rules_version"], line["store"], line["waiting"]) == (False, 1, None, 0)
        assert [list(rule) for rule in line["rules"]] == [["name", *KINDS]] * 2
        assert [rule["name"] for rule in line["rules"]] == ["web", "api"] # in the order that was asked for
        assert line["capacity"] > 1000


def test_its_lines_add_up_to_the_totals(daemon):
    """Under load from several connections, to the last decision."""
    with Stream(daemon, ["api", "web", "api", "unknown"]) as stream:
        lines = [stream.line()]
        threads = [threading.Thread(target=ask, args=(daemon, path, 400, f"192.0.2.{n}"))
                   for n, path in enumerate(("/api", "/web", "/other", "/api"))]
        for thread in threads:
            thread.start()
        lines += stream.until(lambda line: not any(t.is_alive() for t in threads))
        lines += stream.until(lambda line: not any(line["total"][kind] for kind in TOTALS))
    decisions = daemon.admin("GET", "/v1/status").json["decisions"]
    added = {kind: sum(line["total"][kind] for line in lines) for kind in TOTALS}
    assert added["allowed"] == decisions["allowed"] and added["refused"] == decisions["refused"] == 790
    assert added["unmatched"] == decisions["unmatched"] == 400 and added["allowed"] + added["refused"] == 1600
    assert added["shadowed"] == decisions["shadowed"] and added["near"] > 0 and added["errors"] == 0
    rules = {rule["name"]: rule for rule in daemon.admin("GET", "/v1/rules").json["rules"]}
    for name in ("api", "web"):
        assert {kind: sum(by_name(line)[name][kind] for line in lines) for kind in KINDS} == \
            {kind: rules[name][kind] for kind in KINDS}, name
    assert by_name(lines[0]).keys() == {"api", "web"}
    for line in lines:
        p50, p99 = line["total"]["p50"], line["total"]["p99"]
        decided = line["total"]["allowed"] + line["total"]["refused"]
        assert (p50 is None) == (p99 is None) and (p50 is None or 0 < p50 <= p99 <= 1)
        assert decided == 0 or p50 is not None or line is not lines[-1]


def test_the_history_of_an_hour_has_the_same(daemon):
    with Stream(daemon, ["api"]) as stream:
        ask(daemon, "/api", 30)
        lines = stream.until(lambda line: line["total"]["allowed"] + line["total"]["refused"])
        lines += [stream.line()]
    past = history(daemon, ["api"])
    assert past["step"] == 1 and [len(past["total"][kind]) for kind in past["total"]] == [3600] * 9
    assert set(past) == {"step", "end", "total", "rules"} and list(past["total"]) == [*TOTALS, "p50", "p99"]
    for line in lines[1:]:
        at = line["time"] - past["end"] - 1
        assert {kind: past["total"][kind][at] for kind in TOTALS} == {kind: line["total"][kind] for kind in TOTALS}
        assert past["total"]["p50"][at] == line["total"]["p50"]
    assert sums(past["rules"][0]) == {"allowed": 5, "refused": 25, "delayed": 0, "shadowed": 0}
    assert past["total"]["allowed"][0] is None # rationd did not run an hour ago
    assert history(daemon, ["idle", "unknown"])["rules"] == []
    last = daemon.admin("GET", "/v1/history?rules=api&steps=300").json
    assert len(last["total"]["p50"]) == len(last["rules"][0]["refused"]) == 300
    assert sums(last["rules"][0]) == sums(past["rules"][0])
    day = history(daemon, span="day")
    assert day["step"] == 60 and {len(numbers) for numbers in day["total"].values()} == {1440} and day["end"] % 60 == 0


def test_the_past_stays_when_rules_are_replaced(daemon):
    """Their places change, one is away for a while, and its counters begin again."""
    ask(daemon, "/api", 8)
    wait_for(lambda: sums(history(daemon)["total"])["refused"] == 3)
    turned = "limits:\n" + "".join(reversed(RULES.splitlines(keepends=True)[2:]))
    with Stream(daemon, ["idle", "api"]) as stream:
        assert daemon.admin("PUT", "/v1/rules", turned).status == 200
        ask(daemon, "/api", 2)
        lines = stream.until(lambda line: line["rules_version"] == 2 and line["total"]["refused"])
        assert sum(by_name(line)["api"]["refused"] for line in lines) in (2, 5) # 5: with what was before the first line
        assert daemon.admin("PUT", "/v1/rules", "limits: [{name: idle, key: ip, limit: 1 per hour}]").status == 200
        lines = stream.until(lambda line: line["rules_version"] == 3 and len(line["rules"]) == 1)
        assert by_name(lines[-1]).keys() == {"idle"}
        gone = lines[-1]["time"]
        assert daemon.admin("DELETE", "/v1/rules").status in (200, 204)
        ask(daemon, "/api", 1)
        stream.until(lambda line: "api" in by_name(line) and by_name(line)["api"]["refused"] == 1)
    past = history(daemon, ["api"])
    assert sums(past["rules"][0])["refused"] == 6 and sums(past["rules"][0])["allowed"] == 5
    assert past["rules"][0]["refused"][gone - past["end"] - 1] is None
    assert [rule["name"] for rule in history(daemon)["rules"]] == ["api"] # no second place for it


def test_seconds_in_which_it_slept_have_no_data(daemon):
    """And are no tall bar afterwards; decisions that waited meanwhile are counted when they were made."""
    with Stream(daemon, []) as stream:
        stream.line()
        before = stream.line()["time"]
        daemon.freeze()
        time.sleep(6) # the length of the gap
        daemon.thaw()
        after = stream.until(lambda line: line["time"] > before + 3)[-1]["time"]
        ask(daemon, "/api", 4)
        stream.until(lambda line: line["total"]["allowed"] == 4)
    past = history(daemon)
    allowed = past["total"]["allowed"]
    def at(second):
        return allowed[second - past["end"] - 1]
    missing = [second for second in range(before, past["end"] + 1) if at(second) is None]
    assert len(missing) >= 5 and missing == list(range(missing[0], missing[-1] + 1))
    assert before < missing[0] <= before + 2 and missing[-1] < after
    assert sums(past["total"])["allowed"] == 4
    with Stream(daemon, []) as again: # the next reader has the past at once
        assert again.line()["time"] >= after


def test_a_restart_is_no_step(tmp_path):
    """State goes on, counters begin again, and so does the history."""
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as d:
        ask(d, "/api", 9)
        wait_for(lambda: sums(history(d)["total"])["refused"] == 4)
        d.stop()
        d.start()
        with Stream(d, ["api"]) as stream:
            for line in (stream.line(), stream.line(), stream.line()):
                assert not any(line["total"][kind] for kind in TOTALS)
        assert sums(history(d)["total"]) == dict.fromkeys(TOTALS, 0)
        ask(d, "/api")
        wait_for(lambda: sums(history(d)["total"])["refused"] == 1)


def test_there_are_at_most_128_streams(daemon):
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(Stream(daemon, ["api"])) for _ in range(128)]
        assert all(stream.status == 200 for stream in streams)
        for _ in range(2):
            with Stream(daemon) as refused:
                assert refused.status == 503 and json.loads(refused.answer.read())["error"] == "busy"
        assert metric(daemon, "ration_live_streams") == 128
        ask(daemon, "/api", 3)
        for stream in streams:
            assert stream.until(lambda line: line["total"]["allowed"])[-1]["total"]["allowed"] <= 3
        streams.pop().close()
        wait_for(lambda: metric(daemon, "ration_live_streams") == 127)
        with Stream(daemon) as more:
            assert more.status == 200 and more.line()["rules"] == []
    wait_for(lambda: metric(daemon, "ration_live_streams") == 0)


def test_a_drain_ends_streams_cleanly(tmp_path):
    with Daemon(tmp_path, RULES) as d, contextlib.ExitStack() as stack:
        streams = [stack.enter_context(Stream(d, ["api"])) for _ in range(20)]
        for stream in streams:
            stream.line()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            stopped = pool.submit(d.stop)
            for stream in streams:
                stream.until(lambda line: line is None) # http.client complains of a missing last chunk
            stopped.result()


def test_a_stream_ends_when_its_token_does(tmp_path):
    anna, ben = tmp_path / "anna", tmp_path / "ben"
    anna.write_text("anna-1")
    ben.write_text("ben-1")
    server = f"server: {{trust_local: false, tokens: {{anna: {{token_file: {anna}, scope: read}}, ben: {{token_file: {ben}, scope: read}}, m: {{token: m, scope: metrics}}}}}}\n"
    with Daemon(tmp_path, RULES + server) as d:
        def bearer(token):
            return {"Authorization": f"Bearer {token}"}

        for path in ("/v1/live", "/v1/history", "/v1/activity"):
            assert d.admin("GET", path).status == 401 and d.admin("GET", path, headers=bearer("m")).status == 403
        with Stream(d, headers=bearer("anna-1")) as of_anna, Stream(d, headers=bearer("ben-1")) as of_ben:
            of_anna.line(), of_ben.line()
            anna.write_text("anna-2")
            d.reload()
            of_anna.until(lambda line: line is None)
            assert of_ben.until(lambda line: line is None or line["rules_version"] == 2)[-1] is not None
            assert of_ben.line()
        with Stream(d, headers=bearer("anna-1")) as old, Stream(d, headers=bearer("anna-2")) as new:
            assert (old.status, new.status) == (401, 200)


def test_a_local_reader_that_gives_a_token_loses_the_stream_with_it(tmp_path):
    token = tmp_path / "token"
    token.write_text("one")
    with Daemon(tmp_path, RULES + f"server: {{tokens: {{anna: {{token_file: {token}, scope: read}}}}}}\n") as d, \
            Stream(d, headers={"Authorization": "Bearer one"}) as given, Stream(d) as without:
        given.line()
        token.write_text("two")
        d.reload()
        given.until(lambda line: line is None)
        assert without.until(lambda line: line is None or line["rules_version"] == 2)[-1]


def test_head_and_http_1_0(daemon):
    head = daemon.admin("HEAD", "/v1/live?rules=api")
    assert (head.status, head.body, head.headers["Content-Type"]) == (200, b"", "application/x-ndjson")
    with daemon.socket("admin") as s, s.makefile("rb") as lines:
        s.sendall(b"GET /v1/live?rules=api HTTP/1.0\r\n\r\n")
        top = b""
        while not top.endswith(b"\r\n\r\n"):
            top += lines.readline()
        assert top.startswith(b"HTTP/1.1 200 ") and b"Transfer-Encoding" not in top and b"Connection: close\r\n" in top
        times = [json.loads(lines.readline())["time"] for _ in range(3)]
        assert times == list(range(times[0], times[0] + 3))
    wait_for(lambda: metric(daemon, "ration_live_streams") == 0)


def test_what_follows_a_stream_is_not_answered(daemon):
    """A request that is sent behind it neither mixes with its lines nor ends it."""
    with daemon.socket("admin") as s:
        s.sendall(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        answer = http.client.HTTPResponse(s)
        answer.begin()
        assert all(json.loads(answer.readline())["rules"] == [] for _ in range(3))
        s.sendall(b"PUT /v1/shadow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n{\"shadow\":true}")
        assert all(json.loads(answer.readline())["shadow"] is False for _ in range(3))
        answer.close()
    wait_for(lambda: metric(daemon, "ration_live_streams") == 0)


def test_beside_a_store_that_is_down(tmp_path):
    """A stream begins on a fiber there."""
    with Daemon(tmp_path, RULES, ["--redis", f"redis://127.0.0.1:{free_port()}"]) as d, Stream(d, ["api"]) as stream:
        lines = [stream.line(), stream.line()]
        assert lines[0]["store"] == "down" and by_name(lines[1]).keys() == {"api"}
        ask(d, "/api", 2)
        stream.until(lambda line: line["total"]["allowed"] + line["total"]["errors"])
        with concurrent.futures.ThreadPoolExecutor() as pool:
            stopped = pool.submit(d.stop)
            stream.until(lambda line: line is None)
            stopped.result()


# --- what is asked badly -----------------------------------------------------------------------------


LONG = "x" * 5000
BAD = {
    "/v1/live?rules=a&rules=b": "rules was given twice",
    "/v1/live?rule=a": 'unknown parameter "rule"; there are rules or lines',
    "/v1/live?rules=" + ",".join(f"n{n}" for n in range(201)): "rules has more than 200 names",
    "/v1/live?rules=%2": "two hexadecimal digits",
    "/v1/live?rules=100%25": "%2C is a comma",
    "/v1/live?rules=a%25zz": "%2C is a comma",
    "/v1/live?" + "&".join(["a=1"] * 500): "unknown parameter",
    "/v1/live?lines=0": "lines must be a number from 1 to 4294967295",
    "/v1/live?lines=1&lines=1": "lines was given twice",
    "/v1/history?span=week": 'span must be hour or day, found "week"',
    "/v1/history?span=": "span must be hour or day",
    "/v1/history?span": "span must be hour or day",
    "/v1/history?span=hour&span=hour": "span was given twice",
    "/v1/history?rules=" + ",".join(f"n{n}" for n in range(51)): "rules has more than 50 names",
    "/v1/history?steps=0": "steps must be a number from 1 to 3600",
    "/v1/history?steps=3601": "steps must be a number from 1 to 3600",
    "/v1/history?%00=1": "unknown parameter",
    "/v1/activity?sort=size": "sort must be refused, allowed, delayed, shadowed, share, near or name",
    "/v1/activity?order=up": "order must be desc or asc",
    "/v1/activity?mode=off": "mode must be shadow or enforce",
    "/v1/activity?count=0": "count must be a number from 1 to 200, found",
    "/v1/activity?count=201": "count must be a number from 1 to 200",
    "/v1/activity?count=1e2": "count must be a number",
    "/v1/activity?count=-1": "count must be a number",
    "/v1/activity?count=" + "9" * 300: "count must be a number",
    "/v1/activity?offset=-1": "offset must be a number from 0 to",
    "/v1/activity?offset=99999999999999999999": "offset must be a number",
    "/v1/activity?offset=NaN": "offset must be a number",
    "/v1/activity?search=a&search=b": "search was given twice",
    "/v1/activity?count=" + LONG: "count must be a number",
    "/v1/activity?" + LONG + "=1": "unknown parameter",
    "/metrics?rules=all": 'rules must be none, found "all"',
    "/metrics?rules=": "rules must be none",
    "/metrics?rule=none": 'unknown parameter "rule"',
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("live"), RULES) as d:
        yield d


@pytest.mark.parametrize("path", BAD, ids=lambda path: path[:40])
def test_a_bad_question_is_answered_with_what_would_be_right(shared, path):
    answer = shared.admin("GET", path)
    assert answer.status == 400 and answer.json["error"] == "bad_request"
    assert BAD[path] in answer.json["message"]
    assert shared.admin("HEAD", path).status == 400


def test_odd_questions_are_answered(shared):
    for path in ("/v1/history?rules=", "/v1/history?rules=,,,", "/v1/history?rules=%252C", "/v1/history?", "/v1/activity?search=%00",
                 "/v1/activity?search=" + LONG, "/v1/activity?offset=4294967295&count=200", "/v1/activity?search=%ff%fe", "/v1/activity?search"):
        answer = shared.admin("GET", path)
        assert answer.status == 200 and answer.json["rules"] == [] or path.endswith(("?", "?search")), (path, answer)
    with Stream(shared, [f"n{n}" for n in range(200)]) as stream:
        assert stream.line()["rules"] == []
    assert [len(shared.admin("GET", f"/v1/live?lines={n}").text.splitlines()) for n in (1, 2, 3)] == [1, 2, 3]
    for method in ("POST", "PUT", "DELETE"):
        assert shared.admin(method, "/v1/live").status == 405


# --- activity ----------------------------------------------------------------------------------------


def test_hostile_names_are_data(tmp_path):
    """A name has commas, percent signs, markup, right-to-left marks: it comes back as it is, everywhere."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "shop.yaml").write_text(HOSTILE)
    (folder / "own.yaml").write_text(RULES)
    with Daemon(tmp_path, None, ["--config", folder]) as d:
        rules = d.admin("GET", "/v1/activity?search=SCRIPT").json
        assert rules["matched"] == 1
        name = rules["rules"][0]["name"]
        assert "<script>" in name and "," in name and "%" in name
        for _ in range(3):
            d.http("POST", "/json", {"domain": "shop,100%", "descriptors": [{"entries": [
                {"key": "<script>alert(1)</script>", "value": "a,b%2C\u202e\U0001F4A5\"'&"}]}]})
        with Stream(d, ["api", name, "idle"]) as stream:
            line = stream.until(lambda line: history(d, [name])["rules"])[-1]
            assert [rule["name"] for rule in line["rules"]] == ["api", name, "idle"]
        past = history(d, ["web", name])["rules"]
        assert [(rule["name"], sums(rule)["allowed"], sums(rule)["refused"]) for rule in past] == [(name, 2, 1)]
        first = d.admin("GET", "/v1/activity").json["rules"][0]
        assert first["name"] == name and first["kept"] is True and first["share"] == pytest.approx(1 / 3, abs=1e-3)


MANY = 10000


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    rules = "limits:\n" + "".join(
        f"  - {{name: r{n:05}, when: {{path: /p{n}}}, key: {'user' if n % 2 else 'ip'}, "
        f"limit: {n % 7 + 1} per hour, mode: {'shadow' if n % 100 == 0 else 'enforce'}}}\n"
        for n in range(MANY))
    with Daemon(tmp_path_factory.mktemp("many"), rules) as d:
        for n in range(0, 1000, 2):
            ask(d, f"/p{n}", 1 + n % 21)
        ask(d, "/p998", 500)
        asked = 500 + sum(1 + n % 21 for n in range(0, 1000, 2))
        wait_for(lambda: sum(sums(history(d)["total"])[kind] for kind in ("allowed", "refused")) == asked)
        yield d


def activity(d, query=""):
    return d.admin("GET", f"/v1/activity?{query}").json


def test_ten_thousand_rules_are_sorted(many):
    """By numbers, the same rules one page after the other, and none twice."""
    for sort in ("refused", "allowed", "shadowed", "near", "share"):
        first = activity(many, f"sort={sort}&count=200")
        assert first["matched"] == MANY and len(first["rules"]) == 200
        values = [-1 if rule[sort] is None else rule[sort] for rule in first["rules"]]
        assert values == sorted(values, reverse=True) and values[0] > 0, sort
        rising = activity(many, f"sort={sort}&count=200&order=asc")["rules"]
        values = [-1 if rule[sort] is None else rule[sort] for rule in rising]
        assert values == sorted(values) and values[0] <= 0, sort
    pages = [rule["name"] for offset in range(0, MANY, 200) for rule in activity(many, f"sort=name&count=200&offset={offset}")["rules"]]
    assert pages == [f"r{n:05}" for n in range(MANY)]
    assert [rule["name"] for rule in activity(many, "sort=name&order=desc&count=2")["rules"]] == ["r09999", "r09998"]
    assert activity(many, f"offset={MANY}")["rules"] == []
    busy = activity(many, "sort=refused&count=1")["rules"][0]
    assert set(busy) == {"name", "limits", "algorithm", "key", "mode", "file", "line", *KINDS, "near", "share", "kept"}
    assert (busy["name"], busy["kept"], busy["limits"], busy["mode"], busy["key"]) == ("r00998", True, ["5 per hour"], "enforce", "ip")
    assert busy["share"] == pytest.approx(busy["refused"] / (busy["refused"] + busy["allowed"]), abs=0.01)


def test_ten_thousand_rules_are_searched(many):
    assert [rule["name"] for rule in activity(many, "search=R0123&sort=name")["rules"]] == [f"r0123{n}" for n in range(10)]
    assert activity(many, "search=user")["matched"] == MANY // 2
    assert activity(many, "search=7%20PER%20hour")["matched"] == len(range(6, MANY, 7))
    assert activity(many, "search=rules.YAML")["matched"] == MANY
    assert activity(many, "mode=shadow")["matched"] == MANY // 100
    shadow = activity(many, "mode=shadow&search=user")
    assert shadow == {"matched": 0, "rules": []}
    assert activity(many, "mode=enforce&search=r00")["matched"] == 990
    assert activity(many, "search=no%20such%20thing")["matched"] == 0


def test_the_busiest_hundred_have_a_history(many):
    wait_for(lambda: len(history(many)["rules"]) == 20)  # at most 16 more each second
    past = history(many)["rules"]
    assert all(len(rule["allowed"]) == 3600 for rule in past)
    kept = [rule["name"] for offset in range(0, 1000, 200) for rule in activity(many, f"sort=allowed&count=200&offset={offset}")["rules"] if rule["kept"]]
    assert 0 < len(kept) <= 100
    assert [rule["name"] for rule in history(many, kept[:50])["rules"]] == kept[:50]


def test_metrics_without_rules_are_short(many):
    page = many.admin("GET", "/metrics?rules=none").text
    assert len(page) < 50_000 and 'rule="' not in page and f"\nration_rules {MANY}\n" in page
    assert metric(many, "ration_history_bytes") <= 16 * 2**20
    assert "ration_rule_decisions_total{" in many.admin("GET", "/metrics").text
