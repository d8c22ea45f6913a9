# SPDX-License-Identifier: Apache-2.0
"""examples/outgoing: programs in three languages keep one rate together and stop when the partner says so. What the
partner has noted is the proof."""

import email.utils
import os
import pathlib
import subprocess
import threading
import time

import pytest

from daemon import BUILD, PATIENCE, ROOT, Daemon, free_port, wait_for
from receiver import Receiver, assert_rate

EXAMPLE = ROOT / "examples/outgoing"
RATE, BURST = 20, 5 # as ration.yaml has it
PYTHON = ["/usr/bin/python3", EXAMPLE / "outgoing.py"]
NODE = ["node", EXAMPLE / "outgoing.js"]
C = [BUILD / "examples/outgoing"]
LANGUAGES = {"C": C, "Python": PYTHON, "Node": NODE}


class Caller:
    """One of the programs, with as many calls to make."""

    def __init__(self, office, language, count, partner="stripe", **env):
        url = office.partner.url
        where = [partner, f"{url}/charges", str(count)]
        if language == "C":
            where = [office.rules, office.state, partner, "127.0.0.1", url.rpartition(":")[2], "/charges", str(count)]
        self.process = subprocess.Popen(
            [*LANGUAGES[language], *where], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={"PATH": os.environ["PATH"], "RATIOND": office.address, "ANSWER_SECONDS": str(PATIENCE), **env})

    def end(self):
        """What it says about each call."""
        out, self.error = self.process.communicate(timeout=2 * PATIENCE)
        assert self.process.returncode == 0, self.error
        return [line.partition(": ")[2] for line in out.splitlines()]

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()


class Office:
    """The partner, a rationd, and callers, which share its state file."""

    def __init__(self, folder, plan=lambda receiver, call: (200, {})):
        self.rules, self.state = EXAMPLE / "ration.yaml", pathlib.Path(folder) / "calls.state"
        self.address = f"127.0.0.1:{free_port()}"
        self.rationd = Daemon(folder, self.rules.read_text(), ["--http", self.address, "--state", self.state])
        self.partner, self.callers = Receiver(plan), []

    def __enter__(self):
        self.partner.__enter__()
        return self

    def call(self, language, count, **more):
        self.callers.append(Caller(self, language, count, **more))
        return self.callers[-1]

    def paused(self, partner="stripe"):
        return self.rationd.http("GET", f"/v1/pause?rule=partners&partner={partner}").json["paused"]

    def __exit__(self, *error):
        for caller in self.callers:
            if caller.process.returncode is None:
                caller.kill()
        self.partner.__exit__(*error)
        if self.rationd.process:
            self.rationd.thaw()
            self.rationd.__exit__(*error)


def caller_of(call):
    return call.key.partition("-")[0]


class ClosingPartner:
    """Answers some calls by 429 or 503 and is closed then. Notes each time that it was: since when, until when, and
    which callers it has told. Calls that come meanwhile are answered when the pause is in force, so that each caller that was not
    told can have one call under way that was allowed before, and must make no other."""

    def __init__(self, plan):
        self.plan, self.closed, self.lock, self.office = dict(plan), [], threading.Lock(), None
        self.count = 0

    def __call__(self, receiver, call):
        with self.lock:
            now = time.monotonic()
            if self.closed and now < self.closed[-1][1]:
                status, form = None, None
            else:
                self.count += 1
                status, form = self.plan.pop(self.count, (200, None))
                if form == "seconds":
                    value, until = "1", now + 1
                elif form == "date":
                    date = int(time.time()) + 2
                    value, until = email.utils.formatdate(date, usegmt=True), now + (date - time.time())
                if form:
                    self.closed.append((now, until, caller_of(call)))
        if status is None:
            wait_for(self.office.paused, "the pause is in force")
            return 200, {}
        return status, {"Retry-After": value} if form else {}


