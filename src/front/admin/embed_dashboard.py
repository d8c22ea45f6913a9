#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the C table of the files of the dashboard, as they are and compressed.

usage: embed_dashboard.py OUT.c FOLDER NAME...

The same files make the same bytes: gzip writes no time.
"""

import gzip
import hashlib
import pathlib
import sys

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".json": "application/json"}


def as_c(name, data):
    """As bytes: C promises no string literals of this length."""
    rows = (data[i:i + 20] for i in range(0, len(data), 20))
    return f"static const unsigned char {name}[] = {{\n" + "".join("    " + ", ".join(map(str, row)) + ",\n" for row in rows) + "};\n"


def main():
    out, folder, *names = sys.argv[1:]
    arrays, rows = [], []
    for number, name in enumerate(names):
        path = pathlib.Path(name)
        if path.suffix not in TYPES:
            sys.exit(f"embed_dashboard.py: {name}: there is no content type for this ending; those known are {', '.join(TYPES)}")
        data = (pathlib.Path(folder) / name).read_bytes()
        tag = hashlib.sha256(data).hexdigest()[:16]
        arrays += [as_c(f"file_{number}", data), as_c(f"zipped_{number}", gzip.compress(data, 9, mtime=0))]
        rows.append(f'    {{"{name}", "{TYPES[path.suffix]}",\n     {{"\\"{tag}\\"", FILE(file_{number})}},\n'
                    f'     {{"\\"{tag}z\\"", FILE(zipped_{number})}}}},\n')
    pathlib.Path(out).write_text(
        '/* Made by embed_dashboard.py. */\n#include "front/admin/dashboard.h"\n\n'
        "#define FILE(bytes) {(const char *)(bytes), sizeof(bytes)}\n\n" + "\n".join(arrays) +
        f"\nconst struct rn_dashboard_file rn_dashboard_files[] = {{\n{''.join(rows)}}};\n"
        f"const size_t rn_dashboard_file_count = {len(names)};\n")


if __name__ == "__main__":
    main()
