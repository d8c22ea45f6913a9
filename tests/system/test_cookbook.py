# SPDX-License-Identifier: Apache-2.0
"""What the documentation shows is true: every recipe of docs/rules.md and docs/keys.md is run, every
YAML block loads, every session of docs/cli.md on the example looks as printed.

A recipe is a `yaml` block followed by a `requests` block, whose lines are

    [N x] ATTRIBUTE=VALUE... -> OUTCOME
    after DURATION

OUTCOME: `allowed` or `refused` (all of them), or `N allowed, M refused`; then
`by RULE`, which decided on the last one, and of the last one `left N`, `soft`,
`shadow`, `delay DURATION`, `banned LEVEL`. `then 401` is the status that those end with which are
allowed. A decision that is not marked `soft`, `shadow`, `banned` or delayed must not
be told so. A `usage` block after that is what `ration usage` counts: some of its columns, in the order of
clients.
"""

import csv
import datetime
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RATION = pathlib.Path(os.environ.get("RATION_BUILD", ROOT / "build")).resolve() / "ration"

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
UNITS = {"ms": 0.001, "s": 1, "second": 1, "minute": 60, "hour": 3600, "day": 86400}
OUTCOME = re.compile(r"(?:(?P<allowed>\d+) allowed, (?P<refused>\d+) refused|(?P<all>allowed|refused))"
                     r"(?: by (?P<rule>\S+?))?(?P<marks>(?:, (?:left \d+|soft|shadow|delay \w+|then \d+|banned \d+))*)$")


def blocks(page):
    """(line, heading, language, text) of each fenced block."""
    text = (ROOT / "docs" / page).read_text()
    for match in BLOCK.finditer(text):
        before = text[: match.start()]
        heading = re.findall(r"^#+ (.+)$", before, re.M)[-1]
        yield before.count("\n") + 1, heading, match.group(1), match.group(2)


def recipes():
    rules = None
    for page in ("rules.md", "keys.md"):
        shown = list(blocks(page))
        for (line, heading, language, text), after in zip(shown, [*shown[1:], None]):
            if language == "yaml":
                rules = text
            elif language == "requests":
                usage = after[3] if after and after[2] == "usage" else None
                yield pytest.param(rules, text, usage, id=f"{heading} ({page}:{line})")


def files():
    for page in ("rules.md", "keys.md", "envoy-format.md", "waiting.md"):
        for line, _, language, text in blocks(page):
            if language == "yaml":
                yield pytest.param(text, id=f"{page}:{line}")


def seconds(text):
    count, unit = re.fullmatch(r"(\d+) ?([a-z]+)", text).groups()
    return int(count) * UNITS[unit if unit in UNITS else unit.rstrip("s")]


def add_databases(folder):
    """The files that recipes name: networks of the example that all tests share."""
    for name in ("GeoLite2-City.mmdb", "GeoLite2-ASN.mmdb"):
        shutil.copy(ROOT / "tests" / "rules" / "networks.mmdb", folder / name)


