#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a newcomer waits: from `git clone` to the first 429, as README.md says it, without ccache.

usage: bench_first_minute.py BUILD

BUILD is not used: the clone of HEAD is built from nothing, by ./dev run on free ports. Packages must be installed.
"""

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time

from measure import figure, free_port, tell_missed, verdict

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOAL_SECONDS = 60
PATIENCE = 900


def clone(target):
    done = subprocess.run(["git", "clone", "-q", f"file://{ROOT}", target], stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"git clone: {done.stderr.strip()}; this benchmark needs the project's git repository")


def start(folder, addresses):
    """./dev run, until rationd is ready."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RATION_")}
    env |= {"CCACHE_DISABLE": "1", "CC": "gcc"}
    words = [word for name, address in addresses.items() for word in (f"--{name}", address)]
    dev = subprocess.Popen(["./dev", "run", *words], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    said = []
    for line in dev.stderr:
        said.append(line)
        if line.startswith("rationd: ready"):
            threading.Thread(target=dev.stderr.read, daemon=True).start()
            return dev, sum("Compiling C object" in one for one in said)
    dev.wait()
    sys.exit("./dev run ended:\n" + "".join(said[-20:]))


def statuses(folder, http):
    """What README's first command prints: 200 five times, then 429."""
    loop = re.search(r"^for i in .*?done", (folder / "README.md").read_text(), re.M | re.S)[0]
    done = subprocess.run(["sh", "-c", loop.replace("127.0.0.1:8080", http)], capture_output=True, text=True,
                          timeout=PATIENCE)
    return done.stdout.split()


def refusals(folder, http):
    """Of the command line's check that ./dev run shows."""
    command = [folder / "build/ration", "check", "--times", "7", "method=POST", "path=/login", "ip=192.0.2.5"]
    done = subprocess.run(command, env={**os.environ, "RATION_HTTP": http}, capture_output=True, text=True,
                          timeout=PATIENCE)
    return "status 429" in done.stdout and "5 allowed, 2 refused" in done.stdout


def main():
    addresses = {name: f"127.0.0.1:{free_port()}" for name in ("http", "resp", "grpc", "admin")}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "ration"
        begun = time.monotonic()
        clone(folder)
        cloned = time.monotonic()
        dev, compiled = start(folder, addresses)
        ready = time.monotonic()
        try:
            said = statuses(folder, addresses["http"])
            refused = time.monotonic()
            checked = refusals(folder, addresses["http"])
        finally:
            dev.terminate()
            dev.wait()
        if said != ["200"] * 5 + ["429"] or not checked:
            sys.exit(f"not what README.md promises: {said}, ration check {'as promised' if checked else 'differs'}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"\nfrom git clone to the first 429, on {os.cpu_count()} processors, without ccache")
    verdict("all of it", refused - begun, GOAL_SECONDS, "s", at_least=False)
    print(f"  {'git clone':58} {cloned - begun:10.2f} s")
    print(f"  {'./dev run, until rationd is ready':58} {ready - cloned:10.2f} s")
    print(f"  {'the six requests':58} {refused - ready:10.2f} s")
    print(f"  {'processor time, nearly all of it of the compiler':58} {used.ru_utime + used.ru_stime:10.2f} s")
    figure("C files compiled", compiled, "")
    tell_missed()


if __name__ == "__main__":
    main()
