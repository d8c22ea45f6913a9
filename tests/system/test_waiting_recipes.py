# SPDX-License-Identifier: Apache-2.0
"""What docs/waiting.md shows is true: its recipes are run against a daemon whose clock stands still, its commands against
another one.

A recipe is a `yaml` block followed by a `line` block, whose lines are

    NAME... : ATTRIBUTE=VALUE... -> allowed, refused or waits
    after DURATION -> NAME... allowed or refused
"""

import re
import shlex
import threading

import pytest

from daemon import ROOT, Daemon, wait_for
from stillclock import StillClock
from test_cookbook import blocks, seconds
from test_quickstart import matches, run, sessions

PAGE = "waiting.md"


def recipes():
    rules = None
    for line, heading, language, text in blocks(PAGE):
        if language == "yaml":
            rules = text
        elif language == "line":
            yield pytest.param(rules, text, id=f"{heading} ({PAGE}:{line})")


class LineOfRequests:
    """Requests by name, each on a connection of its own."""

    def __init__(self, daemon):
        self.daemon, self.answers, self.threads = daemon, {}, []

    def send(self, name, attributes):
        def ask():
            self.answers[name] = self.daemon.http("POST", "/v1/check", {"attributes": attributes})

        self.threads.append(threading.Thread(target=ask, daemon=True))
        self.threads[-1].start()

    def waiting(self):
        metrics = self.daemon.admin("GET", "/metrics").text
        return int(re.search(r"^ration_waiting (\d+)$", metrics, re.M)[1])

    def expect(self, line, names, outcome):
        """These are answered so, and nobody else is."""
        wait_for(lambda: all(name in self.answers for name in names), line)
        for name in names:
            assert self.answers[name].status == {"allowed": 200, "refused": 429}[outcome], (line, self.answers[name])
        wait_for(lambda: len(self.answers) + self.waiting() == len(self.threads), line)


@pytest.mark.parametrize("rules,text", list(recipes()))
def test_recipe(tmp_path, rules, text):
    clock = StillClock(tmp_path / "clock")
    with Daemon(tmp_path, rules, env=clock.env()) as daemon:
        line_of = LineOfRequests(daemon)
        for line in text.strip().splitlines():
            what, outcome = (part.strip() for part in line.split("->"))
            if what.startswith("after "):
                clock.advance(seconds(what.removeprefix("after ")))
                *names, outcome = outcome.split()
                line_of.expect(line, names, outcome)
                continue
            names, _, attributes = what.partition(":")
            for name in names.split():
                waiting = line_of.waiting()
                line_of.send(name, dict(word.split("=") for word in shlex.split(attributes)))
                if outcome == "waits":
                    wait_for(lambda: line_of.waiting() == waiting + 1 or name in line_of.answers, line)
                    assert name not in line_of.answers, (line, line_of.answers[name])
                else:
                    line_of.expect(line, [name], outcome)
        for thread in line_of.threads:
            thread.join(60)
        assert len(line_of.answers) == len(line_of.threads), "the recipe must not leave anybody in line"


def test_every_command_prints_what_the_page_shows(tmp_path):
    with Daemon(tmp_path, (ROOT / "examples" / "ration.yaml").read_text()) as daemon:
        shown_commands = list(sessions(ROOT / "docs" / PAGE))
        assert len(shown_commands) >= 3
        for command, shown in shown_commands:
            done = run(daemon, command)
            assert matches(shown, done.stdout.splitlines()), f"{command}\nprinted:\n{done.stdout}{done.stderr}"
