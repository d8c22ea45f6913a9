# SPDX-License-Identifier: Apache-2.0
"""Requests that wait, and places that they hold: the same whether nginx decides or
rationd does."""

import re
import shutil
import socket
import threading
import time

import pytest

import http2
from daemon import PATIENCE, wait_for
from gateway import MODULE, PLACES, begin, proxied

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")


# --- delays ------------------------------------------------------------------------------

def test_a_queue_lets_requests_through_in_their_turn_and_never_early(decided, upstream):
    """Eight at once; each waits as long as its decision says, and never less."""
    g = decided("limits:\n  - {name: line, key: ip, limit: 20 per second queue 10, wait: hold}\n",
                server=proxied(upstream), workers=2)
    sent = {}

    def ask(i):
        sent[f"/{i}"] = time.monotonic()
        assert g.ask(f"/{i}")[0] == 200

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(upstream.arrivals) == 8
    assert max(float(a[2]["x-delay"]) for a in upstream.arrivals) > 0
    for arrived, path, headers, _ in upstream.arrivals:
        # Told in whole milliseconds, rounded up.
        assert arrived - sent[path] >= float(headers["x-delay"]) - 0.001


def test_a_request_that_waits_holds_no_worker(decided):
    g = decided("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 10, when: {path: /line}}\n")
    assert g.ask("/line")[0] == 200
    waiting = [begin(g, "/line") for _ in range(3)]
    g.wait_for_log("delayed by", "error", 3)
    assert g.statuses(3, "/free") == [200] * 3
    for s in waiting:
        s.close()


def test_throttling_slows_down_before_it_refuses(decided):
    g = decided("limits:\n  - name: api\n    key: ip\n    limit: 4 per 7 days\n"
                "    throttle: {from: 50%, max_delay: 100ms}\n")
    assert g.statuses(5) == [200] * 4 + [429]
    g.wait_for_log("429 ")
    assert re.findall(r"verdict=(\w+)", g.log()) == ["allowed"] * 2 + ["delayed"] * 2 + ["refused"]


def test_a_queue_that_is_full_refuses(decided):
    g = decided("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 1}\n")
    assert g.ask()[0] == 200
    with begin(g, "/"):
        g.wait_for_log("delayed by", "error")
        assert g.ask()[0] == 429


def test_a_client_that_leaves_the_end_of_a_queue_makes_room(decided):
    g = decided("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 1}\n")
    g.ask()
    for turn in range(1, 4):
        with begin(g, "/"):
            g.wait_for_log("delayed by", "error", turn)
        g.wait_for_log("499 /", count=turn)
    assert "refused by" not in g.log("error")


def leave(g, path, count=1):
    """A client that goes away while it waits; all others have been logged."""
    delays, gone = g.log("error").count("delayed by"), g.log().count(f"499 {path}")
    for turn in range(1, count + 1):
        with begin(g, path):
            g.wait_for_log("delayed by", "error", delays + turn)
        g.wait_for_log(f"499 {path}", count=gone + turn)


def test_a_client_that_leaves_the_middle_of_a_queue_burns_its_place(decided):
    g = decided("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 2}\n")
    assert g.ask()[0] == 200
    first = begin(g, "/first")
    g.wait_for_log("delayed by", "error")
    with begin(g, "/second"):
        g.wait_for_log("delayed by", "error", 2)
        first.close()
        g.wait_for_log("499 /first")
        assert g.ask()[0] == 429
    g.wait_for_log("499 /second")
    leave(g, "/third")


def test_a_client_that_leaves_while_throttled_is_not_charged(decided):
    g = decided("limits:\n  - {name: slow, key: ip, limit: 2 per 7 days, "
                "throttle: {from: 50%, max_delay: 60s}}\n"
                "  - {name: day, key: ip, limit: 2 per day, algorithm: fixed-window}\n"
                "  - {name: log, key: ip, limit: 2 per day, algorithm: sliding-log}\n")
    assert g.ask()[0] == 200
    leave(g, "/gone", 4)
    assert "refused by" not in g.log("error")


def test_a_client_that_has_waited_and_leaves_later_is_charged(decided, upstream):
    g = decided("limits:\n  - {name: slow, key: ip, limit: 2 per 7 days, "
                "throttle: {from: 0%, max_delay: 50ms}}\n", server=proxied(upstream))
    for turn in range(2):
        with begin(g, "/hold"):
            wait_for(lambda: upstream.count("/hold") == turn + 1, "its turn comes")
        g.wait_for_log("499 /hold", count=turn + 1)
    assert g.ask()[0] == 429


def test_a_stream_that_is_reset_while_it_waits_makes_room(decided):
    g = decided("limits:\n  - {name: line, key: ip, limit: 1 per 7 days queue 1}\n", listen="http2")
    with http2.Peer(socket.create_connection(("127.0.0.1", g.port), PATIENCE)) as peer:
        for turn in range(3):
            stream = 1 + 2 * turn
            peer.send(http2.get(stream, "/"))
            if turn > 0:
                g.wait_for_log("delayed by", "error", turn)
                peer.send(http2.frame(http2.RST_STREAM, 0, stream, http2.CANCEL))
            g.wait_for_log("verdict=", count=turn + 1)
    assert re.findall(r"verdict=(\w+)", g.log()) == ["allowed", "delayed", "delayed"]


def test_a_waiting_request_is_served_by_its_worker_after_a_reload(decided):
    g = decided("limits:\n  - {name: line, key: ip, limit: 1 per 3 seconds queue 5}\n")
    g.ask()
    with begin(g, "/") as s:
        g.wait_for_log("delayed by", "error")
        g.reload()
        assert s.recv(100).startswith(b"HTTP/1.1 200")


# --- places ------------------------------------------------------------------------------

def test_places_are_free_when_requests_end(decided, upstream):
    g = decided(PLACES % "60s", server=proxied(upstream), workers=2)
    first = [begin(g, "/hold") for _ in range(2)]
    wait_for(lambda: upstream.count("/hold") == 2, "both arrive")
    assert g.ask("/hold")[0] == 429
    upstream.release.set()
    for s in first:
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        s.close()
    wait_for(lambda: g.ask("/hold")[0] == 200, "a place is free")


def test_places_are_free_when_clients_go_away(decided, upstream):
    g = decided(PLACES % "600s", server=proxied(upstream))
    first = [begin(g, "/hold") for _ in range(2)]
    wait_for(lambda: upstream.count("/hold") == 2, "both arrive")
    assert g.ask("/hold")[0] == 429
    for s in first:
        s.close()
    g.wait_for_log("499 /hold", count=2)
    upstream.release.set()
    assert g.ask("/hold")[0] == 200


def test_places_are_free_when_the_upstream_fails(decided):
    g = decided(PLACES % "600s", server="ration on; location / { proxy_pass http://127.0.0.1:1; }")
    assert g.statuses(6, "/hold") == [502] * 6


def test_a_place_is_kept_longer_than_its_lease_while_the_request_lasts(decided, upstream):
    g = decided(PLACES % "1s", server=proxied(upstream))
    first = [begin(g, "/hold") for _ in range(2)]
    wait_for(lambda: upstream.count("/hold") == 2, "both arrive")
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        assert g.ask("/hold")[0] == 429
        time.sleep(0.1)
    upstream.release.set()
    for s in first:
        s.close()
