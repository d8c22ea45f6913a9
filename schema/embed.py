#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the C array of the schema, for `ration schema` and GET /schema.json.

usage: embed.py SCHEMA OUT.c
"""

import pathlib
import sys


def main():
    # As bytes: C promises no string literals of this length.
    data = pathlib.Path(sys.argv[1]).read_bytes()
    rows = (data[i:i + 20] for i in range(0, len(data), 20))
    text = "".join("    " + ", ".join(map(str, row)) + ",\n" for row in rows)
    pathlib.Path(sys.argv[2]).write_text(
        f'#include "wire/schema.h"\n\nstatic const char text[] = {{\n{text}}};\n\n'
        f"const struct rn_slice rn_schema_json = {{text, {len(data)}}};\n")


if __name__ == "__main__":
    main()
