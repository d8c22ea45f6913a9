#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The seeds of the fuzz targets, packed: fuzz/seeds/TARGET.txt has a seed on each line, its name, a space
and its bytes. A byte that is not printable ASCII is written \\n, \\r, \\t or \\xHH, and a backslash twice.

usage: seeds.py add TARGET FILE...    pack these files, each under its name
       seeds.py unpack FOLDER TXT...  write each seed to FOLDER/TARGET/NAME, and nothing else there
"""

import pathlib
import re
import shutil
import sys

SEEDS = pathlib.Path(__file__).resolve().parent / "seeds"
SHORT = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t"}
LONG = {escape: byte for byte, escape in SHORT.items()}
NAME = re.compile(r"[\w.-]+")


def escape(seed):
    """One line of ASCII for any bytes."""
    return re.sub(rb"[^ -\[\]-~]", lambda m: SHORT.get(m[0], b"\\x%02x" % m[0][0]), seed).decode()


def unescape(text):
    """The bytes of a line; ValueError for what escape() does not write."""
    parts = re.split(rb"(\\x[0-9a-f]{2}|\\[\\nrt])", text.encode("ascii"))
    seed = b"".join(LONG.get(p) or bytes.fromhex(p[2:].decode()) if i % 2 else p for i, p in enumerate(parts))
    if escape(seed) != text:
        raise ValueError("not as `seeds.py add` writes it")
    return seed


def read(path):
    """{name: bytes} of a file of seeds. SystemExit for a line that is none."""
    seeds = {}
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        name, space, text = line.partition(" ")
        try:
            if not space or not NAME.fullmatch(name):
                raise ValueError("a name, a space and the bytes are needed")
            if name in seeds:
                raise ValueError(f"there are two seeds {name}")
            seeds[name] = unescape(text)
        except ValueError as error:
            sys.exit(f"{path}:{number}: {error}")
    return seeds


def add(target, files):
    path = SEEDS / f"{target}.txt"
    if not (SEEDS.parent / f"fuzz_{target}.c").is_file():
        sys.exit(f"there is no fuzz target {target}")
    seeds = read(path) if path.exists() else {}
    for file in map(pathlib.Path, files):
        name, seed = re.sub(r"[^\w.-]", "_", file.name), file.read_bytes()
        if name in seeds and seeds[name] != seed:
            sys.exit(f"{path} has another seed {name}: give {file} another name")
        if name not in seeds and seed in seeds.values():
            print(f"{file} is there already")
            continue
        seeds[name] = seed
    path.write_text("".join(f"{name} {escape(seeds[name])}\n" for name in sorted(seeds)), encoding="ascii")


def unpack(folder, files):
    for file in map(pathlib.Path, files):
        to = pathlib.Path(folder) / file.stem
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        for name, seed in read(file).items():
            (to / name).write_bytes(seed)


def main():
    commands = {"add": add, "unpack": unpack}
    if len(sys.argv) < 4 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](sys.argv[2], sys.argv[3:])


if __name__ == "__main__":
    main()
