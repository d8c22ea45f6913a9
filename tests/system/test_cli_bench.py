# SPDX-License-Identifier: Apache-2.0
"""`ration bench`: what it sends, counts and measures."""

import json
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from daemon import PATIENCE
from ration_command import RATION, daemon, fresh, run, server, terminal  # noqa: F401 (fixtures)

@pytest.mark.parametrize("port", ["resp", "http"])
@pytest.mark.parametrize("command", ["throttle", "take", "check", "ping"])


def test_bench_counts_every_answer(daemon, port, command):
    before = daemon.admin("GET", "/v1/status").json["decisions"]
    answer = run("bench", f"--{port}", daemon.addresses[port], "--command", command, "--requests",
                 "3000", "--connections", "7", "--pipeline", "5", "--keys", "20", "--threads", "2",
                 "--limit", "100 per hour", "--json")
    assert answer.status == 0, answer
    report = answer.json
    assert (report["requests"], report["errors"], report["unanswered"]) == (3000, 0, 0)
    assert report["allowed"] + report["refused"] == 3000
    latency = [report["latency"][name] for name in ("min", "p50", "p90", "p99", "p99.9", "max")]
    assert 0 < latency[0] and latency == sorted(latency)
    if command == "ping":
        assert report["refused"] == 0
        return
    after = daemon.admin("GET", "/v1/status").json["decisions"]
    assert after["allowed"] - before["allowed"] == report["allowed"]
    assert after["refused"] - before["refused"] == report["refused"]


def test_bench_by_limits_is_refused_what_is_over(fresh):
    for port, command, limit in (("resp", "throttle", "50 per day"), ("http", "take", "60 per week")):
        report = run("bench", f"--{port}", fresh.addresses[port], "--command", command, "--requests",
                   "5000", "--keys", "10", "--limit", limit, "--json").json
        assert report["allowed"] == 10 * int(limit[:2])


def test_bench_fills_keys_into_attributes(fresh):
    report = run("bench", "--resp", fresh.addresses["resp"], "--command", "check", "--requests", "2000",
               "--keys", "10", "--json", "path=/api/x", "user=u-{key}").json
    assert (report["allowed"], report["refused"]) == (100, 1900)
    top = fresh.admin("GET", "/v1/top").json["keys"]
    assert all(re.fullmatch(r".*u-key:000000000\d", key["key"]) for key in top) and len(top) == 10


def test_bench_at_a_rate_sends_what_is_due(daemon):
    answer = run("bench", "--resp", daemon.addresses["resp"], "--rate", "2000/s", "--duration", "500ms",
                 "--json")
    report = answer.json
    assert report["requests"] + report["never_sent"] == 1000 and report["unanswered"] == 0


def test_bench_at_a_rate_measures_from_when_a_request_was_due():
    """A server that sleeps once: all that were due meanwhile have waited."""
    def serve(listener):
        connection, _ = listener.accept()
        slept = False
        while data := connection.recv(65536):
            if not slept:
                slept = True
                time.sleep(0.4)
            connection.sendall(b"+PONG\r\n" * data.count(b"PING"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=[listener], daemon=True).start()
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        report = run("bench", "--resp", address, "--command", "ping", "--rate", "200/s", "--duration",
                   "600ms", "--connections", "1", "--pipeline", "1", "--json").json
    assert report["requests"] == 120
    # 80 of 120 came during those 0.4 s: the median waited at least half of what is left to it.
    assert report["latency"]["p50"] > 0.1 and report["latency"]["max"] >= 0.4


def test_bench_reports_errors_and_servers_of_another_kind():
    with server(b"-ERR no\x1b[2J\r\n") as address:
        answer = run("bench", "--resp", address, "--requests", "1", "--connections", "1",
                     "--pipeline", "1")
        assert answer.status == 2 and 'the first error: "-ERR no\\x1b[2J"' in answer.err
    with server(b"220 mail.example.org ESMTP\r\n") as address:
        answer = run("bench", "--resp", address, "--requests", "10")
        assert (answer.status, answer.err) == (
            2, f"ration: what answers at {address} does not speak RESP\n")
    with server(b"") as address:
        answer = run("bench", "--http", address, "--requests", "100000", "--connections", "2")
        assert answer.status == 2 and "closed a connection before it had answered" in answer.err


@pytest.mark.parametrize("args,message", [
    (["--resp", "192.0.2.1:6380"],
     "192.0.2.1:6380 is not on this machine; --remote allows that, if its owner does"),
    (["--resp", ":1", "--http", ":2"], "give either --resp or --http, not both"),
    (["--duration", "1s", "--requests", "5"], "give either --duration or --requests, not both"),
    (["--duration", "1h"],
     '--duration: found "1h", expected a length of time such as 10s, from 100 ms to 10 minutes'),
    (["--command", "pign"],
     '--command: found "pign", expected throttle, check, take or ping; did you mean ping?'),
    (["--limit", "5 per minuet"], "--limit: "),
    (["--limit", "5 concurrent"], "--limit: CL.THROTTLE takes a rate per whole seconds such as "
                                  '"100 per minute"; --command take takes any limit'),
    (["--rate", "fast"], '--rate: found "fast", expected a rate such as 50000/s'),
])
def test_bench_explains_mistakes(args, message):
    answer = run("bench", *args)
    assert (answer.status, answer.out) == (2, "") and answer.err.startswith(f"ration: {message}")


def test_an_interrupted_bench_reports_what_it_has_measured(fresh):
    process = subprocess.Popen([RATION, "bench", "--resp", fresh.addresses["resp"], "--duration", "60s",
                                "--json", "--connections", "1", "--pipeline", "1"],
                               stdout=subprocess.PIPE, text=True)
    while fresh.admin("GET", "/v1/status").json["decisions"]["allowed"] < 2: # it has read the first
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, 2) and json.loads(out)["requests"] > 0


def test_bench_shows_how_it_goes_on_a_terminal(terminal):
    t = terminal(RATION, "bench", "--resp", "127.0.0.1:0")
    t.read_until("a port is a number from 1 to 65535")
    t = terminal(RATION, "bench", "--duration", "60s", "--command", "ping", "--resp",
                 t.daemon.addresses["resp"])
    at = t.read_until(" requests/s  0.0 % refused")
    t.write("\x03")
    t.read_until("per second", t.read_until("\r\x1b[K", at))
