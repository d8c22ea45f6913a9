# SPDX-License-Identifier: Apache-2.0
"""Usage of clients as an operator sees it: the admin port, `ration usage`, corrections, invoices.

tests/system/test_usage_export.py exports many clients.
"""

import contextlib
import csv
import datetime
import http.server
import io
import json
import os
import re
import shutil
import subprocess
import threading
import urllib.parse

import pytest

from admin_port import log_line, refused
from daemon import BUILD, PATIENCE, ROOT, Daemon
from ration_command import RATION, run
from stillclock import StillClock

OCTOBER, NOVEMBER = datetime.datetime(2026, 10, 18, 12), datetime.datetime(2026, 11, 18, 12)
RULES = """
server:
  tokens:
    reader: {token: reader-token-1, scope: read}
    boss: {token: boss-token-22, scope: admin}
limits:
  - {name: api, when: {path: /api}, key: user, limit: 1000 per minute, usage: true}
  - {name: daily, when: {path: /daily}, key: user, limit: 1000 per minute, usage: {per: day, zone: Europe/Rome}}
  - {name: weekly, when: {path: /weekly}, key: user, limit: 1000 per minute, usage: {per: week}}
  - {name: yearly, when: {path: /yearly}, key: user, limit: 1000 per minute, usage: {per: year}}
  - {name: total, when: {path: /total}, limit: 1000 per minute, usage: true}
  - {name: address, when: {path: /address}, key: ip, limit: 1000 per minute, usage: true}
  - {name: plain, when: {path: /plain}, key: user, limit: 1000 per minute}
"""
HOSTILE = [b"a,b", b'say "hi"', b"line\nbreak", b"\r\n", b'"', b",", b"\x01\x1b[31m\x7f", b"\xff\xfe", b"caf\xe9",
           "\u05e9\u05dc\u05d5\u05dd".encode(), "\u202egnp.exe".encode(), b"=1+2", b"@SUM(A1)", b" spaces ",
           b"<b>&amp;</b>", b"other", b"(all)", b"null", b"nul\0byte", "\U0001f600".encode(), b"\\", b"%41+%zz"]


class Served:
    """A daemon with usage of two months, and `ration` for it."""

    def __init__(self, folder):
        self.clock = StillClock(folder / "clock", OCTOBER)
        self.state = folder / "state"
        self.daemon = Daemon(folder, RULES, ["--state", self.state],
                             env=self.clock.env())
        self.admin = self.daemon.admin

    def ration(self, *args):
        return run("usage", *args, env={"RATION_ADMIN": self.daemon.addresses["admin"]})

    def from_file(self, *args):
        return run("usage", "--state", self.state, *args, env=self.clock.env())

    def rows(self, **parameters):
        """All rows of all pages."""
        return [row for page in self.pages(**parameters) for row in page.json["usage"]]

    def pages(self, **parameters):
        path = "/v1/usage?" + urllib.parse.urlencode(parameters)
        while path:
            answer = self.admin("GET", path)
            assert answer.status == 200, answer
            yield answer
            link = answer.headers.get("Link")
            path = re.fullmatch(r'<(.*)>; rel="next"', link)[1] if link else None


def use(daemon, path, **users):
    with daemon.resp() as resp:
        for user, units in users.items():
            assert resp("RATION.CHECK", "path", path, "user", user, "COST", units)[:2] == [b"allowed", 1], user


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    s = Served(tmp_path_factory.mktemp("usage"))
    with s.daemon:
        use(s.daemon, "/api", ada=10, bob=20)
        use(s.daemon, "/daily", ada=1)
        s.clock.advance((NOVEMBER - OCTOBER).total_seconds())
        use(s.daemon, "/api", ada=3, eve=4)
        use(s.daemon, "/daily", ada=5)
        use(s.daemon, "/weekly", ada=6)
        use(s.daemon, "/yearly", ada=7)
        use(s.daemon, "/total", ada=8, bob=1)
        use(s.daemon, "/plain", ada=9)
        yield s


