#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What limits add to a request in nginx: our module beside limit_req.

usage: bench_nginx.py BUILD [--quick]

One nginx with one worker for each contender, all with `empty_gif` (`return` would
bypass limits). In each round every contender gets the same load, pipelined so that
the sockets cost little, and the processor time of its worker, from the kernel, is
divided by the requests answered. What a limit adds is the difference to no limit in
the same round; the median of the rounds is judged.
"""

import contextlib
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
ROUNDS = 5 if QUICK else 15
SECONDS = 1 if QUICK else 2
PIPELINE = 16

# The key of a request: one of KEYS, each as likely as the others.
LOAD = """
local format, random = string.format, math.random
math.randomseed(os.time())
request = function()
  local batch = {}
  for i = 1, %d do
    batch[i] = format("GET /?k=client-%%07d HTTP/1.1\\r\\nHost: bench\\r\\n\\r\\n", random(%d))
  end
  return table.concat(batch)
end
"""


def rules(count, headers):
    text = "limits:\n"
    for i in range(count):
        text += (f"  - {{name: limit-{i}, key: user, limit: 1000000 per second burst {1000000 + i}, "
                 f"response: {{headers: {headers}}}}}\n")
    return text


class Nginx:
    """A contender; with `asks`, a rationd decides for it."""

    def __init__(self, folder, name, http, location, rules_text=None, zone_mb=0, asks=False):
        self.name, self.port, self.costs, self.rates = name, free_port(), [], []
        self.state = self.rationd = None
        home = folder / re.sub(r"\W+", "-", name)
        home.mkdir()
        if rules_text:
            (home / "rules.yaml").write_text(rules_text)
            self.state = pathlib.Path(f"/dev/shm/ration-bench-{os.getpid()}-{self.port}")
            http += f"ration_rules {home}/rules.yaml; ration_zone {zone_mb}m state={self.state};"
        if asks:
            self.start_rationd(home, zone_mb)
            http += f"ration_server unix:{home}/resp timeout=1s;"
        conf = home / "nginx.conf"
        conf.write_text(f"""
            load_module {BUILD}/ngx_http_ration_module.so;
            daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/error.log crit;
            {"user root;" if os.geteuid() == 0 else ""}
            events {{ worker_connections 1024; }}
            http {{
              access_log off; keepalive_requests 1000000000;
              client_body_temp_path {home}; proxy_temp_path {home}; fastcgi_temp_path {home};
              uwsgi_temp_path {home}; scgi_temp_path {home};
              {http}
              server {{ listen 127.0.0.1:{self.port}; location / {{ {location} empty_gif; }} }}
            }}""")
        self.process = subprocess.Popen(["nginx", "-p", str(home), "-c", str(conf)],
                                        stdin=subprocess.DEVNULL)
        self.worker = self.wait_for_worker()

    def start_rationd(self, home, zone_mb):
        self.rationd = subprocess.Popen(
            [BUILD / "rationd", "--config", home / "rules.yaml", "--resp", f"unix:{home}/resp",
             "--http", "none", "--grpc", "none", "--admin", "none", "--workers", "1",
             "--memory", f"{zone_mb}M", "--state", "none"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not self.rationd.stderr.readline().startswith("rationd: ready"):
            sys.exit("bench_nginx: rationd does not start")

    def wait_for_worker(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for _ in range(500):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                pids = children.read_text().split()
                if pids:
                    return int(pids[0])
            time.sleep(0.01)
        sys.exit(f"bench_nginx: {self.name} does not start")

    def cpu_ns(self):
        return int(pathlib.Path(f"/proc/{self.worker}/schedstat").read_text().split()[0])

    def load(self, script, note=True):
        before, began = self.cpu_ns(), time.monotonic()
        out = subprocess.run(["wrk", "-t1", "-c16", f"-d{SECONDS}s", "-s", str(script),
                              f"http://127.0.0.1:{self.port}/"], capture_output=True, text=True,
                             check=True).stdout
        if "Non-2xx" in out:
            sys.exit(f"bench_nginx: {self.name} refused requests:\n{out}")
        count = int(re.search(r"(\d+) requests in", out).group(1))
        if note:
            self.costs.append((self.cpu_ns() - before) / count)
            self.rates.append(count / (time.monotonic() - began))

    def added(self, base):
        return statistics.median(a - b for a, b in zip(self.costs, base.costs))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        if self.rationd:
            self.rationd.terminate()
            self.rationd.wait(20)
            self.rationd.stderr.close()
        if self.state:
            self.state.unlink(missing_ok=True)


failed = []


def verdict(what, value, goal):
    met = value <= goal
    if not met:
        failed.append(what)
    print(f"  {what:58} {value:8.3f}    goal <= {goal:g}  {'met' if met else 'MISSED'}")


def contenders(folder, keys):
    def ration(name, count, headers="none", **more):
        return Nginx(folder, f"{name} {keys}", "ration_attribute user $arg_k;", "ration on;",
                     rules(count, headers), count * our_zone, **more)

    # Either zone holds all keys: limit_req needs 128 bytes for each, ration 24.
    our_zone, zone = max(4, keys // 25_000), max(16, keys // 6000)
    yield Nginx(folder, f"no limit {keys}", "", "")
    yield Nginx(folder, f"limit_req {keys}",
                f"limit_req_zone $arg_k zone=z:{zone}m rate=1000000r/s;",
                "limit_req zone=z burst=1000 nodelay;")
    yield ration("ration, 1 limit", 1)
    if keys <= 100_000:
        yield ration("ration, 3 limits", 3)
        yield ration("ration, 10 limits", 10)
        yield ration("ration, 1 limit, all headers", 1, "both")
        yield ration("ration via rationd, 1 limit", 1, asks=True)


def bench(folder, keys, goal):
    script = folder / f"load-{keys}.lua"
    script.write_text(LOAD % (PIPELINE, keys))
    all_of_them = []
    try:
        for contender in contenders(folder, keys):
            all_of_them.append(contender)
        for contender in all_of_them:  # until every key has been seen
            for _ in range(1 if QUICK else max(1, keys // 200_000)):
                contender.load(script, note=False)
        for _ in range(ROUNDS):
            for contender in all_of_them:
                contender.load(script)
    finally:
        for contender in all_of_them:
            contender.stop()
    base, theirs = all_of_them[:2]
    print(f"\n{keys} keys, pipeline {PIPELINE}: processor time of the worker per request")
    for c in all_of_them:
        print(f"  {c.name.rsplit(' ', 1)[0]:40} {statistics.median(c.costs):8.0f} ns"
              f"   added {c.added(base):8.0f} ns   {statistics.median(c.rates):9.0f} requests/s")
    for c in all_of_them[2:]:
        share = c.added(base) / theirs.added(base)
        if c.name.startswith("ration, 1 limit") and "headers" not in c.name:
            verdict("of what limit_req adds, one limit adds", share, goal)
        else:
            print(f"  of what limit_req adds, {c.name.rsplit(' ', 1)[0]:34} {share:8.3f}")


def main():
    missing = [p for p in ("nginx", "wrk") if not shutil.which(p)]
    if missing:
        sys.exit(f"bench_nginx: not installed: {' '.join(missing)}; ./dev deps installs them")
    if not (BUILD / "ngx_http_ration_module.so").exists():
        sys.exit("bench_nginx: the module is not built; it needs nginx-dev")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        bench(pathlib.Path(folder), 100_000, 1 / 4)
        bench(pathlib.Path(folder), 1_000_000, 1 / 8)
    print(f"\n{len(failed)} goals missed{': ' if failed else ''}{'; '.join(failed)}")


main()
