# SPDX-License-Identifier: Apache-2.0
"""What an operator asks a running daemon with `ration`, and how it is told.

RATION_BUILD names the build directory.
"""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shlex
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest
import yaml

from daemon import BUILD, PATIENCE, ROOT, Daemon, free_port

RATION = BUILD / "ration"

RULES = """\
deny:
  - {ip: 203.0.113.0/24}
limits:
  - name: login
    when: { method: POST, path: /login }
    key: ip
    limit: 5 per hour
    algorithm: sliding-log
    response: { status: 403, message: Go away. }
  - name: api
    when: { path: /api/** }
    key: user
    limit: { by: tier, free: 10 per hour, pro: unlimited, default: free }
  - name: everything
    key: ip
    limit: 1000 per hour
"""
LOGIN = ["method=POST", "path=/login"]


class Answer:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"<{self.status}>\n{self.out}{self.err}"


def run(*args, env=None, stdin="", cwd=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RATION_")}
    return Answer(subprocess.run([RATION, *map(str, args)], input=stdin, text=True, cwd=cwd,
                                 capture_output=True, timeout=PATIENCE, env={**clean, **(env or {})}))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("daemon"), RULES) as daemon:
        yield daemon


@pytest.fixture
def ration(daemon):
    """Runs ration with the daemon's addresses in the environment."""
    env = {"RATION_HTTP": daemon.addresses["http"], "RATION_ADMIN": daemon.addresses["admin"]}

    def ask(*args, stdin="", **more):
        return run(*args, env={**env, **more}, stdin=stdin)

    return ask


@pytest.fixture
def fresh(tmp_path):
    """A daemon of one's own, for what others should not see."""
    with Daemon(tmp_path, RULES) as daemon:
        env = {"RATION_HTTP": daemon.addresses["http"], "RATION_ADMIN": daemon.addresses["admin"]}
        daemon.ration = lambda *args, **more: run(*args, env=env, **more)
        yield daemon


# --- check and explain ----------------------------------------------------------------


def test_check_without_a_file_asks_the_daemon_and_counts_there(ration):
    answer = ration("check", "--times", "6", *LOGIN, "ip=192.0.2.1")
    assert answer.status == 1, answer
    assert answer.out.startswith("1-5       allowed\n6         refused by login; try again in ")
    assert " (status 403)\n5 allowed, 1 refused\nmessage: Go away.\n" in answer.out
    assert re.search(r"^> login +0 of 5 +1 h", answer.out, re.M)
    assert ration("check", *LOGIN, "ip=192.0.2.1").status == 1
    assert ration("check", "--server", *LOGIN, "ip=192.0.2.2").status == 0


def test_check_tells_of_lists_and_of_what_nothing_applies_to(ration):
    answer = ration("check", "ip=203.0.113.5")
    assert answer.status == 1 and answer.out.startswith("refused by the deny list\n")
    answer = ration("check", "path=/x")
    assert (answer.status, answer.out) == (0, "allowed: no rule applies\n")
    answer = ration("check", "path=/api/x", "user=a", "tier=pro")
    assert (answer.status, answer.out) == (0, "allowed: unlimited\n")


def test_check_takes_costs(ration):
    answer = ration("check", "--cost", "6", *LOGIN, "ip=192.0.2.3")
    assert answer.status == 1 and "it costs more than the limit ever admits" in answer.out
    answer = ration("check", "--cost", "4", "--json", *LOGIN, "ip=192.0.2.3")
    assert answer.status == 0 and answer.json["remaining"] == 1


def test_check_tells_the_daemon_how_requests_end(tmp_path):
    rules = "limits: [{name: guesses, key: ip, limit: 3 per hour, charge_on: status 401}]"
    with Daemon(tmp_path, rules) as daemon:
        def check(status, *more):
            return run("check", "--http", daemon.addresses["http"], "--times", 5, "--status", status, *more)

        assert check(200, "ip=192.0.2.1").status == 0
        assert "3 allowed, 2 refused" in check(401, "ip=192.0.2.1").out
        answer = check(401, "--json", "ip=192.0.2.2")
        assert (answer.json["allowed"], answer.json["refused"]) == (3, 2)


def test_check_for_programs_is_what_the_daemon_said(ration):
    answer = ration("check", "--json", *LOGIN, "ip=192.0.2.4")
    assert answer.json["rule"] == "login" and answer.json["limit"] == 5
    answer = ration("check", "--json", "--times", "6", *LOGIN, "ip=192.0.2.4")
    assert (answer.status, answer.json["allowed"], answer.json["refused"]) == (1, 4, 2)
    assert answer.json["decisions"][-1]["message"] == "Go away."


