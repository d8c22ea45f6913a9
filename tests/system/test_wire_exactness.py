# SPDX-License-Identifier: Apache-2.0
"""What operators count on: exact counts whatever the protocol, across kills, reloads and
stops, and no request that gets no answer or two."""

import contextlib
import fcntl
import itertools
import os
import random
import re
import signal
import socket
import subprocess
import threading

import pytest

from concurrent_clients import (check, command, http_allowed, in_threads, pair, post, read_http, resp_allowed,
                                storm)
from daemon import PATIENCE, RATIOND, Daemon, Resp, wait_for
from test_contract import START, StillClock

FIXED = ("ALGORITHM", "fixed-window")


def take(key, limit, times):
    return command("RATION.TAKE", key, limit, 1, *FIXED) * times, times


def throttle(key, limit, times):
    return post("/v1/throttle", {"key": key, "limit": limit, "algorithm": "fixed-window"}) * times, times


def remaining(daemon, key, limit):
    with daemon.resp() as redis:
        return pair(redis("RATION.PEEK", key, limit, 1, *FIXED), "remaining")


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path) as daemon:
        yield daemon


# --- counts -----------------------------------------------------------------------------

@pytest.mark.parametrize("over", ["resp", "http", "both"])
def test_one_key_from_200_connections_is_admitted_exactly_as_often_as_its_limit_says(daemon, over):
    limit = "1000 per day"
    resp = take("alice", limit, 20) if over != "http" else None
    http = throttle("alice", limit, 20) if over != "resp" else None
    assert storm(daemon, 200, resp, http) == 1000
    assert remaining(daemon, "alice", limit) == 0


@pytest.mark.parametrize("algorithm", ["token-bucket", "fixed-window", "sliding-log", "sliding-window"])
def test_rules_are_exact_over_both_protocols_at_once(tmp_path, algorithm):
    rules = f"limits: [{{name: all, key: ip, limit: 300 per day, algorithm: {algorithm}}}]"
    with Daemon(tmp_path, rules) as daemon:
        resp = command("RATION.CHECK", "ip", "192.0.2.7") * 10, 10
        assert storm(daemon, 100, resp, (check(ip="192.0.2.7") * 10, 10)) == 300


def test_a_burst_after_an_idle_time_is_the_whole_burst_and_no_more(tmp_path):
    clock = StillClock(tmp_path / "clock", START)
    with Daemon(tmp_path, "limits: [{name: all, key: ip, limit: 10 per second burst 50}]",
                env=clock.env()) as daemon:
        resp = command("RATION.CHECK", "ip", "192.0.2.7") * 5, 5
        http = check(ip="192.0.2.7") * 5, 5
        assert storm(daemon, 40, resp, http) == 50
        clock.advance(0.1)
        assert storm(daemon, 40, resp, http) == 1
        clock.advance(86400)
        assert storm(daemon, 40, resp, http) == 50


def test_several_limits_under_concurrency_leave_no_stray_charge(tmp_path):
    """Each address has 10, all of them together 1000; refusals by either charge neither."""
    rules = """
limits:
  - { name: each, key: ip, limit: 10 per day, algorithm: fixed-window }
  - { name: all, limit: 1000 per day, algorithm: fixed-window }
  - { name: path, when: { path: /narrow }, key: path, limit: 7 per day, algorithm: sliding-log }
"""
    with Daemon(tmp_path, rules) as daemon:
        def of_thread(thread):
            admitted = 0
            with daemon.resp() as redis:
                pipeline = b"".join(command("RATION.CHECK", "ip", f"192.0.2.{n % 50}",
                                            "path", "/narrow" if n % 3 == 0 else "/wide")
                                    for n in range(500))
                redis.socket.sendall(pipeline)
                for _ in range(500):
                    admitted += resp_allowed(redis.read())
            return admitted
        admitted = sum(in_threads(16, of_thread))
        assert 0 < admitted <= 500 # 50 addresses, 10 each
        with daemon.resp() as redis:
            def left(rule, *words):
                limits = pair(redis("RATION.CHECK", *words, "PEEK"), "limits")
                return next(pair(l, "remaining") for l in limits if pair(l, "rule") == rule)
            assert left(b"all", "ip", "192.0.2.200") == 1000 - admitted
            assert sum(10 - left(b"each", "ip", f"192.0.2.{n}") for n in range(50)) == admitted
            assert left(b"path", "ip", "192.0.2.200", "path", "/narrow") == 0


