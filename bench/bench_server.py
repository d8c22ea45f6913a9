#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a decision costs rationd, beside redis-server and nginx on the same machine.

usage: bench_server.py BUILD [--quick]

Every comparison is interleaved: in each round every contender gets the same load
from the same generator, and its processor time (of all its threads, from the
kernel) is divided by the requests answered. Ratios are medians over the rounds.
Wall time is shown, not judged, but for the latencies at half of saturation.
"""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from measure import (Stack, children, cpu_ns, figure, free_port, ration_bench, redis_benchmark,
                     tell_missed, verdict, wait_for)

BUILD = pathlib.Path(sys.argv[1]).resolve()
QUICK = "--quick" in sys.argv
ROUNDS = 3 if QUICK else 7
REQUESTS = {1: 60_000, 16: 400_000, 64: 800_000}
KEYS = 10_000

# --- processes ---------------------------------------------------------------------

class Servers(Stack):
    def rationd(self):
        rules = self.folder / "rules.yaml"
        rules.write_text("limits:\n  - {name: api, key: ip, limit: 1000000 per second}\n")
        unix = self.folder / "resp.sock"
        ports = {name: free_port() for name in ("http", "resp", "second")}
        process = self.start(BUILD / "rationd", "--config", rules, "--state", "none", "--workers", 1,
                             "--http", f"127.0.0.1:{ports['http']}",
                             "--resp", f"127.0.0.1:{ports['resp']}", "--admin", "none", "--grpc", "none",
                             stderr=subprocess.DEVNULL)
        wait_for(("127.0.0.1", ports["resp"]))
        on_unix = self.start(BUILD / "rationd", "--config", rules, "--state", "none", "--workers", 1,
                             "--http", "none", "--admin", "none", "--grpc", "none",
                             "--resp", f"unix:{unix}",
                             stderr=subprocess.DEVNULL)
        wait_for(str(unix))
        return process.pid, ports, on_unix.pid, unix

    def nginx(self):
        port, conf = free_port(), self.folder / "nginx.conf"
        conf.write_text(f"""
            daemon off; worker_processes 1; pid {self.folder}/nginx.pid;
            error_log /dev/null crit;
            events {{ worker_connections 1024; }}
            http {{
              access_log off; keepalive_requests 1000000000;
              client_body_temp_path {self.folder}; proxy_temp_path {self.folder};
              fastcgi_temp_path {self.folder}; uwsgi_temp_path {self.folder};
              scgi_temp_path {self.folder};
              limit_req_zone $arg_k zone=z:64m rate=1000000r/s;
              server {{ listen 127.0.0.1:{port};
                location / {{ limit_req zone=z burst=1000 nodelay; empty_gif; }} }}
            }}""")
        process = self.start("nginx", "-p", self.folder, "-c", conf, stderr=subprocess.DEVNULL)
        wait_for(("127.0.0.1", port))
        return process.pid, port


# --- loads ---------------------------------------------------------------------------

def benchmark(where, pipeline, *words):
    requests = REQUESTS[pipeline] // (4 if QUICK else 1)
    return redis_benchmark(where, 50, pipeline, requests, KEYS, *words)


def wrk(port, script, folder):
    path = folder / "load.lua"
    path.write_text(script)
    out = subprocess.run(["wrk", "-t1", "-c50", f"-d{1 if QUICK else 2}s", "-s", str(path),
                          f"http://127.0.0.1:{port}/"], capture_output=True, text=True,
                         check=True).stdout
    if "Non-2xx" in out:
        sys.exit("bench_server: refused requests in wrk's load:\n" + out)
    return int(re.search(r"(\d+) requests in", out).group(1))


LUA = """
local bodies, batch, n = {}, {}, 0
function init()  -- the Host is not known before
  for i = 1, %d do bodies[i] = %s end
end
function request()
  for i = 1, %d do
    n = n %% #bodies + 1
    batch[i] = bodies[n]
  end
  return table.concat(batch, "", 1, %d)
