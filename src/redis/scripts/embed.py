#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the C table of the scripts: each algorithm's files followed by batch.lua, and
the others, each of its own parts.

usage: embed.py OUT.c
"""

import hashlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
LEASES = ["history", "leases"]  # first, as they change KEYS
PARTS = {
    **{name: ["values", name, "strict", "batch"] for name in ("bucket", "window", "counter")},
    **{name: ["drop", name, "strict", "batch"] for name in ("log", "places", "adaptive")},
    "lease_bucket": [*LEASES, "values", "lease_bucket", "batch"],
    "lease_window": [*LEASES, "values", "window", "lease_window", "lease_tail", "lease_charged", "batch"],
    "lease_counter": [*LEASES, "values", "counter", "lease_counter", "lease_tail", "lease_charged", "batch"],
    "lease_subs": [*LEASES, "drop", "log", "lease_subs", "lease_list", "lease_charged", "batch"],
    "lease_log": [*LEASES, "drop", "log", "lease_list", "lease_log", "batch"],
    "report": ["values", "bucket", "report_bucket", "window", "report_window", "counter", "report_counter", "report"],
    **{name: [name] for name in ("fleet_poll", "fleet_offer", "fleet_fetch", "fleet_factors")},
    **{name: [name, "fleet_entries"] for name in ("fleet_bans", "fleet_pauses")},
    **{name: [name] for name in ("fleet_usage", "fleet_usage_read")},
    "history": ["history", "history_age"],
}
NAMES = list(PARTS)  # in the order of enum rn_script


def assemble(name):
    """The text that is sent to the server: comments are for readers here."""
    lines = []
    for part in PARTS[name]:
        for line in (HERE / f"{part}.lua").read_text().splitlines():
            if line.strip() and not line.lstrip().startswith("--"):
                lines.append(line)
    return "\n".join(lines) + "\n"


def as_c(name):
    """As bytes: C promises no string literals of this length."""
    data = assemble(name).encode()
    rows = (data[i:i + 20] for i in range(0, len(data), 20))
    text = "".join("    " + ", ".join(map(str, row)) + ",\n" for row in rows)
    return f"static const char {name}_text[] = {{\n{text}}};\n"


def row(name):
    sha = hashlib.sha1(assemble(name).encode()).hexdigest()
    return f'    {{"{name}", "{sha}", {{{name}_text, sizeof {name}_text}}}},\n'


def main():
    pathlib.Path(sys.argv[1]).write_text(
        "/* Made by embed.py. */\n"
        '#include "redis/scripts/script.h"\n\n' + "\n".join(map(as_c, NAMES)) +
        "\nconst struct rn_script_text rn_scripts[RN_SCRIPTS] = {\n" +
        "".join(map(row, NAMES)) + "};\n")


if __name__ == "__main__":
    main()
