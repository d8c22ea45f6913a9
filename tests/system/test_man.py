# SPDX-License-Identifier: Apache-2.0
"""The manual pages are sound, are found by the names that one looks for, and say all that the programs know:
each option, variable, key of rules, directive of nginx and function of the library."""

import json
import os
import re
import shutil
import subprocess

import pytest

from daemon import BUILD, PATIENCE, ROOT, RATIOND
from ration_command import RATION

MAN = ROOT / "man"
ENV = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANPAGER": "cat", "GROFF_NO_SGR": "1"}

pytestmark = pytest.mark.skipif(not (shutil.which("scdoc") and shutil.which("man")), reason="scdoc or man is not installed")


def printed(*args, **more):
    return subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=PATIENCE, **more)


def source(name):
    """A page without the marks of scdoc."""
    return (MAN / name).read_text().replace("\\", "")


def terms(text):
    """What the entries of a list are about: `*--http* _ADDR_` above an indented line."""
    return [term for line in re.findall(r"^(\*.*)\n\t", text, re.M) for term in re.findall(r"\*([^*]+)\*", line)]


# --- as pages ------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The directory of manual pages, as `meson install` fills it."""
    folder = tmp_path_factory.mktemp("installed")
    done = printed("meson", "install", "-C", BUILD, "--no-rebuild", "--tags", "man", "--destdir", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.rglob("man3")).parent


def pages(folder):
    return sorted(p for p in folder.rglob("*.[1358]") if not p.is_symlink())


def test_pages_have_no_warnings(installed):
    names = {page.name for page in pages(installed)}
    headers = {("ration" if h.stem == "ration" else f"ration-{h.stem}") + ".h.3" for h in (ROOT / "include/ration").glob("*.h")}
    assert names == {"ration.1", "ration.3", "ration.yaml.5", "ration-nginx.5", "rationd.8"} | headers
    for page in pages(installed):
        done = printed("man", "--warnings", "-l", page, env=ENV)
        assert (done.returncode, done.stderr) == (0, ""), page
        if shutil.which("mandoc"): # scdoc begins paragraphs that stay empty, and writes long lines
            lint = printed("mandoc", "-Tlint", "-Wwarning", page).stdout.splitlines()
            assert [line for line in lint if "skipping paragraph macro: PP" not in line] == [], page


def test_every_function_has_a_page(installed):
    functions = re.findall(r"^\s+(ration_\w+);", (ROOT / "src/libration.map").read_text(), re.M)
    assert len(functions) > 100
    by_page = {page.stem: page.read_text() for page in pages(installed)}
    for name in functions:
        link = installed / "man3" / f"{name}.3"
        assert link.is_symlink() and link.exists(), name
        assert re.search(rf"^\\fB(?:.*\W)?{name}\(", by_page[link.resolve().stem], re.M), name
    shown = printed("man", "-M", installed, "ration_decide", env=ENV)
    assert shown.returncode == 0 and "int ration_decide(struct ration *r" in shown.stdout


def test_the_page_of_a_header_has_all_of_its_comments(installed):
    for header in (ROOT / "include/ration").glob("*.h"):
        name = "ration.h" if header.stem == "ration" else f"ration-{header.stem}.h"
        page = re.sub(r"[^\w]+", " ", (installed / "man3" / f"{name}.3").read_text().replace(r"\fI", "").replace(r"\fR", ""))
        for comment in re.findall(r"^/\* (?!SPDX|---)(.*?)\*/", header.read_text(), re.M | re.S):
            words = re.sub(r"[^\w]+", " ", re.sub(r"^ \*", "", comment, flags=re.M)).strip()
            assert words in re.sub(r" (PP|RS 4|RE|nf|fi)(?= )", "", page), (header.name, words)


# --- as what they say ----------------------------------------------------------------------------

