# SPDX-License-Identifier: Apache-2.0
"""The contract of every protocol, as far as a gateway can be asked it.

Attributes go in as headers, the cost of a step as an attribute that every rule reads.
Who looks (`peek`) is the command line, at the same state. What holds a place, or has an
outcome that is told later (`as`), is a request that the application keeps until the
scenario goes on: `release` and `charge` are its answer. A request that is delayed is left
waiting; when the clock has been moved far enough it must have its answer, and before not.

    cannot be asked      because
    -------------------  ---------------------------------------------------------------
    a limit that comes   rules come from the file, and from nowhere else
      along (take)
    reservations         a request to a gateway is not settled later
    renewing, `for`      the gateway renews by itself, for as long as the request lasts
    wait                 the gateway does the waiting, always
    an end twice, or     a request ends once; that is when its place is free and its
      too late           outcome is known
    an attribute that    nginx always knows address, method, path, host and scheme
      is absent
    odd names, values    are no headers
    mistakes             a gateway reads no JSON
    drain, a negative    a request of a client charges its rules and nothing else
      cost

What is not told by headers (when a limit is full again, of an admission) is not compared.
"""

import contextlib
import functools
import http.server
import itertools
import json
import math
import queue
import re
import select
import subprocess
import tempfile
import threading

import pytest
import yaml

from daemon import Daemon, wait_for
from gateway import BUILD, MODULE, PATIENCE, SANITIZED, Gateway
from stillclock import START, StillClock
from test_contract import scenarios, text_of

pytestmark = pytest.mark.skipif(SANITIZED is not None or not MODULE.exists(),
                                reason="needs the module, and its own way to be loaded")

COST = "cost-of-step"
NOWHERE = "/~nowhere~"
HOST = "nowhere.invalid"
ALWAYS_THERE = {"ip": "127.0.0.1", "method": "GET", "path": NOWHERE, "host": HOST, "scheme": "http"}
SOON = 0.6  # seconds of a delay that are waited for on a real clock, too


# --- what can be asked -----------------------------------------------------------------

def explained(rules, asked, *more, env=None):
    """What `ration explain` says of a request with these attributes."""
    words = [f"{name}={text_of(value)}" for name, value in asked.items()]
    done = subprocess.run([str(BUILD / "ration"), "explain", "--json", "--matching", *more,
                           str(rules), "--", *words], capture_output=True, text=True,
                          timeout=PATIENCE, env=env)
    return json.loads(done.stdout)


@functools.lru_cache(maxsize=None)
def applying(rules, words):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(rules)
        file.flush()
        told = explained(file.name, dict(words))
    return told.get("list"), [{n: r.get(n) for n in ("rule", "key", "tier", "cost")}
                              for r in told.get("rules", [])]


def must_be_absent(rules, asked):
    """Whether it makes a difference that nginx always knows some attributes."""
    known = {name: value for name, value in ALWAYS_THERE.items() if re.search(rf"\b{name}\b", rules)}
    if not known.keys() - asked.keys():
        return False
    return applying(rules, tuple(asked.items())) != applying(rules, tuple({**known, **asked}.items()))


def is_header(name, value):
    return re.fullmatch(r"(header\.)?[a-z0-9_-]+", name) and re.fullmatch(r"[!-~]([ -~]*[!-~])?",
                                                                          text_of(value))


def why_not_step(rules, step):
    asked = step.get("check", step.get("acquire", step.get("peek")))
    if "take" in step or "limit" in (asked or {}):
        return "comes along"
    if step.keys() & {"reserve", "commit", "refund"}:
        return "reservation"
    if step.keys() & {"renew", "for"}:
        return "renewing"
    if "wait" in step:
        return "wait"
    if "drain" in step or str(step.get("cost", 0)).startswith("-"):
        return "drain or credit"
    if "error" in step.get("expect", {}):
        return "mistake"
    if asked is None:
        return None
    if not all(is_header(name, value) for name, value in asked.items()):
        return "odd"
    return "absent" if must_be_absent(rules, asked) else None


def why_not(rules, scenario):
    whys = [why_not_step(rules, step) for step in scenario["steps"]]
    ends = [step for step in scenario["steps"] if "charge" in step or "release" in step]
    names = [step.get("charge", step.get("release")) for step in ends]
    late = [step for step in ends if step.get("http", {}).get("status") == 410]
    whys += ["twice or late"] if late or len(names) != len(set(names)) else []
    return next((why for why in whys if why), None)


# --- the application -----------------------------------------------------------------------

