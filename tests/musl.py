#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the library with musl's C library; fibers and the memory table also run there.

usage: musl.py ROOT COMPILER [FLAG...]

musl has no ucontext(3), and threads with small stacks: this fails if something
needs more, or anything else of glibc. No library is there that was built with
musl, so rules and limiter are compiled and not linked. ./dev test-portable musl
builds all and runs all tests.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile

KEYS, TAKES, THREADS, AMOUNT = 2000, 50, 4, 20
ADMITTED, ERRORS = 2, 3  # words of tests/programs/shared_tally.h


def run(*command):
    command = [str(word) for word in command]
    status = subprocess.run(command, check=False, timeout=250).returncode
    if status != 0:
        sys.exit(f"{' '.join(command[:12])} ... exited with {status}")


def sources(root, *rooms):
    return sorted(p for room in rooms for p in (root / "src" / room).rglob("*.c"))


def link_headers(scratch):
    """A folder with headers that need nothing of glibc: of the kernel, and libyaml's."""
    found = [pathlib.Path("/usr/include/linux"), pathlib.Path("/usr/include/asm-generic"),
             pathlib.Path("/usr/include/yaml.h"),
             *list(pathlib.Path("/usr/include").glob("*-linux-gnu/asm"))[:1]]
    if len(found) < 4 or not all(path.exists() for path in found):
        return None
    folder = scratch / "include"
    folder.mkdir()
    for path in found:
        (folder / path.name).symlink_to(path)
    return folder


def main():
    root, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        compile_ = [compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror",
                    *flags, f"-I{root / 'include'}", f"-I{root / 'src'}"]
        below = sources(root, "base", "core", "store")

        for program in ("fibers", "hammer"):
            run(*compile_, "-static", root / f"tests/programs/{program}.c", *below,
                "-o", scratch / program)
        run(scratch / "fibers")
        for limit in ("bucket", "log"):
            tally = scratch / f"tally-{limit}"
            run(scratch / "hammer", scratch / f"state-{limit}", tally, limit, AMOUNT, KEYS, TAKES,
                THREADS, THREADS)
            words = struct.unpack("4Q", tally.read_bytes()[:32])
            if words[ADMITTED] != KEYS * AMOUNT or words[ERRORS] != 0:
                sys.exit(f"{limit}: {words[ADMITTED]} of {KEYS * AMOUNT} units admitted, "
                         f"{words[ERRORS]} errors")
        headers = link_headers(scratch)
        if headers:
            run(*compile_, "-fsyntax-only", '-DRATION_VERSION="0"', f"-I{headers}",
                *sources(root, "rules", "limiter"))


if __name__ == "__main__":
    main()