def test_explain_tells_of_the_daemons_rules_and_counts_nothing(ration):
    for _ in range(2):
        answer = ration("explain", *LOGIN, "ip=192.0.2.5")
        assert answer.status == 0, answer
        assert 'request\n    method "POST"\n    path "/login"\n    ip "192.0.2.5"\n\n' in answer.out
        assert re.search(r"^login applies\n", answer.out, re.M)
        assert '    key     ip "192.0.2.5"\n    limit   5 per hour; 5 of 5 left\n' in answer.out
        assert "api does not apply\n    - path \"/login\" does not match /api/**" in answer.out
        assert answer.out.endswith("\nnothing was counted\n")
    answer = ration("explain", "--matching", *LOGIN, "ip=192.0.2.5")
    assert "api does not apply" not in answer.out and "1 rule does not apply\n" in answer.out
    assert ration("explain", "--json", "ip=192.0.2.5").json["decision"]["allowed"]


def test_explain_tells_which_list_applies(ration, daemon):
    answer = ration("explain", "ip=203.0.113.5")
    assert answer.status == 1
    assert re.search(r"^deny list applies  \S*rules.yaml:2\n    so no rule is asked\n", answer.out,
                     re.M), answer
    assert "would be refused by the deny list" in answer.out


# --- clients --------------------------------------------------------------------------


def test_state_reset_and_adjust_of_one_client(ration):
    who = [*LOGIN, "ip=192.0.2.6"]
    ration("check", "--times", "3", *who)
    answer = ration("state", *who)
    assert answer.status == 0
    assert re.search(r"^login +5 per hour +2 of 5 +", answer.out, re.M)
    assert re.search(r"^everything +1000 per hour +99[78] of 1000 +", answer.out, re.M)
    answer = ration("state", "--rule", "login", "--json", *who)
    assert [limit["remaining"] for limit in answer.json["limits"]] == [2]

    answer = ration("adjust", "--rule", "login", "--add", "1", *who)
    assert answer.status == 0 and re.search(r"^login +5 per hour +1 of 5", answer.out, re.M), answer
    assert "4 of 5" in ration("adjust", "--rule", "login", "--add", "-3", *who).out
    assert "0 of 5" in ration("adjust", "--rule", "login", "--remaining", "0", *who).out
    assert ration("check", *who).status == 1

    answer = ration("reset", "--rule", "login", *who)
    assert (answer.status, answer.out) == (0, "1 limit reset\n")
    assert ration("check", *who).status == 0
    assert ration("reset", *who).out == "2 limits reset\n"
    assert ration("reset", "--json", *who).json == {"reset": 2}


def test_state_of_a_request_that_no_limit_applies_to(ration):
    answer = ration("state", "path=/x")
    assert (answer.status, answer.out) == (1, "no limit applies\n")
    answer = ration("reset", "path=/x")
    assert (answer.status, answer.out) == (1, "no limit applies, nothing was reset\n")


def test_odd_values_arrive_as_they_are(ration):
    for user in ("a b&c=d%41+e", 'q"u\\o', "é€", "x" * 300):
        who = ["path=/api/x", f"user={user}"]
        assert ration("check", *who).status == 0
        answer = ration("state", "--rule", "api", "--json", *who)
        assert answer.json["limits"][0]["remaining"] == 9, user


def test_an_override_is_set_listed_and_deleted(ration):
    who = ["path=/api/x", "user=grace"]
    answer = ration("override", "set", "api", "user=grace", "--limit", "20 per hour", "--for", "2h",
                    "--note", "moving house")
    assert (answer.status, answer.out) == \
        (0, 'user "grace" may have 20 per hour of api for 2 h\n'), answer
    assert ration("check", "--json", *who).json["limit"] == 20
    answer = ration("override", "list", "--rule", "api")
    assert re.search(r"^api +user=grace +20 per hour +(2 h|1 h 59 min|1 h 60 min) +moving house$",
                     answer.out, re.M), answer
    answer = ration("override", "list", "--json")
    assert answer.json["overrides"][0]["attributes"] == {"user": "grace"}
    assert (ration("override", "list", "--rule", "login").out) == "no overrides\n"
    answer = ration("override", "delete", "api", "user=grace")
    assert (answer.status, answer.out) == (0, "deleted\n")
    answer = ration("override", "delete", "api", "user=grace")
    assert (answer.status, answer.out) == (1, "there was no such override\n")
    assert ration("check", "--json", *who).json["limit"] == 10


