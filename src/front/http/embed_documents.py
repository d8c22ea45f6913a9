#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the C table of the JSON documents that rationd serves.

usage: embed_documents.py OUT.c VERSION NAME=FILE...

NAME is the document's in enum rn_static_document_name, without RN_STATIC_DOCUMENT_. The files may

- say @VERSION@, which becomes VERSION;
- refer to components of other files ("$ref": "other.json#/components/..."): these are copied, so that the
  document is whole;
- have the members of other objects added to one: "x-merge" is a reference to them, or a list of those. Own
  members win. Members of the document that begin with x- are for that, and are left out.
"""

import hashlib
import json
import pathlib
import sys

DATA = ("example", "examples", "value", "const", "enum") # their content is not ours to change


def anchored(node, file):
    """The same with the file's path in every reference."""
    def reference(text):
        return f"{file.parent / text.partition('#')[0] if text[0] != '#' else file}#{text.partition('#')[2]}"

    if isinstance(node, list):
        return [anchored(item, file) for item in node]
    if not isinstance(node, dict):
        return node
    made = {}
    for key, value in node.items():
        if key == "$ref":
            made[key] = reference(value)
        elif key == "x-merge":
            made[key] = [reference(text) for text in ([value] if isinstance(value, str) else value)]
        else:
            made[key] = value if key in DATA else anchored(value, file)
    return made


def look_up(reference, files):
    """What a reference with a path leads to; the parts of its pointer have no escapes."""
    path, _, pointer = reference.partition("#")
    if path not in files:
        files[path] = anchored(json.loads(pathlib.Path(path).read_text()), pathlib.Path(path))
    node = files[path]
    for part in pointer.strip("/").split("/"):
        node = node[part]
    return node


def bundle(path):
    """The document of a file, whole."""
    files, waiting = {}, []

    def whole(node):
        if isinstance(node, list):
            return [whole(item) for item in node]
        if not isinstance(node, dict):
            return node
        made = {}
        for reference in node.get("x-merge", []):
            made.update(whole(look_up(reference, files)))
        for key, value in node.items():
            if key == "$ref":
                waiting.append(value)
                made[key] = f"#{value.partition('#')[2]}"
            elif key != "x-merge":
                made[key] = value if key in DATA else whole(value)
        return made

    own = anchored(json.loads(path.read_text()), path)
    files[str(path)] = own
    document = whole({key: value for key, value in own.items() if not key.startswith("x-")})
    while waiting:
        reference = waiting.pop()
        *parents, last = reference.partition("#")[2].strip("/").split("/")
        into = document
        for part in parents:
            into = into.setdefault(part, {})
        if last not in into:
            into[last] = whole(look_up(reference, files))
    return document


def as_c(name, text):
    """As bytes: C promises no string literals of this length."""
    rows = (text[i:i + 20] for i in range(0, len(text), 20))
    return f"static const char {name.lower()}[] = {{\n" + "".join(
        "    " + ", ".join(map(str, row)) + ",\n" for row in rows) + "};\n"


def main():
    out, version, *pairs = sys.argv[1:]
    files = dict(pair.split("=", 1) for pair in pairs)
    texts = {name: json.dumps(bundle(pathlib.Path(file)), separators=(",", ":")).replace("@VERSION@", version).encode()
             for name, file in files.items()}
    rows = "".join(f'    [RN_STATIC_DOCUMENT_{name}] = {{"\\"{hashlib.sha256(text).hexdigest()[:16]}\\"", '
                   f"{{{name.lower()}, sizeof {name.lower()}}}}},\n" for name, text in texts.items())
    pathlib.Path(out).write_text(
        '/* Made by embed_documents.py. */\n#include "front/http/static_documents.h"\n\n' +
        "\n".join(as_c(name, text) for name, text in texts.items()) +
        f"\nconst struct rn_static_document rn_static_documents[RN_STATIC_DOCUMENTS] = {{\n{rows}}};\n")


if __name__ == "__main__":
    main()
