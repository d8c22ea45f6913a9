#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and tests ration with other C libraries, processors, compilers and parsers.

usage: run.py [PART...]

Parts: musl arm64 llhttp compilers; without one: all. Everything goes into
build/portable: packages and sources that are there already are not fetched
again. The last line counts, as that of ./dev test.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import arm64
import compilers
import llhttp
import musl

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = {"musl": musl.run, "arm64": arm64.run, "llhttp": llhttp.run, "compilers": compilers.run}


class Bench:
    """Where a part works, and how it runs and reports what it does."""

    def __init__(self, part):
        self.root = ROOT
        self.part = part
        self.folder = ROOT / "build/portable" / part
        self.results = ROOT / "build/portable/results"
        self.log = None
        self.folder.mkdir(parents=True, exist_ok=True)

    def step(self, name, function, *args):
        """Whether the function went through. It is a test of its own."""
        path = self.results / f"{self.part}-{name.replace(' ', '-')}.log"
        print(f"portable: {self.part}: {name}", file=sys.stderr, flush=True)
        began = time.monotonic()
        failed = None
        with path.open("w") as self.log:
            try:
                function(*args)
            except (subprocess.SubprocessError, OSError, ValueError) as error:
                failed = str(error)
        print(f"portable: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        with (self.results / "steps.tap").open("a") as tap:
            print(f"{'not ok' if failed else 'ok'} - {self.part}: {name}", file=tap)
        if failed:
            print(path.read_text()[-8000:], failed, sep="\n", file=sys.stderr, flush=True)
        return not failed

    def run(self, *command, cwd=None, env=None):
        """Runs a command with its output in the log of the step; an exit code but 0 fails it."""
        print("+", *command, file=self.log, flush=True)
        subprocess.run([str(word) for word in command], check=True, cwd=cwd or self.root,
                       env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL,
                       stdout=self.log, stderr=subprocess.STDOUT)

    def build(self, into, options, env=None):
        """Sets up a build folder once, and compiles everything."""
        if not (into / "build.ninja").exists():
            shutil.rmtree(into, ignore_errors=True)
            self.run("meson", "setup", into, *options, env=env)
        self.run("ninja", "-C", into, env=env)

    def suites(self, name, build, *options, env=None, within=()):
        """Runs tests of a build folder; summary.py counts each of their cases. `within`: a command
        that runs another one, in the place of which the tests run."""
        print(f"portable: {self.part}: {name}", file=sys.stderr, flush=True)
        log = build / "meson-logs" / f"{name}.json"
        log.unlink(missing_ok=True)
        command = [*within, "meson", "test", "-C", build, "--no-rebuild", "--print-errorlogs",
                   "--logbase", name, *options]
        subprocess.run([str(word) for word in command], check=False, stdout=sys.stderr,
                       env={**os.environ, **(env or {})})
        self.step(f"{name} ran", shutil.copy, log, self.results / f"{self.part}-{name}.json")

    def system_tests(self, name, programs, *files, env=None):
        """Runs system tests against the programs in a folder."""
        print(f"portable: {self.part}: {name}", file=sys.stderr, flush=True)
        report = self.results / f"{self.part}-{name}.xml"
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                        f"--junitxml={report}", *files],
                       check=False, cwd=self.root, stdout=sys.stderr,
                       env={**os.environ, **(env or {}), "RATION_BUILD": str(programs)})
        self.step(f"{name} ran", report.stat)


def main():
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        print(f"no part {unknown[0]}: {', '.join(PARTS)}", file=sys.stderr)
        return 2
    results = ROOT / "build/portable/results"
    shutil.rmtree(results, ignore_errors=True)
    results.mkdir(parents=True)
    for part in wanted:
        PARTS[part](Bench(part))
    return subprocess.run([sys.executable, str(ROOT / "tests/summary.py"), str(results)],
                          check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
