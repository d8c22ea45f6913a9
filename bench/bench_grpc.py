#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call of ShouldRateLimit costs rationd, by h2load.

usage: bench_grpc.py BUILD [--quick] [--ratelimit]

--ratelimit measures envoyproxy/ratelimit with a Redis beside it, in the same rounds:
built by Go into BUILD/ratelimit, or named by $RATELIMIT; its processor time is that of
both processes. Processor time is the kernel's, of all threads. The p99 is shown, not
judged: at a given rate h2load sends calls in bursts.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from measure import free_port

BUILD = pathlib.Path(sys.argv[1]).resolve()
QUICK = "--quick" in sys.argv
ROUNDS = 3 if QUICK else 5
CALLS = 100_000 if QUICK else 400_000
GOAL_CALLS, GOAL_RATIO = 120_000, 20
PATH = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
MODULE = "github.com/envoyproxy/ratelimit/src/service_cmd@latest"
RULES = """
domain: bench
descriptors:
  - key: client
    rate_limit: {unit: second, requests_per_unit: 1000000000}
"""


def field(number, payload):
    return bytes([number << 3 | 2, len(payload)]) + payload


def message():
    entry = field(1, b"client") + field(2, b"192.0.2.7")
    request = field(1, b"bench") + field(2, field(1, entry))
    return b"\0" + len(request).to_bytes(4, "big") + request


def wait_for(port):
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"bench_grpc: nothing listens at port {port}")


def cpu_ns(pids):
    return sum(int((task / "schedstat").read_text().split()[0]) for pid in pids
               for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


class Contender:
    def __init__(self, name, port, processes):
        self.name, self.port, self.processes = name, port, processes
        wait_for(port)

    def load(self, folder, *options):
        """h2load's output and the processor time that the servers took meanwhile."""
        pids = [p.pid for p in self.processes]
        before = cpu_ns(pids)
        out = subprocess.run(
            ["h2load", "-t", "1", "-d", folder / "message", "-H", "content-type: application/grpc",
             "-H", "te: trailers", *map(str, options), f"http://127.0.0.1:{self.port}{PATH}"],
            capture_output=True, text=True, check=True).stdout
        return out, cpu_ns(pids) - before

    def saturate(self, folder, calls):
        """Calls a second, ns of processor time for each."""
        out, cpu = self.load(folder, "-n", calls, "-c", 10, "-m", 50)
        if int(re.search(r"(\d+) succeeded", out)[1]) != calls:
            sys.exit(f"bench_grpc: {self.name} failed calls:\n{out}")
        return float(re.search(r"([\d.]+) req/s", out)[1]), cpu / calls

    def p99_ms(self, folder, rate):
        log = folder / "h2load.log"
        self.load(folder, "-c", 10, "-m", 10, "--rps", max(1, int(rate / 10)), "-D", 2,
                  "--warm-up-time", "500ms", "--log-file", log)
        times = sorted(int(line.split("\t")[2]) for line in log.read_text().splitlines())
        return times[len(times) * 99 // 100] / 1000

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(20)


def start_rationd(folder):
    (folder / "bench.yaml").write_text(RULES)
    port = free_port()
    command = [BUILD / "rationd", "--config", folder / "bench.yaml", "--state", "none",
               "--workers", "1", "--http", "none", "--resp", "none", "--admin", "none",
               "--grpc", f"127.0.0.1:{port}"]
    return Contender("rationd", port, [subprocess.Popen(command, stderr=subprocess.DEVNULL)])


def find_ratelimit():
    """The program of envoyproxy/ratelimit; None if it cannot be had."""
    named, built = os.environ.get("RATELIMIT"), BUILD / "ratelimit" / "service_cmd"
    if named:
        return named
    if not built.exists() and shutil.which("go"):
        subprocess.run(["go", "install", MODULE], check=False, stderr=subprocess.DEVNULL,
                       env={**os.environ, "GOBIN": str(built.parent)})
    return built if built.exists() and shutil.which("redis-server") else None


def start_ratelimit(folder, program):
    root = folder / "runtime" / "config"
    root.mkdir(parents=True)
    (root / "bench.yaml").write_text(RULES)
    redis, port = free_port(), free_port()
    store = subprocess.Popen(["redis-server", "--port", str(redis), "--save", "", "--bind",
                              "127.0.0.1"], stdout=subprocess.DEVNULL)
    wait_for(redis)
    env = {**os.environ, "RUNTIME_ROOT": str(folder), "RUNTIME_SUBDIRECTORY": "runtime",
           "RUNTIME_WATCH_ROOT": "false", "USE_STATSD": "false", "REDIS_SOCKET_TYPE": "tcp",
           "REDIS_URL": f"127.0.0.1:{redis}", "HOST": "127.0.0.1", "PORT": str(free_port()),
           "GRPC_HOST": "127.0.0.1", "GRPC_PORT": str(port), "DEBUG_HOST": "127.0.0.1",
           "DEBUG_PORT": str(free_port()), "LOG_LEVEL": "ERROR"}
    service = subprocess.Popen([program], env=env, stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    return Contender("envoyproxy/ratelimit + Redis", port, [service, store])


def figure(name, value, unit):
    print(f"  {name:<46} {value:>12,.1f} {unit}")


def verdict(goal, met):
    print(f"  {'PASS' if met else 'FAIL'}  {goal}")
    return met


def main():
    met = True
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "message").write_bytes(message())
        contenders = [start_rationd(folder)]
        program = find_ratelimit() if "--ratelimit" in sys.argv else None
        if program:
            contenders.append(start_ratelimit(folder, program))
        try:
            rounds = [[c.saturate(folder, CALLS if i == 0 else CALLS // 5)
                       for i, c in enumerate(contenders)] for _ in range(ROUNDS + 1)]
            del rounds[0] # everything was cold
            print("gRPC ShouldRateLimit, one worker, 10 connections, 50 calls at once each")
            for i, contender in enumerate(contenders):
                figure(f"{contender.name}: calls", max(r[i][0] for r in rounds), "/s")
                figure(f"{contender.name}: CPU", statistics.median(r[i][1] for r in rounds),
                       "ns a call")
            rate = statistics.median(r[0][0] for r in rounds)
            p99 = contenders[0].p99_ms(folder, rate / 2)
            figure("rationd: p99 at half of that", p99, "ms")
        finally:
            for contender in contenders:
                contender.stop()
        met &= verdict(f"at least {GOAL_CALLS:,} calls/s", max(r[0][0] for r in rounds) >= GOAL_CALLS)
        if program:
            ratio = statistics.median(r[1][1] / r[0][1] for r in rounds)
            met &= verdict(f"at least {GOAL_RATIO}x less CPU a call: {ratio:.1f}x",
                           ratio >= GOAL_RATIO)
        elif "--ratelimit" in sys.argv:
            print("  SKIPPED  envoyproxy/ratelimit: neither $RATELIMIT nor Go and its module here")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
