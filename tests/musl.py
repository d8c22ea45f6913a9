#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles rooms base and core with musl's C library, and runs fibers there.

usage: musl.py ROOT COMPILER [FLAG...]

musl has no ucontext(3): this fails if a room needs it, or anything else of glibc.
"""

import pathlib
import subprocess
import sys
import tempfile


def main():
    root, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    rooms = sorted(p for room in ("base", "core") for p in (root / "src" / room).rglob("*.c"))
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "fibers"
        command = [compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror",
                   *flags, f"-I{root / 'include'}", f"-I{root / 'src'}", "-static",
                   str(root / "tests/programs/fibers.c"), *map(str, rooms), "-o", str(program)]
        for step in (command, [str(program)]):
            status = subprocess.run(step, check=False, timeout=100).returncode
            if status != 0:
                print(f"{' '.join(step)} exited with {status}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
