# SPDX-License-Identifier: Apache-2.0
"""Answers as their readers see them: header fields through a parser of
structured fields (RFC 9651), bodies through Python's json, metrics through
promtool. Random names and numbers.

The programs are tests/programs/print_decisions.c and print_metrics.c; RATION_BUILD names
the build directory.
"""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("RATION_BUILD", ROOT / "build")).resolve() / "tests"

SEED = int(os.environ.get("RATION_SEED", "20260101"))
WALL_NS = 1800000000123456789
SECOND = 10**9
NEVER = 2**63 - 1
UNLIMITED = 2**64 - 1
BOTH, X, IETF, NONE = range(4)


# --- structured fields, RFC 9651 ---------------------------------------------

INTEGER = re.compile(r"-?[0-9]{1,15}(?![0-9.])")
KEY = re.compile(r"[a-z*][a-z0-9_\-.*]*")
STRING = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])*)"')


class Field:
    """A list of strings with parameters, by the algorithms of section 4.2."""

    def __init__(self, text):
        self.text, self.at = text, 0

    def take(self, pattern):
        match = pattern.match(self.text, self.at)
        assert match, f"{self.text!r}: {pattern.pattern} expected at {self.at}"
        self.at = match.end()
        return match

    def skip(self, chars):
        while self.text[self.at : self.at + 1] and self.text[self.at] in chars:
            self.at += 1

    def bare(self):
        if self.text[self.at : self.at + 1] == '"':
            return re.sub(r"\\(.)", r"\1", self.take(STRING).group(1))
        return int(self.take(INTEGER).group())

    def item(self):
        value, parameters = self.bare(), {}
        while self.text[self.at : self.at + 1] == ";":
            self.at += 1
            self.skip(" ")
            key = self.take(KEY).group()
            assert key not in parameters
            assert self.text[self.at] == "="
            self.at += 1
            parameters[key] = self.bare()
        return value, parameters

    def items(self):
        self.skip(" ")
        found = [self.item()]
        while self.at < len(self.text):
            self.skip(" \t")
            assert self.text[self.at] == ","
            self.at += 1
            self.skip(" \t")
            assert self.at < len(self.text), "a comma at the end"
            found.append(self.item())
        return found


def test_the_parser_of_fields_refuses_malformed_fields():
    assert Field('"a\\"b";q=1;w=2, "c"').items() == [('a"b', {"q": 1, "w": 2}), ("c", {})]
    for bad in ['"a', '"a\\b"', '"é"', '"a";Q=1', '"a";q=1234567890123456', '"a",', '"a";q=1;q=2',
                '"a" "b"', '"a";q=1.', 'a']:
        with pytest.raises(AssertionError):
            Field(bad).items()


# --- decisions -----------------------------------------------------------------


def random_name(rng):
    plain = [b"api", b"api-2", b"api-3", b"login", b"a"]
    parts = [b"a", b'"', b"\\", b"-", b"-2", b" ", b",", b";q=1", "é".encode(), b"\xff", b"\t", b"\x7f"]
    if rng.random() < 0.6:
        return rng.choice(plain)
    return b"".join(rng.choice(parts) for _ in range(rng.randint(1, 40)))[:63]


def random_ns(rng):
    return rng.choice([0, 1, SECOND - 1, SECOND, SECOND + 1, NEVER, rng.randrange(2**rng.randint(1, 62))])


def random_limit(rng):
    limit = rng.choice([0, 1, 100, 10**15, UNLIMITED, rng.randrange(10**15)])
    return {
        "name": random_name(rng),
        "limit": limit,
        "remaining": UNLIMITED if limit == UNLIMITED else rng.randint(0, limit),
        "reset": random_ns(rng),
        "period": rng.choice([0, 1, 60 * SECOND, 60 * SECOND + 1, rng.randrange(1, 2**58)]),
        "shadow": rng.random() < 0.2,
    }


def random_decision(rng):
    return {
        "family": rng.randrange(4),
        "allowed": rng.random() < 0.5,
        "retry": random_ns(rng),
        "reset": random_ns(rng),
        "message": rng.choice([b"", "Say \"please\" é\n".encode(), b"\xff\x01\\"]),
        "limits": [random_limit(rng) for _ in range(rng.randint(1, 16))],
    }


def signed(n):
    return n - 2**64 if n >= 2**63 else n


