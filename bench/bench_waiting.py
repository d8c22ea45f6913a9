#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a request that waits in line costs rationd: memory over HTTP, RESP and gRPC, and processor time of a turn.

usage: bench_waiting.py BUILD

10,000 wait in 1,000 lines. Memory is what the process has more (RSS) than with the same connections idle. The
instructions of decisions that do not wait are counted by bench-waiting.
"""

import json
import os
import pathlib
import resource
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time

from measure import Stack, cpu_ns, figure, free_port, tell_missed, verdict, wait_for

BUILD = pathlib.Path(sys.argv[1]).resolve()
WAITERS, LINES, CALLS = 10_000, 1_000, 1_000  # CALLS: of one gRPC connection
GOAL_BYTES = 4096
RULES = """
apply_to_envoy: true
limits:
  - {name: held, when: {path: /held}, key: user, limit: 1 concurrent, lease: 1h, queue: {size: 100, max_wait: 60s}}
  - {name: line, when: {path: /line}, key: user, limit: 1 per 5 seconds burst 1, queue: {size: 100, max_wait: 60s}}
  - {name: turns, when: {path: /turns}, key: user, limit: 1 per second burst 1, queue: {size: 100, max_wait: 60s}}
"""


# --- requests --------------------------------------------------------------------------------

def http(user, path):
    body = json.dumps({"attributes": {"user": user, "path": path}}).encode()
    verb = b"acquire" if path == "/held" else b"check"
    return b"POST /v1/%s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (verb, len(body), body)


def resp(user, path):
    words = [b"RATION.ACQUIRE", b"RULES"] if path == "/held" else [b"RATION.CHECK"]
    words += [b"user", user.encode(), b"path", path.encode()]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def field(number, payload):
    return bytes([number << 3 | 2, len(payload)]) + payload


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def grpc(user, stream):
    """A call with its headers as literals without indexing."""
    head = b"".join(b"\0" + bytes([len(n)]) + n + bytes([len(v)]) + v for n, v in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":authority", b"a"),
        (b":path", b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"),
        (b"te", b"trailers"), (b"content-type", b"application/grpc")))
    entries = [field(1, field(1, k) + field(2, v)) for k, v in ((b"user", user.encode()), (b"path", b"/line"))]
    message = field(1, b"bench") + field(2, b"".join(entries))
    message = b"\0" + struct.pack(">I", len(message)) + message
    return frame(1, 4, stream, head) + frame(0, 1, stream, message)


# --- rationd ---------------------------------------------------------------------------------

class Rationd:
    def __init__(self, stack):
        self.ports = {name: free_port() for name in ("http", "resp", "grpc", "admin")}
        rules = stack.folder / "rules.yaml"
        rules.write_text(RULES)
        listen = [w for name, port in self.ports.items() for w in (f"--{name}", f"127.0.0.1:{port}")]
        self.process = stack.start(BUILD / "rationd", "--config", rules, "--workers", 1, "--memory", "16M",
                                   "--state", "none", *listen, stderr=subprocess.DEVNULL)
        for port in self.ports.values():
            wait_for(("127.0.0.1", port))
        self.pid = self.process.pid

    def connect(self, name):
        return socket.create_connection(("127.0.0.1", self.ports[name]), timeout=60)

    def rss(self):
        lines = pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def waiting(self):
        with self.connect("admin") as s:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            page = b"".join(iter(lambda: s.recv(1 << 16), b""))
        return next(int(float(line.split()[1])) for line in page.splitlines() if line.startswith(b"ration_waiting "))

    def wait_for(self, waiting):
        until = time.monotonic() + 60
        while self.waiting() != waiting:
            if time.monotonic() > until:
                sys.exit(f"bench_waiting: {self.waiting()} wait, and not {waiting}")
            time.sleep(0.05)


# --- rows ------------------------------------------------------------------------------------

def users():
    return [f"user-{i % LINES}" for i in range(WAITERS)]


def memory_of(stack, name, write):
    """Bytes of a waiter on a connection of its own, besides those of the idle connection."""
    rationd = Rationd(stack)
    first = rationd.connect(name)
    for i in range(LINES):  # uses up all limits
        first.sendall(write(f"user-{i}", "/held"))
        first.recv(1 << 16)
    peers = [rationd.connect(name) for _ in range(WAITERS)]
    for peer in peers[:1] + peers[-1:]:
        peer.sendall(write("other", "/none"))
        peer.recv(1 << 16)
    before = rationd.rss()
    for peer, user in zip(peers, users()):
        peer.sendall(write(user, "/held"))
    rationd.wait_for(WAITERS)
    took = (rationd.rss() - before) / WAITERS
    verdict(f"bytes of a waiter over {name.upper()}", took, GOAL_BYTES, "B", at_least=False)
    for peer in peers:
        peer.close()
    rationd.wait_for(0)


def memory_of_grpc(stack):
    """Of a call that waits; the limit is a bucket, as Envoy reports no ends."""
    rationd = Rationd(stack)
    peers = [rationd.connect("grpc") for _ in range(WAITERS // CALLS)]
    for peer in peers:
        peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        peer.recv(1 << 16)
    for i in range(LINES):  # uses up all limits
        peers[0].sendall(grpc(f"user-{i}", 2 * i + 1))
        peers[0].recv(1 << 16)
    before = rationd.rss()
    for i, peer in enumerate(peers):
        stream = iter(range(2 * LINES + 1 if i == 0 else 1, 1 << 20, 2))
        peer.sendall(b"".join(grpc(f"user-{k}", next(stream)) for k in range(CALLS)))
    rationd.wait_for(WAITERS)
    took = (rationd.rss() - before) / WAITERS
    verdict("bytes of a waiter over gRPC, a call of 1,000 on a connection", took, GOAL_BYTES, "B", at_least=False)
    for peer in peers:
        peer.close()
    rationd.wait_for(0)


def time_of_turns(stack):
    """Processor time of the daemon from the first turn to the last, for each."""
    rationd = Rationd(stack)
    poll, peers = select.epoll(), {}
    for user in users():
        peer = rationd.connect("http")
        peer.sendall(http(user, "/turns"))
        peers[peer.fileno()] = peer
        poll.register(peer, select.EPOLLIN)
    answered, before, began = 0, cpu_ns([rationd.pid]), 0
    while answered < WAITERS:
        for number, _ in poll.poll(60):
            peers.pop(number).close()
            answered += 1
            if answered == 2 * LINES:  # the first of each line did not wait
                before, began = cpu_ns([rationd.pid]), answered
    figure("processor time of a turn over HTTP, with its disconnect",
           (cpu_ns([rationd.pid]) - before) / (answered - began), "ns")


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < WAITERS + 1000:
        sys.exit(f"bench_waiting: needs {WAITERS + 1000} descriptors, and may have {hard}")
    for row in (lambda s: memory_of(s, "http", http), lambda s: memory_of(s, "resp", resp), memory_of_grpc,
                time_of_turns):
        with tempfile.TemporaryDirectory() as folder:
            stack = Stack(pathlib.Path(folder))
            try:
                row(stack)
            finally:
                stack.stop()
    tell_missed()


if __name__ == "__main__":
    os.environ.pop("LD_PRELOAD", None)
    main()
