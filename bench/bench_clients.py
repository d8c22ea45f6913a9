#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a decision costs the program that asks: each client beside a bare socket loop, and libration in the process.

usage: bench_clients.py BUILD [--quick]

Processor time is that of this process, the best of some rounds; rationd's own is not in it. Rates are those of this
machine at this moment, with rationd on the same one. The bare loop sends a command that is made once, and reads until the
reply has all its bytes: nothing that could be left out. Clients of other languages have programs of their own, which
print their rows.
"""

import asyncio
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "clients/python/src"), str(ROOT / "tests/system")]

from daemon import BUILD, Daemon  # noqa: E402

from ration_client import AsyncClient, Client  # noqa: E402
from ration_client.inprocess import InProcess  # noqa: E402
from ration_client.protocol import encode  # noqa: E402

QUICK = "--quick" in sys.argv
ROUNDS, CALLS = (3, 1_000) if QUICK else (7, 10_000)
RULES = "limits:\n  - {name: api, key: ip, limit: 1000000000 per hour, when: {path: /api}}\n"
ASKED = {"ip": "192.0.2.7", "path": "/api"}
THREADS, TASKS = 8, 50
GOAL_US = 2.0  # of a decision in the process


def measured(calls, run):
    """The best processor time of a call, and the best rate."""
    cpu, wall = [], []
    for _ in range(ROUNDS):
        began, used = time.perf_counter(), time.process_time()
        run()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - used)
    return 1e6 * min(cpu) / calls, calls / min(wall)


def show(name, figures):
    print(f"{name:<44} {figures[0]:>8.2f} us {figures[1]:>12,.0f}/s", flush=True)


def bare(address):
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(encode([b"HELLO", b"3"]))
    sock.recv(65536)
    command = encode([b"RATION.CHECK", b"ip", b"192.0.2.7", b"path", b"/api", b"FULL", b"WAIT", b"return"])

    def loop():
        for _ in range(CALLS):
            sock.sendall(command)
            data = sock.recv(65536)
            while not data.endswith(b"\r\n"):
                data += sock.recv(65536)

    return loop


def repeat(call, count=CALLS):
    def loop():
        for _ in range(count):
            call()
    return loop


def in_threads(call):
    def run():
        threads = [threading.Thread(target=repeat(call, CALLS // THREADS)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return run


def asyncio_rows(url):
    async def work(client, count):
        for _ in range(count):
            await client.check(ASKED)

    loop, client = asyncio.new_event_loop(), AsyncClient(url, deadline=5.0)
    show("python AsyncClient.check(), one task", measured(CALLS, lambda: loop.run_until_complete(work(client, CALLS))))

    async def many():
        await asyncio.gather(*(work(client, CALLS // TASKS) for _ in range(TASKS)))

    show(f"python AsyncClient.check(), {TASKS} tasks", measured(CALLS, lambda: loop.run_until_complete(many())))
    loop.run_until_complete(client.close())
    loop.close()


def others(address):
    quick = ["--quick"] if QUICK else []
    clients = ROOT / "clients"
    with tempfile.TemporaryDirectory() as classes:
        if shutil.which("go"):
            env = {**os.environ, "RATION_BUILD": str(BUILD), "PKG_CONFIG_PATH": str(BUILD / "meson-uninstalled"),
                   "CGO_CFLAGS": f"-I{ROOT / 'include'}", "LD_LIBRARY_PATH": str(BUILD), "GOTOOLCHAIN": "local", "GOWORK": "off"}
            subprocess.run(["go", "run", ".", *quick], cwd=clients / "go/bench", env=env, check=True)
        if shutil.which("javac"):
            sources = sorted((clients / "java/client/src/main/java").rglob("*/*.java"))
            subprocess.run(["javac", "-d", classes, *sources], check=True)
            subprocess.run(["java", "-cp", classes, clients / "java/bench/Bench.java", BUILD, *quick], check=True)
        if shutil.which("node"):
            subprocess.run(["node", clients / "node/bench/bench_node.js", address, *quick], check=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        options = ["--state", f"{folder}/state", "--http", "none", "--admin", "none"]
        with Daemon(folder, RULES, options) as daemon:
            address = daemon.addresses["resp"]
            print(f"{'client':<44} {'CPU a decision':>11} {'decisions':>14}")
            show("python bare socket, replies not read", measured(CALLS, bare(address)))
            with Client("ration://" + address, deadline=5.0) as client:
                show("python Client.check(), one thread", measured(CALLS, repeat(lambda: client.check(ASKED))))
                show(f"python Client.check(), {THREADS} threads", measured(CALLS // THREADS * THREADS, in_threads(lambda: client.check(ASKED))))
                show("python Client.take(), one thread", measured(CALLS, repeat(lambda: client.take("ann", "1000000000 per hour"))))
            asyncio_rows("ration://" + address)
            with InProcess(f"{folder}/state", [f"{folder}/rules.yaml"], library=str(BUILD / "libration.so.0")) as local:
                take = measured(CALLS, repeat(lambda: local.take("ann", "1000000000 per hour")))
                show("python in the process, take()", take)
                allows = measured(CALLS, repeat(lambda: local.allows(ASKED)))
                show("python in the process, allows()", allows)
                show("python in the process, check()", measured(CALLS, repeat(lambda: local.check(ASKED))))
            others(address)
    for name, figures in (("take()", take), ("allows()", allows)):
        print(f"{'ok' if figures[0] <= GOAL_US else 'missed'} - python in the process, {name} takes {figures[0]:.2f} us, goal {GOAL_US} us")


if __name__ == "__main__":
    main()