# --- pipelines ---------------------------------------------------------------------------

def random_run(dice):
    """One command said several times with other keys; rarely one that is wrong."""
    numbers = dice.choice([("4", "5", "60"), ("9", "5", "60"), ("4", "5", "3600"), ("4", "x", "60")])
    form = dice.choice([("CL.THROTTLE", *numbers), ("cl.throttle", *numbers, dice.choice("123")),
                        ("THROTTLE", *numbers), ("GCRA", *numbers, "TOKENS", "2"),
                        ("RATION.TAKE", "5 per minute"), ("RATION.TAKE", "5 per minute", "2"),
                        ("RATION.TAKE", "5 per minute", "1", "ALGORITHM", "fixed-window"),
                        ("PING",), ("CL.THROTTLE", "4")])
    keys = ["a", "b", "key:000000000001", "k" * 98, "k" * 99, "k" * 100, "x\r\n$1\r\n", ""]
    for _ in range(dice.randint(1, 9)):
        yield command(form[0], dice.choice(keys), *form[1:])


THE_END = b"$7\r\nthe end\r\n"


def answers_of(daemon, pieces):
    """The bytes that come back."""
    with daemon.resp() as redis:
        for piece in pieces:
            redis.socket.sendall(piece)
        redis.socket.sendall(command("ECHO", "the end"))
        found = b""
        while not found.endswith(THE_END):
            found += redis.socket.recv(1 << 20) or pytest.fail(f"it ended: {found[-200:]}")
        return found[:-len(THE_END)]


def answer_alone(daemon, command_bytes):
    """Said after something else, so that it repeats nothing; that has six lines of answer."""
    other = command("THROTTLE", "somebody else", "1", "1", "1")
    return answers_of(daemon, [other, command_bytes]).split(b"\r\n", 6)[6]


@pytest.mark.parametrize("seed", range(5))
def test_a_pipeline_is_answered_as_its_commands_are_one_by_one(tmp_path, seed):
    dice = random.Random(seed)
    clock = StillClock(tmp_path / "clock", START)
    commands = [c for _ in range(150) for c in random_run(dice)]
    whole, found = b"".join(commands), {}
    cuts = sorted(dice.sample(range(len(whole)), 200))
    ways = {"alone": lambda daemon: b"".join(answer_alone(daemon, c) for c in commands),
            "at once": lambda daemon: answers_of(daemon, [whole]),
            "in pieces": lambda daemon: answers_of(
                daemon, [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)])])}
    for name, ask in ways.items():
        folder = tmp_path / name
        folder.mkdir()
        with Daemon(folder, options=["--workers", "1", "--memory", "2M"], env=clock.env()) as daemon:
            found[name] = ask(daemon)
    assert found["at once"] == found["alone"]
    assert found["in pieces"] == found["alone"]


def test_limits_that_are_refused_leave_no_trace_in_a_pipeline(daemon):
    """Sixteen of them are more than are remembered of those that came before."""
    def charge(key):
        return command("CL.THROTTLE", key, "99", "100", "86400")
    refused = command("RATION.TAKE", "x", "20 concurrent")
    answer = answers_of(daemon, [charge("a") * 3 + refused * 16 + charge("b") + charge("a")])
    left = re.findall(rb":0\r\n:100\r\n:(\d+)\r\n", answer)
    assert left == [b"99", b"98", b"97", b"99", b"96"]


# --- kills --------------------------------------------------------------------------------

def test_ten_kills_under_load_neither_mint_budget_nor_lock_clients_out(tmp_path):
    """Every admitted request has been charged, and no request that was not sent."""
    limit = "1000000 per day"
    daemon = Daemon(tmp_path, options=["--state", tmp_path / "state", "--memory", "4M"])
    sent, told_yes, used_before = 0, 0, 0
    try:
        for _ in range(10):
            began, stop = threading.Event(), threading.Event()

            def load(_):
                yes = of_mine = 0
                with contextlib.suppress(OSError, EOFError, ValueError), daemon.resp() as redis:
                    while not stop.is_set():
                        of_mine += 50
                        redis.socket.sendall(take("alice", limit, 50)[0])
                        for _ in range(50):
                            yes += resp_allowed(redis.read())
                        began.set()
                return of_mine, yes

            killer = threading.Thread(target=lambda: (began.wait(PATIENCE), daemon.process.kill()))
            killer.start()
            for of_mine, yes in in_threads(8, load):
                sent, told_yes = sent + of_mine, told_yes + yes
            killer.join()
            stop.set()
            daemon.kill()
            daemon.start()
            used = 1000000 - remaining(daemon, "alice", limit)
            assert told_yes <= used <= sent and used >= used_before
            used_before = used
            assert storm(daemon, 1, take("bob", "100 per day", 1)) == 1
        assert told_yes > 500
        assert 1000000 - remaining(daemon, "bob", "1000000 per day") in (0, 10)
        daemon.stop()
    finally:
        if daemon.process:
            daemon.kill()