def brief(rows):
    return sorted((r["rule"], r["client"], r["period"], r["admitted"]) for r in rows)


# --- filters --------------------------------------------------------------------------


ALL = [("api", "ada", "2026-10", 10), ("api", "ada", "2026-11", 3), ("api", "bob", "2026-10", 20),
       ("api", "eve", "2026-11", 4), ("daily", "ada", "2026-11-18", 5), ("total", "", "2026-11", 9),
       ("weekly", "ada", "2026-W47", 6), ("yearly", "ada", "2026", 7), ("daily", "ada", "2026-10-18", 1)]


def kept(*wanted):
    """Rows of ALL; a day of October is not kept any more in November."""
    return sorted(row for row in ALL if row in wanted and row[2] != "2026-10-18")


@pytest.mark.parametrize("filters, wanted", [
    ({}, kept(*ALL)),
    ({"rule": "api"}, kept(*(r for r in ALL if r[0] == "api"))),
    ({"client": "ada"}, kept(*(r for r in ALL if r[1] == "ada"))),
    ({"client": "ada", "rule": "api"}, kept(*(r for r in ALL if r[:2] == ("api", "ada")))),
    ({"client": ""}, kept(("total", "", "2026-11", 9))),
    ({"client": "nobody"}, []),
    ({"period": "current"}, kept(*(r for r in ALL if not r[2].startswith("2026-10")))),
    ({"period": "last"}, kept(*(r for r in ALL if r[2] == "2026-10"))),
    ({"period": "2026-10"}, kept(*(r for r in ALL if r[2] == "2026-10"))),
    ({"period": "2026-11-18"}, kept(("daily", "ada", "2026-11-18", 5))),
    ({"period": "2026-W47"}, kept(("weekly", "ada", "2026-W47", 6))),
    ({"period": "2026"}, kept(("yearly", "ada", "2026", 7))),
    ({"rule": "api", "period": "2025-01"}, []),
], ids=str)
def test_filters_pick_out_rows_from_daemon_and_file(served, filters, wanted):
    assert brief(served.rows(**filters)) == wanted
    options = [word for name, value in filters.items() for word in (f"--{name}", value)]
    for source in (served.ration, served.from_file):
        answer = source("--json", *options)
        assert (answer.status, answer.err) == (0, "")
        assert brief(answer.json["usage"]) == wanted
        table = source(*options).out.splitlines()
        assert len(table) == (len(wanted) + 1 if wanted else 1)


def test_a_row_tells_all_of_a_period(served):
    [row] = served.rows(rule="daily", period="current")
    assert row == {"rule": "daily", "client": "ada", "other": False, "period": "2026-11-18",
                   "start": "2026-11-17T23:00:00Z", "end": "2026-11-18T23:00:00Z", "zone": "Europe/Rome",
                   "admitted": 5, "refused": 0, "corrected": 0, "units": 5}


def test_refusals_are_counted_beside(served):
    assert served.daemon.http("POST", "/v1/check", {"attributes": {"path": "/api", "user": "greedy"},
                                                    "cost": 1001}).status == 429
    [row] = served.rows(client="greedy")
    assert (row["admitted"], row["refused"], row["units"]) == (0, 1001, 0)


def test_a_rule_that_is_gone_is_still_listed(tmp_path):
    s = Served(tmp_path)
    with s.daemon:
        use(s.daemon, "/api", ada=10)
        assert s.admin("PUT", "/v1/rules", RULES.replace("name: api,", "name: other_api,")).status == 200
        assert brief(s.rows(rule="api")) == [("api", "ada", "2026-10", 10)]
        assert brief(s.from_file("--rule", "api", "--json").json["usage"]) == brief(s.rows(rule="api"))


# --- pages ----------------------------------------------------------------------------


