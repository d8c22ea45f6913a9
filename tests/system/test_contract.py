# SPDX-License-Identifier: Apache-2.0
"""The contract of every protocol: the same questions get the same answers.

Each file in tests/contract/ has rules and scenarios. A scenario is played to one
daemon for each protocol, all of them on one clock that stands still between the
steps, so that answers are exact. After each step the answers of all protocols must
be equal to the last digit, and have what the scenario expects.

    rules: |
      limits: [...]
    scenarios:
      - name: a burst, then refused
        at: 2030-01-01T00:00:00Z         # when it begins; this is the default
        steps:
          - check: {ip: 192.0.2.1}       # attributes; or take: {key, limit, algorithm}
            cost: 1
            times: 5
            expect: {allowed: true, remaining: 0}   # of the last; only what is named
          - advance: 12                  # seconds
          - reserve: {user: ann}         # as check; `as` names the lease
            as: order
          - commit: order                # also refund, release, renew
            cost: 3
            expect: {done: true}

Members of `expect`: those of a decision; `allowed_of: n` counts over `times`;
`limits: n` is how many apply; `error: text` is part of an error's message.
"""

import datetime
import os
import pathlib
import struct

import pytest
import yaml

from daemon import BUILD, Daemon, RespError

CONTRACT = pathlib.Path(__file__).resolve().parents[1] / "contract"
START = "2030-01-01T00:00:00Z"


# --- the protocols -----------------------------------------------------------------

class OverHttp:
    """Asks over HTTP."""

    def __init__(self, daemon):
        self.connection = daemon.connection()

    def _post(self, path, body):
        import json
        self.connection.request("POST", path, json.dumps(body))
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        if response.status in (400, 503):
            return {"error": answer["message"]}
        if response.status == 410:
            return {"done": False}
        assert (response.status == 200) == answer.get("allowed", True), (response.status, answer)
        return answer

    def decide(self, verb, what, options):
        body = dict(what) if "key" in what else {"attributes": what}
        body.update(options)
        path = {"check": "check", "peek": "check", "take": "throttle"}.get(verb, verb)
        if verb == "peek":
            body["peek"] = True
            path = "throttle" if "key" in what else "check"
        return self._post("/v1/" + path, body)

    def settle(self, verb, lease, options):
        answer = self._post("/v1/" + verb, {"lease": lease, **options})
        past = {"commit": "committed", "refund": "refunded", "release": "released",
                "renew": "renewed"}[verb]
        return {"done": answer[past]} if past in answer else answer

    def close(self):
        self.connection.close()


class OverResp:
    """Asks over the Redis protocol, in one of its versions."""

    def __init__(self, daemon, version):
        self.redis = daemon.resp()
        self.redis("HELLO", version)

    def _say(self, *words):
        try:
            return self.redis(*words)
        except RespError as error:
            return {"error": str(error).split(" ", 1)[1]}

    def decide(self, verb, what, options):
        by_key = "key" in what
        words = [f"RATION.{verb.upper()}"]
        if by_key:
            words += [what["key"], what["limit"]]
            if "cost" in options and verb in ("take", "peek", "reserve"):
                words.append(options.pop("cost"))
            elif verb == "reserve":
                words.append(1)
        else:
            if verb == "peek":
                words[0] = "RATION.CHECK"
            if verb in ("acquire", "reserve"):
                words.append("RULES")
            words += [word for pair in what.items() for word in pair]
        words += [word for name, value in options.items() for word in (name.upper(), value)]
        if by_key and "algorithm" in what:
            words += ["ALGORITHM", what["algorithm"]]
        if verb == "peek" and not by_key:
            words.append("PEEK")
        return plain(self._say(*words))

    def settle(self, verb, lease, options):
        words = [f"RATION.{verb.upper()}", lease]
        if "cost" in options:
            words.append(options["cost"])
        if "for" in options:
            words += ["FOR", options["for"]]
        answer = self._say(*words)
        return answer if isinstance(answer, dict) else {"done": answer == 1}

    def close(self):
        self.redis.close()


SECONDS = {"reset_after", "retry_after", "delay", "held"}
MARKS = {"allowed", "soft", "shadow", "banned"}


def plain(reply):
    """A decision of RESP2 or RESP3 as JSON would have it."""
    if isinstance(reply, dict) and "error" in reply:
        return reply
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2])
    decision = {}
    for name, value in pairs:
        name = name.decode()
        if name == "limits":
            value = [plain(limit) for limit in value]
        elif name in SECONDS and value is not None:
            value = float(value)
        elif name in MARKS:
            value = bool(value)
        elif isinstance(value, bytes):
            value = value.decode()
        decision[name] = value
    return decision


