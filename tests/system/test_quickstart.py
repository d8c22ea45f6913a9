# SPDX-License-Identifier: Apache-2.0
"""A newcomer's first five minutes: every command of docs/quickstart.md, in order, against
one daemon with the example rules, and those of docs/cli.md against another one. Ports are
replaced by free ones; what is printed must be what the page shows, where `...` stands for
anything and times may differ."""

import os
import re
import subprocess

import pytest

from daemon import BUILD, ROOT, Daemon

PAGE = ROOT / "docs" / "quickstart.md"


def sessions(page=PAGE):
    """(command, what it prints) of every `$ ` line of blocks without a language, in order."""
    for language, block in re.findall(r"^```(.*?)\n(.*?)^```$", page.read_text(), re.M | re.S):
        command, shown = None, []
        if language:
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                if command:
                    yield command, shown
                command, shown = line[2:], []
            elif command:
                shown.append(line)
        if command:
            yield command, shown


def normal(lines):
    """Without spaces at line ends; decimals, which are times, are any number."""
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    return re.sub(r"\b\d+\.\d+\b(?![.\d/])", "N", text)


def matches(shown, printed):
    """`...` in what is shown is anything."""
    parts = [re.escape(part) for part in normal(shown).split("...")]
    return re.fullmatch(".*".join(parts), normal(printed), re.S)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    with Daemon(folder, (ROOT / "examples" / "ration.yaml").read_text()) as started:
        yield started


def test_the_page_has_what_a_newcomer_needs():
    commands = [command for command, _ in sessions()]
    assert len(commands) >= 10
    for word in ("curl", "ration check", "ration explain", "redis-cli", "ration top"):
        assert any(word in command for command in commands), word


def run(daemon, command, terminal=False, folder=ROOT):
    """Runs a command of a page against the daemon; ports are replaced by those it has."""
    ports = {"127.0.0.1:8080": daemon.addresses["http"], "127.0.0.1:8082": daemon.addresses["admin"],
             "-p 6380": "-p " + daemon.addresses["resp"].rpartition(":")[2]}
    env = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "NO_COLOR": "1",
           "RATION_HTTP": daemon.addresses["http"], "RATION_ADMIN": daemon.addresses["admin"]}
    for default, chosen in ports.items():
        command = command.replace(default, chosen)
    return subprocess.run(["script", "-qec", command, "/dev/null"] if terminal else
                          ["sh", "-c", command], cwd=folder, env=env, text=True, capture_output=True,
                          timeout=60, stdin=subprocess.DEVNULL)


def test_the_readme_shows_a_refusal_at_once(tmp_path):
    """A newcomer pastes README's first commands and must see the limit work."""
    commands = [block for block in re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(),
                                              re.M | re.S) if "/v1/check" in block]
    assert len(commands) == 1
    with Daemon(tmp_path, (ROOT / "examples" / "ration.yaml").read_text()) as fresh:
        done = run(fresh, commands[0])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:6] == ["200"] * 5 + ["429"]
    assert re.search(r"1 +\S+ +login +192\.0\.2\.1", done.stdout), done.stdout


def test_every_command_prints_what_the_page_shows(daemon):
    for command, shown in sessions():
        done = run(daemon, command, terminal="redis-cli" in command)
        printed = done.stdout.splitlines()
        assert matches(shown, printed), \
            f"{command}\nprinted:\n{done.stdout}{done.stderr}\nthe page shows:\n" + "\n".join(shown)


# Files that docs/cli.md takes for granted.
CLI_FILES = {
    "rules.yaml": "limits:\n  - name: login\n    key: ip\n    lmit: 5 per minute\n",
    "auth.yaml": """domain: auth
descriptors:
  - key: auth_type
    value: login
    descriptors:
      - {key: window, value: day, rate_limit: {unit: day, requests_per_unit: 5}}
      - {key: window, value: minute, rate_limit: {unit: minute, requests_per_unit: 5}}
""",
}


def without_times(lines):
    """Lengths of time, and what a quick bucket has left, differ from run to run."""
    for line in lines:
        line = re.sub(r"\b[\d.]+ (?:ms|s|min|h)\b(?: [\d.]+ (?:ms|s|min)\b)*", "TIME", line)
        yield re.sub(r"\d+ of 100\b( +TIME)?", "N of 100", line)


def in_columns(lines):
    """Tables without what their columns are filled up with."""
    return [re.sub(r"  +", "  ", line) for line in lines]


def test_every_command_of_the_page_about_the_cli_prints_what_it_shows(tmp_path):
    for name, text in CLI_FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "daemon").mkdir()
    ran = 0
    with Daemon(tmp_path / "daemon", (ROOT / "examples" / "ration.yaml").read_text()) as fresh:
        for command, shown in sessions(ROOT / "docs" / "cli.md"):
            if command.startswith(("ration bench", "ration top")):  # figures of a loaded daemon
                continue
            done = run(fresh, command, folder=tmp_path)
            printed = (done.stdout + done.stderr).splitlines()
            assert matches(in_columns(without_times(shown)), in_columns(without_times(printed))), \
                f"{command}\nprinted:\n" + "\n".join(printed) + "\nthe page shows:\n" + "\n".join(shown)
            ran += 1
    assert ran >= 15


def test_the_page_leads_to_pages_that_exist():
    for target in re.findall(r"\]\(([^)#]+)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
