#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How fast `ration replay` reads each format, and with how much memory.

usage: bench_replay.py [BUILD] [--long] [--format NAME] [--clients N]

Generates a log of each format, replays it under five rules, and prints lines a second of processor time and the
peak of its memory, with a verdict for each. --long: 50 million lines of each, through a pipe.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(__file__).resolve().parents[1] / "build" # unless it is given
FORMATS = ["combined", "nginx-json", "caddy", "traefik", "envoy", "haproxy", "alb", "csv", "json"]
GOALS = {"combined": 1000000} # lines a second and core
ELSE = 500000
MEMORY = 256 << 20            # as --memory says by default
BESIDE = 24 << 20             # of the program and its buffers
RULES = """
limits:
  - {name: login, when: {path: /login}, key: ip, limit: 5 per minute, algorithm: sliding-log}
  - {name: search, when: {path: /api/search}, key: ip, limit: 30 per minute}
  - {name: api, when: {path: /api/**}, key: ip, limit: 1000 per hour, algorithm: sliding-window}
  - {name: client, key: ip, limit: 20 per second burst 100}
  - {name: everything, limit: 5000 per second}
"""


def measure(build, folder, name, lines, clients, piped):
    """(lines a second of processor time, peak bytes, summary) of a replay."""
    log = folder / "log"
    generator = [build / "log-lines", name, str(lines), str(clients)]
    command = [build / "ration", "replay", "--rules", folder / "rules.yaml", "--memory", "256M", "--format", name]
    if piped:
        source = subprocess.Popen(generator, stdout=subprocess.PIPE)
        replay = subprocess.Popen([*command, "-"], stdin=source.stdout, stdout=subprocess.PIPE, text=True)
        source.stdout.close()
    else:
        with open(log, "wb") as file:
            subprocess.run(generator, stdout=file, check=True)
        replay = subprocess.Popen([*command, log], stdout=subprocess.PIPE, text=True)
    said = replay.stdout.read()
    _, status, usage = os.wait4(replay.pid, 0)
    replay.returncode = os.waitstatus_to_exitcode(status)
    if piped and source.wait() != 0 or replay.returncode != 0 or f"{lines:,} requests" not in said:
        sys.exit(f"{name}: failed\n{said}")
    return lines / (usage.ru_utime + usage.ru_stime), usage.ru_maxrss * 1024, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=BUILD)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--format", choices=FORMATS)
    parser.add_argument("--clients", type=int, default=200000)
    parser.add_argument("--lines", type=int)
    options = parser.parse_args()
    lines, good = options.lines or (50000000 if options.long else 2000000), True
    print(f"{lines:,} lines, {options.clients:,} clients, five rules")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "rules.yaml").write_text(RULES)
        for name in [options.format] if options.format else FORMATS:
            rate, peak, _ = measure(options.build, folder, name, lines, options.clients, options.long)
            goal = GOALS.get(name, ELSE)
            fits = rate >= goal and peak <= MEMORY + BESIDE
            good &= fits
            print(f"{name:12} {rate / 1e6:6.2f} million lines a second and core (goal {goal / 1e6:.1f}), "
                  f"{peak >> 20:4} MB at most (goal {(MEMORY + BESIDE) >> 20}): {'ok' if fits else 'MISSED'}",
                  flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