def test_rationd_has_every_option_and_no_other():
    told = re.findall(r"^  (--[a-z-]+)", printed(RATIOND, "--help").stdout, re.M)
    options = source("rationd.8.scd").partition("\n# OPTIONS\n")[2].partition("\n# SIGNALS\n")[0]
    assert sorted(terms(options)) == sorted(told)


def test_defaults_of_rationd_are_those_of_its_help():
    page = source("rationd.8.scd")
    for option, default in re.findall(r"^  (--[a-z-]+) .*\(([\w.:]+)\)$", printed(RATIOND, "--help").stdout, re.M):
        entry = re.search(rf"^\*{option}\*.*\n\t(.*(?:\n\t.*)*)", page, re.M)[1]
        assert re.search(rf"default[^.]* {re.escape(default)}\b|\b{re.escape(default)}[^.]*default", entry), (option, entry)


def test_ration_has_every_option_and_no_other():
    told = set()
    for command in printed(RATION, "__complete", "").stdout.split("\n"):
        first = command.partition("\t")[0]
        seconds = [line.partition("\t")[0] for line in printed(RATION, "__complete", first, "").stdout.splitlines()]
        for words in [[first], *([first, second] for second in seconds)]:
            told |= {line.partition("\t")[0] for line in printed(RATION, "__complete", *words, "--").stdout.splitlines()}
    options = source("ration.1.scd").partition("\n# OPTIONS\n")[2].partition("\n# EXIT STATUS\n")[0]
    assert len(told) > 40
    assert set(terms(options)) - {"-h"} == {option for option in told if option.startswith("--")} - {"--version"}


def test_ration_has_every_variable_of_the_environment():
    read = {name for path in (ROOT / "src/cli").rglob("*.c") for name in re.findall(r'"(RATION_[A-Z_]+)"', path.read_text())}
    assert {"RATION_TOKEN", "RATION_TIMEOUT"} <= read
    environment = source("ration.1.scd").partition("\n# ENVIRONMENT\n")[2].partition("\n# ")[0]
    assert set(terms(environment)) == read | {"NO_COLOR"}
    manual = (ROOT / "docs/cli.md").read_text()
    assert [name for name in read if f"`{name}`" not in manual] == []


# Rules with an unknown key `zzzq` in each place that has keys of its own, by the section of the page.
PLACES = {
    "THE FILE": "zzzq: 1",
    "A RULE": "limits: [{name: a, limit: 5 per minute, zzzq: 1}]",
    "KEYS": "limits: [{name: a, limit: 5 per minute, key: {ip: {zzzq: 1}}}]",
    "CONDITIONS": "limits: [{name: a, limit: 5 per minute, when: {user: {zzzq: 1}}}]",
    "ADAPTIVE CONCURRENCY": "limits: [{name: a, limit: {concurrent: adaptive, zzzq: 1}}]",
    "COST": "limits: [{name: a, limit: 5 per minute, cost: {zzzq: 1}}]",
    "CHARGE_ON": "limits: [{name: a, limit: 5 per minute, charge_on: {zzzq: 1}}]",
    "PRIORITY": "limits: [{name: a, limit: 5 per minute, priority: {zzzq: 1}}]",
    "THROTTLE": "limits: [{name: a, limit: 5 per minute, throttle: {zzzq: 1}}]",
    "QUEUE": "limits: [{name: a, limit: 5 per minute, queue: {zzzq: 1}}]",
    "SIGNALS": "signals: {l: {source: latency, zzzq: 1}, st: {source: status, zzzq: 1}, p: {source: push, zzzq: 1}, "
               "q: {source: prometheus, zzzq: 1}}",
    "ADAPT": "limits: [{name: a, limit: 5 per minute, adapt: {zzzq: 1}}]",
    "RESTORE": "signals: {cpu: {source: cpu}}\n"
               "limits: [{name: a, limit: 5 per minute, adapt: {when: cpu above 80%, to: 50%, restore: {zzzq: 1}}}]",
    "ELASTIC": "limits: [{name: a, limit: 5 per minute, elastic: {zzzq: 1}}]",
    "ESCALATE": "limits: [{name: a, limit: 5 per minute, escalate: {zzzq: 1}}]",
    "EARN": "limits: [{name: a, limit: 5 per minute, earn: {zzzq: 1}}]",
    "USAGE": "limits: [{name: a, limit: 5 per minute, usage: {zzzq: 1}}]",
    "RESPONSE": "response: {zzzq: 1}",
    "PATHS": "paths: {zzzq: 1}",
    "ATTRIBUTES": "attributes: {u: {zzzq: 1}}",
    "SERVER": "server: {zzzq: 1}",
    "TOKENS": "server: {tokens: {anna: {zzzq: 1}}}",
}
# Their words are not keys, or have a test of their own.
OTHERS = {"NAME", "SYNOPSIS", "DESCRIPTION", "TEXTS OF LIMITS", "ALGORITHMS", "LIMITS BY AN ATTRIBUTE", "EXAMPLES", "FILES", "SEE ALSO"}


