# SPDX-License-Identifier: Apache-2.0
"""The gateway changes while clients go on: reloads, upgrades of the binary, killed
workers. A soak (RATION_SOAK=1) does each a hundred times."""

import os
import shutil
import signal

import pytest

from daemon import wait_for
from gateway import MODULE, LoopingClients, is_alive

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")

SOAK = bool(os.environ.get("RATION_SOAK"))
MANY = "limits:\n  - {name: api, key: ip, limit: 1000000 per 7 days, algorithm: fixed-window%s}\n"


def upgrade(g):
    """A new binary takes over from the old one, as nginx's documentation has it."""
    old = g.master
    os.kill(old, signal.SIGUSR2)
    wait_for((g.folder / "nginx.pid.oldbin").exists, "a new master")
    wait_for(lambda: g.pid_text() not in ("", str(old)), "its pid")
    g.master = int(g.pid_text())
    wait_for(g.workers, "its workers")
    os.kill(old, signal.SIGQUIT)
    wait_for(lambda: not is_alive(old), "the old master ends")


def test_reloads_and_upgrades_under_load_lose_no_request_and_no_counter(gateway):
    g = gateway(MANY % "", workers=2, log_level="error", daemon="on")
    clients = LoopingClients(g)
    for _ in range(100 if SOAK else 5):
        upgrade(g)
        for _ in range(1 if SOAK else 4):
            g.reload()
    clients.end()
    print(len(clients.answers), "answers")  # pytest -rP shows it
    assert not clients.lost and set(clients.answers) == {200}
    assert len(clients.answers) > 100
    assert int(g.ask()[1]["x-ratelimit-remaining"]) == 1_000_000 - len(clients.answers) - 1


def test_reloads_under_load_lose_no_outcome(gateway):
    g = gateway(MANY % ", charge_on: status 403", workers=2, log_level="crit",
                server="ration on; location / { empty_gif; } location /no { deny all; empty_gif; }")
    clients = LoopingClients(g, path="/no")
    for _ in range(100 if SOAK else 10):
        g.reload()
    clients.end()
    assert not clients.lost and set(clients.answers) == {403}
    wait_for(lambda: int(g.ask()[1]["x-ratelimit-remaining"]) == 1_000_000 - len(clients.answers),
               "every outcome is charged")


@pytest.mark.parametrize("algorithm", ["token-bucket", "sliding-log"])
def test_a_killed_worker_leaves_the_counters_as_they_are(gateway, algorithm):
    g = gateway(f"limits:\n  - {{name: api, key: ip, limit: 2000 per 7 days, algorithm: {algorithm}}}\n",
                workers=2, log_level="alert", killed=True)
    clients = LoopingClients(g)
    kills = 50 if SOAK else 5
    for _ in range(kills):
        before = g.workers()
        os.kill(min(before), signal.SIGKILL)
        wait_for(lambda: len(g.workers() - before) >= 1, "a new worker")
    wait_for(lambda: clients.answers.count(429) > 0, "the limit is reached")
    clients.end()
    # What was charged for answers that never came is lost: at most one per client and kill.
    assert 2000 - 4 * kills <= clients.answers.count(200) <= 2000
    assert g.ask()[0] == 429
