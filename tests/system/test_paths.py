# SPDX-License-Identifier: Apache-2.0
"""How paths are read: the list in docs/rules.md is true of `ration explain`, and every way in reads
the same, so that no spelling of a path gets past a limit on it."""

import json
import re
import subprocess

import pytest
from test_cookbook import RATION, blocks

RULES = """
limits:
  - { name: login, when: { path: /login }, key: ip, limit: 2 per hour }
"""


def examples():
    for line, _, language, text in blocks("rules.md"):
        if language == "paths":
            for row in text.splitlines():
                yield pytest.param(*row.split(None, 1), id=row.split()[0])


def explain(folder, rules, path, *options):
    file = folder / "rules.yaml"
    file.write_text(rules)
    done = subprocess.run([RATION, "explain", *options, file, "ip=192.0.2.1", f"path={path}"],
                          capture_output=True, timeout=20, check=False)
    assert done.stderr == b""
    return done.stdout.decode()


@pytest.mark.parametrize("path, readings", examples())
def test_the_readings_of_the_manual_are_those_of_explain(tmp_path, path, readings):
    text = explain(tmp_path, RULES, path)
    found = re.findall(r'^ +(?:path is read as|or) "(.*)"$', text, re.M)
    found = [reading.replace("\\\\", "\\") for reading in found]
    if readings == "unreadable":
        assert "path can be read in too many ways" in text
    else:
        assert (found or [path]) == readings.split()


def test_explain_lists_readings_of_a_path_as_json(tmp_path):
    told = json.loads(explain(tmp_path, RULES, "/a%2fb", "--json"))
    assert told["readings"] == ["/a/b", "/a%2Fb"]
    told = json.loads(explain(tmp_path, RULES, "/a%2f../b", "--json"))
    assert told["readings"] == []
    assert told["rules"][0]["applies"]
