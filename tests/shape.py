#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shape of the source tree: figures, and the naming rules that keep it readable.

usage: shape.py ROOT            print figures for each room under src/
       shape.py ROOT --check    fail on a broken naming rule
       shape.py ROOT --self-test    plant one fault of each kind in a copy and expect it reported

The rules:
- a struct tag is defined once in the tree;
- a function shared between files is called rn_<file>_<verb>, after the file or the
  header it is in, in singular or plural, or after the folder; where another room has such a
  file, the folder or the room stands before it (rn_cli_http_ask). In nginx all begin with rn_ngx_;
- no such prefix belongs to two rooms;
- every word in the name of a file or folder of a room is in the glossary of docs/architecture.md.
The source is read as clang-format leaves it: a function ends at a brace in column 0.
"""

import collections
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

TAG = re.compile(r"^(?:struct|union|enum) (rn_\w+)\n?\s*\{", re.M)
FUNCTION = re.compile(
    r"^(?P<head>(?!typedef|struct \w+ ?\{|union \w+ ?\{|enum|#|/|\}|extern)[A-Za-z_][^;{}=#]*?"
    r"\b(?P<name>\w+)\([^;{}]*\))\s*\n\{\n(?P<body>.*?)^\}", re.M | re.S)
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


def blank(match):
    """Keeps the line breaks of a comment or a string, and nothing else of it."""
    return "\n" * match.group(0).count("\n")


class Function:
    def __init__(self, path, match):
        self.path = path
        self.name = match["name"]
        self.static = bool(re.search(r"\bstatic\b", match["head"]))
        self.lines = match.group(0).count("\n") + 1
        self.span = match.span()


class Tree:
    def __init__(self, root):
        self.root, self.src = root, root / "src"
        self.text = {}
        self.functions = []
        for path in sorted(self.src.rglob("*.[ch]")):
            where = path.relative_to(self.src)
            text = COMMENT.sub(blank, path.read_text())
            self.text[where] = text
            self.functions += [Function(where, m) for m in FUNCTION.finditer(text)]
        self.words = {where: collections.Counter(re.findall(r"\w+", text))
                      for where, text in self.text.items()}

    def rooms(self):
        return sorted({where.parts[0] for where in self.text})

    def called_once(self, function):
        """Whether a static function has one call, in another function, and no pointer to it."""
        text = self.text[function.path]
        named = rf"\b{function.name}\b"
        heads = len(re.findall(rf"^[A-Za-z_][^;{{}}=()]*{named}\(", text, re.M))
        calls = len(re.findall(named + r"\(", text)) - heads
        return calls == 1 and len(re.findall(named, text)) == heads + 1

    def other_files(self, function):
        """The .c files, besides its own, that name a function."""
        return [where for where, words in self.words.items()
                if where != function.path and where.suffix == ".c" and words[function.name]]


def share(part, whole):
    return f"{100 * part / whole:.0f} %" if whole else "-"


def figures(tree):
    """A line for each room and one for all."""
    rows = [("room", "files", "lines", "functions", "median", "p99", "longest", "one caller", "one user")]
    for room in tree.rooms() + ["all"]:
        inside = [w for w in tree.text if room in ("all", w.parts[0])]
        functions = [f for f in tree.functions if room in ("all", f.path.parts[0])]
        lengths = sorted(f.lines for f in functions) or [0]
        statics = [f for f in functions if f.static and f.path.suffix == ".c"]
        externs = [f for f in functions if not f.static and f.path.suffix == ".c"]
        rows.append((room, len(inside),
                     sum((tree.src / w).read_text().count("\n") for w in inside), len(functions),
                     int(statistics.median(lengths)), lengths[int(len(lengths) * 0.99)], lengths[-1],
                     share(sum(map(tree.called_once, statics)), len(statics)),
                     share(sum(len(tree.other_files(f)) == 1 for f in externs), len(externs))))
    for row in rows:
        print("".join(f"{cell:>11}" for cell in row))


def doubled_tags(tree):
    found = collections.defaultdict(list)
    for where, text in tree.text.items():
        for match in TAG.finditer(text):
            found[match[1]].append(where)
    for tag, places in sorted(found.items()):
        if len(places) > 1:
            yield f"{tag} is defined in {' and '.join(map(str, places))}: give each its own name"


def headers_of(tree):
    """Function name: the headers that declare it."""
    found = collections.defaultdict(list)
    for where, text in tree.text.items():
        if where.suffix == ".h":
            for name in set(re.findall(r"\b(rn_\w+)\(", text)):
                found[name].append(where)
    return found


def names(where):
    """What functions of a file may begin with: its stem, a folder it is in, or both."""
    stem = where.stem.removesuffix("_internal")
    folders = where.parts[:-1]
    if folders[0] == "nginx":
        return {"ngx"}
    stems = {stem, stem.removesuffix("s"), stem + "s"}
    return {*stems, *folders, *(f"{folder}_{name}" for folder in folders for name in stems)}


def misnamed(tree):
    headers = headers_of(tree)
    for f in tree.functions:
        if f.static or not f.name.startswith("rn_") or f.path.suffix != ".c":
            continue
        allowed = set().union(*map(names, [f.path, *headers[f.name]]))
        if not any(f.name.startswith(f"rn_{name}_") or f.name == f"rn_{name}" for name in allowed):
            yield f"{f.path}: {f.name}() should begin with rn_{f.path.stem}_"


def shared_prefixes(tree):
    rooms = collections.defaultdict(lambda: collections.defaultdict(set))
    for f in tree.functions:
        if not f.static and f.name.startswith("rn_"):
            rooms[f.name.split("_")[1]][f.path.parts[0]].add(f.name)
    for prefix, by_room in sorted(rooms.items()):
        if len(by_room) > 1:
            examples = ", ".join(f"{room} ({sorted(fs)[0]})" for room, fs in sorted(by_room.items()))
            yield f"rn_{prefix}_ is a prefix in several rooms: {examples}"


def glossary(tree):
    """Its words: the first cell of each row, and those that have their usual sense."""
    text = (tree.root / "docs" / "architecture.md").read_text().partition("## Glossary")[2]
    rows = re.findall(r"^\| ([^|]*) \|", text, re.M)
    usual = re.search(r"^Words in their usual sense: ([^.]*)\.$", text, re.M)[1]
    return set(re.findall(r"\w+", " ".join([*rows, usual]).lower()))


def unexplained(tree):
    first = {}  # of each word: the file that has it
    for where in tree.text:
        for part in where.with_suffix("").parts[1:]:
            for word in part.removesuffix("_internal").split("_"):
                first.setdefault(word, where)
    known = glossary(tree)
    for word, where in first.items():
        if not known & {word, word.removesuffix("s"), word + "s"}:
            yield f'{where}: "{word}" is not in the glossary of docs/architecture.md'


def faults(tree):
    return [*doubled_tags(tree), *misnamed(tree), *shared_prefixes(tree), *unexplained(tree)]


PLANTS = [
    ("base/planted.h", "struct rn_limit {\n    int a;\n};\n", "rn_limit is defined in"),
    ("base/planted.c", "void rn_other_call(void)\n{\n}\n", "rn_other_call() should begin with rn_planted_"),
    ("base/limit.c", "void rn_limit_planted(void)\n{\n}\n", "rn_limit_ is a prefix in several rooms"),
    ("base/planted.c", "", '"planted" is not in the glossary'),
]


def self_test(root):
    """Plants each fault alone in a copy; lists the plants that went unnoticed."""
    missed = []
    for name, text, expected in PLANTS:
        with tempfile.TemporaryDirectory() as scratch:
            copy = pathlib.Path(scratch)
            shutil.copytree(root / "src", copy / "src")
            shutil.copytree(root / "docs", copy / "docs")
            (copy / "src" / name).write_text(text)
            found = faults(Tree(copy))
            if not any(expected in fault for fault in found):
                missed.append(f"{name}: went unnoticed: {found}")
    return missed


def main():
    root = pathlib.Path(sys.argv[1])
    if "--check" not in sys.argv and "--self-test" not in sys.argv:
        figures(Tree(root))
        return 0
    found = self_test(root) if "--self-test" in sys.argv else faults(Tree(root))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
