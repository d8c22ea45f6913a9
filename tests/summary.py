#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up test results and prints one line: N passed, N failed, N skipped.

usage: summary.py DIRECTORY

Reads every *.tap, *.json (meson's test log) and *.xml (JUnit) there. Exits
non-zero if a test failed or none ran; with CI=true also if one was skipped.
"""

import collections
import json
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

TAP_LINE = re.compile(r"^(not )?ok\b(.*)$", re.M)


def tap(text):
    """Outcomes of the lines of one TAP document. cmocka skips with "not ok 3 # SKIP"."""
    for failed, rest in TAP_LINE.findall(text):
        yield "skipped" if "# SKIP" in rest else "failed" if failed else "passed"


def meson_test(entry):
    """Outcomes of one test program: its TAP lines, and one more if it broke otherwise."""
    outcomes = list(tap(entry.get("stdout", "")))
    if entry["result"] in ("OK", "EXPECTEDFAIL"):
        return outcomes or ["passed"]
    if entry["result"] == "SKIP":
        return outcomes or ["skipped"]
    # Of cmocka's "not ok 3 # SKIP" meson makes a failure of a program that ended well.
    skipped = "skipped" in outcomes and entry.get("returncode") == 0
    return outcomes if skipped or "failed" in outcomes else outcomes + ["failed"]


def junit(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    return "skipped" if case.find("skipped") is not None else "passed"


def main():
    count = collections.Counter()
    results = pathlib.Path(sys.argv[1])
    for path in results.glob("*.tap"):
        count.update(tap(path.read_text()))
    for path in results.glob("*.json"):
        for line in path.read_text().splitlines():
            count.update(meson_test(json.loads(line)))
    for path in results.glob("*.xml"):
        count.update(junit(case) for case in xml.parse(path).iter("testcase"))

    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    strict = os.environ.get("CI") == "true" and count["skipped"]
    return 1 if count["failed"] or strict or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
