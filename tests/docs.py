#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the documentation is true where a script can tell.

usage: docs.py ROOT [BUILD]

- every `function()` named in backticks exists in src/ or include/; when a file
  is named just before it, in that file
- every file named in backticks exists
- C blocks of README.md and docs/library.md compile, and so does the example at the top of each
  public header; with BUILD, blocks marked `c complete` are also linked with BUILD/libration.so and run
- relative links lead somewhere, also to headings
- the index of tests in CONTRIBUTING.md has every folder of src/ and every test, and names no other
- every event of the log is in a table of docs/
- man/ration.3.scd names every function that the headers export, and no other;
  it is a sound man page, if scdoc is installed

Prints one line per check; exits 1 if one failed.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]

# What the fragments of docs/library.md take for granted.
PREAMBLE = """
#include <stdio.h>
#include <string.h>
#include <ration/clients.h>
#include <ration/pause.h>
#include <ration/ration.h>
#include <ration/reputation.h>
#include <ration/rules.h>
#include <ration/signals.h>
#include <ration/usage.h>
#include <ration/wait.h>
enum { LOGIN, API, REPORTS };
int print_client(void *arg, const struct ration_reputation *one);
void reply_429(int64_t retry_after_ns);
void set_header(const char *name, int64_t value);
void log_error(const char *text);
void die(const char *text);
void drop(size_t i);
void wait_or_drop(int64_t ns);
void show_age(int64_t ns);
void print_escaped(const char *text, size_t len);
uint64_t do_work(void);
int print_row(void *arg, const struct ration_usage *u);
bool is_pro(const char *user);
void fragment(struct ration *r, const char *ip, const char *user, const char *const *users,
              const struct ration_named *limits);
void fragment(struct ration *r, const char *ip, const char *user, const char *const *users,
              const struct ration_named *limits)
{
    struct ration_error error;
    (void)r, (void)ip, (void)user, (void)users, (void)limits, (void)error;
"""
FRAGMENT_FLAGS = ["-Wno-unused-variable", "-Wno-unused-but-set-variable"]

# What the examples at the top of headers take for granted besides.
HEADER_PREAMBLE = PREAMBLE.replace("void reply_429", """#include <ration/algorithm.h>
#include <ration/envoy.h>
#include <ration/store.h>
extern void *database;
int update(void *arg, struct ration_update *u);
void take(const void *arg, const struct ration_terms *terms, void *state, struct ration_attempt *a);
bool give_back(const void *arg, const struct ration_terms *terms, void *state, int64_t elapsed_ns, uint64_t units,
               int64_t age_ns);
void reply(int status, ...);
double queue_length(void);
void complain(const char *text);
void reply_429""").replace("*limits)\n{", "*others)\n{").replace("(void)limits", "(void)others") + \
    "    const char *key = ip, *path = ip, *retry_after = ip;\n    (void)key, (void)path, (void)retry_after;\n"
HEADER_CODE = re.compile(r"^ \*     (.*)$", re.M)

CODE = re.compile(r"^```(\S*)[ ]*([^\n]*)\n(.*?)^```", re.M | re.S)
NAMED_FUNCTION = re.compile(r"`(\w+)\(\)`")
NAMED_FILE = re.compile(r"`((?:src|include|tests|docs|examples|bench|fuzz|man|"
                        r"base|cli|core|front|limiter|net|nginx|rationd|redis|rules|store|wire)/[\w./-]+\.\w+)`")
PAIR = re.compile(NAMED_FILE.pattern + r"\s+" + NAMED_FUNCTION.pattern)
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")


class Checks:
    def __init__(self):
        self.failed = 0

    def report(self, what, faults):
        """One line, and what is wrong below it."""
        print(f"{'not ok' if faults else 'ok'} - {what}")
        for fault in faults:
            print(f"    {fault}")
        self.failed += bool(faults)


def pages(root):
    """All Markdown of the project."""
    found = [p for p in root.glob("*.md")]
    for folder in ("docs", "examples", "man", "tests", "bench", "clients"):
        found += (root / folder).rglob("*.md")
    return sorted(p for p in found if "node_modules" not in p.parts)


def sources(root):
    """Text of every C file, by its path from the root and, below src/, from there."""
    texts = {}
    for folder in ("src", "include", "examples"):
        for path in sorted((root / folder).rglob("*.[ch]")):
            name = path.relative_to(root).as_posix()
            texts[name] = path.read_text()
            if folder == "src":
                texts[name.removeprefix("src/")] = texts[name]
    return texts


def has_function(text, name):
    return re.search(rf"\b{name}\(", text) is not None


def check_names(root, page, texts):
    """Functions and files that a page names and that do not exist."""
    text = CODE.sub(blank, page.read_text())
    faults = [f"no file {f}" for f in NAMED_FILE.findall(text)
              if not (root / f).exists() and not (root / "src" / f).exists()]
    faults += [f"no {name}() in src/ or include/" for name in NAMED_FUNCTION.findall(text)
               if not any(has_function(t, name) for t in texts.values())]
    faults += [f"no {name}() in {file}" for file, name in PAIR.findall(text)
               if file in texts and not has_function(texts[file], name)]
    return faults


def blank(match):
    """As many empty lines, so that line numbers stay."""
    return "\n" * match.group(0).count("\n")