def sections():
    page = source("ration.yaml.5.scd")
    parts = re.split(r"^# ([A-Z_ ]+)$", page, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2]))


@pytest.mark.parametrize("heading", PLACES)
def test_each_key_of_rules_is_described_and_no_other(heading):
    report = printed(RATION, "lint", "-", input=PLACES[heading] + "\n").stdout
    known = {key for keys in re.findall(r'unknown key "zzzq"; allowed here: (.*)', report) for key in keys.split(", ")}
    assert len(known) > 0, report
    assert set(terms(sections()[heading])) == known


def test_no_section_of_keys_is_left_out():
    assert set(sections()) == {*PLACES, *OTHERS}
    schema = json.loads(printed(RATION, "schema").stdout)
    assert terms(sections()["ALGORITHMS"]) == schema["$defs"]["rule"]["properties"]["algorithm"]["enum"]


def test_examples_of_rules_are_good_rules():
    page = (MAN / "ration.yaml.5.scd").read_text()
    blocks = [block for block in re.findall(r"^```\n(.*?)^```", page, re.M | re.S) if "limits:" in block]
    assert len(blocks) >= 4
    for block in blocks:
        done = printed(RATION, "lint", "-", input=block)
        assert done.returncode == 0, done.stdout


def test_texts_of_limits_are_read():
    page = sections()["TEXTS OF LIMITS"]
    texts = [text for row in re.findall(r"^\*(.*)\*$", page, re.M) for text in row.split(", ")]
    assert len(texts) > 10
    for text in texts:
        algorithm = ", algorithm: concurrency" if "concurrent" in text else ""
        done = printed(RATION, "lint", "-", input=f"limits: [{{name: a, limit: {text}{algorithm}}}]\n")
        assert done.returncode == 0, done.stdout


def test_nginx_has_every_directive_parameter_and_variable():
    code = {name: (ROOT / "src/nginx" / f"{name}.c").read_text() for name in ("module", "server_directive", "variables")}
    page = source("ration-nginx.5.scd")
    part = {heading: set(terms(page.partition(f"\n# {heading}\n")[2].partition("\n# ")[0]))
            for heading in ("DIRECTIVES", "PARAMETERS", "VARIABLES")}
    assert part["DIRECTIVES"] == set(re.findall(r'"(ration(?:_[a-z_]+)?)"', code["module"])) > {"ration", "ration_zone"}
    assert part["VARIABLES"] == {f"${name}" for name in re.findall(r'ngx_string\("(ration_\w+)"\)', code["variables"])}
    table = (ROOT / "docs/nginx.md").read_text().partition("| parameter of `ration_server` |")[2].partition("\n\n")[0]
    assert part["PARAMETERS"] == set(re.findall(r"([a-z_]+)=[A-Z]", table))
    assert all(f'"{name}="' in code["server_directive"] or f'"{name}"' in code["server_directive"] for name in part["PARAMETERS"])
