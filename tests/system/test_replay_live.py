# SPDX-License-Identifier: Apache-2.0
"""`ration replay` decides as rationd does: the same requests, to a daemon whose clock is moved by
hand and as a log with the same times, get the same decisions.

RATION_SOAK=1 sends a million requests to each set of rules, else there are 20,000 in all.
"""

import csv
import datetime
import json
import os
import random

import pytest

from daemon import Daemon
from ration_command import run
from stillclock import START, StillClock

ALGORITHMS = {
    "token bucket": "[{name: a, key: ip, limit: 20 per minute}]",
    "burst": "[{name: a, key: ip, limit: 60 per minute burst 7}]",
    "steps": "[{name: a, key: ip, limit: 20 per minute in steps of 6s}]",
    "leaky bucket": "[{name: a, key: ip, limit: 1 per second queue 5}]",
    "fixed window": "[{name: a, key: ip, limit: 15 per minute, algorithm: fixed-window}]",
    "window from first": "[{name: a, key: ip, limit: 15 per minute, algorithm: fixed-window, "
                         "align: first}]",
    "sliding log": "[{name: a, key: ip, limit: 15 per minute, algorithm: sliding-log}]",
    "sliding window": "[{name: a, key: ip, limit: 15 per minute, algorithm: sliding-window}]",
    "sub-windows": "[{name: a, key: ip, limit: 15 per minute, algorithm: sliding-window, sub_windows: 6}]",
    "calendar": "[{name: a, key: ip, limit: 40 per calendar day Europe/Rome}]",
    "fine": "[{name: a, key: ip, limit: 7 per 3 s burst 9}]",
    "several": """
  - {name: all, limit: 30 per second burst 60}
  - {name: client, key: ip, limit: 20 per minute}
  - {name: login, when: {path: /login}, key: ip, limit: 5 per minute, algorithm: sliding-log}
  - {name: pages, when: {path: /pages/**}, key: [ip, path], limit: 3 per 10 s, algorithm: fixed-window}
  - {name: writes, when: {method: POST}, key: ip, limit: 1 per second queue 3}
  - {name: trial, mode: shadow, key: ip, limit: 2 per minute}
""",
    "bans": "[{name: a, key: ip, limit: 5 per minute, escalate: {after: 3 refusals within 1m, ban: 2m, grow: 2x}}]",
    "soft": "[{name: a, key: ip, limit: 20 per minute, soft: 20%}]",
    "throttle": "[{name: a, key: ip, limit: 20 per minute, throttle: {from: 50%}}]",
    "tiers": """
  - name: a
    key: ip
    limit: {by: tier, free: 5 per minute, pro: 20 per minute burst 5, default: free}
""",
    "costs": "[{name: a, key: ip, limit: 50 per minute, cost: {attribute: weight, default: 1, max: 20}}]",
}


def times_of_requests(count, dice):
    """When requests come: in bunches at one time, moments apart, and minutes apart."""
    passed = 0
    while count > 0:
        passed += dice.choice([0.001, 0.02, 0.25, 0.25, 1, 3, dice.random(), 90 * dice.random()])
        bunch = min(count, dice.choice([1, 2, 5, 20]))
        yield round(passed * 1e9), bunch
        count -= bunch


def make_request(dice):
    return {"ip": f"192.0.2.{dice.choice([1, 1, 1, 2, 2, 3, 4, 5, 6])}",
            "path": dice.choice(["/", "/login", "/pages/1", "/pages/2"]),
            "method": dice.choice(["GET", "GET", "POST"]),
            "tier": dice.choice(["free", "pro", "other"]), "weight": str(dice.randrange(1, 9))}


def decide_live(folder, rules, requests):
    """(allowed, delayed, rule, remaining, wait in ms) of each."""
    clock = StillClock(folder / "clock")
    begun, decided = clock.wall_ns, []
    options = ["--workers", "1", "--memory", "16M", "--http", "none"]
    with Daemon(folder, rules, options, env=clock.env()) as daemon, daemon.resp() as resp:
        resp("HELLO", "3")
        for at_ns, bunch in requests:
            clock.advance((begun + at_ns - clock.wall_ns) / 1e9)
            assert clock.wall_ns == begun + at_ns
            for request in bunch:
                resp.send("RATION.CHECK", *(word for pair in request.items() for word in pair))
            for _ in bunch:
                answer = resp.read()
                allowed, delay = answer[b"allowed"], float(answer[b"delay"])
                wait = delay if allowed else answer[b"retry_after"]
                decided.append((allowed, allowed and delay > 0, (answer[b"rule"] or b"").decode(),
                                answer[b"remaining"] or 0, None if wait is None else round(float(wait) * 1000)))
    return decided