def test_two_daemons_on_one_state_file_share_counters_exactly(tmp_path):
    options = ["--state", tmp_path / "state", "--memory", "4M"]
    with Daemon(tmp_path, options=options) as one, Daemon(tmp_path, options=options) as two:
        def of_thread(n):
            daemon = (one, two)[n % 2]
            return storm(daemon, 20, take("alice", "500 per day", 10),
                         throttle("alice", "500 per day", 10), threads=4)
        assert sum(in_threads(4, of_thread)) == 500
        assert remaining(one, "alice", "500 per day") == remaining(two, "alice", "500 per day") == 0


# --- reload ---------------------------------------------------------------------------------

RULES = """
limits:
  - {{ name: all, limit: 2000 per day, algorithm: fixed-window }}
  - {{ name: other-{n}, when: {{ path: /other }}, limit: 5 per day }}
"""


def reload_by_signal(daemon, n):
    daemon.file.write_text(RULES.format(n=n))
    daemon.reload()


def reload_by_rename(daemon, n):
    new = daemon.folder / "new.yaml"
    new.write_text(RULES.format(n=n))
    new.rename(daemon.file)


def reload_by_symlink(daemon, n):
    """As a mounted ConfigMap changes: a link to a folder is replaced."""
    (daemon.folder / f"data-{n}").mkdir()
    (daemon.folder / f"data-{n}" / "rules.yaml").write_text(RULES.format(n=n))
    if not (daemon.folder / "data").is_symlink():
        (daemon.folder / "data").symlink_to(f"data-{n}")
        daemon.file.unlink(missing_ok=True)
        daemon.file.symlink_to("data/rules.yaml")
        return
    (daemon.folder / "data.new").symlink_to(f"data-{n}")
    (daemon.folder / "data.new").rename(daemon.folder / "data")


@pytest.mark.parametrize("change", [reload_by_signal, reload_by_rename, reload_by_symlink])
def test_reloading_under_load_answers_every_request_once_and_keeps_counters(tmp_path, change):
    if change is reload_by_symlink:
        start = Daemon(tmp_path, start=False, options=["--config", tmp_path / "rules.yaml"])
        change(start, 0)
    else:
        start = Daemon(tmp_path, RULES.format(n=0), start=False)
    start.start()
    with start as daemon:
        stop = threading.Event()

        def load(n):
            sent = admitted = 0
            if n % 2:
                with daemon.resp() as redis:
                    while not stop.is_set():
                        redis.socket.sendall(command("RATION.CHECK", "ip", "192.0.2.7") * 20)
                        admitted += sum(resp_allowed(redis.read()) for _ in range(20))
                        sent += 20
                    assert redis("PING") == b"PONG" # and nothing besides
            else:
                with daemon.socket() as s, s.makefile("rb") as file:
                    while not stop.is_set():
                        s.sendall(check(ip="192.0.2.7") * 20)
                        admitted += sum(http_allowed(file) for _ in range(20))
                        sent += 20
                    s.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                    assert read_http(file)[2] == b"ok\n"
            return sent, admitted

        def reload(_):
            try:
                for n in range(1, 6):
                    before = sum("rules.reload" in line for line in daemon.log)
                    change(daemon, n)
                    wait_for(lambda: sum("rules.reload" in line for line in daemon.log) > before, "a reload")
                    with daemon.resp() as redis:
                        reply = redis("RATION.CHECK", "ip", "192.0.2.9", "path", "/other", "PEEK")
                        names = [pair(l, "rule") for l in pair(reply, "limits")]
                        assert f"other-{n}".encode() in names, names
            finally:
                stop.set()

        results = in_threads(7, lambda n: reload(n) if n == 6 else load(n))[:6]
        sent = sum(s for s, _ in results)
        admitted = sum(a for _, a in results)
        assert admitted == min(sent, 2000)
        with daemon.resp() as redis:
            reply = redis("RATION.CHECK", "ip", "192.0.2.7", "PEEK")
            assert pair(reply, "remaining") == 2000 - admitted