def test_a_ban_is_added_listed_and_deleted(ration):
    answer = ration("ban", "add", "ip=198.51.100.0/24", "--for", "10m", "--reason", "scraping")
    assert (answer.status, answer.out) == (0, 'ip "198.51.100.0/24" is banned for 10 min\n'), answer
    answer = ration("check", "ip=198.51.100.9", "path=/x")
    assert answer.status == 1 and answer.out.startswith("refused by a ban; try again in "), answer
    answer = ration("ban", "list")
    assert re.search(r"^ip=198\.51\.100\.0/24 +(10|9) min.* +scraping$", answer.out, re.M), answer
    assert len(ration("ban", "list", "--json").json["bans"]) == 1
    answer = ration("ban", "delete", "ip=198.51.100.0/24")
    assert (answer.status, answer.out) == (0, "deleted\n")
    answer = ration("ban", "delete", "ip=198.51.100.0/24")
    assert (answer.status, answer.out) == (1, "there was no such ban\n")
    assert ration("ban", "list").out == "no bans\n"
    assert ration("check", "ip=198.51.100.9", "path=/x").status == 0


# --- rules and shadow mode ------------------------------------------------------------


def rules_of(daemon):
    """Names of the rules in force."""
    return [rule["name"] for rule in yaml.safe_load(daemon.ration("rules", "get").out)["limits"]]


def test_rules_are_read_tried_replaced_and_reloaded(fresh):
    other = "limits:\n  - {name: only, key: ip, limit: 1 per hour}\n"
    assert rules_of(fresh) == ["login", "api", "everything"]
    version = fresh.ration("rules", "get", "--json").json["version"]

    answer = fresh.ration("rules", "validate", "-", stdin=other)
    assert answer.status == 0 and answer.out.endswith("valid\n"), answer
    assert rules_of(fresh) == ["login", "api", "everything"]

    answer = fresh.ration("rules", "push", "-", "--if-version", version, stdin=other)
    assert answer.status == 0 and f"in force: version {version + 1}\n" in answer.out, answer
    answer = fresh.ration("rules", "push", "-", "--if-version", version, stdin=other)
    assert answer.status == 2 and f"no longer version {version};" in answer.err, answer
    assert fresh.ration("check", "--times", "2", "ip=192.0.2.7").status == 1

    answer = fresh.ration("rules", "reload")
    assert answer.status == 0 and answer.out.startswith("reloaded: version "), answer
    assert rules_of(fresh) == ["login", "api", "everything"]


def test_bad_rules_are_reported_and_change_nothing(fresh):
    bad = "limits:\n  - name: a\n    lmit: 5 per minute\n"
    for verb in ("validate", "push"):
        answer = fresh.ration("rules", verb, "-", stdin=bad)
        assert (answer.status, answer.out) == (2, "")
        assert 'error: unknown key "lmit"; did you mean "limit"?\n' in answer.err
        assert "        lmit: 5 per minute\n" in answer.err
        answer = fresh.ration("rules", verb, "--json", "-", stdin=bad)
        assert answer.status == 2 and answer.json["error"] == "bad_rules"
    assert rules_of(fresh) == ["login", "api", "everything"]
    fresh.file.write_text(bad)
    answer = fresh.ration("rules", "reload")
    assert answer.status == 2 and 'unknown key "lmit"' in answer.err


def test_shadow_mode_is_switched(fresh):
    assert fresh.ration("shadow", "status").out == "shadow mode is off: limits are enforced\n"
    answer = fresh.ration("shadow", "on")
    assert (answer.status, answer.out) == (0, "shadow mode is on: nobody is refused\n")
    answer = fresh.ration("check", "--times", "6", *LOGIN, "ip=192.0.2.9")
    assert answer.status == 0 and "though login would refuse (shadow mode)" in answer.out or \
        "being in shadow mode" in answer.out, answer
    assert fresh.ration("shadow", "status", "--json").json == {"shadow": True}
    assert fresh.ration("shadow", "off").out == "shadow mode is off: limits are enforced\n"
    assert fresh.ration("check", *LOGIN, "ip=192.0.2.9").status == 1


# --- top ------------------------------------------------------------------------------


def refuse(daemon, ip, times):
    connection = daemon.connection()
    for _ in range(times):
        connection.request("POST", "/v1/check", json.dumps(
            {"attributes": {"method": "POST", "path": "/login", "ip": ip}}))
        connection.getresponse().read()
    connection.close()


def test_top_is_one_table_where_there_is_no_terminal(fresh):
    assert "nobody has been refused\n" in fresh.ration("top", "--interval", "100ms").out
    refuse(fresh, "192.0.2.1", 25)
    refuse(fresh, "192.0.2.2", 15)
    answer = fresh.ration("top", "--interval", "100ms", "--count", "1")
    assert answer.status == 0
    assert re.match(r"rationd \S+ at \S+, up .*, rules version 1\n"
                    r"0 decisions/s: 0 allowed/s, 0 refused/s, block rate 0\.0 %\n"
                    r"since the start: 10 allowed, 30 refused\n\n", answer.out), answer
    assert re.search(r"^ +20 +0\.0 +login +192\.0\.2\.1$", answer.out, re.M)
    assert "192.0.2.2" not in answer.out
    answer = fresh.ration("top", "--json", "--interval", "100ms")
    assert [key["refused"] for key in answer.json["keys"]] == [20, 10]