class Application:
    """Keeps each request until the test gives the status to answer with."""

    def __init__(self):
        self.kept = {}
        application = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                status = application.kept.setdefault(self.path, queue.Queue()).get()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("content-length", "0")
                    self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        for each in self.kept.values():
            each.put(200)
        self.server.shutdown()
        self.server.server_close()


# --- playing -----------------------------------------------------------------------------------

def header_of(attribute):
    return attribute[7:] if attribute.startswith("header.") else "x-a-" + attribute.replace("_", "-")


def with_costs(text, scenario):
    """The rules, in which every one reads the cost of a step unless it has its own."""
    if not any("cost" in step for step in scenario["steps"]):
        return text
    rules = yaml.safe_load(text)
    for rule in rules["limits"]:
        rule.setdefault("cost", {"attribute": COST, "default": 1})
    return json.dumps(rules, default=str)


def asked_of(step):
    verb = next((v for v in ("check", "acquire", "peek") if v in step), None)
    if verb is None:
        return None, None
    return verb, {**step[verb], **({COST: step["cost"]} if "cost" in step else {})}


def directives(scenario):
    names = {name for step in scenario["steps"] for name in asked_of(step)[1] or ()
             if not name.startswith("header.")}
    return "\n".join(f"ration_attribute {n} $http_{header_of(n).replace('-', '_')};"
                     for n in sorted(names))


def told_by(status, headers, body):
    """What the answer says of the decision."""
    told = {"allowed": headers["x-verdict"] != "refused", "rule": headers["x-rule"], "delay": 0,
            "soft": headers["x-ratelimit-soft"] is not None,
            "shadow": headers["x-verdict"] == "shadow"}
    for member in ("limit", "remaining"):
        value = headers[f"x-ratelimit-{member}"]
        if value is not None:
            told[member] = int(value)
    left = re.findall(r'"([^"\\]+)";r=(\d+)', ", ".join(headers.get_all("ratelimit", [])))
    told["left"] = {rule: int(remaining) for rule, remaining in left}
    if told["allowed"]:
        told["retry_after"] = 0
    else:
        told.update(json.loads(body))
    return status, headers, told


class Request:
    """One that has its answer, or is kept by the application, or waits in nginx."""

    def __init__(self, play, asked, keep):
        self.play, self.result, self.delay_ms = play, None, None
        self.path = f"/keep/{next(play.numbers)}" if keep else NOWHERE
        self.connection = play.gateway.connection()
        self.connection.request("GET", self.path, headers={
            "host": HOST, **{header_of(n): text_of(v) for n, v in asked.items()}})
        wait_for(self.is_decided, f"{asked} is decided")

    def is_decided(self):
        if self.answered(0.002):
            self.answer()
        elif len(self.play.delays()) > len(self.play.waiting):
            self.delay_ms = self.play.delays()[-1]
            self.due = self.play.clock.boot_ns + self.delay_ms * 10**6
            self.play.waiting.append(self)
        return self.result or self.delay_ms is not None or self.path in self.play.application.kept

    def answered(self, patience=0):
        return bool(select.select([self.connection.sock], [], [], patience)[0])

    def answer(self):
        response = self.connection.getresponse()
        self.result = told_by(response.status, response.headers, response.read())
        self.connection.close()

    def is_allowed(self):
        return self.result is None or self.result[2]["allowed"]


class Play:
    def __init__(self, gateway, clock, application, rules, daemon=None):
        self.gateway, self.clock, self.application = gateway, clock, application
        self.daemon = daemon  # that decides, if it is not the gateway
        self.keeps_all = "concurrent" in rules
        self.numbers, self.waiting, self.made, self.named = itertools.count(), [], [], {}

    def delays(self):
        """In milliseconds, of all requests that were ever delayed."""
        return [int(ms) for ms in re.findall(r"ration: delayed by .* for (\d+) ms",
                                             self.gateway.log("error"))]

    def peek(self, step, asked):
        folder = self.gateway.folder
        told = explained(folder / "rules.yaml", asked, "--state", str(folder / "state"),
                         env=self.clock.env())["decision"]
        expect(step, None, None, {**told, "left": {}})

    def ask(self, step, asked):
        keep = self.keeps_all or "as" in step or "acquire" in step
        made = [Request(self, asked, keep) for _ in range(step.get("times", 1))]
        self.made += made
        if "allowed_of" in step.get("expect", {}):
            assert sum(r.is_allowed() for r in made) == step["expect"]["allowed_of"], step
        if made[-1].result:
            expect(step, *made[-1].result)
        elif made[-1].delay_ms is not None:
            expect_delay(step, made[-1].delay_ms)
        else:
            self.named[step.get("as")] = step, made[-1]

    def end(self, name, status):
        """The application answers, and the outcome is charged."""
        step, request = self.named.pop(name)
        self.application.kept[request.path].put(status)
        request.answer()
        expect({**step, "http": {}}, *request.result)
        self.gateway.ask("/free")  # when the only worker serves this, it is done with that
        if self.daemon:
            with self.daemon.resp() as redis:
                redis("PING")  # and its only worker has read what the gateway had to say

    def advance(self, step):
        self.clock.advance(step.get("advance", 0))
        self.clock.set_wall(step.get("wall", 0))
        for request in [r for r in self.waiting if not r.result]:
            if request.due > self.clock.boot_ns:
                assert not request.answered(), "a request that waits goes on early"
            elif request.delay_ms <= SOON * 1000:
                request.answer()
                assert request.is_allowed()

    def step(self, step):
        self.advance(step)
        verb, asked = asked_of(step)
        if verb == "peek" or step.get("cost") == 0:
            self.peek(step, asked)
        elif verb is not None:
            self.ask(step, asked)
        elif "release" in step:
            self.end(step["release"], 200)
        elif "charge" in step:
            self.end(step["charge"], step["status"])

    def close(self):
        for request in self.made:
            request.connection.close()


