# SPDX-License-Identifier: Apache-2.0
"""Clients that rules with `escalate` have banned, in nginx: it decides itself, asks rationd, or shares its state
with one."""

import json
import shutil

import pytest

from daemon import Daemon
from gateway import GIF, MODULE, SANITIZED

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")

RULES = """limits:
  - name: login
    key: ip
    limit: 1 per 7 days
    when: {path: /login}
    escalate: {after: 2 refusals within 24h, ban: 1h, grow: 4x}
  - name: own
    key: ip
    limit: 1 per 7 days
    when: {path: /own}
    response: {status: 420, message: Locked.}
    escalate: {after: 1 refusal within 24h, ban: 1h}
"""
SERVER = """
    ration on; ration_status 503;
    add_header x-level "$ration_ban_level" always; add_header x-rule "$ration_rule" always;
    location / { empty_gif; }
    location /page { error_page 403 =402 /sorry; ration_attribute path /login; empty_gif; }
    location = /sorry { internal; empty_gif; }
"""


def test_a_banned_client_is_refused_with_the_status_of_the_ban(decided):
    g = decided(RULES, SERVER)
    assert g.statuses(3, "/login") == [200, 503, 503]
    status, headers, body = g.ask("/login")
    told = json.loads(body)
    assert status == 403 and headers["x-level"] == headers["x-ratelimit-ban-level"] == "1"
    assert headers["retry-after"] in ("3599", "3600") and headers["x-rule"] == "login"
    assert (told["error"], told["banned"], told["level"], told["rule"]) == ("banned", True, 1, "login")
    assert headers["x-ratelimit-limit"] is None and headers["ratelimit"] is None
    problem = g.ask("/login", accept="application/problem+json")
    assert problem[1]["content-type"] == "application/problem+json"
    assert json.loads(problem[2])["type"].endswith("#abnormal-usage-detected")
    g.wait_for_log('ration: banned by "login", level 1, for 3', "error")
    assert g.ask("/")[0] == 200 and g.ask("/page")[0] == 402
    assert g.statuses(3, "/own") == [200, 503, 420]
    assert b"Locked." in g.ask("/own")[2]


@pytest.mark.skipif(SANITIZED is not None, reason="rationd is not sanitized")
def test_a_ban_of_nginx_is_listed_and_lifted_by_a_rationd_on_its_state(gateway, tmp_path):
    g = gateway(RULES, GIF, workers=2)
    folder = tmp_path / "rationd"
    folder.mkdir()
    with Daemon(folder, RULES, ["--state", str(tmp_path / "state"), "--workers", "1"]) as daemon:
        g.statuses(3, "/login")
        assert g.statuses(6, "/login") == [403] * 6
        one, = daemon.admin("GET", "/v1/reputation?banned=true").json["clients"]
        assert (one["rule"], one["key"], one["level"]) == ("login", "127.0.0.1", 1)
        assert "client=127.0.0.1" in daemon.logged("event=ban.begin")
        check = {"attributes": {"ip": "127.0.0.1", "path": "/login"}}
        assert daemon.http("POST", "/v1/check", check).status == 403
        assert daemon.admin("DELETE", "/v1/reputation", check).json == {"lifted": 1}
        assert g.statuses(2, "/login") == [429] * 2
        assert daemon.http("POST", "/v1/check", check).json["banned"]
        assert g.statuses(6, "/login") == [403] * 6
        g.reload()
        assert g.ask("/login")[1]["x-ratelimit-ban-level"] == "1"