PROTOCOLS = {"http": OverHttp, "resp2": lambda d: OverResp(d, 2), "resp3": lambda d: OverResp(d, 3)}


# --- the clock ---------------------------------------------------------------------

class StillClock:
    """A file that tells daemons the time; see tests/programs/stillclock.c."""

    def __init__(self, path, at):
        moment = datetime.datetime.fromisoformat(at.replace("Z", "+00:00"))
        self.path, self.wall_ns = path, int(moment.timestamp()) * 10**9
        self.boot_ns = 10**15
        self._write()

    def _write(self):
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("=qq", self.boot_ns, self.wall_ns))

    def advance(self, seconds):
        ns = round(seconds * 10**9)
        self.boot_ns += ns
        self.wall_ns += ns
        self._write()

    def env(self):
        return {"STILLCLOCK": str(self.path),
                "LD_PRELOAD": str(BUILD / "tests" / "libstillclock.so")}


# --- playing -----------------------------------------------------------------------

VERBS = ("check", "take", "peek", "acquire", "reserve", "commit", "refund", "release", "renew")
OPTIONS = ("cost", "for")
# What differs between daemons, and what only refusals over HTTP have.
APART = {"lease", "error", "message", "window", "reset"}


class Play:
    """One scenario, to all daemons at once."""

    def __init__(self, clock, asked):
        self.clock, self.asked = clock, asked
        self.leases = {name: {} for name in asked}

    def ask(self, name, verb, step):
        options = {o: step[o] for o in OPTIONS if o in step}
        if verb in ("commit", "refund", "release", "renew"):
            return self.asked[name].settle(verb, self.leases[name].get(step[verb], step[verb]),
                                           options)
        answer = self.asked[name].decide(verb, {k: str(v) for k, v in step[verb].items()}, options)
        if "as" in step:
            self.leases[name][step["as"]] = answer.get("lease", "none")
        return answer

    def step(self, step):
        if "advance" in step:
            self.clock.advance(step["advance"])
            return
        verb = next(v for v in VERBS if v in step)
        answers = {name: [self.ask(name, verb, step) for _ in range(step.get("times", 1))]
                   for name in self.asked}
        seen = {name: [without(a) for a in answer] for name, answer in answers.items()}
        first = next(iter(seen))
        for name in seen:
            assert seen[name] == seen[first], f"{name} and {first} differ at {step}"
        for name in answers:
            self.expect(answers[name], step.get("expect", {}), f"{name} at {step}")

    def expect(self, answers, expected, where):
        last = answers[-1]
        for member, value in expected.items():
            if member == "allowed_of":
                found = sum(a.get("allowed", False) for a in answers)
            elif member == "limits":
                found = len(last["limits"])
            elif member == "error":
                assert value in last.get("error", ""), f"{where}: {last}"
                continue
            elif member == "lease":
                found = "lease" in last
            else:
                found = last.get(member)
            assert found == value, f"{member} is {found}: {where}: {last}"
        if "error" not in expected:
            assert "error" not in last or last.get("allowed") is False, f"{where}: {last}"


def without(answer):
    """What all protocols have to agree on; of an error, that there is one."""
    if "allowed" not in answer:
        return {"failed": "error" in answer, "done": answer.get("done")}
    return {name: value for name, value in answer.items() if name not in APART}


def scenarios():
    for path in sorted(CONTRACT.glob("*.yaml")):
        for suite in yaml.safe_load_all(path.read_text()):
            for scenario in suite["scenarios"]:
                yield pytest.param(suite.get("rules", "limits: []"), scenario,
                                   id=f"{path.stem}: {scenario['name']}")


@pytest.mark.parametrize("rules, scenario", scenarios())
def test_every_protocol_decides_the_same(tmp_path, rules, scenario):
    clock = StillClock(tmp_path / "clock", scenario.get("at", START))
    options = ["--workers", "1", "--memory", "2M", "--admin", "none"]
    daemons, asked = [], {}
    try:
        for name, protocol in PROTOCOLS.items():
            folder = tmp_path / name
            folder.mkdir()
            daemons.append(Daemon(folder, rules, options, env=clock.env()))
            asked[name] = protocol(daemons[-1])
        play = Play(clock, asked)
        for step in scenario["steps"]:
            play.step(step)
    finally:
        for connection in asked.values():
            connection.close()
        for daemon in daemons:
            daemon.stop()


def test_there_are_two_hundred_scenarios_and_no_two_share_a_name():
    names = [s.id for s in scenarios()]
    assert len(names) == len(set(names))
    assert len(names) >= 200
