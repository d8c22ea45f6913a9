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
          - check: {ip: 192.0.2.1}       # with a limit that is charged by outcome
            as: login
          - charge: login                # tells its status
            status: 401

Members of `expect`: those of a decision, of which only the named ones are looked at;
marks (`soft`, `shadow`, ...) that are not there count as false; `limits` is how many
apply, or a list of what each of them has; `allowed_of: n` counts over `times`;
`error: text` is part of an error's message.

Besides, a step may have
    wait: return                   # or hold, or the longest wait in seconds
    drain: true                    # take what is left, and refuse
    http: {status: 429, headers: {retry-after: "1", x-ratelimit-soft: null}, body: {...}}
    apart: [reset_after]           # members that need not be equal: a key's own spread
    wall: -2                       # seconds that the wall clock alone is set
"""

import contextlib
import json
import pathlib

import pytest
import yaml

from daemon import Daemon, RespError
from stillclock import START, StillClock

CONTRACT = pathlib.Path(__file__).resolve().parents[1] / "contract"
NETWORKS = CONTRACT.parent / "rules" / "networks.mmdb"  # the database of rules that name one


# --- the protocols -----------------------------------------------------------------

def text_of(value):
    """An attribute as text: numbers and booleans as JSON writes them."""
    return value if isinstance(value, str) else json.dumps(value)


class OverHttp:
    """Asks over HTTP."""

    def __init__(self, daemon):
        self.connection = daemon.connection()

    def _post(self, path, body):
        self.connection.request("POST", path, json.dumps(body))
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        self.last = response.status, response.headers, answer
        if response.status in (400, 503):
            return {"error": answer["message"]}
        if response.status == 410:
            return {"done": False}
        assert (response.status == 200) == answer.get("allowed", True), (response.status, answer)
        return answer

    def decide(self, verb, what, options):
        by_limit = "limit" in what
        body = {**(what if by_limit else {"attributes": what}), **options}
        if verb == "peek":
            body["peek"] = True
        path = {"check": "check", "take": "throttle",
                "peek": "throttle" if by_limit else "check"}.get(verb, verb)
        return self._post("/v1/" + path, body)

    def settle(self, verb, lease, options):
        name = "charge" if verb == "charge" else "lease"
        answer = self._post("/v1/" + verb, {name: lease, **options})
        past = {"commit": "committed", "refund": "refunded", "release": "released",
                "renew": "renewed", "charge": "charged"}[verb]
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

    @staticmethod
    def _options(options):
        for name, value in options.items():
            if name == "drain":
                yield "DRAIN"
                continue
            if name == "wait" and not isinstance(value, str):
                value = round(value * 1000)
            yield from (name.upper(), value)

    def decide(self, verb, what, options):
        options = dict(options)
        if "limit" in what:
            words = [f"RATION.{verb.upper()}", what.get("key", ""), what["limit"]]
            if verb != "acquire" and ("cost" in options or verb == "reserve"):
                words.append(options.pop("cost", 1))
            words += self._options(options)
            words += ["ALGORITHM", what["algorithm"]] if "algorithm" in what else []
            return plain(self._say(*words))
        words = ["RATION.CHECK" if verb == "peek" else f"RATION.{verb.upper()}"]
        words += ["RULES"] if verb in ("acquire", "reserve") else []
        words += [word for name, value in what.items() for word in (name, text_of(value))]
        words += self._options(options)
        words += ["PEEK"] if verb == "peek" else []
        return plain(self._say(*words))

    def settle(self, verb, lease, options):
        words = [f"RATION.{verb.upper()}", lease]
        words += [options[name] for name in ("cost", "status") if name in options]
        words += ["FOR", options["for"]] if "for" in options else []
        answer = self._say(*words)
        return answer if isinstance(answer, dict) else {"done": answer == 1}

    def close(self):
        self.redis.close()


SECONDS = {"reset_after", "retry_after", "delay", "shadow_delay", "held"}
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


# --- playing -----------------------------------------------------------------------

SETTLING = ("commit", "refund", "release", "renew", "charge")
VERBS = ("check", "take", "peek", "acquire", "reserve", *SETTLING)
OPTIONS = ("cost", "for", "wait", "status", "drain")
MEMBERS = {*VERBS, *OPTIONS, "advance", "wall", "as", "times", "expect", "http", "apart"}
# What differs between daemons, and what only refusals over HTTP have.
APART = {"lease", "charge", "error", "message", "window", "reset"}


class Play:
    """One scenario, to all daemons at once."""

    def __init__(self, clock, asked):
        self.clock, self.asked = clock, asked
        self.leases = {name: {} for name in asked}
        self.charges = {name: {} for name in asked}

    def ask(self, name, verb, step):
        options = {o: step[o] for o in OPTIONS if o in step}
        if verb in SETTLING:
            tickets = (self.charges if verb == "charge" else self.leases)[name]
            return self.asked[name].settle(verb, tickets.get(step[verb], step[verb]), options)
        answer = self.asked[name].decide(verb, step[verb], options)
        if "as" in step:
            self.leases[name][step["as"]] = answer.get("lease", "none")
            self.charges[name][step["as"]] = answer.get("charge", "none")
        return answer

    def step(self, step):
        assert step.keys() <= MEMBERS, f"misspelt: {step.keys() - MEMBERS}"
        self.clock.advance(step.get("advance", 0))
        self.clock.set_wall(step.get("wall", 0))
        verb = next((v for v in VERBS if v in step), None)
        if verb is None:
            return
        answers = {name: [self.ask(name, verb, step) for _ in range(step.get("times", 1))]
                   for name in self.asked}
        seen = {name: [without(a, step.get("apart", ())) for a in answer]
                for name, answer in answers.items()}
        first = next(iter(seen))
        for name in seen:
            assert self.same(seen[name], seen[first]), \
                f"{name} and {first} differ at {step}: {seen[name]} {seen[first]}"
        for name in answers:
            self.expect(answers[name], step.get("expect", {}), f"{name} at {step}")
        if "http" in step:
            expect_http(step["http"], *self.asked["http"].last)

    @staticmethod
    def same(found, expected):
        return found == expected

    def expect(self, answers, expected, where):
        last = answers[-1]
        for member, value in expected.items():
            if member == "allowed_of":
                found = sum(a.get("allowed", False) for a in answers)
            elif member == "limits" and isinstance(value, int):
                found = len(last["limits"])
            elif member == "limits":
                found = [{name: limit.get(name) for name in wanted}
                         for limit, wanted in zip(last["limits"], value)]
                assert len(last["limits"]) == len(value), f"{where}: {last}"
            elif member == "error":
                assert value in last.get("error", ""), f"{where}: {last}"
                continue
            elif member in ("lease", "charge"):
                found = member in last
            elif member in ("soft", "shadow"):
                found = last.get(member, False)
            else:
                assert member in last, f"no {member}: {where}: {last}"
                found = last[member]
            assert self.same(found, value), f"{member} is {found}: {where}: {last}"
        if "error" not in expected:
            assert "error" not in last or last.get("allowed") is False, f"{where}: {last}"


def expect_http(expected, status, headers, body):
    assert status == expected.get("status", status), f"{status} {body}"
    for name, value in expected.get("headers", {}).items():
        assert headers[name] == value, f"{name}: {headers[name]}"
    for name, value in expected.get("body", {}).items():
        assert body.get(name) == value, f"{name}: {body}"


def without(answer, apart):
    """What all protocols have to agree on; of an error, that there is one."""
    if "allowed" not in answer:
        return {"failed": "error" in answer, "done": answer.get("done")}
    apart = {*APART, *apart}
    limits = [{n: v for n, v in limit.items() if n not in apart} for limit in answer["limits"]]
    return {**{n: v for n, v in answer.items() if n not in apart}, "limits": limits}


def scenarios():
    for path in sorted(CONTRACT.glob("*.yaml")):
        for suite in yaml.safe_load_all(path.read_text()):
            for scenario in suite["scenarios"]:
                rules = suite.get("rules", "limits: []").replace("NETWORKS_MMDB", str(NETWORKS))
                yield pytest.param(rules, scenario,
                                   id=f"{path.stem}: {scenario['name']}")


@pytest.mark.parametrize("rules, scenario", scenarios())
def test_every_protocol_decides_the_same(tmp_path, rules, scenario):
    clock = StillClock(tmp_path / "clock", scenario.get("at", START))
    options = ["--workers", "1", "--memory", "2M", "--admin", "none"]
    asked = {}
    with contextlib.ExitStack() as stack:
        for name, protocol in PROTOCOLS.items():
            folder = tmp_path / name
            folder.mkdir()
            daemon = stack.enter_context(Daemon(folder, rules, options, env=clock.env()))
            asked[name] = stack.enter_context(contextlib.closing(protocol(daemon)))
        play = Play(clock, asked)
        for step in scenario["steps"]:
            play.step(step)


def test_there_are_two_hundred_scenarios_and_no_two_share_a_name():
    names = [scenario["name"] for _, scenario in (s.values for s in scenarios())]
    assert len(names) == len(set(names))
    assert len(names) >= 200
