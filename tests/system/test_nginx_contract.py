# SPDX-License-Identifier: Apache-2.0
"""The contract of every protocol, as far as a gateway can be asked it.

The scenarios of tests/contract/ whose steps are plain checks: attributes go in as
headers. Left out is what a request to a gateway cannot say (costs, peeks, leases, an
attribute that is absent although nginx always knows it), and what it does not tell
(an admission has headers, but no decision as JSON). Delays are waited for, which
takes for ever on a clock that stands still: test_nginx.py has those.

Once with nginx deciding itself, and once with rationd deciding for it.
"""

import contextlib
import json
import re

import pytest

from daemon import Daemon
from gateway import MODULE, SANITIZED, Gateway
from stillclock import START, StillClock
from test_contract import scenarios, text_of

pytestmark = pytest.mark.skipif(SANITIZED is not None or not MODULE.exists(),
                                reason="needs the module, and its own way to be loaded")

ALWAYS_THERE = ("ip", "method", "path", "host", "scheme")
SAYABLE = {"check", "advance", "wall", "times", "expect", "http", "apart"}
DELAYS = re.compile(r"queue|throttle|concurrent|leaky")


def sayable(rules, scenario):
    steps = scenario["steps"]
    if DELAYS.search(rules) or any(step.keys() - SAYABLE for step in steps):
        return False
    for step in steps:
        asked = step.get("check")
        if asked is None:
            continue
        if "limit" in asked or "error" in step.get("expect", {}):
            return False
        if any(re.search(rf"\b{name}\b", rules) and name not in asked for name in ALWAYS_THERE):
            return False
        if not all(re.fullmatch(r"[!-~]([ -~]*[!-~])?", text_of(v)) for v in asked.values()):
            return False
        if not all(re.fullmatch(r"(header\.)?[a-z0-9_-]+", name) for name in asked):
            return False
    return True


def header_of(attribute):
    return attribute[7:] if attribute.startswith("header.") else "x-a-" + attribute.replace("_", "-")


def directives(scenario):
    names = {name for step in scenario["steps"] for name in step.get("check", {})
             if not name.startswith("header.")}
    return "\n".join(f"ration_attribute {n} $http_{header_of(n).replace('-', '_')};"
                     for n in sorted(names))


def ask(connection, asked):
    connection.request("GET", "/", headers={header_of(n): text_of(v) for n, v in asked.items()})
    response = connection.getresponse()
    body = response.read()
    told = {"allowed": response.status == 200}
    for member in ("limit", "remaining"):
        value = response.headers[f"x-ratelimit-{member}"]
        if value is not None:
            told[member] = int(value)
    if response.status == 200:
        told["retry_after"] = 0
    else:
        told.update(json.loads(body))
    return response.status, response.headers, told


def play(connection, step):
    answers = [ask(connection, step["check"]) for _ in range(step.get("times", 1))]
    status, headers, last = answers[-1]
    for member, value in step.get("expect", {}).items():
        if member == "allowed_of":
            assert sum(told["allowed"] for _, _, told in answers) == value, step
        elif member == "limits" and not last["allowed"]:
            count = value if isinstance(value, int) else len(value)
            assert len(last["limits"]) == count, (step, last)
        elif member in last and member != "limits":
            assert last[member] == value, (member, step, last)
    assert status == step.get("http", {}).get("status", status), step
    for name, value in step.get("http", {}).get("headers", {}).items():
        assert headers[name] == value, (name, step)


SAID = [p for p in scenarios() if sayable(*p.values)]


def play_all(g, clock, scenario):
    try:
        g.start(env=clock.env())
        with contextlib.closing(g.connection()) as connection:
            for step in scenario["steps"]:
                clock.advance(step.get("advance", 0))
                clock.set_wall(step.get("wall", 0))
                if "check" in step:
                    play(connection, step)
    finally:
        g.stop()


def gateway(folder, rules, scenario, http=""):
    return Gateway(folder, rules, "ration on; location / { empty_gif; }",
                   http=directives(scenario) + " keepalive_requests 100000;" + http,
                   top="env STILLCLOCK; env LD_PRELOAD;", log_level="error")


@pytest.mark.parametrize("rules, scenario", SAID)
def test_the_gateway_decides_as_every_protocol_does(tmp_path, rules, scenario):
    clock = StillClock(tmp_path / "clock", scenario.get("at", START))
    play_all(gateway(tmp_path, rules, scenario), clock, scenario)


@pytest.mark.parametrize("rules, scenario", SAID)
def test_the_gateway_passes_on_what_rationd_decides(tmp_path, rules, scenario):
    clock = StillClock(tmp_path / "clock", scenario.get("at", START))
    home = tmp_path / "rationd"
    home.mkdir()
    with Daemon(home, rules, ["--resp", f"unix:{home}/resp"], env=clock.env()):
        # Rules of its own would admit everything.
        asking = f"ration_server unix:{home}/resp timeout=30s;"
        play_all(gateway(tmp_path, "limits: []\n", scenario, asking), clock, scenario)


def test_a_good_part_of_the_contract_can_be_asked_of_a_gateway():
    assert len(SAID) >= 60
