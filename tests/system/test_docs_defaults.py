# SPDX-License-Identifier: Apache-2.0
"""The defaults that tables of the documentation give are those of the programs."""

import re
import subprocess

import pytest

from daemon import BUILD, ROOT, Daemon


def tables():
    """(page, heading, titles, cells) of every row of every table."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        titles = heading = None
        for line in page.read_text().splitlines():
            if line.startswith("#"):
                heading = line.strip("# ")
            cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
            if not cells:
                titles = None
            elif titles is None:
                titles = cells
            elif not set(line) <= set("|-: "):
                yield page.name, heading, titles, cells


def options():
    """(option, default) of every row about one that gives a default as code."""
    for page, _, titles, cells in tables():
        if "default" in titles:
            default = re.fullmatch(r"`([^`]+)`", cells[titles.index("default")])
            for cell in cells:
                if default and (found := re.match(r"`(--[a-z-]+)", cell)):
                    yield pytest.param(found[1], default[1], id=f"{page} {found[1]}")


def told_by_help():
    """The default of each option, as the programs' own help has it."""
    told = {}
    for command in (["rationd", "--help"], ["ration", "help", "check"], ["ration", "help", "top"]):
        text = subprocess.run([BUILD / command[0], *command[1:]], capture_output=True, text=True).stdout
        for line in text.splitlines():
            if found := re.match(r"  (--[a-z-]+).*\(([^(),]+)", line):
                told.setdefault(found[1], found[2])
    return told


@pytest.mark.parametrize("option, default", options())
def test_defaults_of_options_are_those_of_the_help(option, default):
    assert told_by_help()[option] == default


RULE = "limits:\n  - name: a\n    key: user\n"
# Keys of a section are written within a key of the rule, beside those that it requires.
WITHIN = {"Response": ("response", ""), "Escalate": ("escalate", "after: 10 refusals within 1m, ban: 1m, "),
          "Earn": ("earn", "every: 24h, add: 10%, "), "Usage": ("usage", "per: month, ")}
NEEDS = {"align": "limit: 5 per minute\n    algorithm: fixed-window", "lease": "limit: 5 concurrent",
         "wait": "limit: 5 per second queue 5"}


def keys():
    """(heading, key, default) of every key of rules.md whose default is one word of code or a number."""
    for page, heading, titles, cells in tables():
        if page == "rules.md" and titles == ["key", "value", "default"]:
            key, default = cells[0].strip("`"), re.match(r"`([^`]+)`(?:[;,]|$)|(\d+)$", cells[2])
            if default and key != "lease": # told as it was written; see the next test
                yield pytest.param(heading, key, default[1] or default[2], id=f"{heading} {key}")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("defaults")
    with Daemon(folder, "limits: []", ["--state", folder / "state"]) as d:
        yield d


@pytest.mark.parametrize("heading, key, default", keys())
def test_defaults_of_keys_are_those_of_the_rules(daemon, heading, key, default):
    """Written out, the default changes nothing."""
    def normal(more):
        limit = NEEDS.get(key, "limit: 5 per minute")
        daemon.file.write_text(f"{RULE}    {limit}\n    {more}\n")
        answer = daemon.admin("POST", "/v1/rules/reload")
        assert answer.status == 200, answer
        return daemon.admin("GET", "/v1/rules", headers={"Accept": "application/yaml"}).text

    if heading in WITHIN:
        outer, required = WITHIN[heading]
        without = f"{outer}: {{{required}}}" if required else ""
        assert normal(f"{outer}: {{{required}{key}: {default}}}") == normal(without)
    else:
        assert normal(f"{key}: {default}") == normal("")


def test_a_place_is_held_for_as_long_as_the_table_says(daemon):
    row = next(cells for page, *_, cells in tables() if page == "rules.md" and cells[0] == "`lease`")
    daemon.file.write_text(f"{RULE}    limit: 5 concurrent\n")
    assert daemon.admin("POST", "/v1/rules/reload").status == 200
    held = daemon.http("POST", "/v1/acquire", {"attributes": {"user": "ann"}}).json["reset_after"]
    assert row[2] == f"`{held:.0f}s`"


def test_there_are_defaults_to_compare():
    assert len(list(options())) >= 5 and len(list(keys())) >= 8