def tell(decisions):
    lines = []
    for d in decisions:
        words = [d["family"], int(d["allowed"]), d["retry"], d["reset"], "x" + d["message"].hex()]
        words.append(len(d["limits"]))
        for l in d["limits"]:
            words += ["x" + l["name"].hex(), signed(l["limit"]), signed(l["remaining"])]
            words += [l["reset"], l["period"], int(l["shadow"])]
        lines.append(" ".join(map(str, words)))
    done = subprocess.run(
        [PROGRAMS / "print_decisions"], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(decisions)
    return [tuple(bytes.fromhex(part) for part in line.split(" ")) for line in answers]


@pytest.fixture(scope="module")
def answers():
    rng = random.Random(SEED)
    decisions = [random_decision(rng) for _ in range(3000)]
    return list(zip(decisions, tell(decisions)))


def headers_of(raw):
    if not raw:
        return {}
    lines = raw.decode("ascii").split("\r\n")
    assert lines.pop() == ""
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    assert all(32 <= ord(c) < 127 for c in "".join(lines))
    return headers


def up(ns):
    return -(-ns // SECOND)


def told(decision):
    return [l for l in decision["limits"] if not l["shadow"] and l["limit"] != UNLIMITED]


def test_ietf_fields_say_what_the_limits_are(answers):
    seen = 0
    for decision, (raw, _, _) in answers:
        headers = headers_of(raw)
        limits = told(decision)
        if decision["family"] not in (IETF, BOTH) or not limits:
            assert "RateLimit" not in headers and "RateLimit-Policy" not in headers
            continue
        policies, states = (Field(headers[name]).items() for name in ("RateLimit-Policy", "RateLimit"))
        most = 10**15 - 1
        assert len(policies) == len(states) == len(limits)
        for limit, (name, policy), (again, state) in zip(limits, policies, states):
            assert name == again
            ascii_name = "".join(chr(b) if 32 <= b < 127 else "?" for b in limit["name"])
            assert re.fullmatch(re.escape(ascii_name) + r"(-[0-9]+)?", name)
            expected = {"q": min(limit["limit"], most)}
            if limit["period"]:
                expected["w"] = up(limit["period"])
            else:
                expected["qu"] = "concurrent-requests"
            assert policy == expected
            expected = {"r": min(limit["remaining"], most)}
            if limit["reset"] != NEVER:
                expected["t"] = up(limit["reset"])
            assert state == expected
        assert len({name for name, _ in policies}) == len(policies)
        seen += 1
    assert seen > 500


def test_x_headers_say_what_the_decisive_limit_is(answers):
    for decision, (raw, _, _) in answers:
        headers, first = headers_of(raw), decision["limits"][0]
        expected = {}
        if decision["family"] in (X, BOTH) and not first["shadow"] and first["limit"] != UNLIMITED:
            expected["X-RateLimit-Limit"] = str(first["limit"])
            expected["X-RateLimit-Remaining"] = str(first["remaining"])
            if decision["reset"] != NEVER:
                expected["X-RateLimit-Reset"] = str(up(min(WALL_NS + decision["reset"], NEVER)))
        if not decision["allowed"] and decision["retry"] != NEVER:
            expected["Retry-After"] = str(max(1, up(decision["retry"])))
            if decision["family"] in (X, BOTH):
                expected["X-RateLimit-Retry-After"] = expected["Retry-After"]
        assert {k: v for k, v in headers.items() if not k.startswith("RateLimit")} == expected


def seconds(ns):
    return None if ns == NEVER else -(-ns // 10**6) / 1000


def text(raw):
    return raw.decode("utf-8", "replace")


def count(n, limit):
    return None if limit == UNLIMITED else n


def test_bodies_are_json_that_says_the_same(answers):
    for decision, (_, raw, raw_problem) in answers:
        body, problem = json.loads(raw), json.loads(raw_problem)
        first = decision["limits"][0]
        assert body["allowed"] is decision["allowed"]
        assert body["limit"] == count(first["limit"], first["limit"])
        assert body["remaining"] == count(first["remaining"], first["limit"])
        assert body["reset_after"] == seconds(decision["reset"])
        assert body["retry_after"] == seconds(decision["retry"])
        for limit, entry in zip(decision["limits"], body["limits"], strict=True):
            assert entry.get("shadow", False) is limit["shadow"]
            assert entry["limit"] == count(limit["limit"], limit["limit"])
            assert entry["remaining"] == count(limit["remaining"], limit["limit"])
            assert entry["reset_after"] == seconds(limit["reset"])
            assert set(entry) - {"shadow"} == {"rule", "limit", "remaining", "reset_after"}
        if decision["allowed"]:
            assert problem == body and "error" not in body
            continue
        assert body["error"] == "rate_limited"
        assert body["window"] == (seconds(first["period"]) or None)
        assert problem.pop("detail") == body.pop("message")
        assert problem.pop("status") == 429
        assert problem.pop("title") and problem.pop("type").endswith("#quota-exceeded")
        policies = problem.pop("violated-policies", [])
        refused = sum(not limit["shadow"] for limit in decision["limits"])
        assert len(set(policies)) == len(policies) == refused
        assert problem == body


def test_bytes_that_are_not_utf8_do_not_get_into_bodies(answers):
    for decision, (_, raw, _) in answers:
        body = json.loads(raw.decode("utf-8"))
        for limit, entry in zip(decision["limits"], body["limits"]):
            valid = limit["name"].decode("utf-8", "ignore").encode() == limit["name"]
            assert not valid or entry["rule"] == limit["name"].decode()
            assert valid or "\ufffd" in entry["rule"]


# --- metrics ---------------------------------------------------------------------


def metrics_page():
    return subprocess.run([PROGRAMS / "print_metrics"], capture_output=True, check=True, timeout=30).stdout


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say_about_metrics():
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=metrics_page(), capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_notices_a_broken_page():
    page = metrics_page().replace(b'\\"', b'"', 1)
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, timeout=60)
    assert done.returncode != 0


def test_buckets_never_count_less_than_those_before():
    page = metrics_page().decode()
    buckets = re.findall(r'_bucket\{.*le="([^"]+)"\} (\d+)$', page, re.M)
    bounds, counts = [float(le) for le, _ in buckets], [int(n) for _, n in buckets]
    assert bounds == sorted(set(bounds)) and bounds[-1] == float("inf")
    assert counts == sorted(counts)
    assert int(re.search(r"_count\{.*\} (\d+)$", page, re.M).group(1)) == counts[-1]