def test_a_bad_file_keeps_the_rules_and_the_log_says_where_it_is_bad(tmp_path):
    rules = "limits:\n  - { name: all, key: ip, limit: 3 per day, algorithm: fixed-window }\n"
    with Daemon(tmp_path, rules) as daemon:
        assert storm(daemon, 1, http=(check(ip="192.0.2.7"), 1)) == 1
        daemon.file.write_text("limits:\n  - { name: all, key: ip, limit: 3 per dya, algorithm: fixed-window }\n")
        daemon.reload()
        daemon.logged("rules.refused")
        daemon.logged(f"file={daemon.file} line=2 ")
        place = daemon.logged("event=rules.error")
        assert int(re.search(r" column=(\d+) ", place)[1]) > 30 and "dya" in place
        assert daemon.process.poll() is None
        assert storm(daemon, 1, http=(check(ip="192.0.2.7") * 5, 5)) == 2 # of the 3, one is gone
        daemon.file.write_text(rules.replace("3 per", "4 per"))
        daemon.logged("rules.reload")
        assert storm(daemon, 1, http=(check(ip="192.0.2.7") * 5, 5)) == 1


# --- ends -----------------------------------------------------------------------------------

def test_requests_sent_before_a_stop_are_all_answered(tmp_path):
    """100 connections, pipelines sent whole, then SIGTERM while they are being answered. Some
    pipelines are longer than what a daemon reads at once."""
    daemon = Daemon(tmp_path)
    with contextlib.ExitStack() as stack:
        resp = [stack.enter_context(daemon.resp()) for _ in range(50)]
        http = [stack.enter_context(daemon.socket()) for _ in range(50)]
        files = [stack.enter_context(s.makefile("rb")) for s in http]
        for redis in resp: # all are accepted
            assert redis("PING") == b"PONG"
        for s, file in zip(http, files):
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_http(file)[0] == 200
        counts = [3000 if n % 10 == 0 else 50 for n in range(50)]
        for redis, s, count in zip(resp, http, counts):
            redis.socket.sendall(take("alice", "1000 per day", count)[0])
            s.sendall(throttle("alice", "1000 per day", count)[0])
        daemon.process.send_signal(signal.SIGTERM)
        admitted = 0
        for redis, file, count in zip(resp, files, counts):
            admitted += sum(resp_allowed(redis.read()) for _ in range(count))
            answers = [read_http(file) for _ in range(count)]
            admitted += sum(status == 200 for status, _, _ in answers)
            assert all(h.get("connection") != "close" for _, h, _ in answers[:-1])
            assert redis.file.read() == b"" and file.read() == b"" # and then the end
        assert admitted == 1000
    assert daemon._end() == 0


def test_under_a_steady_load_a_stop_breaks_off_no_pipeline_that_it_has_begun_to_answer(tmp_path):
    daemon = Daemon(tmp_path)
    served = itertools.count(1)

    def load(_):
        answered = 0
        with daemon.socket() as s, s.makefile("rb") as file:
            while True:
                try:
                    s.sendall(throttle("alice", "1000 per day", 10)[0])
                    answers = [read_http(file)]
                except ConnectionError:
                    return answered # ended between two pipelines
                if answers[0] is None:
                    return answered
                answers += [read_http(file) for _ in range(9)]
                assert None not in answers
                answered += 10
                if answered == 100 and next(served) == 8: # the last of them
                    daemon.process.send_signal(signal.SIGTERM)
                if answers[-1][1].get("connection") == "close":
                    assert file.read() == b""
                    return answered

    assert min(in_threads(8, load)) >= 100
    assert daemon._end() == 0


