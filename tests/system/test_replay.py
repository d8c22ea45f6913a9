# SPDX-License-Identifier: Apache-2.0
"""What `ration replay` and `ration suggest` say: summaries, faults in logs, order, memory, and pages."""

import gzip
import html.parser
import os
import random
import re
import subprocess

import pytest

from ration_command import Terminal, RATION, run

RULES = """
limits:
  - {name: login, when: {method: POST, path: /login}, key: ip, limit: 3 per minute, algorithm: sliding-log}
  - {name: keyed, key: api_key, limit: 10 per minute}
  - {name: everything, key: ip, limit: 10 per second burst 20}
"""
LINE = '{ip} - - [{day:02}/Nov/2026:08:{minute:02}:{second:02} +0000] "{request}" {status} 12 "-" "curl"\n'


def line(second=0, ip="192.0.2.1", request="GET / HTTP/1.1", status=200, day=19):
    return LINE.format(ip=ip, day=day, minute=second // 60, second=second % 60, request=request, status=status)


@pytest.fixture
def replay(tmp_path):
    """Writes logs, given as texts or bytes, and replays them: the summary, or with text=True what it says."""
    (tmp_path / "rules.yaml").write_text(RULES)

    def ask(*logs, options=(), rules=None, text=False, status=0):
        paths = []
        for log in logs:
            paths.append(tmp_path / f"log{len(paths)}")
            paths[-1].write_bytes(log if isinstance(log, bytes) else log.encode())
        if rules:
            (tmp_path / "rules.yaml").write_text(rules)
        done = run("replay", "--rules", tmp_path / "rules.yaml", *([] if text else ["--json"]), *options, *paths)
        assert done.status == status, done
        return done if text or status else done.json

    ask.folder = tmp_path
    return ask


def rule(summary, name, side="replayed"):
    return next(r for r in summary[side]["rules"] if r["rule"] == name)


def logins(count, ip="192.0.2.1", begin=0, step=1):
    return "".join(line(begin + i * step, ip, "POST /login HTTP/1.1") for i in range(count))


# --- what it says ------------------------------------------------------------------------------

def test_a_person_reads_who_was_limited_by_what_and_when(replay):
    out = replay(logins(5) + logins(2, "192.0.2.2", 30), text=True).out
    assert "2 of 7 requests (29 %) refused" in out
    assert "1 of 2 clients by ip (50 %) refused at least once" in out
    assert re.search(r"^  login +7 +2 +29 % +2 +1 +2026-11-19 08:00:03 +2026-11-19 08:00:04$", out, re.M), out
    # Refused at 3 and 4 seconds, until a minute after the first: 57 seconds.
    assert re.search(r"^  192\.0\.2\.1 +login +2 +5 +2026-11-19 08:00:03 +2026-11-19 08:00:04 +57\.0 s$", out, re.M), out
    assert "rule keyed needs api_key, which this log does not have; it matched nothing" in out
    assert "times are to the second" in out


def test_two_sets_of_rules_are_compared(replay):
    (replay.folder / "old.yaml").write_text(RULES.replace("3 per minute", "1 per minute"))
    summary = replay(logins(5) + logins(2, "192.0.2.2", 30), options=["--against", replay.folder / "old.yaml"])
    assert summary["changes"] == {"refused_by_both": 2, "newly_refused": 0, "no_longer_refused": 3,
                                  "clients_refused_by_both": 1, "clients_newly_refused": 0,
                                  "clients_no_longer_refused": 1}
    assert rule(summary, "login", "against")["refused"] == 5 and rule(summary, "login")["refused"] == 2
    assert sum(summary["timeline"]["refused"]) == 2 and sum(summary["timeline"]["refused_against"]) == 5


def test_requests_outside_of_a_time_are_left_out(replay):
    log = logins(3) + logins(3, begin=120)
    summary = replay(log, options=["--from", "2026-11-19T08:01:00Z"])
    assert summary["replayed"]["requests"] == 3 and summary["outside"] == 3
    summary = replay(log, options=["--from", "2026-11-19T08:00:01Z", "--to", "2026-11-19T08:02:00Z"])
    assert summary["replayed"]["requests"] == 2 and summary["outside"] == 4
    assert "--from is not before --to" in replay(log, options=["--from", "2026-11-20", "--to", "2026-11-19"],
                                                 status=2).err


def test_attributes_are_set_for_all_requests(replay):
    summary = replay("".join(map(line, range(15))), options=["--set", "api_key=one", "--by", "api_key"])
    assert rule(summary, "keyed")["requests"] == 15 and rule(summary, "keyed")["refused"] > 0
    assert "expected NAME=VALUE" in replay(logins(1), options=["--set", "tier"], status=2).err


def test_shadow_and_delays_and_lists_are_told_apart(replay):
    rules = """
deny: [{ip: 198.51.100.0/24}]
limits:
  - {name: trial, key: ip, mode: shadow, limit: 1 per minute}
  - {name: paced, when: {path: /paced}, key: ip, limit: 1 per second queue 3}
  - {name: waits, when: {path: /waits}, key: ip, limit: 1 per 10 s, queue: {size: 5, max_wait: 20s}}
"""
    log = "".join(line(0, request=f"GET {path} HTTP/1.1") for path in ["/", "/", "/paced", "/paced", "/waits", "/waits"])
    summary = replay(log + line(1, "198.51.100.7"), rules=rules)
    assert summary["replayed"]["denied_by_list"] == 1 and summary["replayed"]["refused"] == 1
    assert rule(summary, "trial")["shadowed"] == 5 and rule(summary, "trial")["refused"] == 0
    assert rule(summary, "paced")["delayed"] == 1
    assert rule(summary, "waits")["delayed"] == 1 and rule(summary, "waits")["refused"] == 0
    assert any("stood in line" in note for note in summary["notes"])
    assert any("shadow mode" in note for note in summary["notes"])


def test_shadow_mode_for_all_rules_is_that_of_each(replay):
    limit = "{name: trial, key: ip, limit: 1 per minute"
    each = replay(logins(3), rules=f"limits: [{limit}, mode: shadow}}]")["replayed"]
    summary = replay(logins(3), rules=f"mode: shadow\nlimits: [{limit}}}]")
    assert {**summary["replayed"], "rules_file": ""} == {**each, "rules_file": ""}
    assert summary["replayed"]["shadowed"] == 2 and summary["replayed"]["top"] == []
    assert any("has mode: shadow for all rules" in note for note in summary["notes"])


def test_names_of_headers_ignore_case(replay):
    rules = "limits: [{name: a, key: [header.x-one, header.x-two], limit: 1 per day}]"
    summary = replay(line() * 2, rules=rules, options=["--map", "header.X-One=http_user_agent", "--set", "Header.X-Two=b"])
    assert rule(summary, "a")["refused"] == 1 and not any("--map" in note or "--set" in note for note in summary["notes"])


def test_what_a_log_lacks_is_said(replay):
    rules = """
signals: {load: {source: push}}
limits:
  - {name: places, key: ip, limit: 1 concurrent}
  - {name: follows, key: ip, limit: 5 per minute, adapt: {when: load above 80, to: 50%}}
  - {name: spread, key: ip, limit: 5 per calendar day, spread: 10m}
"""
    out = replay(logins(3), rules=rules, text=True).out
    assert "rule places limits requests in flight: without durations in the log" in out
    assert "rule follows follows signals, which a log does not have" in out
    assert "rule spread spreads the ends of its windows" in out
    assert "0 of 3 requests" in out


# --- faulty logs ------------------------------------------------------------------------------

def test_faulty_lines_are_counted_and_reported_by_number(replay):
    lines = [line(i).encode() for i in range(12)]
    lines[2] = b"192.0.2.1 - - [19/Nov\n"
    lines[4] = b"\x00\x01\xff binary \x1b[31m\x00\n"
    lines[6] = b"x" * 1000000 + b"\n"
    lines[7] = line(7).replace("19/Nov", "42/Foo").encode()
    lines[8] = line(8, status="2x0").encode()
    log = b"".join(lines).replace(b"\n", b"\r\n") + line(20).encode()[:40]
    summary = replay(log)
    assert summary["logs"][0]["faulty"] == {"format": 2, "time": 1, "status": 1, "long": 1, "binary": 1}
    assert summary["replayed"]["requests"] == 7
    notes = "\n".join(summary["notes"])
    for said in ("2 lines not of this format, at 3, 13", "1 line without a time that can be read, at 8",
                 "1 line with a status that is none, at 9", "1 line longer than 65536 bytes, at 7", "1 line binary, at 5"):
        assert said in notes, notes
    assert "\x1b" not in notes and r"\x1b[31m" in notes


@pytest.mark.parametrize("user", ["a[b", "a [b", "a] b", "a] [b", "[19/Nov/2020:08:00:00 +0000]", "]", "["])
def test_no_name_of_a_user_hides_a_request(replay, user):
    """A client sends it, and nginx writes it as it is but for quotes."""
    log = logins(4) + logins(1, begin=9).replace(" - - [", f" - {user} [")
    summary = replay(log, rules="limits: [{name: a, key: user, limit: 1 per minute}]", options=["--by", "user"])
    assert summary["logs"][0]["requests"] == 5 and rule(summary, "a")["requests"] == 1


def test_a_mark_of_utf_8_in_front_is_no_part_of_the_log(replay):
    for log in (line() * 2, "time,ip\n2026-11-19T08:00:00Z,192.0.2.1\n2026-11-19T08:00:00Z,192.0.2.1\n",
                '{"time":"2026-11-19T08:00:00Z","ip":"192.0.2.1"}\n' * 2):
        for marked in (b"\xef\xbb\xbf" + log.encode(), gzip.compress(b"\xef\xbb\xbf" + log.encode())):
            summary = replay(marked)
            assert summary["replayed"]["clients"]["seen"] == 1 and summary["logs"][0]["requests"] == 2


def test_durations_without_measure_are_unknown(replay):
    """Sums of times and durations stay in range: seen with the sanitizer for undefined behaviour."""
    rules = "limits: [{name: a, key: ip, limit: 1 concurrent}]"
    lines = "".join('{"remote_addr": "192.0.2.1", "time_iso8601": "%s-11-19T08:00:0%d+00:00", "status": "200", '
                    '"request_time": "%s"}\n' % (year, i, took)
                    for year, took in (("2026", "4000000000"), ("2200", "4000000000"), ("2200", "20"))
                    for i in range(2))
    summary = replay(lines, rules=rules)
    assert (summary["from"], summary["to"]) == ("2026-11-19T08:00:00Z", "2200-11-19T08:00:01Z")
    assert summary["late"] == 0 and summary["replayed"]["requests"] == 6
    early = '{"remote_addr": "192.0.2.1", "time_iso8601": "1971-01-01T00:00:00Z", "request_time": "31536000"}\n'
    done = replay(early, options=["--format", "nginx-json"], status=2)
    assert done.json["logs"][0]["faulty"]["time"] == 1


def test_members_of_json_with_long_names(replay):
    """255 bytes were taken for a name that had been met: the sanitizer saw what was read behind it."""
    names = [f"k{i}" for i in range(186)] + [letter + "n" * 254 for letter in "abcdefgh"]
    record = '{"time": "2026-11-19T08:00:00Z", "ip": "192.0.2.1", ' + ", ".join(f'"{n}": 1' for n in names) + "}\n"
    assert replay(record * 3)["logs"][0]["requests"] == 3


@pytest.mark.parametrize("log", [b"", b"\n\n\r\n"])
def test_an_empty_log_is_no_error(replay, log):
    assert "no requests" in replay(log, text=True).out


def test_time_that_runs_backwards(replay):
    log = line(300) + line(250) + line(200) + line(299) + line(301)
    summary = replay(log, options=["--reorder", "60s"])
    assert summary["late"] == 1 and summary["replayed"]["requests"] == 4
    assert any("1 requests whose lines are older" in note for note in summary["notes"])
    assert replay(log, options=["--reorder", "2m"])["late"] == 0


def test_another_format_is_named_and_shown(replay):
    done = replay("what\x1b[31m is this\n" * 5, status=2)
    assert "has no format that is known" in done.err and "\\x1b" in done.err
    done = replay("what is this\n" * 5, options=["--format", "combined"], text=True, status=2)
    assert "most lines could not be read as common or combined" in done.out
    assert "no line of this log could be read as a request" in done.err
    assert "did you mean combined?" in replay(line(), options=["--format", "combind"], status=2).err
    assert "expected combined, apache" in replay(line(), options=["--format", "xml"], status=2).err


def test_compressed_logs_that_are_damaged(replay):
    whole = gzip.compress("".join(line(i % 60, f"192.0.2.{i % 250}") for i in range(3000)).encode(), 1)
    assert "has damaged compressed data" in replay(b"\x1f\x8bnonsense", status=2).err
    assert "ends in the middle of compressed data" in replay(whole[:20], status=2).err
    assert "ends in the middle of compressed data; what comes after" in replay(whole[:-7], text=True).out
    torn = bytearray(whole)
    torn[len(torn) // 2] ^= 255
    assert "has damaged compressed data" in replay(bytes(torn), text=True).out
    window_of_2_gb = b"\x28\xb5\x2f\xfd\x00\xa8\x09\x00\x00a"
    assert "window above 128 MB, which is not read; write zstd -dc --long=31" in replay(window_of_2_gb, status=2).err


def test_wrong_use_is_an_error(replay, tmp_path):
    assert "no rules given" in run("replay", tmp_path / "log").err
    assert run("replay", "--rules", tmp_path / "missing.yaml", tmp_path / "log").status == 2
    assert "cannot be opened" in run("replay", "--rules", tmp_path / "rules.yaml", tmp_path / "missing").err
    (tmp_path / "bad.yaml").write_text("limits: [{name: a, limit: 5 per fortnight}]")
    assert "bad.yaml:1" in run("replay", "--rules", tmp_path / "bad.yaml", tmp_path / "missing").err
    assert "is a directory" in run("replay", "--rules", tmp_path / "rules.yaml", tmp_path).err
    (tmp_path / "envoy.yaml").write_text("domain: a\ndescriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]")
    assert "has no native rule" in run("replay", "--rules", tmp_path / "envoy.yaml", tmp_path / "missing").err


def test_what_is_read_is_not_written_over(replay):
    log, rules = replay.folder / "log0", replay.folder / "rules.yaml"
    for option in ("--html", "--decisions"):
        assert "is a log to read, and would be lost" in replay(line(), options=[option, log], status=2).err
        assert log.read_text() == line()
        assert "has rules, and would be lost" in replay(line(), options=[option, rules], status=2).err
        assert rules.read_text() == RULES
    (replay.folder / "link").symlink_to(log)
    assert "is a log to read" in replay(line(), options=["--html", replay.folder / "link"], status=2).err
    assert "is a log to read" in run("suggest", "--html", log, log).err and log.read_text() == line()
    decisions = replay.folder / "decisions.csv"
    decisions.write_text("of the run before")
    assert "no format that is known" in replay("what is this\n", options=["--decisions", decisions], status=2).err
    assert decisions.read_text() == "of the run before"


def test_one_place_gets_one_output(replay):
    for options in (["--json", "--html", "-"], ["--json", "--decisions", "-"]):
        assert "--json writes to standard output" in replay(line(), options=options, text=True, status=2).err
    assert "write to one file" in replay(line(), options=["--html", "-", "--decisions", "-"], text=True, status=2).err


def test_a_log_counts_once(replay):
    replay(line())
    (replay.folder / "link").symlink_to(replay.folder / "log0")
    done = run("replay", "--rules", replay.folder / "rules.yaml", replay.folder / "log0", replay.folder / "link")
    assert done.status == 2 and "are the same log" in done.err


def test_names_that_say_nothing_are_pointed_out(replay):
    def notes(*options):
        return "\n".join(replay(line() * 3, options=options)["notes"])

    said = notes("--map", "apikey=extra1", "--set", "teir=free", "--map", "api_key=http_x_api_key", "--map", "duration=extra2")
    assert "--map apikey: no rule looks at apikey; did you mean api_key?" in said
    assert "--set teir: no rule looks at teir" in said
    assert "--map api_key=http_x_api_key: no request has that field; its fields are server_name, remote_addr" in said
    assert "--map duration=extra2: no request has a duration there" in said
    assert "--map status=code: no log has that field; its fields are" in notes("--map", "status=code")
    assert "--map" not in notes("--map", "api_key=http_user_agent", "--set", "ip=192.0.2.9")
    assert 'found the unit "min" of durations, expected s, ms, us or ns' in \
        replay(line(), options=["--map", "duration=extra1:min"], status=2).err


def test_much_that_is_left_out_is_said_at_once(replay):
    log = "".join(line(i) for i in range(500, 600)) + "".join(line(i) for i in range(100))
    out = replay(log, text=True).out
    assert "100 lines were left out: see Notes" in out.split("Rules")[0]
    assert "logs that are given as files of their own are merged by time" in out
    assert "were left out" not in replay(line(0) + line(1), text=True).out


def test_a_time_that_no_request_has_is_said_with_those_of_the_log(replay):
    out = replay(line(5) + line(9), options=["--from", "2027-01-01"], text=True).out
    assert "all 2 requests, of 2026-11-19 08:00:05 to 2026-11-19 08:00:09 UTC, are before --from" in out


@pytest.mark.parametrize("begin, said", [
    (b"BZh91AY&SY", "compressed by bzip2, which is not read; write for example bzip2 -dc FILE"),
    (b"\xfd7zXZ\x00\x00", "compressed by xz"), (b"\x04\x22\x4d\x18\x64", "compressed by lz4"),
    (b"PK\x03\x04\x14", "a zip archive"), (b"log".ljust(257, b"\0") + b"ustar\x0000", "a tar archive")])
def test_other_packings_are_named(replay, begin, said):
    assert said in replay(begin + line().encode(), status=2).err
    assert said in replay(gzip.compress(begin + line().encode()), status=2).err


def test_nearly_all_are_not_all(replay):
    rules = "limits: [{name: once, key: ip, limit: 1 per day}]"
    log = "".join(line(i // 300, f"192.0.{i // 250}.{i % 250}") * 2 for i in range(999)) + line(4, "203.0.113.1")
    out = replay(log, rules=rules, text=True).out
    assert "999 of 1,000 clients by ip (99.9 %) refused at least once" in out


# --- several logs, order, memory -------------------------------------------------------------------

def test_logs_are_merged_by_time(replay):
    whole = [line(i % 600 // 2, f"192.0.2.{i % 7}", "POST /login HTTP/1.1") for i in range(600)]
    one = replay("".join(whole))
    for parts in ([whole[300:], whole[:300]], [whole[0::2], whole[1::2]], [whole[0::3], whole[1::3], whole[2::3]]):
        several = replay(*("".join(part) for part in parts))
        assert several["replayed"]["requests"] == 600 and several["late"] == 0
        assert rule(several, "login")["refused"] == rule(one, "login")["refused"]


def test_a_log_that_cannot_be_opened_again_is_no_empty_one(replay):
    """Logs of the same time are open at once."""
    paths = [replay.folder / f"many{i}" for i in range(60)]
    for path in paths:
        path.write_text(logins(2))
    command = ["prlimit", "--nofile=40", RATION, "replay", "--rules", replay.folder / "rules.yaml", *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "cannot be opened: Too many open files" in done.stderr and done.stdout == ""
    command[1] = "--nofile=40:1000" # more are allowed, if asked for
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "60 logs: 120 requests" in done.stdout


def test_names_of_files_do_not_steer_the_terminal(replay):
    evil = replay.folder / "evil\x1b[31m.yaml"
    evil.write_text(RULES)
    (replay.folder / "log0").write_text(logins(3))
    done = run("replay", "--rules", evil, "--against", evil, replay.folder / "log0")
    assert done.status == 0 and "\x1b" not in done.out and r"evil\x1b[31m.yaml" in done.out


def test_centuries_of_waiting_in_all_are_added_up(replay):
    """400 clients that must each wait for a year."""
    log = "".join(line(0, f"10.0.{i // 200}.{i % 200}", day=1) for i in range(400) for _ in range(2))
    summary = replay(log, rules="limits: [{name: a, key: ip, limit: 1 per 365 days}]")
    assert rule(summary, "a")["limited_for"] == 400 * 365 * 86400


def test_a_list_of_clients_that_is_not_exact_says_by_how_much(replay):
    """One client is forgotten again and again."""
    rounds, lines = 12, []
    for i in range(rounds):
        lines += [line(i, "192.0.2.1")] * (2 if i == 0 else 1)
        lines += [line(i, f"10.{i}.{n // 200}.{n % 200}") for n in range(1700) for _ in range(3)]
    summary = replay("".join(lines), rules="limits: [{name: a, key: ip, limit: 1 per 365 days}]",
                     options=["--memory", "32M", "--top", "1000"])
    counts = {row["client"]: row["refused"] for row in summary["replayed"]["top"]}
    [short] = [note for note in summary["notes"] if "may be short by" in note]
    most = int(re.search(r"short by ([\d,]+)", short)[1].replace(",", ""))
    assert counts.get("192.0.2.1", 0) + most >= rounds, short


def test_memory_is_bounded_and_what_follows_is_said(replay):
    dice = random.Random(1)
    many = "".join(line(i // 8000, f"10.{dice.randrange(256)}.{dice.randrange(256)}.{dice.randrange(256)}")
                   for i in range(600000))
    summary = replay(many, options=["--memory", "32M"])
    seen = summary["replayed"]["clients"]
    assert not seen["exact"] and any("estimates" in note for note in summary["notes"])
    exact = len(set(re.findall(r"^\S+", many, re.M)))
    assert abs(seen["seen"] - exact) < 0.08 * exact, (seen, exact) # five standard errors
    assert replay(many, options=["--memory", "1G"])["replayed"]["clients"]["seen"] == exact


def test_progress_is_shown_on_a_terminal(replay):
    log = replay.folder / "large"
    log.write_text("".join(line(i // 50000) for i in range(900000)))
    shown = Terminal(str(RATION), "replay", "--rules", str(replay.folder / "rules.yaml"), "--reorder", "1s", str(log))
    shown.read_until("of 900,000 requests")
    os.waitpid(shown.pid, 0)
    os.close(shown.fd)
    assert re.search(r"\d lines, [\d,]+,000 a second, \d+ %, .* left", shown.seen)


# --- suggest ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("limit", ["1 per minute", "1 per minute, algorithm: fixed-window",
                                   "1 per 10 s, algorithm: sliding-log", "1 per minute, algorithm: sliding-window"])
@pytest.mark.parametrize("touch", [0, 2, 10])
def test_a_suggested_limit_touches_as_few_clients_as_asked_and_one_less_more(replay, limit, touch):
    dice = random.Random(limit)
    weights = [int(dice.paretovariate(0.7)) for _ in range(200)]
    log = "".join(sorted(line(dice.randrange(600), f"192.0.2.{client}") for client, n in enumerate(weights)
                         for _ in range(min(n, 300))))
    rules = "limits: [{name: a, key: ip, limit: %s}]" % limit
    (replay.folder / "log0").write_text("".join(sorted(log.splitlines(True), key=lambda s: s[s.index("["):])))
    (replay.folder / "rules.yaml").write_text(rules)
    done = run("suggest", "--rules", replay.folder / "rules.yaml", "--rule", "a", "--touch", f"{touch}%", "--json",
               replay.folder / "log0")
    assert done.status == 0, done
    [found] = done.json["suggestions"]
    assert found["clients"] == 200 and sum(c["clients"] for c in found["distribution"]) == 200

    def touched(text):
        summary = replay((replay.folder / "log0").read_text(),
                         rules=rules.replace(limit, limit.replace(limit.split(",")[0], text)))
        return rule(summary, "a")["clients"]["refused"]

    allowed = 200 * touch // 100
    assert touched(found["limit"]) == found["touched"] <= allowed
    amount, per = re.fullmatch(r"(\d+) (per [^b]*?)(?: burst \d+)?", found["limit"]).groups()
    if int(amount) > 1:
        assert touched(f"{int(amount) - 1} {per}") > allowed
    if found["burst"] > 1 and "algorithm" not in limit:
        assert touched(f"{amount} {per} burst {found['burst'] - 1}") > allowed


def test_suggest_with_costs_beyond_32_bits(replay):
    log = "".join('{"time": "2026-11-19T08:00:0%dZ", "ip": "192.0.2.1", "tokens": %d}\n' % (i, 7 * 10**9) for i in range(3))
    rules = "limits: [{name: a, key: ip, limit: LIMIT per minute, algorithm: fixed-window, cost: {attribute: tokens, default: 1}}]"
    for amount, refused in ((21 * 10**9, 0), (21 * 10**9 - 1, 1)):
        summary = replay(log, rules=rules.replace("LIMIT", str(amount)), options=["--map", "tokens=tokens"])
        assert rule(summary, "a")["refused"] == refused
    done = run("suggest", "--rules", replay.folder / "rules.yaml", "--rule", "a", "--touch", "0", "--map", "tokens=tokens",
               "--json", replay.folder / "log0")
    assert done.json["suggestions"][0]["amount"] == 21 * 10**9


def test_suggest_says_what_it_leaves_out(replay):
    replay(logins(7), rules="""
limits:
  - {name: a, key: ip, limit: [5 per minute, 3 per second], soft: 20%, earn: {every: 5m, add: 10%, up_to: 200%}}
  - {name: b, key: ip, limit: 5 per minute}
""")
    ask = ["suggest", "--rules", replay.folder / "rules.yaml", replay.folder / "log0", "--rule"]
    said = "what the rule has beside its limit is left out: limits behind the first, soft, earn"
    assert said in run(*ask, "a").out and said in run(*ask, "a", "--json").json["notes"]
    assert "left out" not in run(*ask, "b").out


def test_suggest_with_too_little_memory_for_one_client(replay):
    (replay.folder / "log0").write_text("".join(line(i // 1000) for i in range(400000)))
    done = run("suggest", "--memory", "32M", replay.folder / "log0")
    assert done.status == 2 and "the requests of one client do not fit the memory; give more --memory" in done.err


def test_suggest_without_rules_and_with_mistakes(replay):
    replay(logins(7) + logins(2, "192.0.2.9", 10), text=True)
    log = replay.folder / "log0"
    done = run("suggest", "--touch", "50%", log)
    assert done.status == 0 and "limit: 2 per minute" in done.out and "<- the limit" in done.out
    rules = ["--rules", replay.folder / "rules.yaml"]
    assert "did you mean login?" in run("suggest", *rules, "--rule", "logn", log).err
    assert "which rule?" in run("suggest", *rules, log).err
    assert "expected a share" in run("suggest", "--touch", "many", log).err
    done = run("suggest", *rules, "--rule", "keyed", log)
    assert done.status == 1 and "is of the rule keyed" in done.err and "needs api_key" in done.err


def test_suggest_says_why_there_is_no_limit(replay):
    rules = """
limits:
  - {name: free, when: {path: /login}, key: ip, limit: unlimited}
  - {name: paced, when: {path: /login}, key: ip, limit: 1 per second queue 2}
"""
    replay(logins(5, step=0) + logins(1, "192.0.2.2"), rules=rules, text=True)
    log, of = replay.folder / "log0", ["--rules", replay.folder / "rules.yaml", "--rule"]
    assert "rule free sets no limit for its requests in this log" in run("suggest", *of, "free", log).err
    done = run("suggest", *of, "paced", log)
    assert done.status == 0 and "limit: none is enough" in done.out and "give it a longer queue" in done.out, done
    [found] = run("suggest", "--json", *of, "paced", log).json["suggestions"]
    assert found["limit"] is found["amount"] is None and found["distribution"] == [{"from": 1, "clients": 1},
                                                                                  {"from": None, "clients": 1}]
    assert run("suggest", "--json", *of, "paced", "--touch", "50%", log).json["suggestions"][0]["limit"] == "1 per second queue 2"
    assert "no request in this log has user; --by says" in run("suggest", "--by", "user", log).err
    assert "--by is for suggest without --rules" in run("suggest", *of, "paced", "--by", "user", log).err
    assert "are before --from" in run("suggest", "--from", "2027-01-01", log).err
    assert "write 0.05%, or 5% if you mean" in run("suggest", "--touch", "0.05", log).err
    assert "--touch allows less than one of them" in run("suggest", log).out
    assert "--touch allows less" not in run("suggest", "--touch", "50%", log).out


# --- pages -----------------------------------------------------------------------------------------------

class Page(html.parser.HTMLParser):
    """Checks that elements are closed as they were opened; collects texts and what is fetched."""

    VOID = {"meta", "br", "rect", "line"}

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.fetched, self.tags = [], "", [], []
        self.feed(text)
        assert self.open == []

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_page_is_whole_and_has_no_other_files(replay):
    nasty = "</pre><script>alert(1)</script>&"
    rules = "limits: [{name: a, key: path, limit: 1 per minute}]"
    replay(line(request=f"GET /{nasty} HTTP/1.1") * 3 + line(1) * 3, rules=rules, text=True,
           options=["--html", replay.folder / "page.html"])
    page = Page((replay.folder / "page.html").read_text())
    assert page.fetched == [] and "script" not in page.tags and page.tags.count("svg") == 3
    assert nasty in page.text and "4 (67 %)" in page.text
    assert "1970" not in run("replay", "--rules", replay.folder / "rules.yaml", "--html", "-", "/dev/null").out
    done = run("suggest", "--html", "-", replay.folder / "log0")
    page = Page(done.out)
    assert done.status == 0 and page.fetched == [] and page.tags.count("svg") == 1
    assert "limit: 6 per minute" in page.text


def test_decisions_are_written_one_by_one(replay):
    replay(logins(4), text=True, options=["--decisions", replay.folder / "all.csv"])
    rows = (replay.folder / "all.csv").read_text().splitlines()
    assert rows[0] == "time,decision,rule,remaining,wait" and len(rows) == 5
    assert rows[4] == "1795075203.000000000,refused,login,0,57.000000000"
    replay(line(request="GET / HTTP/1.1"), text=True, options=["--decisions", replay.folder / "all.csv"],
           rules="limits: [{name: login, when: {path: /login}, key: ip, limit: 3 per minute}]")
    assert (replay.folder / "all.csv").read_text().splitlines()[1:] == ["1795075200.000000000,allowed,,,0.000000000"]
