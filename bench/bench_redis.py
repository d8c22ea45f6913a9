#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What limits shared through Redis cost: Redis itself, trips to it, time.

usage: bench_redis.py BUILD [--quick]

Interleaved: in each round every contender gets the same load. One EVALSHA of a GCRA
script per decision, from redis-benchmark, is what all are compared with. Processor time
is Redis's, from the kernel; trips are the calls of scripts that Redis has counted.
"""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from measure import (Stack, cpu_ns, figure, free_port, ration_bench, redis_benchmark, redis_cli,
                     tell_missed, verdict, wait_for)

BUILD = pathlib.Path(sys.argv[1]).resolve()
QUICK = "--quick" in sys.argv
ROUNDS = 3 if QUICK else 5
REQUESTS = 20_000 if QUICK else 100_000
KEYS = 10_000
MODES = ("strict", "leased", "async")

# A hot key that is never refused, one with a rate that is asked for more than it has, and
# many keys.
RULES = """
limits:
  - {name: hot, when: {path: /hot}, key: user, limit: 500000 per second, consistency: %(mode)s}
  - {name: tight, when: {path: /tight}, key: user, limit: 5000 per second burst 5000, consistency: %(mode)s}
  - {name: many, when: {path: /many}, key: user, limit: 1000 per second, consistency: %(mode)s}
"""


class Servers(Stack):
    def node(self, mode, redis_url):
        """A rationd; with a `mode` it shares limits. Its pid and its RESP port."""
        rules = self.folder / f"{mode or 'local'}.yaml"
        rules.write_text(RULES % {"mode": mode or "strict"})
        port = free_port()
        shares = ["--redis", redis_url, "--redis-deadline", "100ms"]
        process = self.start(BUILD / "rationd", "--config", rules, "--state", "none", "--workers", 1,
                             "--http", "none", "--admin", "none", "--grpc", "none",
                             "--resp", f"127.0.0.1:{port}", *(shares if mode else []),
                             stderr=subprocess.DEVNULL)
        wait_for(("127.0.0.1", port))
        time.sleep(0.3)  # for Redis to be reached
        return process.pid, port


class Redis:
    """The server or servers that all share, and what they count."""

    def __init__(self, pids, ports, url, sha=None):
        self.pids, self.ports, self.url, self.sha = pids, ports, url, sha
        self.port = ports[0]

    def calls(self):
        lines = [line for port in self.ports
                 for line in redis_cli(port, "INFO", "commandstats").splitlines()]
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines
                   if line.startswith(("cmdstat_evalsha:", "cmdstat_eval:")))

    def measure(self, load):
        """Redis's processor time and trips per decision, and decisions a second."""
        cpu, calls, began = cpu_ns(self.pids), self.calls(), time.monotonic()
        done = load()
        took = time.monotonic() - began
        return ((cpu_ns(self.pids) - cpu) / done, (self.calls() - calls) / done, done / took)


def one_redis(stack):
    pid, port, _, sha = stack.redis()
    return Redis([pid], [port], f"redis://127.0.0.1:{port}", sha)


def redis_cluster(stack):
    pids, ports = stack.redis_cluster()
    return Redis(pids, ports, f"redis+cluster://127.0.0.1:{ports[0]}")


def rounds(redis, contenders):
    """Medians by name of what Redis.measure tells."""
    seen = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, load in contenders.items():
            seen[name].append(redis.measure(load))
    return {name: [statistics.median(column) for column in zip(*rows)]
            for name, rows in seen.items()}


def benchmark(port, connections, pipeline, *words, requests=REQUESTS):
    redis_benchmark(["-p", port], connections, pipeline, requests, KEYS, *words)
    return requests


def tell(name, row):
    cpu, trips, rate = row
    print(f"  {name:46} {rate:10.0f} decisions/s  {trips:8.4f} trips  {cpu / 1000:7.2f} us of Redis")


def evalsha(redis):
    return ["EVALSHA", redis.sha, "1", "key:__rand_int__", "1000", "1", "1000"]


CHECK_MANY = ["RATION.CHECK", "path", "/many", "user", "__rand_int__"]
CHECK_HOT = ["RATION.CHECK", "path", "/hot", "user", "ann"]


def bench_strict(redis, ports):
    print("\nStrict: every decision is made in Redis. Many keys.")
    few = REQUESTS // 5
    seen = rounds(redis, {
        "EVALSHA, one at a time":
            lambda: benchmark(redis.port, 1, 1, *evalsha(redis), requests=few),
        "strict, one at a time":
            lambda: benchmark(ports["strict"], 1, 1, *CHECK_MANY, requests=few),
        "EVALSHA, 50 connections": lambda: benchmark(redis.port, 50, 1, *evalsha(redis)),
        "strict, 50 connections": lambda: benchmark(ports["strict"], 50, 1, *CHECK_MANY),
        "EVALSHA, 50 connections, pipeline 16":
            lambda: benchmark(redis.port, 50, 16, *evalsha(redis)),
        "strict, 200 connections": lambda: benchmark(ports["strict"], 200, 1, *CHECK_MANY),
    })
    for name, row in seen.items():
        tell(name, row)
    verdict("strict under load: Redis per decision", seen["strict, 200 connections"][0] / 1000, 5,
            "us", at_least=False)


