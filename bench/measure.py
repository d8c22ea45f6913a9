# SPDX-License-Identifier: Apache-2.0
"""What benchmarks of servers share: starting them, their processor time, verdicts."""

import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time

# A GCRA bucket as one would write it for Redis: one key, one number, the server's clock.
GCRA = """
local interval = tonumber(ARGV[2]) / tonumber(ARGV[1])
local burst = interval * tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then tat = now end
local new = tat + interval
if new - burst > now then
  return {1, ARGV[3], 0, tostring(new - burst - now), tostring(tat - now)}
end
redis.call('SET', KEYS[1], string.format('%.6f', new), 'EX', math.ceil(new - now) + 1)
return {0, ARGV[3], math.floor((burst - (new - now)) / interval), -1, tostring(new - now)}
"""


# --- processes ---------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(address):
    for _ in range(500):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family) as s:
            s.connect(address)
            return
        time.sleep(0.01)
    sys.exit(f"nothing listens at {address}")


def cpu_ns(pids):
    """Processor time of all threads so far."""
    total = 0
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
    return total


def children(pid):
    text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [pid, *map(int, text.split())]


class Stack:
    """All servers, stopped at the end."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def start(self, *command, **kwargs):
        process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, **kwargs)
        self.processes.append(process)
        return process

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(20)

    def redis(self):
        port, unix = free_port(), self.folder / "redis.sock"
        process = self.start("redis-server", "--port", port, "--unixsocket", unix, "--save", "",
                             "--appendonly", "no", "--bind", "127.0.0.1")
        wait_for(("127.0.0.1", port))
        sha = redis_cli(port, "SCRIPT", "LOAD", GCRA).strip()
        return process.pid, port, unix, sha

    def redis_cluster(self):
        """Three masters: their pids and ports."""
        pids, ports, buses = [], [], []
        for i in range(3):
            ports.append(free_port())
            buses.append(free_port())
            folder = self.folder / f"master-{i}"
            folder.mkdir()
            pids.append(self.start("redis-server", "--port", ports[i], "--cluster-port", buses[i],
                                   "--cluster-enabled", "yes", "--dir", folder, "--save", "",
                                   "--appendonly", "no", "--bind", "127.0.0.1").pid)
            wait_for(("127.0.0.1", ports[i]))
        bounds = [0, 5461, 10923, 16384]
        for i, port in enumerate(ports):
            redis_cli(port, "CLUSTER", "ADDSLOTSRANGE", bounds[i], bounds[i + 1] - 1)
            redis_cli(port, "CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for port, bus in zip(ports[1:], buses[1:]):
            redis_cli(ports[0], "CLUSTER", "MEET", "127.0.0.1", port, bus)
        while not all("cluster_slots_ok:16384" in redis_cli(port, "CLUSTER", "INFO") for port in ports):
            time.sleep(0.1)
        return pids, ports


def redis_cli(port, *words):
    return subprocess.run(["redis-cli", "-p", str(port), *map(str, words)],
                          capture_output=True, text=True, check=True).stdout


# --- loads ----------------------------------------------------------------------------

def redis_benchmark(where, connections, pipeline, requests, keys, *words):
    """Requests a second."""
    command = ["redis-benchmark", *where, "-c", connections, "-P", pipeline, "-n", requests,
               "-r", keys, "--csv", *words]
    out = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout
    return float(out.splitlines()[-1].split('","')[1])


def ration_bench(build, *options):
    done = subprocess.run([str(build / "ration"), "bench", "--json", *map(str, options)],
                          capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"ration bench: {done.stderr}")
    said = json.loads(done.stdout)
    if done.returncode != 0:  # what was asked too late to be answered, on a busy machine
        print(f"  (errors {said['errors']}, unanswered {said['unanswered']}, never sent"
              f" {said['never_sent']})")
    return said


# --- verdicts --------------------------------------------------------------------------

failed = []


def verdict(what, value, goal, unit, at_least=True):
    met = value >= goal if at_least else value <= goal
    if not met:
        failed.append(what)
    sign = ">=" if at_least else "<="
    print(f"  {what:58} {value:10.2f} {unit:3} goal {sign} {goal:g}  {'met' if met else 'MISSED'}")


def figure(what, value, unit):
    print(f"  {what:58} {value:10.0f} {unit}")


def tell_missed():
    print(f"\n{len(failed)} goals missed{': ' if failed else ''}{'; '.join(failed)}")