def test_top_tells_what_happens_per_second(fresh):
    stop = threading.Event()

    def load():
        while not stop.is_set():
            refuse(fresh, "192.0.2.1", 50)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        answer = fresh.ration("top", "--json", "--interval", "500ms").json
    finally:
        stop.set()
        thread.join()
    assert answer["refused_per_second"] > 0 and 0 < answer["block_rate"] <= 1
    assert answer["keys"][0]["per_second"] > 0


class Terminal:
    """A program on a terminal of its own. `seen` is all that it has written."""

    def __init__(self, *args, env=None, size=(24, 80)):
        self.seen = ""
        pid, self.fd = pty.fork()
        if pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            os.environ.update(env or {}, TERM="xterm")
            os.execvp(args[0], args)
        self.pid = pid

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, text, since=0, patience=PATIENCE):
        end = time.monotonic() + patience
        while text not in self.seen[since:]:
            assert time.monotonic() < end, f"no {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode()
                except OSError: # the other end is closed
                    assert text in self.seen[since:], f"no {text!r} in {self.seen!r}"
        return self.seen.index(text, since) + len(text)

    def write(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        """Exit status, after the screen was left and the cursor shown."""
        self.read_until("\x1b[?25h\x1b[?1049l")
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status


@pytest.fixture
def terminal(fresh):
    started = []

    def start(*args, **options):
        env = {"RATION_ADMIN": fresh.addresses["admin"]}
        started.append(Terminal(*map(str, args), env=env, **options))
        started[-1].daemon = fresh
        return started[-1]

    yield start
    for t in started:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(t.pid, signal.SIGKILL)
            os.waitpid(t.pid, 0)


@pytest.mark.parametrize("how", ["q", "\x03", signal.SIGTERM, signal.SIGHUP])
def test_top_leaves_the_screen(terminal, how):
    t = terminal(RATION, "top", "--interval", "100ms")
    t.read_until("nobody has been refused", t.read_until("\x1b[?1049h"))
    assert not termios.tcgetattr(t.fd)[3] & termios.ECHO
    if isinstance(how, str):
        t.write(how)
    else:
        os.kill(t.pid, how)
    assert t.end() == 0


def test_top_leaves_the_terminal_as_it_was(terminal):
    t = terminal("sh", "-c", f"{shlex.quote(str(RATION))} top --interval 100ms; stty -a; echo done")
    t.read_until("nobody has been refused")
    t.write("q")
    at = t.read_until("\x1b[?1049l")
    t.read_until("done", at)
    settings = t.seen[at:]
    assert " icanon " in settings and " echo " in settings
    t.end()


def test_top_follows_what_happens_without_clearing_the_screen(terminal):
    t = terminal(RATION, "top", "--interval", "100ms")
    at = t.read_until("nobody has been refused")
    refuse(t.daemon, "192.0.2.1", 8)
    at = t.read_until("192.0.2.1", at)
    at = t.read_until("since the start: 5 allowed, 3 refused", 0)
    assert t.seen.count("\x1b[2J") == 1
    t.write("q")
    assert t.end() == 0


def test_top_fits_the_terminal_also_when_that_changes(terminal):
    t = terminal(RATION, "top", "--interval", "100ms", size=(6, 60))
    for i in range(12):
        refuse(t.daemon, f"192.0.2.{i}", 6)
    at = t.read_until("\x1b[H", t.read_until("192.0.2."))
    at = t.read_until("\x1b[H", at)
    frame = t.seen[:at].split("\x1b[H")[-2]
    assert frame.count("\r\n") == 5
    assert all(len(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line)) <= 60
               for line in frame.split("\r\n"))
    t.resize(40, 100)
    at = t.read_until("192.0.2.11", len(t.seen))
    t.write("q")
    assert t.end() == 0


def test_top_waits_for_a_daemon_that_has_gone(terminal):
    t = terminal(RATION, "top", "--interval", "100ms")
    t.read_until("nobody has been refused")
    t.daemon.stop()
    t.read_until("cannot reach rationd at")
    t.write("q")
    assert t.end() == 0


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_top_can_be_ended_while_the_daemon_hangs(terminal, key):
    t = terminal(RATION, "top", "--interval", "100ms", "--timeout", "10m")
    at = t.read_until("nobody has been refused")
    os.kill(t.daemon.process.pid, signal.SIGSTOP)
    try:
        with contextlib.suppress(AssertionError): # until it shows nothing new: it is asking
            while True:
                at = t.read_until("\x1b[H", at, patience=1)
        t.write(key)
        assert t.end() == 0
    finally:
        os.kill(t.daemon.process.pid, signal.SIGCONT)


