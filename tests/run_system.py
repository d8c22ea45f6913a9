#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs files of system tests, several pytest at a time: most of these tests wait more than they work.

usage: run_system.py RESULTS NAME FILE...

Results go to RESULTS/NAME-<first file of a pytest>.xml. The output of each pytest is printed as a whole
when it ends. A pytest that leaves no results counts as a failed test.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

AT_ONCE = 2 * (os.cpu_count() or 1)
TOGETHER = 4  # short files for one pytest, which takes as long to start as a few tests
# Files that last longest on a busy machine, in that order: they begin first, and are alone in their pytest.
LONG = ["nodes_factors", "fleet_factors", "leased_loss", "leased_store", "lease_scripts", "contract_redis",
        "contract", "scenarios", "redis_answers", "nginx_contract", "redis_resends", "redis_scripts", "capacity", "openapi",
        "contract_leased", "async", "leased_kill", "hostile", "fleet", "fleet_pauses", "signals", "redis_failover",
        "nodes_front", "nodes", "waiting_redis", "redis_silent", "grpc_waiting", "waiting_many", "daemon_failures",
        "nginx_lines", "nginx_waiting", "nodes_outage", "first_decisions", "nginx_limit_req", "sticky", "resp_pipelines",
        "grpc", "example_outgoing", "example_deferred", "forged_tickets", "waiting", "waiting_ends", "waiting_strict", "live", "live_slow"]


def split(files):
    """The files of each pytest, in the order in which they begin."""
    name = {file: pathlib.Path(file).stem.removeprefix("test_") for file in files}
    long = sorted((f for f in files if name[f] in LONG), key=lambda f: LONG.index(name[f]))
    batches = [[f] for f in long]
    for folder in dict.fromkeys(pathlib.Path(f).parent for f in files):  # each has a conftest.py of its own
        short = [f for f in files if name[f] not in LONG and pathlib.Path(f).parent == folder]
        batches += [short[i:i + TOGETHER] for i in range(0, len(short), TOGETHER)]
    return batches


def run(results, name, files):
    """Runs one pytest. Returns what it printed."""
    log = results / f"{name}-{pathlib.Path(files[0]).stem}.xml"
    pytest = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={log}", *files],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if not log.exists():
        with open(results / "steps.tap", "a") as steps:
            steps.write(f"not ok - pytest ran {' '.join(files)}\n")
    return pytest.stdout


def main():
    results, name, files = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        runs = {pool.submit(run, results, name, batch): batch for batch in split(files)}
        for done in concurrent.futures.as_completed(runs):
            print(" ".join(pathlib.Path(f).name for f in runs[done]), flush=True)
            sys.stdout.buffer.write(done.result().rstrip() + b"\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