end
"""

CHECK = ("""wrk.format("POST", "/v1/check", {["Content-Type"]="application/json"}, """
         """'{"attributes":{"ip":"10.0.' .. math.floor(i / 250) .. '.' .. i %% 250 .. """
         """'","method":"GET","path":"/api/items"}}')""")
GIF = """wrk.format("GET", "/?k=10.0." .. math.floor(i / 250) .. "." .. i %% 250)"""


def script(form, pipeline):
    return LUA % (KEYS, form.replace("%%", "%"), pipeline, pipeline)


def rounds(*contenders):
    """Runs each (pids, load) in turn; answers medians of CPU ns per request, rates,
    and the median ratio of the second contender to the first."""
    costs, rates = [[] for _ in contenders], [[] for _ in contenders]
    for _ in range(ROUNDS):
        for i, (pids, load, count) in enumerate(contenders):
            before, began = cpu_ns(pids), time.monotonic()
            rate = load()
            done = count if count else rate
            costs[i].append((cpu_ns(pids) - before) / done)
            rates[i].append(rate if count else rate / (time.monotonic() - began))
    ratio = statistics.median(b / a for a, b in zip(costs[0], costs[-1]))
    return [statistics.median(c) for c in costs], [statistics.median(r) for r in rates], ratio


# --- the benches -------------------------------------------------------------------------

THROTTLE = ["CL.THROTTLE", "key:__rand_int__", "999999", "1000000", "1"]
EVAL = ["EVALSHA", None, "1", "key:__rand_int__", "1000000", "1", "1000000"]


def bench_resp(stack):
    pid, ports, unix_pid, unix = stack.rationd()
    redis_pid, redis_port, redis_unix, sha = stack.redis()
    evalsha = [sha if w is None else w for w in EVAL]
    goals = {("tcp", 1): 3, ("tcp", 16): 20, ("tcp", 64): 40, ("unix", 1): 5}
    print("\nRESP, 50 connections: processor time of the server per decision (CL.THROTTLE),"
          " against EVALSHA of a GCRA script on redis-server")
    for kind, ours, theirs, our_pid in (
            ("tcp", ["-p", ports["resp"]], ["-p", redis_port], pid),
            ("unix", ["-s", unix], ["-s", redis_unix], unix_pid)):
        for pipeline in (1, 16, 64):
            count = REQUESTS[pipeline] // (4 if QUICK else 1)
            costs, rates, ratio = rounds(
                ([our_pid], lambda: benchmark(ours, pipeline, *THROTTLE), count),
                ([redis_pid], lambda: benchmark(theirs, pipeline, *evalsha), count))
            name = f"{kind}, pipeline {pipeline}"
            figure(f"{name}: rationd", costs[0], "ns CPU")
            figure(f"{name}: redis-server", costs[1], "ns CPU")
            figure(f"{name}: as seen by redis-benchmark", rates[0], "decisions/s")
            if (kind, pipeline) in goals:
                verdict(f"{name}: times less than redis-server", ratio, goals[kind, pipeline], "x")
    return pid, ports


def bench_pong(stack, pid, ports):
    port = free_port()
    pong = stack.start(BUILD / "pong", port)
    wait_for(("127.0.0.1", port))
    count = REQUESTS[1] // (4 if QUICK else 1)
    costs, _, ratio = rounds(
        ([pid], lambda: benchmark(["-p", ports["resp"]], 1, *THROTTLE), count),
        ([pong.pid], lambda: benchmark(["-p", port], 1, *THROTTLE), count))
    print("\nRESP without pipelining, against the least that a server can do (bench/pong.c)")
    figure("rationd", costs[0], "ns CPU")
    figure("pong", costs[1], "ns CPU")
    verdict("of the cost of a bare PONG", 1 / ratio, 1.10, "x", at_least=False)


def bench_http(stack, pid, ports):
    nginx_pid, nginx_port = stack.nginx()
    nginx = children(nginx_pid)
    print("\nHTTP, 50 connections: POST /v1/check, against nginx with empty_gif and limit_req")
    for pipeline, goal in ((1, 1.5), (16, 12)):
        ours, theirs = script(CHECK, pipeline), script(GIF, pipeline)
        costs, rates, ratio = rounds(
            ([pid], lambda: wrk(ports["http"], ours, stack.folder), None),
            (nginx, lambda: wrk(nginx_port, theirs, stack.folder), None))
        figure(f"pipeline {pipeline}: rationd", costs[0], "ns CPU")
        figure(f"pipeline {pipeline}: nginx", costs[1], "ns CPU")
        figure(f"pipeline {pipeline}: as seen by wrk", rates[0], "requests/s")
        verdict(f"pipeline {pipeline}: times less than nginx", ratio, goal, "x")


def bench_rate(stack, ports):
    print("\nRESP, one rationd, ration bench with pipeline 64")
    best = max(ration_bench(BUILD, "--resp", f"127.0.0.1:{ports['resp']}", "--pipeline", 64,
                            "--connections", 50, "--duration", "2s",
                            "--command", "throttle")["per_second"] for _ in range(3))
    verdict("decisions a second, in millions", best / 1e6, 2.5, "M")


def bench_latency(stack, ports):
    print("\nLatency at half of saturation, 50 connections, no pipelining")
    for name, goal99, goal999 in (("resp", 1, 2), ("http", 1, 2)):
        where = ["--" + name, f"127.0.0.1:{ports[name]}", "--connections", 50, "--pipeline", 1]
        full = ration_bench(BUILD, *where, "--duration", "2s")["per_second"]
        tries = [ration_bench(BUILD, *where, "--duration", "3s", "--rate", int(full / 2))
                 for _ in range(3)]
        latency = min((t["latency"] for t in tries), key=lambda l: l["p99.9"])
        figure(f"{name}: saturation", full, "requests/s")
        figure(f"{name}: p50", latency["p50"] * 1e6, "us")
        verdict(f"{name}: p99", latency["p99"] * 1e3, goal99, "ms", at_least=False)
        verdict(f"{name}: p99.9", latency["p99.9"] * 1e3, goal999, "ms", at_least=False)


def main():
    missing = [p for p in ("redis-server", "redis-benchmark", "nginx", "wrk")
               if not shutil.which(p)]
    if missing:
        sys.exit(f"bench_server: not installed: {' '.join(missing)}; ./dev deps installs them")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        stack = Servers(pathlib.Path(folder))
        try:
            pid, ports = bench_resp(stack)
            bench_pong(stack, pid, ports)
            bench_http(stack, pid, ports)
            bench_rate(stack, ports)
            bench_latency(stack, ports)
        finally:
            stack.stop()
    tell_missed()


main()