def test_top_comes_back_after_being_suspended(terminal):
    t = terminal(RATION, "top", "--interval", "100ms")
    at = t.read_until("nobody has been refused")
    os.kill(t.pid, signal.SIGTSTP)
    at = t.read_until("\x1b[?1049l", at)
    os.waitpid(t.pid, os.WUNTRACED)
    os.kill(t.pid, signal.SIGCONT)
    at = t.read_until("nobody has been refused", t.read_until("\x1b[?1049h", at))
    t.write("q")
    assert t.end() == 0


# --- who answers, and who does not ----------------------------------------------------


@contextlib.contextmanager
def server(reply):
    """Something that listens, and says `reply` to whatever comes; None: nothing, ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    kept.append(connection)
                    if reply is None:
                        continue
                    connection.recv(65536)
                    connection.sendall(reply)
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield "127.0.0.1:%d" % listener.getsockname()[1]
        for connection in kept:
            connection.close()


def test_no_daemon():
    address = f"127.0.0.1:{free_port()}"
    answer = run("shadow", "status", "--admin", address)
    assert (answer.status, answer.out, answer.err) == (
        2, "", f"ration: cannot reach rationd at {address}: connection refused; is it running? "
               "--admin ADDR names another address\n")
    answer = run("check", "--http", address, "ip=192.0.2.7")
    assert answer.err == (
        f"ration: cannot reach rationd at {address}: connection refused; is it running? "
        "--http ADDR names another address, and with a rules file none is asked\n")
    answer = run("explain", f"--server=unix:/nonexistent/{os.getpid()}", "ip=192.0.2.7")
    assert answer.status == 2 and "no such file or directory; is it running?" in answer.err


def test_the_wrong_port_of_the_daemon(daemon):
    answer = run("shadow", "status", "--admin", daemon.addresses["http"])
    assert answer.status == 2 and "is not rationd's admin port" in answer.err
    answer = run("check", "--http", daemon.addresses["admin"], "ip=192.0.2.7")
    assert answer.status == 2 and "is not rationd (HTTP status 404); --http ADDR names" in answer.err
    answer = run("check", "--http", daemon.addresses["resp"], "ip=192.0.2.7")
    assert answer.status == 2 and "does not speak HTTP" in answer.err


@pytest.mark.parametrize("reply,message", [
    (b"220 mail.example.org ESMTP\r\n", 'does not speak HTTP, it said "220 mail.example.org ESMTP'),
    (b"\x1b[2J\x00\xff", 'does not speak HTTP, it said "\\x1b[2J'),
    (b"", "closed the connection without an answer; is it rationd, and is this the right port?"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n<html></html>", "is not rationd's admin port"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "is not rationd's admin port"),
    (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "(HTTP status 502)"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "is not rationd"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}", "ended within the answer"),
    (b"HTTP/1.1 999 What\r\n\r\n", "does not speak HTTP"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n", "is not rationd"),
])
def test_something_else_that_answers(reply, message):
    with server(reply) as address:
        answer = run("shadow", "status", "--admin", address)
    assert (answer.status, answer.out) == (2, "")
    assert message in answer.err and answer.err.count("\n") == 1, answer.err
    assert "\x1b" not in answer.err


def test_a_page_is_not_taken_for_rules():
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
    with server(page) as address:
        answer = run("rules", "get", "--admin", address)
    assert (answer.status, answer.out) == (2, "") and "is not rationd's admin port" in answer.err


def test_addresses_are_taken_as_people_write_them(daemon):
    port = daemon.addresses["admin"].rpartition(":")[2]
    for address in (f":{port}", f"127.0.0.1:{port}", f"localhost:{port}"):
        assert run("shadow", "status", "--admin", address).status == 0, address


def test_an_answer_may_come_in_pieces_and_without_a_length():
    with server(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\n{\"shadow\":true}") as address:
        assert run("shadow", "status", "--admin", address).status == 0


def test_something_that_never_answers():
    with server(None) as address:
        answer = run("shadow", "status", "--admin", address, "--timeout", "50ms")
    assert answer.status == 2
    assert f"rationd at {address} does not answer in time; --timeout waits longer" in answer.err


def test_a_daemon_on_unix_sockets(tmp_path):
    admin, http = f"unix:{tmp_path}/a", f"unix:{tmp_path}/h"
    with Daemon(tmp_path, RULES, ["--admin", admin, "--http", http]):
        assert run("shadow", "status", "--admin", admin).status == 0
        assert run("check", f"--server={http}", "ip=192.0.2.7").status == 0
        assert run("bench", "--http", http, "--requests", "100").status == 0


def test_a_token_that_the_daemon_does_not_want():
    reply = (b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\n{}")
    with server(reply) as address:
        answer = run("shadow", "status", "--admin", address)
        assert (answer.status, answer.err) == (
            2, f"ration: rationd at {address} wants a token; --token-file FILE or RATION_TOKEN "
               "gives one\n")
        answer = run("shadow", "status", "--admin", address, env={"RATION_TOKEN": "wrong"})
        assert "wants a token, and not this one;" in answer.err


def test_the_token_is_read_from_a_file_or_the_environment(tmp_path):
    said = []

    def serve(listener):
        for _ in range(2):
            connection, _ = listener.accept()
            said.append(connection.recv(65536).decode())
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"shadow\":false}")
            connection.close()

    (tmp_path / "token").write_text("from-file\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        env = {"RATION_TOKEN": "from-env"}
        assert run("shadow", "status", "--admin", address, env=env).status == 0
        assert run("shadow", "status", "--admin", address, "--token-file", tmp_path / "token",
                   env=env).status == 0
        thread.join(PATIENCE)
    assert "\r\nAuthorization: Bearer from-env\r\n" in said[0]
    assert "\r\nAuthorization: Bearer from-file\r\n" in said[1]
    answer = run("shadow", "status", env={"RATION_TOKEN": "a\r\nX: b"})
    assert answer.status == 2 and answer.err.startswith("ration: RATION_TOKEN: that is no token; ")


# --- mistakes -------------------------------------------------------------------------


@pytest.mark.parametrize("args,message", [
    (["override", "set", "appi", "user=ada", "--limit", "5 per minute"], "appi"),
    (["state", "--rule", "logn", *LOGIN, "ip=192.0.2.7"], "logn"),
    (["reset", "--rule", "logn", "ip=192.0.2.7"], "logn"),
    (["adjust", "--rule", "logn", "--add", "1", "ip=192.0.2.7"], "logn"),
    (["override", "set", "api", "user=ada", "--limit", "5 per minuet"], "minuet"),
    (["override", "set", "api", "ip=192.0.2.7", "--limit", "5 per minute"], "user"),
    (["ban", "add", "ip=300.1.1.1"], "300.1.1.1"),
])
def test_the_daemon_says_what_is_wrong(ration, args, message):
    answer = ration(*args)
    assert (answer.status, answer.out) == (2, ""), answer
    assert answer.err.startswith("ration: ") and message in answer.err, answer


@pytest.mark.parametrize("args,message", [
    (["override"], "override what? write one of list, set, delete behind it"),
    (["ban", "ad"], 'there is no ban "ad"; write one of list, add, delete'),
    (["overide", "list"], 'there is no command "overide"; did you mean override?'),
    (["override", "set"], "no RULE given; write for example ration override set api user=ada "
                          '--limit "1000 per minute"'),
    (["override", "set", "api", "user=ada"],
     'which limit? write for example ration override set api user=ada --limit "1000 per minute"'),
    (["override", "delete", "a", "b"], 'override delete takes one RULE, found "a" and "b"'),
    (["override", "list", "--limit", "x"],
     'override list takes no --limit; "ration help override list" tells what it does take'),
    (["ban", "add"], "whom? write for example ration ban add ip=192.0.2.7 --for 10m"),
    (["ban", "add", "ip=192.0.2.7", "--for", "soon"],
     '--for: found "soon", expected a length of time such as 10m or 2 hours'),
    (["reset"], "whom? write for example ration reset ip=192.0.2.7, or --rule NAME for a rule that "
                "has one counter for all"),
    (["reset", "192.0.2.7"], 'reset: found "192.0.2.7", expected an attribute such as ip=192.0.2.7'),
    (["top", "fast"], 'top: found "fast", expected options only'),
    (["adjust", "ip=192.0.2.7"],
     "which rule? write for example ration adjust --rule api --add -10 user=ada"),
    (["adjust", "--rule", "a", "ip=192.0.2.7"],
     "give either --add N, which charges N more (or gives back, if N is negative), or "
     "--remaining N, which sets what is left"),
    (["adjust", "--rule", "a", "--add", "1.5", "ip=192.0.2.7"],
     '--add: found "1.5", expected a number such as 5 or -5'),
    (["adjust", "--rule", "a", "--remaining", "-1", "ip=192.0.2.7"],
     '--remaining: found "-1", expected a number from 0 on'),
    (["rules", "push"], "no FILE given; write for example ration rules push rules.yaml"),
    (["rules", "push", "/nonexistent/rules.yaml"],
     '"/nonexistent/rules.yaml" cannot be read: No such file or directory'),
    (["rules", "push", "/dev/null"], '"/dev/null" is empty; expected rules'),
    (["shadow", "on", "--admin", "localhost"],
     '--admin: "localhost" is no address: it has no port; write one such as 127.0.0.1:8080, :8080, '
     "[::1]:8080 or unix:/run/ration.sock"),
    (["shadow", "on", "--admin", "::1:80"],
     '--admin: "::1:80" is no address: an IPv6 address stands in brackets; write one such as '
     "127.0.0.1:8080, :8080, [::1]:8080 or unix:/run/ration.sock"),
    (["check", "--server", "rules.yaml", "ip=192.0.2.7"],
     "give either rules files or the address of a daemon, which has rules of its own"),
    (["check", "--state", "s", "ip=192.0.2.7"],
     "--state is for rules files; the daemon has its own state"),
    (["check", "--at", "+1s", "ip=192.0.2.7"],
     "--at is for rules files; the daemon has its own time"),
    (["check", "ip=\udcff"], '"ip=\\xff" is not UTF-8; the daemon takes no other text'),
    (["shadow", "on", "--token-file", "/nonexistent/token"],
     '--token-file: "/nonexistent/token" cannot be opened: No such file or directory'),
])
def test_mistakes_are_answered_with_what_would_be_right(args, message):
    answer = run(*args)
    assert (answer.status, answer.out, answer.err) == (2, "", f"ration: {message}\n")


# --- bench ----------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["resp", "http"])
@pytest.mark.parametrize("command", ["throttle", "take", "check", "ping"])
def test_bench_counts_every_answer(daemon, port, command):
    before = daemon.admin("GET", "/v1/status").json["decisions"]
    answer = run("bench", f"--{port}", daemon.addresses[port], "--command", command, "--requests",
                 "3000", "--connections", "7", "--pipeline", "5", "--keys", "20", "--threads", "2",
                 "--limit", "100 per hour", "--json")
    assert answer.status == 0, answer
    told = answer.json
    assert (told["requests"], told["errors"], told["unanswered"]) == (3000, 0, 0)
    assert told["allowed"] + told["refused"] == 3000
    latency = [told["latency"][name] for name in ("min", "p50", "p90", "p99", "p99.9", "max")]
    assert 0 < latency[0] and latency == sorted(latency)
    if command == "ping":
        assert told["refused"] == 0
        return
    after = daemon.admin("GET", "/v1/status").json["decisions"]
    assert after["allowed"] - before["allowed"] == told["allowed"]
    assert after["refused"] - before["refused"] == told["refused"]


def test_bench_by_limits_is_refused_what_is_over(fresh):
    for port, command, limit in (("resp", "throttle", "50 per day"), ("http", "take", "60 per week")):
        told = run("bench", f"--{port}", fresh.addresses[port], "--command", command, "--requests",
                   "5000", "--keys", "10", "--limit", limit, "--json").json
        assert told["allowed"] == 10 * int(limit[:2])


def test_bench_fills_keys_into_attributes(fresh):
    told = run("bench", "--resp", fresh.addresses["resp"], "--command", "check", "--requests", "2000",
               "--keys", "10", "--json", "path=/api/x", "user=u-{key}").json
    assert (told["allowed"], told["refused"]) == (100, 1900)
    top = fresh.admin("GET", "/v1/top").json["keys"]
    assert all(re.fullmatch(r".*u-key:000000000\d", key["key"]) for key in top) and len(top) == 10


def test_bench_at_a_rate_sends_what_is_due(daemon):
    answer = run("bench", "--resp", daemon.addresses["resp"], "--rate", "2000/s", "--duration", "500ms",
                 "--json")
    told = answer.json
    assert told["requests"] + told["never_sent"] == 1000 and told["unanswered"] == 0


def test_bench_at_a_rate_measures_from_when_a_request_was_due():
    """A server that sleeps once: all that were due meanwhile have waited."""
    def serve(listener):
        connection, _ = listener.accept()
        slept = False
        while data := connection.recv(65536):
            if not slept:
                slept = True
                time.sleep(0.4)
            connection.sendall(b"+PONG\r\n" * data.count(b"PING"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=[listener], daemon=True).start()
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        told = run("bench", "--resp", address, "--command", "ping", "--rate", "200/s", "--duration",
                   "600ms", "--connections", "1", "--pipeline", "1", "--json").json
    assert told["requests"] == 120
    # 80 of 120 came during those 0.4 s: the median waited at least half of what is left to it.
    assert told["latency"]["p50"] > 0.1 and told["latency"]["max"] >= 0.4


def test_bench_tells_of_errors_and_of_servers_that_are_none():
    with server(b"-ERR no\x1b[2J\r\n") as address:
        answer = run("bench", "--resp", address, "--requests", "1", "--connections", "1",
                     "--pipeline", "1")
        assert answer.status == 2 and 'the first error: "-ERR no\\x1b[2J"' in answer.err
    with server(b"220 mail.example.org ESMTP\r\n") as address:
        answer = run("bench", "--resp", address, "--requests", "10")
        assert (answer.status, answer.err) == (
            2, f"ration: what answers at {address} does not speak RESP\n")
    with server(b"") as address:
        answer = run("bench", "--http", address, "--requests", "100000", "--connections", "2")
        assert answer.status == 2 and "closed a connection before it had answered" in answer.err


@pytest.mark.parametrize("args,message", [
    (["--resp", "192.0.2.1:6380"],
     "192.0.2.1:6380 is not on this machine; --remote allows that, if its owner does"),
    (["--resp", ":1", "--http", ":2"], "give either --resp or --http, not both"),
    (["--duration", "1s", "--requests", "5"], "give either --duration or --requests, not both"),
    (["--duration", "1h"],
     '--duration: found "1h", expected a length of time from 100 ms to 10 minutes'),
    (["--command", "pign"],
     '--command: found "pign", expected throttle, check, take or ping; did you mean ping?'),
    (["--limit", "5 per minuet"], "--limit: "),
    (["--limit", "5 concurrent"], "--limit: CL.THROTTLE takes a rate per whole seconds such as "
                                  '"100 per minute"; --command take takes any limit'),
    (["--rate", "fast"], '--rate: found "fast", expected a rate such as 50000/s'),
])
def test_bench_explains_mistakes(args, message):
    answer = run("bench", *args)
    assert (answer.status, answer.out) == (2, "") and answer.err.startswith(f"ration: {message}")


def test_bench_that_is_interrupted_tells_what_it_has(fresh):
    process = subprocess.Popen([RATION, "bench", "--resp", fresh.addresses["resp"], "--duration", "60s",
                                "--json", "--connections", "1", "--pipeline", "1"],
                               stdout=subprocess.PIPE, text=True)
    while fresh.admin("GET", "/v1/status").json["decisions"]["allowed"] < 2: # it has read the first
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, 2) and json.loads(out)["requests"] > 0


def test_bench_shows_how_it_goes_on_a_terminal(terminal):
    t = terminal(RATION, "bench", "--resp", "127.0.0.1:0")
    t.read_until("a port is a number from 1 to 65535")
    t = terminal(RATION, "bench", "--duration", "60s", "--command", "ping", "--resp",
                 t.daemon.addresses["resp"])
    at = t.read_until(" requests/s  0.0 % refused")
    t.write("\x03")
    t.read_until("per second", t.read_until("\r\x1b[K", at))


# --- what is documented ---------------------------------------------------------------


def documented():
    """Sessions in docs/cli.md that need a daemon: [(command, what is shown)]."""
    text = (ROOT / "docs" / "cli.md").read_text()
    text = text[text.index("## A running daemon"):]
    for block in re.findall(r"^```\n(\$ ration .*?)^```$", text, re.M | re.S):
        session = re.findall(r"^\$ ration (.*)\n((?:(?!\$ ).*\n)*)", block, re.M)
        yield pytest.param(session, id=session[0][0])


def pattern_of(shown):
    """Times and rates differ; columns are as wide as need be; `...` is any lines."""
    text = re.escape(shown.replace("...\n", "\0"))
    text = re.sub(r"(\\ )+", " +", text)
    text = re.sub(r"(now|\d[\d\\.]* \+(ms|us|s|min|h|d)( \+\d+ \+(s|min|h))?)\b", r".*?", text)
    text = re.sub(r"\d+ \+of \+100\b", r"\\d+ +of +100", text) # refilled within milliseconds
    text = re.sub(r"127\\\.0\\\.0\\\.1:\d+", r"\\S+", text)
    return text.replace("\0", "(?:.*\n)*")


@pytest.mark.parametrize("session", list(documented()))
def test_the_documentation_shows_what_a_daemon_answers(tmp_path, session):
    with Daemon(tmp_path, (ROOT / "examples" / "ration.yaml").read_text()) as daemon:
        env = {"RATION_HTTP": daemon.addresses["http"], "RATION_ADMIN": daemon.addresses["admin"]}
        if session[0][0].startswith("state"):
            run("check", "--times", "5", *LOGIN, "ip=192.0.2.7", env=env)
        for command, shown in session:
            words = shlex.split(command)
            if words[0] in ("top", "bench"): # figures of some machine: only the words are true
                words += ["--interval", "100ms"] if words[0] == "top" else \
                    ["--resp", daemon.addresses["resp"], "--requests", "1000"]
                words = [w for w in words if w not in ("--duration", "5s")]
                refuse(daemon, "192.0.2.7", 8)
                refuse(daemon, "192.0.2.80", 7)
                answer = run(*words, env=env)
                assert re.findall(r"[a-z]+", answer.out.splitlines()[1]) == \
                    re.findall(r"[a-z]+", shown.splitlines()[1]), answer
                assert re.findall("[a-z]+", shown)[:1] == re.findall("[a-z]+", answer.out)[:1]
                continue
            answer = run(*words, env=env, cwd=ROOT)
            assert re.fullmatch(pattern_of(shown), answer.out), (command, answer)
