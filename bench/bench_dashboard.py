#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What open pages of the dashboard cost rationd: processor time with 50 streams of 20 rules each and without, with
10,000 rules and a request every few milliseconds, and of single questions that a page asks.

usage: bench_dashboard.py BUILD [SECONDS]

With and without take turns, four times, SECONDS (30) in all for each.
"""

import contextlib
import json
import pathlib
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from measure import Stack, cpu_ns, figure, free_port, tell_missed, verdict, wait_for

BUILD = pathlib.Path(sys.argv[1]).resolve()
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 30
RULES, STREAMS, SHOWN, TURNS = 10_000, 50, 20, 4
GOAL_PERCENT = 1.0  # of a core, for all streams


class Rationd:
    def __init__(self, stack):
        file = stack.folder / "rules.yaml"
        file.write_text("limits:\n" + "".join(
            f"  - {{name: r{n}, when: {{path: /p{n}/**}}, key: ip, limit: 100 per second}}\n" for n in range(RULES)))
        self.http, self.admin = free_port(), free_port()
        process = stack.start(BUILD / "rationd", "--config", file, "--http", f"127.0.0.1:{self.http}", "--resp", "none",
                              "--grpc", "none", "--admin", f"127.0.0.1:{self.admin}", "--state", "none", stderr=subprocess.DEVNULL)
        self.pid = process.pid
        wait_for(("127.0.0.1", self.admin))

    def ask(self, path):
        return urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}").read()


def send_requests(rationd, stop):
    """About 200 a second, to one rule after the other."""
    with socket.create_connection(("127.0.0.1", rationd.http)) as s:
        for n in range(1 << 30):
            if stop.wait(0.005):
                return
            body = json.dumps({"attributes": {"ip": "192.0.2.1", "path": f"/p{n % RULES}/x"}}).encode()
            s.sendall(b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            s.recv(1 << 16)


def read_for(peers, seconds):
    """Reads what comes; returns how many bytes did."""
    poll, until, count = select.poll(), time.monotonic() + seconds, 0
    for number in peers:
        poll.register(number, select.POLLIN)
    while (left := until - time.monotonic()) > 0:
        for number, _ in poll.poll(left * 1000):
            count += len(peers[number].recv(1 << 16))
    return count


def percent_of_a_core(rationd, streams, seconds):
    with contextlib.ExitStack() as stack:
        peers = {}
        for k in range(streams):
            peer = stack.enter_context(socket.create_connection(("127.0.0.1", rationd.admin)))
            rules = ",".join(f"r{(k * SHOWN + i) % RULES}" for i in range(SHOWN))
            peer.sendall(f"GET /v1/live?rules={rules} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            peers[peer.fileno()] = peer
        read_for(peers, 1.5)
        before, began = cpu_ns([rationd.pid]), time.monotonic()
        read = read_for(peers, seconds)
        took = (cpu_ns([rationd.pid]) - before) / (time.monotonic() - began) / 1e7
        if streams and read < streams * seconds * 500:
            sys.exit(f"bench_dashboard: {streams} streams have told {read} bytes only")
        return took


def cost_of_streams(rationd):
    stop = threading.Event()
    thread = threading.Thread(target=send_requests, args=(rationd, stop))
    thread.start()
    without, with_streams = [], []
    for _ in range(TURNS):
        without.append(percent_of_a_core(rationd, 0, SECONDS / TURNS))
        with_streams.append(percent_of_a_core(rationd, STREAMS, SECONDS / TURNS))
    stop.set()
    thread.join()
    figure("without streams, 200 requests a second", statistics.mean(without) * 10_000, "millionths of a core")
    verdict(f"{STREAMS} streams of {SHOWN} rules, {RULES} rules in force",
            statistics.mean(with_streams) - statistics.mean(without), GOAL_PERCENT, "% of a core", at_least=False)


def cost_of_questions(rationd):
    for what, path in (("GET /v1/activity", "/v1/activity"), ("the same, searched", "/v1/activity?search=r99&sort=name"),
                       ("GET /v1/history", "/v1/history"), ("GET /metrics?rules=none", "/metrics?rules=none"), ("GET /metrics", "/metrics")):
        before = cpu_ns([rationd.pid])
        for _ in range(20):
            rationd.ask(path)
        figure(what, (cpu_ns([rationd.pid]) - before) / 20 / 1000, "us")


def main():
    with tempfile.TemporaryDirectory() as folder:
        stack = Stack(pathlib.Path(folder))
        try:
            rationd = Rationd(stack)
            verdict("percent of a core when nothing happens", percent_of_a_core(rationd, 0, SECONDS / TURNS), GOAL_PERCENT,
                    "% of a core", at_least=False)
            cost_of_streams(rationd)
            cost_of_questions(rationd)
        finally:
            stack.stop()
    tell_missed()


if __name__ == "__main__":
    main()
