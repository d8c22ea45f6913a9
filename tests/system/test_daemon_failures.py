# SPDX-License-Identifier: Apache-2.0
"""Whatever call of rationd fails, it either works all the same or says why it does not;
it never crashes. One call fails in each run: an allocation, a socket, a thread, a read."""

import contextlib
import os
import subprocess

import pytest

from concurrent_clients import check, command, read_http
from daemon import BUILD, PATIENCE, RATIOND, Daemon, RespError, wait_for

PRELOAD = BUILD / "tests/libfailing.so"
RULES = """
attributes:
  ip: { trusted_proxies: [10.0.0.0/8] }
limits:
  - { name: login, when: { method: POST, path: /login }, key: ip, limit: 5 per minute, algorithm: sliding-log }
  - { name: all, key: [api_key, ip], limit: { by: tier, free: 100 per minute, pro: unlimited, default: free } }
"""


def environment(tell, k):
    return {"LD_PRELOAD": str(PRELOAD), "FAIL_FROM_START": "1", "FAIL_AT": str(k), "FAIL_TELL": str(tell)}


def told(tell):
    """How many calls there were, and which failed."""
    calls, name = tell.read_text().split()
    return int(calls), name


def test_any_call_may_fail_while_rules_are_checked(tmp_path):
    rules, tell = tmp_path / "rules.yaml", tmp_path / "tell"
    rules.write_text(RULES)

    def run(k):
        tell.unlink(missing_ok=True)
        return subprocess.run([RATIOND, "--config", rules, "--check"], capture_output=True, text=True,
                              timeout=PATIENCE, env={**os.environ, **environment(tell, k)})

    assert run(0).returncode == 0
    calls, reported = told(tell)[0], 0
    assert calls > 20
    for k in range(1, calls + 1):
        result = run(k)
        name = told(tell)[1] if tell.exists() else "?"
        assert result.returncode in (0, 1, 2), f"call {k}, {name}: {result}"
        if result.returncode != 0:
            assert result.stderr.strip(), f"call {k}, {name}: no word of it"
            reported += 1
    assert reported > 10


def ask_http(daemon):
    """Five requests on a connection; how many were answered before it ended."""
    answered = 0
    with contextlib.suppress(ConnectionError), daemon.socket() as s, s.makefile("rb") as file:
        s.sendall(check(ip="192.0.2.7") * 5)
        while answered < 5 and (answer := read_http(file)):
            assert answer[0] == 200 or answer[0] == 503 and b'"error"' in answer[2], answer
            answered += 1
    return answered


def ask_resp(daemon):
    answered = 0
    with contextlib.suppress(ConnectionError, EOFError), daemon.resp() as redis:
        redis.socket.sendall(command("RATION.CHECK", "ip", "192.0.2.8") * 5)
        while answered < 5:
            try:
                assert redis.read()
            except RespError as error:
                assert str(error) == "STORE out of memory"
            answered += 1
    return answered


@pytest.mark.parametrize("state", ["memory", "file"])
def test_any_call_may_fail_while_a_daemon_starts_serves_reloads_and_stops(tmp_path, state):
    tell = tmp_path / "tell"
    options = ["--workers", "2", "--memory", "2M", *(["--state", tmp_path / "state"] if state == "file" else [])]

    def run(k):
        tell.unlink(missing_ok=True)
        (tmp_path / "state").unlink(missing_ok=True)
        daemon = Daemon(tmp_path, RULES, options=options, env=environment(tell, k), start=False)
        try:
            daemon.start()
        except RuntimeError as error:
            assert daemon.status in (1, 2), f"call {k}: status {daemon.status}: {error}"
            said = str(error).partition("\n")[2]
            assert "rationd: " in said or "error: " in said, f"call {k}: {error}"
            return "refused"
        try:
            answered = [ask(daemon) for ask in (ask_http, ask_resp)]
            daemon.reload()
            wait_for(lambda: any("rules.re" in line for line in daemon.log), f"call {k}: a reload")
            answered += [ask(daemon) for ask in (ask_http, ask_resp)]
            # The failure may end the connection it happens on; all others are served.
            assert sum(answered) >= 15, f"call {k}: {answered}"
            daemon.stop()
        finally:
            if daemon.process:
                daemon.kill()
        return "served"

    assert run(0) == "served"
    calls = told(tell)[0]
    outcomes = [run(k) for k in range(1, calls + 1)]
    assert outcomes.count("refused") > 100 and outcomes.count("served") > 20, outcomes