def compile_block(root, build, text, complete, scratch, preamble=PREAMBLE):
    """What the compiler or the program says, or nothing."""
    source, program = scratch / "block.c", scratch / "block"
    source.write_text(text if complete else preamble + text + "}\n")
    command = ["cc", *FLAGS, "-I", root / "include", source]
    if not complete:
        command += FRAGMENT_FLAGS
    if not (complete and build):
        command += ["-fsyntax-only"]
    else:
        command += ["-o", program, "-L", build, "-lration", f"-Wl,-rpath,{build.resolve()}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0 and complete and build:
        done = subprocess.run([program], capture_output=True, text=True, timeout=30, cwd=scratch)
        if done.returncode != 0:
            return [f"exit status {done.returncode}", *done.stdout.splitlines()]
    return (done.stderr.splitlines() or ["failed"]) if done.returncode != 0 else []


def check_code(root, build, page, checks):
    text = page.read_text()
    for match in CODE.finditer(text):
        language, mark, block = match.groups()
        if language != "c":
            continue
        line = text.count("\n", 0, match.start()) + 1
        complete = mark.strip() == "complete"
        with tempfile.TemporaryDirectory() as scratch:
            faults = compile_block(root, build, block, complete, pathlib.Path(scratch))
        does = "runs" if complete and build else "compiles"
        checks.report(f"{page.relative_to(root)}:{line} {does}", faults)


def check_header(root, header, checks):
    """The example in the comment at the top, if there is one."""
    lines = HEADER_CODE.findall(header.read_text().partition("*/\n#ifndef")[0])
    if not lines:
        return
    with tempfile.TemporaryDirectory() as scratch:
        faults = compile_block(root, None, "\n".join(lines) + "\n", False, pathlib.Path(scratch),
                               HEADER_PREAMBLE)
    checks.report(f"the example of {header.relative_to(root)} compiles", faults)


def anchors(text):
    """The names by which GitHub links to the headings of a page."""
    headings = re.findall(r"^#+ +(.+?)\s*$", CODE.sub(blank, text), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def check_links(page):
    faults = []
    for target in LINK.findall(CODE.sub(blank, page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        to = page.parent / name if name else page
        if not to.exists():
            faults.append(f"{target}: there is no such file")
        elif anchor and to.suffix == ".md" and anchor not in anchors(to.read_text()):
            faults.append(f"{target}: there is no such heading")
    return faults


def check_index(root, page):
    """Rows: folders of src/, or examples or deploy, then patterns of tests, from tests/."""
    rows = [re.findall(r"`([^`]+)`", row)
            for row in re.findall(r"^\| (`(?:src/|examples|deploy).*) \|$", page.read_text(), re.M)]
    folders = {row[0] for row in rows}
    patterns = {pattern for row in rows for pattern in row[1:]}
    faults = [f"{folder}: there is no such folder" for folder in sorted(folders) if not (root / folder).is_dir()]
    rooms = {path.parent.relative_to(root) for path in (root / "src").rglob("*.[ch]")}
    faults += [f"{room} is not in the index" for room in sorted(rooms)
               if not folders & {room.as_posix(), *(parent.as_posix() for parent in room.parents)}]
    found = {pattern: set((root / "tests").glob(pattern)) for pattern in patterns}
    faults += [f"{pattern}: there is no such test" for pattern in sorted(patterns) if not found[pattern]]
    tests = {*(root / "tests/unit").rglob("test_*.c"), *(root / "tests/system").glob("test_*.py")}
    missing = tests - set().union(*found.values())
    return faults + [f"{test.relative_to(root)} is not in the index" for test in sorted(missing)]


def check_events(root):
    """Events that the program logs, `rn_log(LEVEL, "some.event", ...)`, and no table of the docs has."""
    logged = set()
    for source in (root / "src").rglob("*.c"):
        for call in re.findall(r"\brn_(?:admin_)?log\((.*?);", source.read_text(), re.S):
            before_fields = re.split(r"RN_LOG_(?:TEXT|NUMBER|AUTHOR)\(", call)[0]
            logged |= set(re.findall(r'"(\w+\.\w+)"', before_fields))
    rows = "\n".join(row for page in (root / "docs").glob("*.md")
                     for row in re.findall(r"^\|.*$", page.read_text(), re.M))
    documented = set(re.findall(r"`(\w+\.\w+)(?=[` ])", rows))
    return ([] if len(logged) > 50 else [f"only {len(logged)} events found in src/"]) + \
        [f"{event} is in no table of docs/" for event in sorted(logged - documented)]


def check_man(root, page):
    headers = "".join(h.read_text() for h in (root / "include/ration").glob("*.h"))
    exported = set(re.findall(r"^RATION_API\b[^;(]*?\b(ration_\w+)\(", headers, re.M))
    named = set(re.findall(r"\b(ration_\w+)\*?\(", page.read_text()))
    faults = [f"{name}() is not in it" for name in sorted(exported - named)]
    faults += [f"{name}() is not exported" for name in sorted(named - exported)]
    if shutil.which("scdoc"):
        done = subprocess.run(["scdoc"], stdin=page.open("rb"), capture_output=True)
        faults += done.stderr.decode().splitlines() if done.returncode != 0 else []
    return faults


def main():
    root = pathlib.Path(sys.argv[1])
    build = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    checks = Checks()
    texts = sources(root)

    for page in pages(root):
        name = page.relative_to(root)
        checks.report(f"{name} links", check_links(page))
        if "adr" not in page.parts: # dated pages tell how it was then
            checks.report(f"{name} names", check_names(root, page, texts))
    for name in ("README.md", "docs/library.md"):
        check_code(root, build, root / name, checks)
    for header in sorted((root / "include/ration").glob("*.h")):
        check_header(root, header, checks)
    checks.report("the index of tests in CONTRIBUTING.md", check_index(root, root / "CONTRIBUTING.md"))
    checks.report("the events of the log", check_events(root))
    checks.report("man/ration.3.scd", check_man(root, root / "man/ration.3.scd"))
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
