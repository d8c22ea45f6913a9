# SPDX-License-Identifier: Apache-2.0
"""The gateway under valgrind: no error and no leak in any process, on every path through
the module. nginx.supp has what nginx itself leaks, and nothing of ours. A soak goes on
for a minute."""

import os
import pathlib
import shutil
import signal
import socket
import time

import pytest

from daemon import wait_for
from gateway import MODULE, SANITIZED, begin, is_alive, proxied

pytestmark = pytest.mark.skipif(
    SANITIZED is not None or not MODULE.exists() or not shutil.which("nginx")
    or not shutil.which("valgrind"), reason="needs nginx, the module and valgrind")

SECONDS = 60 if os.environ.get("RATION_SOAK") else 1
RULES = """
deny:
  - {header.x-bad: "*"}
limits:
  - {name: places, key: ip, limit: 2 concurrent, lease: 1s, when: {path: /hold}}
  - {name: line, key: ip, limit: 1 per 7 days queue 1, when: {path: /line}}
  - {name: turns, key: ip, limit: 1 concurrent, lease: 60s, queue: {size: 5, max_wait: 60s}, when: {path: /hold/**}}
  - {name: api, key: ip, limit: [3 per 7 days, 1000 per day], when: {path: /api}}
  - {name: slow, key: ip, limit: 4 per 7 days, throttle: {from: 50%, max_delay: 20ms}, when: {path: /slow}}
  - {name: failures, key: ip, limit: 2 per 7 days, algorithm: sliding-log, charge_on: status 4xx, when: {path: /status/**}}
  - {name: tiers, key: user, limit: {by: tier, free: 9 per minute, pro: 90 per hour, default: free}, when: {path: /t}}
"""


def leave(g, path, arrives):
    """A client that goes away before it has its answer."""
    left = g.log().count(f"499 {path}")
    with socket.create_connection(("127.0.0.1", g.port), 30) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        wait_for(arrives, f"{path} arrives")
    g.wait_for_log(f"499 {path}", count=left + 1)


def stand_in_line(g, upstream):
    """Of two that wait, one goes away and one has its turn."""
    before, waits = upstream.count("/hold/"), g.log("error").count("waits in line")
    upstream.release.clear()
    with begin(g, "/hold/first"):
        wait_for(lambda: upstream.count("/hold/") > before, "the place is taken")
        leave(g, "/hold/left", lambda: g.log("error").count("waits in line") > waits)
        with begin(g, "/hold/last") as last:
            wait_for(lambda: g.log("error").count("waits in line") > waits + 1, "it stands in line")
            upstream.release.set()
            assert last.recv(100).startswith(b"HTTP/1.1 200")
    upstream.release.clear()


def visit_every_path(g, upstream, turn):
    assert 429 in g.statuses(4, "/api")
    assert g.ask("/api", accept="application/problem+json")[0] == 429
    assert g.ask("/api", method="HEAD")[0] == 429
    assert g.ask("/old/%61?x")[0] == 200
    assert g.ask("/", x_bad="1")[0] == 403
    assert 429 in g.statuses(4, "/status/404") + g.statuses(2, "/status/200")
    assert set(g.statuses(2, f"/t?user=u{turn}&tier=pro") + g.statuses(2, f"/t?user=u{turn}")) == {200}
    assert g.ask("/slow")[0] in (200, 429)
    assert g.ask("/shadow")[0] == 200
    assert g.ask("/gone")[0] == 502
    held = upstream.count("/hold")
    leave(g, "/hold", lambda: upstream.count("/hold") > held)
    stand_in_line(g, upstream)
    if turn == 0:
        assert g.ask("/line")[0] == 200
    leave(g, "/line", lambda: g.log("error").count('delayed by "line"') > turn)


@pytest.mark.parametrize("top", ["master_process off;", ""], ids=["one process", "master and workers"])
def test_valgrind_finds_nothing_wrong(gateway, upstream, top):
    g = gateway(RULES, server=proxied(upstream) + """
        rewrite ^/old/(.*) /$1; error_page 503 /sorry;
        location /shadow { ration shadow; ration_attribute user $arg_user; empty_gif; }
        location /t { empty_gif; }
        location /gone { proxy_pass http://127.0.0.1:1; }""",
                http="ration_attribute user $arg_user; ration_attribute tier $arg_tier;",
                start=False, top=top, log_level="info")
    g.start("valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite",
            f"--suppressions={pathlib.Path(__file__).parent}/nginx.supp", f"--log-file={g.folder}/valgrind.%p")
    until, turn = time.monotonic() + SECONDS, 0
    while turn == 0 or time.monotonic() < until:
        visit_every_path(g, upstream, turn)
        turn += 1
        if not top:
            g.reload()
    processes = {g.process.pid} | (g.workers() if not top else set())
    g.process.send_signal(signal.SIGQUIT)  # a clean end
    assert g.process.wait(60) == 0
    wait_for(lambda: not any(is_alive(pid) for pid in processes), "all processes end")
    logs = list(g.folder.glob("valgrind.*"))
    assert len(logs) >= (1 if top else 3)
    assert "".join(log.read_text() for log in logs) == ""
