# SPDX-License-Identifier: Apache-2.0
"""Requests that nothing limits: rationd counts them, and tells callers of names it does not know."""

import re
import subprocess

from daemon import BUILD, Daemon

RULES = """
limits:
  - { name: users, key: user, limit: 5 per minute }
  - { name: login, when: { method: POST, path: /login }, key: ip, limit: 5 per minute }
"""
NOTE = 'no rule looks at "usr"; did you mean user?'


def unmatched(d):
    return int(re.search(r"^ration_unmatched_total (\d+)$", d.admin("GET", "/metrics").text, re.M)[1])


def test_requests_that_no_rule_matched_are_counted_and_misspelt_names_noted(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        def check(**attributes):
            answer = d.http("POST", "/v1/check", {"attributes": attributes}).json
            assert answer["rule"] is None and answer["allowed"]
            return answer.get("note")

        assert "note" not in d.http("POST", "/v1/check", {"attributes": {"user": "ann", "usr": "x"}}).json
        assert unmatched(d) == 0
        assert check(usr="ann") == NOTE
        assert check(usr="ann", **{"header.usr": "x", "path": "/"}) == NOTE
        assert check(colour="red") == 'no rule looks at "colour"'
        assert check(path="/", method="GET", ip="192.0.2.1") is None # known, but no rule applies
        assert check(**{"header.user-agent": "x"}) is None # a proxy passes all of them on
        assert check() is None
        with d.resp() as resp:
            assert resp("HELLO", "3") and resp("RATION.CHECK", "usr", "ann")[b"note"] == NOTE.encode()
        assert unmatched(d) == 7
        assert d.admin("GET", "/v1/status").json["decisions"]["unmatched"] == 7


def test_a_ban_of_a_misspelt_attribute_is_noted(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        assert d.admin("PUT", "/v1/bans", {"attributes": {"usr": "x"}}).json["note"] == NOTE
        assert "note" not in d.admin("PUT", "/v1/bans", {"attributes": {"user": "x"}}).json
        done = subprocess.run([BUILD / "ration", "ban", "add", "--admin", d.addresses["admin"], "usr=y"],
                              capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, f"ration: note: {NOTE}\n")


def test_without_rules_every_request_is_unmatched(tmp_path):
    with Daemon(tmp_path) as d:
        assert d.http("POST", "/v1/check", {"attributes": {"user": "ann"}}).json["allowed"]
        assert unmatched(d) == 1
