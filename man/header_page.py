#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the man page of a public header: its comments are the contract, and the page has all of them.

usage: header_page.py HEADER VERSION OUT
"""

import os
import pathlib
import re
import sys
import time

TOKEN = re.compile(r"""
    (?P<comment>/\*.*?\*/[ ]*\n)
  | (?P<macro>\#(?:[^\n]*\\\n)*[^\n]*\n)
  | (?P<blank>[ \t]*\n)
  | (?P<code>(?:[^;{]|\{.*?^\})*;[^\n]*\n)
""", re.X | re.S | re.M)


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def plain(comment):
    """The lines of a comment without its stars."""
    text = re.sub(r"^/\*+[ ]?|[ ]?\*+/\s*$", "", comment.strip())
    return [re.sub(r"^ \*[ ]?", "", line).rstrip() for line in text.strip("\n").split("\n")]


def prose(lines):
    """Paragraphs, and code where lines are indented."""
    out, code = [], False
    for line in [line.rstrip() for line in lines]:
        indented = line.startswith("    ")
        if indented and not code:
            out += [".PP", ".RS 4", ".nf"]
        elif code and line and not indented:
            while not out[-1]:
                out.pop()
            out += [".fi", ".RE", ".PP"]
            code = False
        if indented:
            out.append(escape(line[4:]))
        elif not line:
            out += [""] if code else [] if out and out[-1] == ".PP" else [".PP"]
        else:
            out.append(re.sub("`([^`]+)`", r"\\fI\1\\fR", escape(line)))
        code = indented or (code and not line)
    if code:
        out += [".fi", ".RE"]
    return out[:-1] if out and out[-1] == ".PP" else out


def groups(text):
    """(heading or None, comment lines, [declaration]) in their order; a comment is that of all
    declarations up to the next comment or empty line."""
    at, comment, found = 0, [], []
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise SystemExit(f"header_page.py: cannot read {text[at:at + 60]!r}")
        at = match.end()
        kind, piece = match.lastgroup, match.group()
        if kind == "comment" and (heading := re.match(r"/\* --- (.*?) -+ \*/", piece)):
            found.append((heading[1], [], []))
        elif kind == "comment":
            comment = plain(piece)
            found.append((None, comment, []))
        elif kind == "blank":
            comment = None
        elif not re.match(r"#\s*(include|ifdef|ifndef|endif|if|else|undef)|extern \"C\"", piece):
            if not found or found[-1][0] is not None or (comment is None and found[-1][2]):
                found.append((None, [], []))
            found[-1][2].append(piece.rstrip("\n").replace("RATION_API ", ""))
            comment = comment or []
    return [group for group in found if group[0] or group[2] or group[1]]


def put_groups(found):
    out = []
    for heading, comment, declarations in found:
        if heading:
            out.append(f'.SS "{escape(heading)}"')
            continue
        if declarations:
            out += [".PP", ".nf"]
            # A prototype that was aligned behind RATION_API moves with its first line.
            for text in declarations:
                moved = re.sub(r"\n {11}(?= )", "\n", text) if "(" in text.split("\n")[0] else text
                out += [r"\fB" + escape(line) + r"\fR" if line else "" for line in moved.split("\n")]
            out.append(".fi")
        if comment:
            out += [".RS 4", *prose(comment), ".RE"] if declarations else [".PP", *prose(comment)]
    return out


def purpose(about):
    """What the line NAME says of a header: the first sentence of its first paragraph."""
    paragraph = about[:about.index("")] if "" in about else about
    first = re.split(r"(?<=\w)\.(?:\s|$)", " ".join(paragraph))[0].removeprefix("libration: ").rstrip(":").replace("`", "")
    return first if first.startswith("Envoy") else first[0].lower() + first[1:]


def main():
    header, version, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    text = header.read_text()
    functions = re.findall(r"^RATION_API\b[^;(]*?\b(ration_\w+)\(", text, re.M)
    top, _, rest = text.partition("*/\n#ifndef")
    about = plain("/*\n" + top.partition("/*\n")[2] + "*/")
    first = purpose(about)
    name = "ration.h" if header.stem == "ration" else f"ration-{header.stem}.h"
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    body = rest.partition("\n")[2].partition("\n")[2].rpartition("#endif")[0]
    page = [f'.TH "{escape(name.upper())}" "3" "{day}" "ration {version}" "libration"', ".nh", ".ad l", ".SH NAME",
            f"{escape(', '.join([name, *functions]))} \\- {escape(first)}",
            ".SH SYNOPSIS", f"\\fB#include <ration/{header.name}>\\fR", ".SH DESCRIPTION", *prose(about),
            ".SH DECLARATIONS", *put_groups(groups(body)),
            ".SH SEE ALSO", "\\fBration\\fR(3)"]
    lines = [line for i, line in enumerate(page)
             if not (line == ".PP" and (page[i - 1].startswith((".SH", ".SS", ".RS")) or page[i - 1] == ".PP"))]
    out.write_text("\n".join(line for line in lines) + "\n")


if __name__ == "__main__":
    main()