class RecipeRun:
    """One state and its own clock, which starts at five past ten tomorrow:
    no window turns unless a recipe waits for it."""

    def __init__(self, folder, rules):
        self.rules, self.state = folder / "rules.yaml", folder / "state"
        self.rules.write_text(rules)
        add_databases(folder)
        tomorrow = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
        self.start = tomorrow.replace(hour=10, minute=5, second=10, microsecond=0)
        self.passed = 0.0

    def send(self, times, attributes, status=None):
        now = self.start + datetime.timedelta(seconds=self.passed)
        done = subprocess.run(
            [RATION, "check", "--json", "--state", self.state, "--times", str(times),
             "--at", now.isoformat(), *(["--status", status] if status else []), self.rules, *attributes],
            capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        answer = json.loads(done.stdout)
        return answer["decisions"] if times > 1 else [answer]

    def usage(self, columns):
        done = subprocess.run([RATION, "usage", "--state", self.state, "--csv"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        rows = csv.DictReader(done.stdout.splitlines())
        return sorted([row[column] for column in columns] for row in rows)


def check(line, decisions, expected):
    allowed = sum(d["allowed"] for d in decisions)
    refused, last = len(decisions) - allowed, decisions[-1]
    want = OUTCOME.match(expected)
    assert want, f"cannot understand {expected!r}"
    if want["all"]:
        assert (allowed, refused)[want["all"] != "allowed"] == len(decisions), (line, last)
    else:
        assert (allowed, refused) == (int(want["allowed"]), int(want["refused"])), (line, last)
    if want["rule"]:
        assert last["rule"] == want["rule"], (line, last)
    marks = dict((mark.split() + [True])[:2] for mark in want["marks"].split(", ")[1:])
    for name in ("soft", "shadow"):
        assert all(d.get(name, False) == (name in marks) for d in decisions), (line, name, last)
    level = int(marks.get("banned", 0))
    assert all((d.get("banned", False), d.get("level", 0)) == (level > 0, level) for d in decisions), (line, last)
    assert last["delay"] == pytest.approx(seconds(marks["delay"]) if "delay" in marks else 0,
                                          abs=0.002), (line, last)
    if "left" in marks:
        assert last["remaining"] == int(marks["left"]), (line, last)


@pytest.mark.parametrize("rules,requests,usage", list(recipes()))
def test_recipe(tmp_path, rules, requests, usage):
    run = RecipeRun(tmp_path, rules)
    for line in requests.strip().splitlines():
        if line.startswith("after "):
            run.passed += seconds(line.removeprefix("after "))
            continue
        request, expected = line.split("->")
        words = shlex.split(request)
        times = int(words[0]) if words[1:2] == ["x"] else 1
        status = re.search(r", then (\d+)", expected)
        decisions = run.send(times, words[2:] if words[1:2] == ["x"] else words,
                                 status and status[1])
        check(line, decisions, expected.strip())
    if usage:
        columns, *rows = (row.split() for row in usage.strip().splitlines())
        assert run.usage(columns) == rows


@pytest.mark.parametrize("text", list(files()))
def test_block_loads(tmp_path, text):
    add_databases(tmp_path)
    done = subprocess.run([RATION, "lint", "-"], input=text, capture_output=True, text=True,
                          cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


# --- the other pages ---------------------------------------------------------------------


def documented():
    """Commands in docs/cli.md on the example, and what is shown there."""
    text = (ROOT / "docs" / "cli.md").read_text()
    for block in re.findall(r"^```\n\$ (ration .*?)^```$", text, re.M | re.S):
        command, _, shown = block.partition("\n")
        if "examples/" in command and command.split()[1] in ("check", "explain", "lint"):
            yield pytest.param(command.split()[1:], shown, id=command.split()[1])


@pytest.mark.parametrize("args,shown", list(documented()))
def test_the_documentation_shows_what_is_printed(args, shown):
    done = subprocess.run([RATION, *args], cwd=ROOT, capture_output=True, text=True)
    pattern = re.escape(shown).replace(re.escape("...\n"), "(?:.*\n)*")
    assert re.fullmatch(pattern, done.stdout), done.stdout


@pytest.mark.skipif(not shutil.which("scdoc"), reason="scdoc is not installed")
def test_the_man_page_is_sound_and_names_every_option():
    page = (ROOT / "man" / "ration.1.scd").read_text()
    done = subprocess.run(["scdoc"], input=page, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    usage = subprocess.run([RATION, "help"], capture_output=True, text=True).stdout
    commands = re.findall(r"^  (\w+)  ", usage, re.M)
    assert "lint" in commands and "bench" in commands
    for command in commands:
        assert f"*{command}*" in page, command
        text = subprocess.run([RATION, "help", command], capture_output=True, text=True).stdout
        for option in re.findall(r"^  (--[\w-]+)", text, re.M):
            assert f"*{option}*" in page, option
