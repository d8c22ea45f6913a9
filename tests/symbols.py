#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that libration.so exports exactly the functions that its headers declare.

usage: symbols.py ROOT LIBRARY
"""

import pathlib
import re
import subprocess
import sys

COMMENT = re.compile(r"/\*.*?\*/", re.S)
DECLARED = re.compile(r"^RATION_API\b[^;(]*?\b(ration_\w+)\(", re.M)
UNMARKED = re.compile(r"^(?!RATION_API)\w[\w *]*?\b(ration_\w+)\(", re.M)


def main():
    root, library = pathlib.Path(sys.argv[1]), sys.argv[2]
    headers = [COMMENT.sub("", h.read_text()) for h in (root / "include/ration").glob("*.h")]
    declared = {name for text in headers for name in DECLARED.findall(text)}
    unmarked = {name for text in headers for name in UNMARKED.findall(text)}

    listing = subprocess.run(["nm", "-D", "--defined-only", library],
                             check=True, capture_output=True, text=True).stdout
    # The version itself (RATION_0) is listed as an absolute symbol.
    symbols = [line.split()[-2:] for line in listing.splitlines()]
    exported = {name.split("@")[0] for kind, name in symbols if kind != "A"}

    faults = ([f"{n}: declared without RATION_API" for n in sorted(unmarked)]
              + [f"{n}: declared, not exported" for n in sorted(declared - exported)]
              + [f"{n}: exported, not declared" for n in sorted(exported - declared)])
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