def fill(daemon, names, units=1):
    """Counts for all of these names, pipelined."""
    with daemon.resp() as resp:
        for at in range(0, len(names), 500):
            some = names[at:at + 500]
            for name in some:
                resp.send("RATION.CHECK", "path", "/api", "user", name, "COST", units)
            for _ in some:
                resp.read()


def test_pages_are_complete_and_repeat_nothing_while_counting_goes_on(tmp_path):
    s = Served(tmp_path)
    with s.daemon:
        names = [f"user-{i}" for i in range(3000)]
        fill(s.daemon, names)
        ended = threading.Event()

        def keep_counting():
            turn = 0
            while not ended.is_set():
                fill(s.daemon, names[:500] + [f"late-{turn}-{i}" for i in range(20)])
                turn += 1

        counting = threading.Thread(target=keep_counting)
        counting.start()
        try:
            for limit in (7, 100, 10000):
                rows = []
                for page in s.pages(limit=limit, rule="api"):
                    assert len(page.json["usage"]) <= limit
                    rows += page.json["usage"]
                    if limit == 7 and len(rows) > 700:
                        break
                seen = [r["client"] for r in rows]
                assert len(seen) == len(set(seen))
                if limit != 7:
                    assert set(names) <= set(seen)
            listed = [r["client"] for r in s.ration("--json").json["usage"]]
            assert len(listed) == len(set(listed)) and set(names) <= set(listed)
        finally:
            ended.set()
            counting.join()


def test_pages_of_csv_are_one_file(served):
    pages = list(served.pages(format="csv", limit=2))
    assert len(pages) >= 4
    assert [p.headers["Content-Type"] for p in pages[:2]] == [
        "text/csv; charset=utf-8; header=present", "text/csv; charset=utf-8; header=absent"]
    rows = list(csv.DictReader(io.StringIO(b"".join(p.body for p in pages).decode(), newline="")))
    assert sorted((r["rule"], r["client"], r["period"], int(r["admitted"])) for r in rows) == brief(served.rows())


def test_a_cursor_remembers_which_period_was_meant(tmp_path):
    s = Served(tmp_path)
    with s.daemon:
        fill(s.daemon, [f"user-{i}" for i in range(30)])
        pages = s.pages(period="current", limit=10)
        rows = next(pages).json["usage"]
        s.clock.advance((NOVEMBER - OCTOBER).total_seconds())
        fill(s.daemon, ["late"])
        for page in pages:
            rows += page.json["usage"]
        assert len(rows) == 30 and {r["period"] for r in rows} == {"2026-10"}


def test_a_cursor_outlives_a_restart_but_not_the_file(tmp_path):
    s = Served(tmp_path)
    with s.daemon:
        fill(s.daemon, [f"user-{i}" for i in range(30)])
        first = s.admin("GET", "/v1/usage?limit=10").json
        s.daemon.kill()
        s.daemon.start()
        rest = s.admin("GET", f"/v1/usage?cursor={first['next']}").json
        assert len({r["client"] for r in first["usage"] + rest["usage"]}) == 30
        s.daemon.stop()
        for path in tmp_path.glob("state*"):
            path.unlink()
        s.daemon.start()
        fill(s.daemon, ["ada"])
        assert refused(s.admin("GET", f"/v1/usage?cursor={first['next']}"), 400, "bad_request",
                       "does not belong to this question")


# --- hostile names --------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    s = Served(tmp_path_factory.mktemp("hostile"))
    with s.daemon:
        fill(s.daemon, HOSTILE, 3)
        yield s


def name_of(row):
    return bytes.fromhex(row["client_hex"]) if "client_hex" in row else row["client"].encode()


def csv_names(data):
    text = data.decode("utf-8", "surrogateescape").replace("\0", "\ue000")
    return [r["client"].replace("\ue000", "\0").encode("utf-8", "surrogateescape")
            for r in csv.DictReader(io.StringIO(text, newline=""), strict=True)]


