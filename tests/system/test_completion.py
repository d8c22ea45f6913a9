# SPDX-License-Identifier: Apache-2.0
"""Completion of ration and rationd: the programs offer every option that their help has, with what it
means and its values; bash, zsh and fish, driven as at a terminal, insert what the programs offer."""

import contextlib
import fcntl
import http.server
import json
import os
import pty
import re
import select
import shutil
import socket
import socketserver
import struct
import subprocess
import termios
import threading

import pytest

from daemon import BUILD, PATIENCE, ROOT
from ration_command import daemon  # noqa: F401  (a fixture)

SCRIPTS = ROOT / "completions"
ENV = {**{k: v for k, v in os.environ.items() if not k.startswith("RATION_")},
       "PATH": f"{BUILD}:{os.environ['PATH']}", "TERM": "dumb", "HISTFILE": "", "LC_ALL": "C.UTF-8"}


def program(*args, **env):
    return subprocess.run(args, capture_output=True, text=True, timeout=PATIENCE, env={**ENV, **env}).stdout


def offers(name, *words, **env):
    """{candidate: meaning} for the last word."""
    return dict(line.split("\t") if "\t" in line else (line, None)
                for line in program(name, "__complete", *words, **env).splitlines())


# --- the programs --------------------------------------------------------------------------------

COMMANDS = [line.split()[0] for line in program("ration", "help").split("\n\n")[2].splitlines()]


def in_usage(command):
    """The forms of a command, `ban add` or `check`, by the usage lines of its help."""
    words = re.findall(rf"ration {command}( [a-z|]+)?", program("ration", "help", command).partition("\n\n")[0])
    return sorted({f"{command} {word}" if word else command for found in words for word in found.strip().split("|")})


FORMS = [form for command in COMMANDS if command != "help" for form in in_usage(command)]


def in_help(form):
    """{option: its word for a value or ""} of all options that the help of a command describes."""
    text = program("ration", "help", form.split()[0])
    described = "\n".join(line for line in text.splitlines() if line.startswith("  --"))
    return dict(re.findall(r"(?:^  |, )(--[a-z-]+)(?: ([A-Z]+)\b|\[=[A-Z]+\])?", described, re.M))


def test_all_commands_are_offered():
    assert set(offers("ration", "")) == {*COMMANDS, "--version"}
    for command in COMMANDS[:-1]:
        seconds = {form.split()[1] for form in in_usage(command) if " " in form}
        assert seconds <= set(offers("ration", command, "")), command
    assert len(FORMS) > 25


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "help"])
def test_every_option_of_the_help_is_offered_and_explained(command):
    told = {}
    for form in in_usage(command):
        mine = offers("ration", *form.split(), "--")
        assert [name for name, meaning in mine.items() if not meaning] == [], form
        told |= mine
    assert set(told) - {"--help"} == set(in_help(command))


@pytest.mark.parametrize("form", FORMS)
def test_options_for_files_offer_files(form):
    for name, value in in_help(form).items():
        if value and name in offers("ration", *form.split(), "--"):
            assert (":files" in offers("ration", *form.split(), name, "")) == (value == "FILE"), name


def test_every_option_of_the_daemon_is_offered_with_its_values():
    values = dict(re.findall(r"^  (--[a-z-]+)(?: ([A-Z]+))? ", program("rationd", "--help"), re.M))
    told = offers("rationd", "--")
    assert set(told) == set(values) and all(told.values()) and len(values) > 35
    for name, value in values.items():
        known = {"FILE": {":files"}, "FLAG": {"true", "false"}, "LIST": {"http", "grpc", "resp", "admin"},
                 "LEVEL": {"error", "warn", "info", "debug"}, "VERSION": {"1.2", "1.3"}}.get(value)
        if known:
            assert set(offers("rationd", name, "")) == known, name
        if value in ("HOW", "ADDR"):
            assert len(offers("rationd", name, "")) >= 2, name


