# SPDX-License-Identifier: Apache-2.0
"""nginx and rationd on one state: one count, and what the admin port changes is in force
in nginx within a second or so."""

import os
import shutil
import signal

import pytest

from daemon import Daemon, wait_for
from gateway import MODULE, SANITIZED, proxied

pytestmark = pytest.mark.skipif(SANITIZED is not None or not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")

RULES = """
limits:
  - {name: api, key: ip, limit: 4 per 7 days, algorithm: fixed-window}
  - {name: guesses, key: ip, limit: 3 per 7 days, charge_on: status 401, when: {path: /status/**}}
"""


@pytest.fixture
def pair(gateway, upstream, tmp_path):
    """A gateway, and the daemon beside it."""
    g = gateway(RULES, server=proxied(upstream))
    folder = tmp_path / "rationd"
    folder.mkdir()
    with Daemon(folder, RULES, ["--state", str(tmp_path / "state"), "--workers", "1"]) as daemon:
        yield g, daemon


def put(daemon, what, body):
    answer = daemon.admin("PUT", f"/v1/{what}", body)
    assert answer.status == 200, answer


def delete(daemon, what, body):
    answer = daemon.admin("DELETE", f"/v1/{what}", body)
    assert answer.status == 200, answer


def test_both_count_the_same(pair):
    g, daemon = pair
    check = {"attributes": {"ip": "127.0.0.1", "path": "/x"}}
    assert g.statuses(2) == [200] * 2
    assert daemon.http("POST", "/v1/check", check).json["remaining"] == 1
    assert g.statuses(2) == [200, 429]
    assert daemon.http("POST", "/v1/check", check).status == 429


def test_a_ban_is_in_force_in_nginx_until_it_is_lifted(pair):
    g, daemon = pair
    assert g.ask()[0] == 200
    put(daemon, "bans", {"attributes": {"ip": "127.0.0.1"}, "reason": "scraping"})
    wait_for(lambda: all(b'"error":"banned"' in g.ask()[2] for _ in range(10)), "nginx knows")
    status, _, body = g.ask()
    assert status == 429 and b"scraping" in body
    delete(daemon, "bans", {"attributes": {"ip": "127.0.0.1"}})
    wait_for(lambda: not any(b"banned" in g.ask()[2] for _ in range(10)), "it is lifted")


def test_a_ban_may_look_at_what_no_rule_does(pair):
    g, daemon = pair
    client = {"attributes": {"header.x-token": "stolen", "method": "GET"}}
    put(daemon, "bans", client)
    wait_for(lambda: b"banned" in g.ask(x_token="stolen")[2], "nginx knows")
    assert b"banned" not in g.ask(x_token="mine")[2]
    delete(daemon, "bans", client)
    wait_for(lambda: b"banned" not in g.ask(x_token="stolen")[2], "it is lifted")


def test_an_override_is_in_force_in_nginx_until_it_is_deleted(pair):
    g, daemon = pair
    client = {"rule": "api", "attributes": {"ip": "127.0.0.1"}}
    put(daemon, "overrides", {**client, "limit": "1000 per 7 days"})
    wait_for(lambda: all(g.ask()[1]["x-ratelimit-limit"] == "1000" for _ in range(10)), "nginx knows")
    assert g.statuses(10) == [200] * 10
    delete(daemon, "overrides", client)
    wait_for(lambda: set(g.statuses(10)) == {429}, "the rule's own limit")


def test_a_client_can_be_reset(pair):
    g, daemon = pair
    assert g.statuses(5) == [200] * 4 + [429]
    answer = daemon.admin("POST", "/v1/state/reset", {"attributes": {"ip": "127.0.0.1"}})
    assert answer.status == 200, answer
    assert g.ask()[0] == 200


def test_an_outcome_reported_to_the_daemon_counts_in_nginx(pair):
    g, daemon = pair
    for status in (401, 401, 200):
        check = {"attributes": {"ip": "127.0.0.1", "path": "/status/x"}, "cost": 1}
        charge = daemon.http("POST", "/v1/check", check).json["charge"]
        daemon.http("POST", "/v1/charge", {"charge": charge, "status": status})
    daemon.admin("POST", "/v1/state/reset", {"rule": "api", "attributes": {"ip": "127.0.0.1"}})
    assert g.ask("/status/401")[0] == 401
    wait_for(lambda: b"guesses" in g.ask("/status/200")[2], "three guesses")


USAGE = """
limits:
  - {name: api, key: ip, limit: 6 per 7 days, algorithm: fixed-window, usage: {per: year}}
  - {name: guesses, key: ip, limit: 100 per 7 days, charge_on: status 401, when: {path: /status/**}, usage: {per: year}}
"""


def usage(daemon, **filters):
    query = "&".join(f"{name}={value}" for name, value in filters.items())
    answer = daemon.admin("GET", f"/v1/usage?{query}")
    assert answer.status == 200, answer
    return {(row["rule"], row["client"]): (row["admitted"], row["refused"]) for row in answer.json["usage"]}


def test_workers_and_rationd_count_usage_together(gateway, upstream, tmp_path):
    g = gateway(USAGE, server=proxied(upstream))
    folder = tmp_path / "rationd"
    folder.mkdir()
    with Daemon(folder, USAGE, ["--state", str(tmp_path / "state"), "--workers", "1"]) as daemon:
        check = {"attributes": {"ip": "127.0.0.1", "path": "/x"}}
        assert g.statuses(4) == [200] * 4
        assert daemon.http("POST", "/v1/check", check).json["allowed"]
        assert g.ask("/status/401")[0] == 401
        assert g.statuses(3) == [429] * 3
        wait_for(lambda: usage(daemon) == {("api", "127.0.0.1"): (6, 3), ("guesses", "127.0.0.1"): (1, 0)},
                 "all are counted")


def test_a_worker_that_is_killed_leaves_what_it_has_answered(gateway, upstream, tmp_path):
    g = gateway(USAGE.replace("6 per", "1000000 per"), server=proxied(upstream), killed=True)
    folder = tmp_path / "rationd"
    folder.mkdir()
    with Daemon(folder, USAGE, ["--state", str(tmp_path / "state"), "--workers", "1"]) as daemon:
        for told in range(10, 60, 10):
            assert g.statuses(10) == [200] * 10
            before = g.workers()
            for worker in before:
                os.kill(worker, signal.SIGKILL)
            assert usage(daemon)[("api", "127.0.0.1")] == (told, 0)
            wait_for(lambda old=set(before): len(set(g.workers()) - old) == len(old), "new workers")


def test_a_reload_that_brings_usage_makes_its_file(gateway, upstream, tmp_path):
    g = gateway(RULES, server=proxied(upstream))
    file = tmp_path / "state.usage"
    assert g.ask()[0] == 200 and not file.exists()
    g.write(USAGE, zone=f"ration_zone 8m state={tmp_path}/state usage=2m;")
    g.reload()
    assert file.stat().st_size == 2 << 20
    with Daemon(tmp_path, USAGE, ["--state", str(tmp_path / "state")]) as daemon:
        wait_for(lambda: g.ask()[0] in (200, 429) and usage(daemon), "new workers count")


@pytest.mark.parametrize("zone, message", [
    ("usage=1k", 'usage of "1k" is too small; it needs 1048576 bytes'),
    ("usage=much", 'invalid size "much" of the usage'),
    ("usage=2m usage=2m", 'invalid parameter "usage=2m"; there are state=FILE and usage=SIZE only, each once'),
])
def test_a_size_of_usage_that_cannot_be_is_refused(gateway, tmp_path, zone, message):
    g = gateway(USAGE, start=False, zone=f"ration_zone 8m {zone};")
    status, said = g.test()
    assert status == 1 and message in said