def expect_delay(step, delay_ms):
    """A request that waits tells nothing but that."""
    expected = step.get("expect", {})
    assert expected.get("allowed", True), step
    assert delay_ms == math.ceil(round(expected.get("delay", delay_ms / 1000) * 1000, 6)), step


def expect(step, status, headers, told):
    for member, value in step.get("expect", {}).items():
        if member == "limits" and isinstance(value, list):
            for wanted in value:
                if wanted.get("rule") in told["left"] and "remaining" in wanted:
                    assert told["left"][wanted["rule"]] == wanted["remaining"], (step, told)
        elif member == "limits" and "limits" in told:
            assert len(told["limits"]) == value, (step, told)
        elif member in told and member not in ("limits", "lease", "charge"):
            assert told[member] == value, (member, step, told)
    if status is None:
        return
    assert status == step.get("http", {}).get("status", status), step
    for name, value in step.get("http", {}).get("headers", {}).items():
        assert headers[name] == value, (name, step)


SAID = [p for p in scenarios() if not why_not(*p.values)]


def play_all(folder, clock, rules, scenario, **settings):
    with contextlib.closing(Application()) as application:
        port = application.server.server_address[1]
        told = "".join(f"add_header x-{n} $ration_{n} always;" for n in ("verdict", "rule"))
        asking, daemon = settings.pop("asking", ""), settings.pop("daemon", None)
        g = Gateway(folder, rules, f"ration on; {told} location / {{ empty_gif; }} "
                    f"location /free {{ ration off; empty_gif; }} location /keep/ {{ proxy_pass http://127.0.0.1:{port}; }}",
                    http=directives(scenario) + asking, top="env STILLCLOCK; env LD_PRELOAD;",
                    log_level="info", **settings)
        try:
            g.start(env=clock.env())
            if daemon:  # before the clock is moved: greetings have a deadline
                g.wait_for_log('" answers\n', "error")
            with contextlib.closing(Play(g, clock, application, rules, daemon)) as play:
                for step in scenario["steps"]:
                    play.step(step)
        finally:
            g.stop()
    return g


@pytest.mark.parametrize("rules, scenario", SAID)
def test_the_gateway_decides_as_every_protocol_does(tmp_path, rules, scenario):
    clock = StillClock(tmp_path / "clock", scenario.get("at", START))
    play_all(tmp_path, clock, with_costs(rules, scenario), scenario)


@pytest.mark.parametrize("rules, scenario", SAID)
def test_the_gateway_passes_on_what_rationd_decides(tmp_path, rules, scenario):
    clock = StillClock(tmp_path / "clock", scenario.get("at", START))
    rules = with_costs(rules, scenario)
    home = tmp_path / "rationd"
    home.mkdir()
    options = ["--resp", f"unix:{home}/resp", "--state", tmp_path / "state", "--memory", "8M",
               "--workers", "1"]
    with Daemon(home, rules, options, env=clock.env()) as daemon:
        g = play_all(tmp_path, clock, rules, scenario, daemon=daemon,
                     asking=f" ration_server unix:{home}/resp timeout=30s;",
                     zone=f"ration_zone 8m state={tmp_path}/own;")
    assert "until it answers again" not in g.log("error")


def test_most_of_the_contract_can_be_asked_of_a_gateway():
    reasons = [why_not(*p.values) for p in scenarios()]
    assert len(SAID) >= 240, {why: reasons.count(why) for why in set(reasons)}