def test_a_second_stop_signal_ends_a_drain_that_waits(tmp_path):
    daemon = Daemon(tmp_path)
    with daemon.socket() as s:
        s.sendall(b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
        s.sendall(b" ") # begun, never finished
        wait_for(lambda: 'received_bytes_total{listener="http"} 0' not in daemon.admin("GET", "/metrics").text,
                 "it is being read")
        daemon.process.send_signal(signal.SIGTERM)
        daemon.logged("daemon.stopping")
        assert daemon.process.poll() is None
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon._end() == 0


# --- addresses --------------------------------------------------------------------------------

def run(*options, **more):
    return subprocess.run([RATIOND, "--grpc", "none", "--state", "none", *options], text=True,
                          capture_output=True, timeout=PATIENCE, **more)


def test_a_second_daemon_on_the_same_port_is_refused_with_a_clear_message(daemon):
    address = daemon.addresses["http"]
    second = run("--http", address, "--resp", "none", "--admin", "none")
    assert second.returncode == 2
    assert address in second.stderr and "another process is listening there" in second.stderr
    assert daemon.http("GET", "/healthz").status == 200


def test_unix_sockets_serve_and_are_removed_and_a_second_daemon_is_refused(tmp_path):
    http, resp = f"unix:{tmp_path}/http", f"unix:{tmp_path}/resp"
    with Daemon(tmp_path, options=["--http", http, "--resp", resp]) as daemon:
        assert daemon.addresses["http"] == http and daemon.addresses["resp"] == resp
        assert storm(daemon, 20, take("alice", "70 per day", 10), throttle("alice", "70 per day", 10)) == 70
        second = run("--http", http, "--resp", "none", "--admin", "none")
        assert second.returncode == 2 and "another process is listening there" in second.stderr
        assert daemon.http("GET", "/healthz").status == 200
    assert not (tmp_path / "http").exists() and not (tmp_path / "resp").exists()


def test_the_socket_of_a_killed_daemon_is_taken_over(tmp_path):
    options = ["--http", f"unix:{tmp_path}/http"]
    first = Daemon(tmp_path, options=options)
    first.kill()
    assert (tmp_path / "http").is_socket()
    with Daemon(tmp_path, options=options) as second:
        assert second.http("GET", "/healthz").status == 200


def test_a_file_that_is_no_socket_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("data")
    refused = run("--http", f"unix:{tmp_path}/precious", "--resp", "none", "--admin", "none")
    assert refused.returncode == 2 and "not a socket" in refused.stderr
    assert (tmp_path / "precious").read_text() == "data"


def test_port_0_picks_ports_and_the_ready_line_names_them(tmp_path):
    with Daemon(tmp_path, options=["--http", "127.0.0.1:0", "--resp", "[::1]:0"]) as daemon:
        assert not daemon.addresses["http"].endswith(":0")
        assert daemon.addresses["resp"].startswith("[::1]:")
        assert storm(daemon, 4, take("a", "5 per day", 3), throttle("a", "5 per day", 3)) == 5


PASS_ON = """
import os, sys
names, fds, command = sys.argv[1], [int(fd) for fd in sys.argv[2].split(":")], sys.argv[3:]
for place, fd in enumerate(fds, 3):
    os.dup2(fd, place)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=names)
os.execv(command[0], command)
"""


def test_sockets_of_a_service_manager_are_used_in_place_of_addresses(tmp_path):
    """As systemd passes them; a connection made before the daemon runs is served."""
    with contextlib.ExitStack() as stack:
        sockets = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
                   for name in ("http", "resp")}
        early = stack.enter_context(socket.create_connection(sockets["resp"].getsockname()))
        early.sendall(command("PING"))

        fds = [fcntl.fcntl(s, fcntl.F_DUPFD, 20) for s in sockets.values()]
        process = subprocess.Popen(
            ["/usr/bin/python3", "-c", PASS_ON, ":".join(sockets), ":".join(map(str, fds)), RATIOND,
             "--grpc", "none", "--admin", "none", "--state", "none", "--http", "127.0.0.1:1",
             "--resp", "127.0.0.1:1"], pass_fds=fds, stderr=subprocess.PIPE, text=True)
        stack.callback(process.wait, PATIENCE)
        stack.callback(process.terminate)
        for fd in fds:
            os.close(fd)
        line = process.stderr.readline()
        for name, s in sockets.items():
            assert f"{name}=127.0.0.1:{s.getsockname()[1]}" in line
        early.settimeout(PATIENCE)
        assert early.recv(100) == b"+PONG\r\n"
        redis = stack.enter_context(Resp("127.0.0.1:%d" % sockets["resp"].getsockname()[1]))
        assert resp_allowed(redis("RATION.TAKE", "alice", "1 per day"))
        assert not resp_allowed(redis("RATION.TAKE", "alice", "1 per day"))
        process.terminate()
        assert process.wait(PATIENCE) == 0
        process.stderr.close()
