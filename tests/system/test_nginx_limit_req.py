# SPDX-License-Identifier: Apache-2.0
"""Rules translated from limit_req, as docs/nginx.md says, beside limit_req itself: one nginx, in
which both decide about the same requests and neither refuses, so that both see the same times."""

import re
import shutil
import time

import pytest

from daemon import ROOT
from gateway import MODULE

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")

# One request in two seconds: a busy machine is late by a small part of that.
UNIT = 2.0
ZONE = "limit_req_zone $binary_remote_addr zone=a:1m rate=30r/m;"
SERVER = ("ration shadow; location / { limit_req zone=a %s; limit_req_dry_run on; empty_gif; "
          "add_header x-statuses $limit_req_status/$ration_rate_status always; }")
TRANSLATED = {
    "": "burst 1",
    "burst=5 nodelay": "burst 6",
    "burst=5": "queue 5",
    "burst=5 delay=2": "burst 6, throttle: {from: 3 requests}",
}


def excesses(log):
    """What nginx tells of those it would delay or refuse, in order."""
    return [float(n) for n in re.findall(r"(?:delaying|limiting) requests?, dry run, excess: ([0-9.]+)",
                                         log)]


def delays(log):
    """The same of the module, in seconds; None: refused."""
    return [None if ms is None else int(ms) / 1000 for ms in
            (m.group(1) for m in re.finditer(r"would (?:refuse|delay for (\d+) ms), in shadow", log))]


@pytest.mark.parametrize("limit_req", TRANSLATED, ids=lambda words: words or "alone")
def test_a_translated_rule_refuses_and_delays_what_limit_req_does(gateway, limit_req):
    g = gateway(f"limits:\n  - {{name: a, key: ip, limit: 30 per minute {TRANSLATED[limit_req]}}}\n",
                server=SERVER % limit_req, http=ZONE)
    statuses = []
    for pause in (0, 1.5 * UNIT, 0.75 * UNIT):
        time.sleep(pause)
        statuses += [g.ask()[1]["x-statuses"].split("/") for _ in range(8)]
    assert [theirs for theirs, _ in statuses] == [ours for _, ours in statuses]
    assert statuses[7][0] == "REJECTED_DRY_RUN"
    delay = int((re.search(r"delay=(\d+)", limit_req) or [0, 0])[1])
    log = g.log("error")
    told = [(e - delay) * UNIT for e in excesses(log)]
    assert len(told) == len(delays(log)) == sum(s != ["PASSED"] * 2 for s in statuses)
    for theirs, ours in zip(told, delays(log)):
        assert ours is None or abs(ours - theirs) < UNIT / 4


def test_the_manual_has_these_translations():
    manual = (ROOT / "docs/nginx.md").read_text()
    for limit_req, rule in TRANSLATED.items():
        words = f"| `limit_req zone=a{limit_req and ' '}{limit_req};` | `limit: 10 per second "
        row = next(line for line in manual.splitlines() if line.startswith(words))
        assert all(part in row for part in rule.split(", throttle: "))