def output_of(*args, env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RATION_")}
    done = subprocess.run([RATION, "usage", *args], env={**clean, **env}, capture_output=True, timeout=PATIENCE,
                          check=True)
    return done.stdout


def test_names_are_exact_in_every_format(hostile):
    wanted = sorted(HOSTILE)
    daemon = {"RATION_ADMIN": hostile.daemon.addresses["admin"]}
    assert sorted(map(name_of, hostile.rows())) == wanted
    assert sorted(csv_names(b"".join(p.body for p in hostile.pages(format="csv", limit=5)))) == wanted
    for args, env in (([], daemon), (["--state", str(hostile.state)], hostile.clock.env())):
        assert sorted(csv_names(output_of("--csv", *args, env=env))) == wanted
        assert sorted(map(name_of, json.loads(output_of("--json", *args, env=env))["usage"])) == wanted
        table = output_of(*args, env=env)
        assert len(table.splitlines()) == len(HOSTILE) + 1
        assert not re.search(rb"[^\n\x20-\x7e\x80-\xff]|\xff", table) and "\u202e".encode() not in table


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_every_name_can_be_asked_for_and_corrected(hostile, name):
    [row] = hostile.rows(client=name, rule="api")
    assert name_of(row) == name
    wanted = {"client": row["client"]} if "client_hex" not in row else {"client_hex": row["client_hex"]}
    answer = hostile.admin("POST", "/v1/usage", {"rule": "api", "period": "current", "units": -1, **wanted})
    assert answer.status == 200 and name_of(answer.json) == name, answer
    assert (answer.json["admitted"], answer.json["corrected"], answer.json["units"]) == (3, -1, 2)
    if b"\0" not in name:
        assert output_of("correct", "--rule", "api", "--period", "current", "--units", "1", "--client", name,
                         env={"RATION_ADMIN": hostile.daemon.addresses["admin"]})
        [row] = hostile.rows(client=name, rule="api")
        assert row["corrected"] == 0


def test_long_names_are_cut_and_told_apart(served):
    names = ["x" * 300, "x" * 299 + "y", "x" * 97]
    fill(served.daemon, names)
    for name in names:
        [row] = served.rows(client=name)
        assert re.fullmatch(r"x+~[0-9a-f]{16}", row["client"]) and len(row["client"]) == 96
    assert len({served.rows(client=name)[0]["client"] for name in names}) == 3


# --- access and the log ---------------------------------------------------------------


CORRECTION = {"rule": "api", "client": "bob", "period": "2026-10", "units": -5, "note": "a refund"}


def test_reading_needs_read_and_correcting_admin(served):
    reader, boss = ({"Authorization": f"Bearer {t}"} for t in ("reader-token-1", "boss-token-22"))
    assert served.admin("GET", "/v1/usage", headers=reader).status == 200
    assert refused(served.admin("POST", "/v1/usage", CORRECTION, reader), 403, "forbidden", "scope admin")
    assert served.rows(client="bob")[0]["corrected"] == 0
    answer = served.admin("POST", "/v1/usage", CORRECTION, boss)
    assert answer.json["corrected"] == -5 and answer.json["units"] == 15
    line = log_line(served.daemon, "usage.correct")
    assert line["token"] == "boss" and line["rule"] == "api" and line["period"] == "2026-10"
    assert line["units"] == "-5" and line["note"] == "a refund" and line["client"] == "user=..."
    assert served.admin("POST", "/v1/usage", {**CORRECTION, "units": 5}).json["corrected"] == 0
    stranger = {"X-Forwarded-For": "192.0.2.7"}
    assert served.admin("GET", "/v1/usage", headers=stranger).status == 401


def test_the_log_shows_addresses(served):
    served.daemon.http("POST", "/v1/check", {"attributes": {"path": "/address", "ip": "192.0.2.7"}})
    assert served.admin("POST", "/v1/usage", {"rule": "address", "client": "192.0.2.7", "period": "current",
                                              "units": 1}).status == 200
    served.daemon.logged("event=usage.correct", "ip=192.0.2.7")


def test_the_log_names_the_period_and_never_current_or_last(served):
    """Months later, nobody knows which period was the last one."""
    answer = served.admin("POST", "/v1/usage", {**CORRECTION, "client": "by-name", "period": "last", "units": 1,
                                                "note": "by name"})
    period = answer.json["period"]
    assert answer.status == 200 and period not in ("last", "")
    line = served.daemon.logged("event=usage.correct", 'note="by name"')
    assert f" period={period} " in line, line


def test_a_correction_of_a_client_without_usage_is_pointed_out(served):
    args = ["correct", "--rule", "api", "--period", "last", "--client", "missspelt", "--units"]
    assert served.ration(*args, "1").out.endswith(", 1 unit to bill\nnothing was counted: is the name right?\n")
    answer = served.admin("POST", "/v1/usage", {"rule": "api", "period": "last", "client": "missspelt", "units": -1})
    assert (answer.json["period"], answer.json["corrected"], answer.json["units"]) == ("2026-10", 0, 0), answer
    assert not served.rows(client="missspelt")


def test_a_filter_that_finds_nothing_does_not_blame_the_rules(served):
    answer = served.ration("--client", "nobody-at-all")
    assert (answer.status, answer.out) == (0, "no usage fits these options; without them all is listed\n")


# --- bad input ------------------------------------------------------------------------


@pytest.mark.parametrize("query, status, error, words", [
    ("rule=appi", 404, "no_rule", ['there is no rule "appi"', 'did you mean "api"']),
    ("rule=plain", 400, "bad_request", ['rule "plain" keeps no usage; write usage: true in it']),
    ("period=yesterday", 400, "bad_request", ["yesterday"]),
    ("period=2026-13", 400, "bad_request", ["2026-13"]),
    ("period=2026-02-30", 400, "bad_request", ["2026-02-30"]),
    ("period=2026-W54", 400, "bad_request", ["2026-W54"]),
    ("period=", 400, "bad_request", ["period"]),
    ("limit=0", 400, "bad_request", ['limit must be a number from 1 to 10000, found "0"']),
    ("limit=10001", 400, "bad_request", ["limit must be a number from 1 to 10000"]),
    ("limit=ten", 400, "bad_request", ["limit must be a number from 1 to 10000"]),
    ("cursor=1", 400, "bad_request", ["does not belong to this question"]),
    ("cursor=", 400, "bad_request", ["does not belong to this question"]),
    ("cursor=1-1-1", 400, "bad_request", ["does not belong to this question"]),
    ("format=xml", 400, "bad_request", ['format must be csv or json, found "xml"']),
    ("scope=world", 400, "bad_request", ['scope must be node or fleet, found "world"']),
    ("scope=fleet", 400, "bad_request", ["no other nodes share usage with this one"]),
    ("fromat=csv", 400, "bad_request", ["did you mean format?"]),
    ("client=%f", 400, "bad_request", ["two hexadecimal digits"]),
])
def test_bad_questions_are_answered_with_what_would_be_right(served, query, status, error, words):
    assert refused(served.admin("GET", "/v1/usage?" + query), status, error, *words)


def test_a_cursor_of_another_question_is_refused(served):
    cursor = served.admin("GET", "/v1/usage?limit=1&client=ada").json["next"]
    assert served.admin("GET", f"/v1/usage?limit=3&format=csv&client=ada&cursor={cursor}").status == 200
    for other in ("", "&client=bob", "&client=ada&rule=api", "&client=ada&period=last"):
        assert refused(served.admin("GET", f"/v1/usage?limit=1{other}&cursor={cursor}"), 400, "bad_request",
                       "does not belong to this question")


@pytest.mark.parametrize("change, status, words", [
    ({"rule": None}, 400, ['"rule" is missing']),
    ({"client": None}, 400, ['"client" is missing']),
    ({"period": None}, 400, ['"period" is missing', "2026-11"]),
    ({"units": None}, 400, ['"units" are missing']),
    ({"units": "5"}, 400, ['"units" must be a whole number']),
    ({"units": 1.5}, 400, ['"units" must be a whole number']),
    ({"units": 0}, 400, ['"units" must be a whole number other than 0']),
    ({"units": 2**63}, 400, ['"units" must be a whole number']),
    ({"rule": "appi"}, 404, ["there is no rule"]),
    ({"rule": "plain"}, 400, ['rule "plain" keeps no usage; write usage: true in it']),
    ({"period": "yesterday"}, 400, ["yesterday"]),
    ({"period": "2020-01"}, 400, ["2020-01"]),
    ({"period": "2026-10-18"}, 400, ["2026-10-18"]),
    ({"client": None, "client_hex": "6g"}, 400, ['"client_hex" must be two hexadecimal digits']),
    ({"client_hex": "61"}, 400, ["client"]),
    ({"notes": "x"}, 400, ['unknown member "notes"; did you mean "note"?']),
])
def test_bad_corrections_change_nothing(served, change, status, words):
    body = {k: v for k, v in {**CORRECTION, **change}.items() if v is not None}
    answer = served.admin("POST", "/v1/usage", body)
    assert answer.status == status and all(w in answer.json["message"] for w in words), answer
    assert served.rows(client="bob", rule="api")[0]["corrected"] == 0


@pytest.mark.parametrize("args, words", [
    (["--csv", "--json"], "give either --csv or --json"),
    (["--state", "x", "--admin", "127.0.0.1:1"], "asks no daemon"),
    (["--period", "yesterday"], "yesterday"),
    (["--rule", "appi"], 'did you mean "api"'),
    (["corect"], 'found "corect"'),
    (["--limit", "5"], "takes no --limit"),
    (["correct", "--rule", "api"], "which rule, client and period"),
    (["correct", "--units", "many"], '--units: found "many", expected a number such as 20 or -20'),
    (["correct", "--state", "x"], "takes no --state"),
])
def test_mistakes_on_the_command_line(served, args, words):
    answer = served.ration(*args)
    assert answer.status == 2 and answer.out == "" and words in answer.err, answer


ROW = {"rule": "api", "client": "ada", "other": False, "period": "2026-10", "start": "2026-10-01T00:00:00Z",
       "end": "2026-11-01T00:00:00Z", "zone": "UTC", "admitted": 5, "refused": 0, "corrected": 0, "units": 5}


@contextlib.contextmanager
def answering(*pages):
    """A daemon that answers with these pages, one after the other."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(left.pop(0)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    left = list(pages)
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_nodes_that_are_missing_are_named():
    gone = [{"node": "web-3/5f0c", "last_report": 12, "unpublished": 4}]
    pages = [{"usage": [ROW], "scope": "fleet", "missing": gone, "next": "1-2-3"},
             {"usage": [{**ROW, "client": "bob"}], "scope": "fleet", "missing": []}]
    for option in ("--csv", "--json"):
        with answering(*pages) as address:
            answer = run("usage", option, "--admin", address)
        assert answer.status == 1 and "ada" in answer.out and "bob" in answer.out
        assert answer.err.count('not complete: node "web-3/5f0c" reported last 12.0 s ago') == 1
        assert option == "--csv" or answer.json["missing"] == gone
    with answering({**pages[1]}) as address:
        answer = run("usage", "--json", "--admin", address)
        assert (answer.status, answer.err, answer.json["missing"]) == (0, "", [])


@pytest.mark.parametrize("change", [{"admitted": "5"}, {"admitted": None}, {"corrected": 2**63}, {"client": 7},
                                    {"client_hex": "6g"}, {"rule": None}], ids=str)
def test_a_row_that_makes_no_sense_is_not_billed(change):
    with answering({"usage": [{**ROW, **change}]}) as address:
        answer = run("usage", "--csv", "--admin", address)
    assert answer.status == 2 and "a row that makes no sense" in answer.err and "ada" not in answer.out


def test_a_state_file_that_has_no_usage(served, tmp_path):
    answer = served.from_file("--rule", "plain")
    assert answer.status == 2 and 'has no usage of a rule "plain"' in answer.err
    for path in (tmp_path / "missing", ROOT / "README.md"):
        answer = run("usage", "--state", path)
        assert answer.status == 2 and f'there is no usage file "{path}.usage"; name a state file' in answer.err, answer


# --- metrics, and what is documented --------------------------------------------------


def test_metrics_tell_the_room(served):
    page = served.admin("GET", "/metrics").text
    value = {m: float(v) for m, v in re.findall(r"^(ration_usage_\w+) (\S+)$", page, re.M)}
    assert len(ALL) <= value["ration_usage_entries"] <= value["ration_usage_capacity"]
    assert value["ration_usage_other_total"] == 0 and value["ration_usage_bytes"] >= 1 << 20


def sessions(page):
    for block in re.findall(r"^```console\n(.*?)^```", page, re.M | re.S):
        yield from re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)


def test_the_page_about_billing_shows_what_happens(tmp_path):
    page = (ROOT / "docs/billing.md").read_text()
    rules = (ROOT / "examples/billing/ration.yaml").read_text()
    assert re.search(r"^limits:.*", rules, re.M | re.S)[0] in page
    shutil.copytree(ROOT / "examples/billing", tmp_path / "examples/billing")
    clock = StillClock(tmp_path / "clock", OCTOBER)
    ran = 0
    with Daemon(tmp_path, rules, ["--state", tmp_path / "state"], env=clock.env()) as daemon:
        env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "NO_COLOR": "1",
               "RATION_HTTP": daemon.addresses["http"], "RATION_ADMIN": daemon.addresses["admin"]}
        for command, shown in sessions(page):
            if "--period last" in command and clock.wall_ns < NOVEMBER.timestamp() * 1e9:
                clock.advance((NOVEMBER - OCTOBER).total_seconds())
            done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, text=True, timeout=PATIENCE,
                                  capture_output=True, stdin=subprocess.DEVNULL, check=False)
            printed = [re.sub(" +", " ", line) for line in done.stdout.splitlines()]
            wanted = [re.sub(" +", " ", line) for line in shown.splitlines() if line != "..."]
            if "...\n" in shown:
                printed = printed[:len(wanted)]
            assert done.returncode == 0 and sorted(printed) == sorted(wanted), (command, done)
            ran += 1
    assert ran >= 8


def test_the_daemon_starts_as_the_page_about_billing_says(tmp_path):
    command = re.search(r"^rationd (--state) \S+ (.*)$", (ROOT / "docs/billing.md").read_text(), re.M)
    done = subprocess.run([BUILD / "rationd", "--check", command[1], tmp_path / "state", *command[2].split()], cwd=ROOT,
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr


# --- invoices -------------------------------------------------------------------------


TITLES = "rule,client,other,period,start,end,zone,admitted,refused,corrected,units\r\n"


def invoice(rows, *args, titles=TITLES, prices=ROOT / "examples/billing/prices.json"):
    done = subprocess.run(["/usr/bin/python3", ROOT / "examples/billing/invoice.py", prices, *args],
                          input=titles.encode() + rows, capture_output=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def line(client, units, corrected=0, rule="api", other="false", period="2026-10", end="2026-11-01T00:00:00Z"):
    name = client if isinstance(client, bytes) else client.encode()
    return b'%s,"%s",%s,%s,2026-10-01T00:00:00Z,%s,UTC,%d,0,%d,%d\r\n' % (
        rule.encode(), name.replace(b'"', b'""'), other.encode(), period.encode(), end.encode(), units, corrected,
        units + corrected)


@pytest.mark.parametrize("units, corrected, amount", [
    (0, 0, b"20.00"), (1000, 0, b"20.00"), (1001, 0, b"20.00"), (1002, 0, b"20.01"), (10000, 0, b"56.00"),
    (10001, 0, b"56.00"), (10002, 0, b"56.01"), (12000, -200, b"60.50"), (900, 200, b"20.40"),
    (10**15, 0, b"2500000000031.00"),
])
def test_units_are_priced_by_tier_with_corrections(units, corrected, amount):
    status, out, err = invoice(line("ada", units, corrected))
    assert (status, err) == (0, "")
    assert out.splitlines()[1] == b"2026-10,ada,pro,%d,%d,%d,%s,EUR" % (units, corrected, units + corrected, amount)


def test_invoices_keep_names_as_they_are():
    status, out, _ = invoice(b"".join(line(n, 1) for n in HOSTILE if b"\0" not in n))
    assert status == 0
    assert sorted(csv_names(out)) == sorted(n for n in HOSTILE if b"\0" not in n)


@pytest.mark.parametrize("rows, args, status, words", [
    (line("ada", 5) + line("", 7, other="true"), [], 1, "7 units belong to no client"),
    (line("ada", 5, -6), [], 2, "a bill cannot be below 0"),
    (line("ada", 5) + line("ada", 5, period="2026-09"), [], 2, "more than one period: 2026-09, 2026-10"),
    (line("ada", 5, rule="login"), [], 2, "has no prices"),
    (line("ada", 5, end="9999-11-01T00:00:00Z"), [], 2, "--draft prices it as it is now"),
    (line("ada", 5, end="9999-11-01T00:00:00Z"), ["--draft"], 0, ""),
    (line("ada", 5).replace(b",5,0,0,5", b",5,0,0,6"), [], 2, "not what was admitted and corrected"),
    (b"", [], 0, ""),
])
def test_what_a_person_must_look_at_is_not_billed(rows, args, status, words):
    code, _, err = invoice(rows, *args)
    assert code == status and words in err, err


@pytest.mark.parametrize("titles, rows, words", [
    ("", b"", "found nothing where an export has the names of its columns"),
    ('{"usage":[]}', b"", "has the names of its columns; did ration usage --csv fail?"),
    ("rule  client  period\n", b"api   ada     2026-10\n", "has the names of its columns"),
    (TITLES, b"api,ada,false", "does not have 11 fields; is the export cut?"),
])
def test_what_is_no_export_is_not_billed(titles, rows, words):
    """An export that failed must not pass for a month without usage."""
    code, out, err = invoice(rows, titles=titles)
    assert (code, out) == (2, b"") and words in err, err


@pytest.mark.parametrize("change, words", [
    ({"plans": {}}, "'ada' has the plan 'pro', which has no prices"),
    ({"plans": {"pro": {"fee": "x", "tiers": []}}}, "'ada', plan 'pro': a price is not a number"),
    ({"plans": {"pro": {"tiers": []}}}, "'ada', plan 'pro': 'fee' is missing"),
    ({"plans": {"pro": {"fee": "1", "tiers": [{"up_to": 4, "per_unit": "1"}]}}}, "prices up to 4 units, and it used 5"),
    ({"rule": None}, "has no 'rule'"),
])
def test_prices_that_would_bill_too_little_are_refused(tmp_path, change, words):
    prices = {**json.loads((ROOT / "examples/billing/prices.json").read_text()), **change}
    (tmp_path / "prices.json").write_text(json.dumps({k: v for k, v in prices.items() if v is not None}))
    code, out, err = invoice(line("ada", 5), prices=tmp_path / "prices.json")
    assert (code, out) == (2, b"") and words in err, err