def decide_by_log(folder, rules, requests):
    begun = int(START.replace(tzinfo=datetime.timezone.utc).timestamp()) * 10**9
    with open(folder / "log", "w") as log:
        for at_ns, bunch in requests:
            seconds, rest = divmod(begun + at_ns, 10**9)
            for request in bunch:
                log.write(json.dumps({"time": f"{seconds}.{rest:09}", **request}) + "\n")
    (folder / "replayed.yaml").write_text(rules)
    done = run("replay", "--rules", folder / "replayed.yaml", "--format", "json", "--map",
               "weight=weight", "--decisions", "-", folder / "log")
    assert done.status == 0, done
    decided = []
    for row in csv.DictReader(done.out.splitlines()):
        wait = None if row["wait"] == "never" else -(-int(row["wait"].replace(".", "")) // 10**6) # ns, rounded up to ms
        decided.append((row["decision"] != "refused", row["decision"] == "delayed", row["rule"],
                        int(row["remaining"]), wait))
    return decided


@pytest.mark.parametrize("name", ALGORITHMS)
def test_replay_decides_as_a_daemon_does(tmp_path, name):
    count = 1000000 if os.environ.get("RATION_SOAK") else 20000 // len(ALGORITHMS)
    dice = random.Random(name)
    rules = "limits: " + ALGORITHMS[name] + "\n"
    requests = [(at_ns, [make_request(dice) for _ in range(bunch)])
                for at_ns, bunch in times_of_requests(count, dice)]
    live, replayed = decide_live(tmp_path, rules, requests), decide_by_log(tmp_path, rules, requests)
    assert len(live) == len(replayed) == count
    for number, (expected, got) in enumerate(zip(live, replayed)):
        assert got == expected, f"request {number}"
    assert {d[0] for d in live} == {True, False} or name == "throttle" and any(d[1] for d in live), \
        "nothing was refused: the test would not notice much"


ENDS = {
    "outcome": """
  - {name: failures, key: ip, limit: 3 per minute, charge_on: "status 401, 403"}
  - {name: all, key: ip, limit: 30 per minute}
""",
    "places": """
  - {name: places, key: ip, limit: 3 concurrent}
  - {name: all, key: ip, limit: 200 per minute}
""",
}


def make_requests_with_ends(count, dice):
    """(arrival, end, request, status) in ns, all times different, so that there is one order."""
    arrivals = sorted(dice.sample(range(1, 200 * count), count)) # ms
    ends = [at + 200 * dice.randrange(0, 30) for at in arrivals]
    return [(at * 1000000, end * 1000000 + 500000, make_request(dice), dice.choice([200, 401, 403]))
            for at, end in zip(arrivals, ends)]


def decide_live_until_ends(folder, rules, requests):
    clock = StillClock(folder / "clock")
    begun, allowed = clock.wall_ns, [None] * len(requests)
    steps = sorted([(r[0], 0, i) for i, r in enumerate(requests)] + [(r[1], 1, i) for i, r in enumerate(requests)])
    held, owed = {}, {}
    options = ["--workers", "1", "--memory", "16M", "--http", "none"]
    with Daemon(folder, rules, options, env=clock.env()) as daemon, daemon.resp() as resp:
        resp("HELLO", "3")
        for at_ns, ended, i in steps:
            clock.advance((begun + at_ns - clock.wall_ns) / 1e9)
            if not ended:
                words = (word for pair in requests[i][2].items() for word in pair)
                answer = resp("RATION.ACQUIRE", "RULES", *words) if "concurrent" in rules else \
                    resp("RATION.CHECK", *words)
                allowed[i] = (answer[b"allowed"], (answer[b"rule"] or b"").decode())
                held[i], owed[i] = answer.get(b"lease"), answer.get(b"charge")
            elif held[i]:
                assert resp("RATION.RELEASE", held[i]) == 1
            elif owed[i]:
                resp("RATION.CHARGE", owed[i], requests[i][3])
    return allowed


@pytest.mark.parametrize("name", ENDS)
def test_ends_of_requests_count_when_they_come(tmp_path, name):
    """The log has the requests in the order in which they ended, and how long each lasted."""
    dice, rules = random.Random(name), "limits: " + ENDS[name]
    requests = make_requests_with_ends(20000 if os.environ.get("RATION_SOAK") else 2000, dice)
    live = decide_live_until_ends(tmp_path, rules, requests)
    begun = int(START.replace(tzinfo=datetime.timezone.utc).timestamp()) * 10**9
    with open(tmp_path / "log", "w") as log:
        for arrived, ended, request, status in sorted(requests, key=lambda r: r[1]):
            log.write(json.dumps({"end": f"{(begun + ended) // 10**9}.{(begun + ended) % 10**9:09}", "status": status,
                                  "took": f"{(ended - arrived) / 1e9:.9f}", **request}) + "\n")
    (tmp_path / "replayed.yaml").write_text(rules)
    done = run("replay", "--rules", tmp_path / "replayed.yaml", "--format", "json", "--map", "end=end",
               "--map", "duration=took:s", "--decisions", "-", tmp_path / "log")
    assert done.status == 0, done
    replayed = [(row["decision"] != "refused", row["rule"]) for row in csv.DictReader(done.out.splitlines())]
    assert replayed == live
    assert {allowed for allowed, _ in live} == {True, False}
