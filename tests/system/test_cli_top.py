# SPDX-License-Identifier: Apache-2.0
"""`ration top`, on a terminal and elsewhere."""

import contextlib
import itertools
import os
import re
import shlex
import signal
import termios
import threading

import pytest

from daemon import Resp
from ration_command import RATION, fresh, refuse, terminal  # noqa: F401 (fixtures)


def test_top_is_one_table_where_there_is_no_terminal(fresh):
    assert "no request has been refused\n" in fresh.ration("top", "--interval", "100ms").out
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


def test_top_shows_rates_per_second(fresh):
    stop = threading.Event()

    def load():
        while not stop.is_set():
            refuse(fresh, "192.0.2.1", 50)

    refuse(fresh, "192.0.2.1", 6)  # a key has a rate if the first sample has it, too
    thread = threading.Thread(target=load)
    thread.start()
    try:
        answer = fresh.ration("top", "--json", "--interval", "500ms").json
    finally:
        stop.set()
        thread.join()
    assert answer["refused_per_second"] > 0 and 0 < answer["block_rate"] <= 1
    assert answer["keys"][0]["per_second"] > 0


def refuse_many(daemon, ip, times):
    """As refuse(), in one pipeline."""
    words = ["RATION.CHECK", "method", "POST", "path", "/login", "ip", ip]
    check = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)
    with Resp(daemon.addresses["resp"]) as resp:
        resp.socket.sendall(check * times)
        for _ in range(times):
            resp.read()


def test_the_rate_of_a_key_that_has_just_entered_is_unknown(fresh):
    """The daemon's list has 128 keys. One that enters inherits the count of the one that leaves,
    so the difference to nothing is not its own."""
    for i in range(128):
        refuse_many(fresh, f"198.51.100.{i}", 205)
    stop, newcomers = threading.Event(), itertools.count()

    def load():
        while not stop.is_set():
            n = next(newcomers) # never the same again: one that comes back inherits, too
            refuse_many(fresh, f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", 6)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        keys = fresh.ration("top", "--json", "--interval", "300ms", "--count", "200").json["keys"]
    finally:
        stop.set()
        thread.join()
    rates = [key["per_second"] for key in keys if key["key"].startswith("10.")]
    assert None in rates
    # One refusal each, ever: none can have had a hundred.
    assert all(rate is None or rate < 100 for rate in rates), rates


@pytest.mark.parametrize("how", ["q", "\x03", signal.SIGTERM, signal.SIGHUP])
def test_top_leaves_the_screen(terminal, how):
    t = terminal(RATION, "top", "--interval", "100ms")
    t.read_until("no request has been refused", t.read_until("\x1b[?1049h"))
    assert not termios.tcgetattr(t.fd)[3] & termios.ECHO
    if isinstance(how, str):
        t.write(how)
    else:
        os.kill(t.pid, how)
    assert t.end() == 0


def test_top_leaves_the_terminal_as_it_was(terminal):
    t = terminal("sh", "-c", f"{shlex.quote(str(RATION))} top --interval 100ms; stty -a; echo done")
    t.read_until("no request has been refused")
    t.write("q")
    at = t.read_until("\x1b[?1049l")
    t.read_until("done", at)
    settings = t.seen[at:]
    assert " icanon " in settings and " echo " in settings
    t.end()


def test_top_follows_what_happens_without_clearing_the_screen(terminal):
    t = terminal(RATION, "top", "--interval", "100ms")
    at = t.read_until("no request has been refused")
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
    t.read_until("no request has been refused")
    t.daemon.stop()
    t.read_until("cannot reach rationd at")
    t.write("q")
    assert t.end() == 0


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_top_can_be_ended_while_the_daemon_hangs(terminal, key):
    t = terminal(RATION, "top", "--interval", "100ms", "--timeout", "10m")
    at = t.read_until("no request has been refused")
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
    at = t.read_until("no request has been refused")
    os.kill(t.pid, signal.SIGTSTP)
    at = t.read_until("\x1b[?1049l", at)
    os.waitpid(t.pid, os.WUNTRACED)
    os.kill(t.pid, signal.SIGCONT)
    at = t.read_until("no request has been refused", t.read_until("\x1b[?1049h", at))
    t.write("q")
    assert t.end() == 0