def bench_cluster(stack):
    print("\nStrict, in a cluster of three masters: a call has keys of one slot. Many keys.")
    cluster = redis_cluster(stack)
    port = stack.node("strict", cluster.url)[1]
    seen = rounds(cluster, {
        f"strict, {n} connections": lambda n=n: benchmark(port, n, 1, *CHECK_MANY)
        for n in (50, 200, 1000)
    })
    for name, row in seen.items():
        tell(name, row)


def bench_hot(redis, ports):
    print("\nA hot key, 50 connections, pipeline 16")
    seen = rounds(redis, {
        "EVALSHA": lambda: benchmark(redis.port, 50, 16, *evalsha(redis)),
        **{mode: lambda mode=mode: benchmark(ports[mode], 50, 16, *CHECK_HOT) for mode in MODES},
    })
    for name, row in seen.items():
        tell(name, row)
    verdict("leased: trips per decision", seen["leased"][1], 0.01, "", at_least=False)


def admitted(ports, path, seconds):
    """By two nodes that are asked at once for more than there is."""
    loads = [subprocess.Popen([BUILD / "ration", "bench", "--json", "--resp", f"127.0.0.1:{port}",
                               "--connections", "8", "--pipeline", "1", "--duration", f"{seconds}s",
                               "--rate", "5000/s", "--command", "check", f"path={path}", "user=bob"],
                              stdout=subprocess.PIPE, text=True) for port in ports]
    out = [load.communicate()[0] for load in loads]
    return sum(int(text.split('"allowed": ')[1].split(",")[0]) for text in out)


def bench_ideal(stack, redis, ports):
    print("\nTwo nodes, one key, asked for twice its rate: of what one bucket would admit")
    seconds = 3 if QUICK else 10
    for mode in MODES:
        other = stack.node(mode, redis.url)[1]
        before = time.monotonic()
        count = admitted([ports[mode], other], "/tight", seconds)
        took = time.monotonic() - before
        ideal = 5000 + 5000 * min(took, seconds)
        share = 100 * count / ideal
        if mode == "leased":
            verdict("leased: of the ideal bucket", share, 97, "%")
        else:
            figure(f"{mode}: of the ideal bucket", share, "%")


def bench_cold(redis, ports):
    print("\nA key without earlier requests, all of a sudden: 60,000 a second, 50 connections")
    seen = {name: [] for name in ("local", "leased")}
    for turn in range(ROUNDS):
        for name, rows in seen.items():
            where = ("--resp", f"127.0.0.1:{ports[name]}", "--connections", 50, "--pipeline", 1,
                     "--rate", "60000/s", "--command", "check", "path=/hot")
            cpu, trips, _ = redis.measure(lambda: ration_bench(
                BUILD, *where, "--duration", "100ms", f"user=short-{turn}")["requests"])
            second = ration_bench(BUILD, *where, "--duration", "1s", f"user=long-{turn}")
            rows.append((cpu / 1000, trips, second["latency"]["p99"] * 1e3))
    for name, rows in seen.items():
        cpu, trips, p99 = (statistics.median(column) for column in zip(*rows))
        print(f"  {name:46} in 100 ms {trips:8.4f} trips  {cpu:7.2f} us of Redis;"
              f" p99 of a second {p99:8.3f} ms")
    verdict("leased: trips per decision in the first 100 ms",
            statistics.median(row[1] for row in seen["leased"]), 0.005, "", at_least=False)


def bench_latency(ports):
    print("\nLatency at half of saturation, 50 connections, no pipelining; what a mode adds to local")
    goals = {"strict": 1, "leased": 0.1, "async": 0.1}
    p99 = {}
    for name in ("local", *MODES):
        what = ("path=/many", "user={key}") if name == "strict" else ("path=/hot", "user=ann")
        where = ("--resp", f"127.0.0.1:{ports[name]}", "--connections", 50, "--pipeline", 1,
                 "--command", "check", *what)
        full = ration_bench(BUILD, *where, "--duration", "2s")["per_second"]
        tries = [ration_bench(BUILD, *where, "--duration", "3s", "--rate", f"{int(full / 2)}/s")
                 for _ in range(3)]
        p99[name] = min(t["latency"]["p99"] for t in tries) * 1e3
        print(f"  {name:46} {p99[name]:10.3f} ms at {full / 2:.0f} decisions/s")
    for mode, goal in goals.items():
        verdict(f"{mode}: added at p99", p99[mode] - p99["local"], goal, "ms", at_least=False)


def main():
    with tempfile.TemporaryDirectory() as folder:
        stack = Servers(pathlib.Path(folder))
        try:
            redis = one_redis(stack)
            ports = {mode: stack.node(mode, redis.url)[1] for mode in MODES}
            ports["local"] = stack.node(None, redis.url)[1]
            bench_strict(redis, ports)
            bench_hot(redis, ports)
            bench_ideal(stack, redis, ports)
            bench_cold(redis, ports)
            bench_latency(ports)
            bench_cluster(stack)
        finally:
            stack.stop()
    tell_missed()


main()