def test_a_running_daemon_tells_the_names_of_its_rules(daemon):  # noqa: F811
    admin = {"RATION_ADMIN": daemon.addresses["admin"]}
    assert {"login", "everything"} <= set(offers("ration", "state", "--rule", "", **admin))
    assert set(offers("ration", "override", "set", "log", **admin)) == {"login"}
    assert offers("ration", "state", f"--admin={daemon.addresses['admin']}", "--rule=log") == {"--rule=login": "a rule"}
    assert offers("ration", "state", "--rule", "", RATION_ADMIN="127.0.0.1:1") == {}


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers as a daemon does, with names that are no names."""

    NAMES = ["$(touch pwned)", "`id`", "a b", "a;id", "a\nb", "--token-file=/x", ":files", "a'b", 'a"b', "a\x1b[2J",
             "a|b", "a&b", "a>b", "a*", "~root", "", "a\tb", "b" * 5000, "team/payments.key=value"]

    def do_GET(self):
        body = json.dumps({"rules": [{"name": name} for name in self.NAMES]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_names_that_a_shell_would_not_take_as_they_are_are_not_offered():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        told = program("ration", "__complete", "state", "--rule", "", RATION_ADMIN=f"127.0.0.1:{server.server_address[1]}")
        server.shutdown()
    assert told.splitlines() == ["b" * 5000 + "\ta rule", "team/payments.key=value\ta rule"]


def test_a_daemon_that_does_not_answer_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert offers("ration", "state", "--rule", "", RATION_ADMIN=f"127.0.0.1:{silent.getsockname()[1]}") == {}


def test_a_daemon_that_answers_without_end_is_not_listened_to():
    class Endless(socketserver.BaseRequestHandler):
        def handle(self):
            with contextlib.suppress(OSError):
                while True:
                    self.request.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        assert offers("ration", "state", "--rule", "", RATION_ADMIN=f"127.0.0.1:{server.server_address[1]}") == {}
        server.shutdown()


def test_behind_two_dashes_only_attributes_fit():
    assert set(offers("ration", "check", "--", "")) == {"ip=", "method=", "path=", "host=", "header."}
    assert set(offers("ration", "check", "rules.yaml", "method=P")) == {"method=POST", "method=PUT", "method=PATCH"}


# --- the shells ----------------------------------------------------------------------------------

class Shell:
    """An interactive shell at a terminal of its own, with a key, `all`, that inserts all completions."""

    def __init__(self, folder, argv, setup, all_key, **env):
        self.all_key = all_key
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(argv[0], argv, {**ENV, **env})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 4000, 0, 0))
        self.send(setup + "; show() { printf '<%s>\\n' \"$@\"; }\nshow set-up\n")
        self.read_until("<set-up>")

    def send(self, text):
        os.write(self.fd, text.encode())

    def read_until(self, mark):
        text = ""
        while mark not in text:
            assert select.select([self.fd], [], [], PATIENCE)[0], text
            text += os.read(self.fd, 1 << 16).decode(errors="replace")
        return text

    def complete(self, line):
        """The words of the line once all completions of its last word are in it."""
        self.send(line + self.all_key + "\x01show \x05 the-end\n") # to the start, to the end
        return re.findall(r"<([^\r\n]*)>", self.read_until("<the-end>"))[:-1]

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def bash(folder, load, **env):
    setup = "PS1=; bind 'set enable-bracketed-paste off'; bind '\"\\C-x*\": insert-completions'; " + load
    return Shell(folder, ["bash", "--norc", "--noprofile", "-i"], setup, "\x18*", **env)


def zsh(folder):
    setup = (f"PS1=; unsetopt zle_bracketed_paste prompt_sp; unset zle_bracketed_paste; bindkey -e; "
             f"fpath=({SCRIPTS} $fpath); "
             "autoload -Uz compinit; compinit -u -D; zstyle ':completion:all-matches::::' completer _all_matches _complete; "
             "zstyle ':completion:all-matches:*' insert true; "
             "zle -C all-matches complete-word _generic; bindkey '^X*' all-matches")
    return Shell(folder, ["zsh", "-f", "-i"], setup, "\x18*")


class Fish:
    def __init__(self, folder):
        self.folder = folder

    def complete(self, line):
        out = subprocess.run(["fish", "--no-config", "-c", f"source {SCRIPTS}/ration.fish; complete -C \"$argv\"", line],
                             capture_output=True, text=True, timeout=PATIENCE, cwd=self.folder,
                             env={**ENV, "HOME": str(self.folder)})
        assert out.stderr == ""
        before = line.split(" ")[:-1]
        return before + [found.split("\t")[0] for found in out.stdout.splitlines()]

    def close(self):
        pass


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def shell(request, tmp_path_factory):
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    for name in ("rules.yaml", "two words.yaml"):
        (folder / name).write_text("limits: []\n")
    (folder / "rules.d").mkdir()
    one = {"bash": lambda f: bash(f, f"source {SCRIPTS}/ration.bash"), "zsh": zsh, "fish": Fish}[request.param](folder)
    yield one
    one.close()


@pytest.mark.parametrize("line, inserted", [
    ("ration che", ["check"]),
    ("ration ban ", ["add", "delete", "list"]),
    ("ration lint --str", ["--strict"]),
    ("ration lint --color=al", ["--color=always"]),
    ("ration lint --color ", ["always", "auto", "never"]),
    ("ration check rules.yaml method=PA", ["method=PATCH"]),
    ("ration check --scope", []),
    ("ration lint rules.", ["rules.d/", "rules.yaml"]),
    ("ration lint two", ["two words.yaml"]),
    ("ration check --state=two", ["--state=two words.yaml"]),
    ("rationd --log-le", ["--log-level"]),
    ("rationd --log-level=w", ["--log-level=warn"]),
    ("rationd --http 127", ["127.0.0.1:8080"]),
    ("rationd --http=127", ["--http=127.0.0.1:8080"]),
    ("rationd --config rules.y", ["rules.yaml"]),
])
def test_shells_insert_what_fits(shell, line, inserted):
    *before, typed = line.split(" ")
    found = sorted(shell.complete(line))
    expected = inserted or ([] if isinstance(shell, Fish) else [typed])
    assert [word.rstrip("/") for word in found] == sorted(word.rstrip("/") for word in before + expected)


def test_bash_quotes_names_of_files_among_other_words(tmp_path):
    for name in ("i$(touch pwned)", "i`touch pwned`", "i;touch pwned", "i b"):
        (tmp_path / name).touch()
    one = bash(tmp_path, f"source {SCRIPTS}/ration.bash")
    try:
        assert sorted(one.complete("ration check i")) == sorted(
            ["ration", "check", "ip=", "i$(touch pwned)", "i`touch pwned`", "i;touch pwned", "i b"])
        assert not (tmp_path / "pwned").exists()
    finally:
        one.close()


def test_bash_loads_the_script_by_the_name_of_the_program(tmp_path):
    loader = "/usr/share/bash-completion/bash_completion"
    if not os.path.exists(loader):
        pytest.skip("bash-completion is not installed")
    folder = tmp_path / "share/bash-completion/completions"
    folder.mkdir(parents=True)
    for name in ("ration", "rationd"):
        (folder / name).symlink_to(SCRIPTS / "ration.bash")
    one = bash(tmp_path, f"source {loader}", XDG_DATA_DIRS=str(tmp_path / "share"), BASH_COMPLETION_USER_DIR="/absent")
    try:
        assert one.complete("ration heal") == ["ration", "health"]
        assert one.complete("rationd --tls-m") == ["rationd", "--tls-min"]
    finally:
        one.close()


def test_scripts_are_installed_where_shells_look(tmp_path):
    program("meson", "install", "-C", str(BUILD), "--no-rebuild", "--tags", "completion", "--destdir", str(tmp_path))
    share = next(tmp_path.rglob("share"))
    assert {str(path.relative_to(share)) for path in share.rglob("*") if path.is_file()} == {
        "bash-completion/completions/ration", "bash-completion/completions/rationd", "zsh/site-functions/_ration",
        "fish/vendor_completions.d/ration.fish", "fish/vendor_completions.d/rationd.fish"}
