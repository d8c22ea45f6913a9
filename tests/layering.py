#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every include under src/ stays within its room or goes down.

usage: layering.py ROOT [--self-test]

A room may include only the rooms listed for it, spelled from src/
("core/limit.h"). A third-party header may appear only in its own room. With
--self-test, plants one fault of each kind in a copy and expects it reported.
"""

import pathlib
import re
import shutil
import sys
import tempfile

# Room: what it may include besides itself and <ration/...>.
BELOW = {
    "base": set(),
    "core": set(),
    "rules": {"base", "core"},
    "store": {"base", "core"},
    "limiter": {"base", "core", "rules", "store"},
    "wire": {"base", "core", "rules", "store", "limiter"},
    "net": {"base"},
    "redis": {"base", "core", "rules", "store", "limiter", "net"},
    "front": {"base", "core", "rules", "store", "limiter", "wire", "net"},
    "rationd": {"base", "core", "rules", "store", "limiter", "wire", "net", "redis", "front"},
    "cli": {"base", "core", "rules", "store", "limiter", "wire"},
    "nginx": {"base", "core", "rules", "store", "limiter", "wire"},
}

# Start of a third-party header's name: the rooms that may include it.
THIRD_PARTY = {
    "yaml.h": {"rules"},
    "hiredis/": {"redis"},
    "nghttp2/": {"front"},
    "protobuf-c/": {"wire"},
    "rls.pb-c.h": {"wire"}, # made from src/wire/rls.proto
    "llhttp": {"wire"},
    "uv.h": {"net"},
    "openssl/": {"cli", "net"},
    "jansson.h": {"tests"},
    "ngx_": {"nginx"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def fault(src, room, quote, name):
    """What is wrong with one include line of a file in `room`, or None."""
    if quote == "<":
        for prefix, rooms in THIRD_PARTY.items():
            if name.startswith(prefix) and room not in rooms:
                return f"<{name}> belongs in {' or '.join(sorted(rooms))} only"
        return None
    if name.startswith("ration/"):
        return f'spell it <{name}>: the public headers are included as users do'
    target = name.split("/")[0]
    if target in BELOW and target != room and target not in BELOW[room]:
        below = ", ".join(sorted(BELOW[room])) or "nothing"
        return f'"{name}": {room} may include {below}, not {target}'
    if target not in BELOW or not (src / name).is_file():
        return f'"{name}" is not a header under src/; spell it from there, room first'
    return None


def check(root):
    """All faults of a tree, as lines of text."""
    src = root / "src"
    found = []
    for path in sorted(src.rglob("*.[ch]")):
        room = path.relative_to(src).parts[0]
        where = path.relative_to(root)
        if room not in BELOW:
            found.append(f"{where}: {room} is not a room; add it to the table in tests/layering.py")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            problem = match and fault(src, room, *match.groups())
            if problem:
                found.append(f"{where}:{number}: {problem}")
    return found


PLANTS = [
    ("base/planted.h", '#include "core/limit.h"', "base may include nothing, not core"),
    ("core/planted.c", '#include "base/siphash.h"', "core may include nothing, not base"),
    ("store/planted.c", '#include "rules/ruleset.h"', "not rules"),
    ("rules/planted.c", '  #  include "store/store.h"', "not store"),
    ("core/planted.c", '#include "limit.h"', "spell it from there"),
    ("core/planted.c", '#include "../base/siphash.h"', "spell it from there"),
    ("base/planted.c", '#include "ration/limit.h"', "spell it <ration/limit.h>"),
    ("store/planted.c", "#include <yaml.h>", "belongs in rules only"),
    ("common/planted.c", "", "common is not a room"),
]


def self_test(root):
    """Plants each fault alone in a copy; lists the plants that went unnoticed."""
    missed = []
    for name, line, expected in PLANTS:
        with tempfile.TemporaryDirectory() as scratch:
            copy = pathlib.Path(scratch)
            shutil.copytree(root / "src", copy / "src")
            planted = copy / "src" / name
            planted.parent.mkdir(exist_ok=True)
            planted.write_text(line + "\n")
            found = check(copy)
            if not any(name in f and expected in f for f in found):
                missed.append(f"{name}: {line!r} went unnoticed: {found}")
    return missed


def main():
    root = pathlib.Path(sys.argv[1])
    found = self_test(root) if "--self-test" in sys.argv else check(root)
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