def test_callers_in_three_languages_keep_the_rate_and_stop_when_the_partner_says_so(tmp_path):
    plan = ClosingPartner({6: (429, "seconds"), 14: (503, None), 22: (503, "date"), 30: (429, None)})
    with Office(tmp_path, plan) as office:
        plan.office = office
        callers = [office.call(language, 7) for language in LANGUAGES for _ in range(2)]
        assert [caller.end() for caller in callers] == [["200"] * 7] * 6
        calls = office.partner.calls
        assert not plan.plan and len(plan.closed) == 2
        assert_rate(calls, RATE, 1, BURST, callers=6)
        for since, until, told in plan.closed:
            early = [caller_of(call) for call in calls if since < call.at < until - 0.01]
            assert told not in early and len(early) == len(set(early)), (told, early)
        # Every call was taken in the end; those that were refused were made again under their key.
        assert len({call.key for call in calls if call.answered == 200}) == 42 and len(calls) >= 46


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_caller_stops_the_others_whatever_their_language(tmp_path, language):
    with Office(tmp_path, lambda receiver, call: (429, {"Retry-After": "3600"})) as office:
        first, = office.call(language, 1).end() # longer than anybody waits
        assert first.startswith("not made: too many calls wait, or the partner is paused")
        assert len(office.partner.calls) == 1 and office.paused()
        for other in [office.call(other, 2) for other in LANGUAGES]:
            assert all(line.startswith("not made: ") for line in other.end())
        assert len(office.partner.calls) == 1
        office.partner.plan = lambda receiver, call: (200, {})
        assert office.call(language, 1, partner="another").end() == ["200"]


def test_attempts_are_bounded_also_if_retry_after_is_nonsense(tmp_path):
    answers = {"C": {}, "Python": {"Retry-After": "soon"}, "Node": {"Retry-After": "-5"}}
    with Office(tmp_path) as office:
        office.partner.plan = lambda receiver, call: (503, answers[owners[caller_of(call)]])
        owners = {}
        callers = {language: office.call(language, 1) for language in LANGUAGES}
        owners.update({str(caller.process.pid): language for language, caller in callers.items()})
        for caller in callers.values():
            line, = caller.end()
            assert line.startswith("not made: the partner refused"), line
        assert len(office.partner.calls) == 15


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_caller_that_is_killed_in_line_is_not_charged(tmp_path, language):
    with Office(tmp_path) as office:
        def is_in_line():
            """Keeps the pause in force, however long the caller takes to start."""
            office.rationd.http("POST", "/v1/pause", {"attributes": {"partner": "stripe"}, "for": 25})
            return b"\nration_waiting 1\n" in office.rationd.admin("GET", "/metrics").body

        is_in_line()
        caller = office.call(language, 1)
        if language == "C": # its line is its own
            time.sleep(0.3)
        else:
            wait_for(is_in_line, "it waits")
        caller.kill()
        office.rationd.http("DELETE", "/v1/pause?partner=stripe")
        assert office.call("Python", 1).end() == ["200"]
        assert len(office.partner.calls) == 1


@pytest.mark.parametrize("away", ["frozen", "killed"])
def test_without_rationd_calls_are_made_or_not_as_chosen(tmp_path, away):
    def plan(receiver, call):
        return (200, {}) if len(receiver.calls) != 1 else (429, {"Retry-After": "1"})

    with Office(tmp_path, plan) as office:
        if away == "frozen":
            office.rationd.freeze()
        else:
            office.rationd.kill()
        quick = {"ANSWER_SECONDS": "0.3", "WAIT_SECONDS": "0.2"}
        for caller in [office.call(language, 1, **quick) for language in ("Python", "Node")]:
            assert caller.end() == ["not made: rationd is away"]
        assert not office.partner.calls
        # Then Retry-After is kept by each caller for itself.
        for language in ("Python", "Node"):
            office.partner.calls.clear()
            assert office.call(language, 2, WITHOUT_RATIOND="allow", **quick).end() == ["200"] * 2
            first, second, third = office.partner.calls
            assert first.key == second.key != third.key and second.at - first.at >= 0.99
