# SPDX-License-Identifier: Apache-2.0
"""More connections than descriptors, and more unfinished input than memory: operators and honest
clients do not notice.

Called as a program, this file connects and then stops, as a client that is frozen does.
"""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from concurrent_clients import check, command, rss
from daemon import PATIENCE, Daemon, wait_for
from http2 import CALL, DATA, END_HEADERS, HEADERS, PREFACE, SETTINGS, block, frame
from test_hostile import HEALTH, MIB, ROOM, metric
from test_tls import authority, options, pair, trusting  # noqa: F401 (fixtures)

RULES = "limits: [{name: all, key: ip, limit: 1000000 per day}]"
FILES = 200  # less about 90 that are reserved
GREETING = PREFACE + frame(SETTINGS)


def freeze(address, count, tls):
    """Opens connections that ask and do not read, and stops."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    kept = []
    for _ in range(int(count)):
        s = socket.create_connection((host, int(port)), PATIENCE)
        with contextlib.suppress(OSError):
            if tls == "tls":
                s = context.wrap_socket(s)
            s.sendall(HEALTH * 50)
        kept.append(s)
    print("frozen", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)


@contextlib.contextmanager
def frozen_client(address, count, tls="plain"):
    with subprocess.Popen([sys.executable, __file__, address, str(count), tls],
                          stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"frozen\n"
            yield
        finally:
            process.kill()


def serve_all(daemon, context=None):
    """Operators, and clients that come now, over HTTP and RESP. One that is silent for a hundredth of a second counts as
    idle; the machine may have kept this process waiting for so long, so it tries again."""
    def ask(port, data):
        for _ in range(5):
            with contextlib.suppress(ConnectionError, ssl.SSLEOFError), daemon.socket(port) as s:
                if context:
                    s = context.wrap_socket(s, server_hostname="localhost")
                with s:
                    s.sendall(data)
                    if said := s.recv(4000):
                        return said
        return b""

    assert ask("admin", HEALTH).startswith(b"HTTP/1.1 200")
    ban = b'{"attributes": {"ip": "192.0.2.66"}}'
    assert ask("admin", b"PUT /v1/bans HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" %
               (len(ban), ban)).startswith(b"HTTP/1.1 20")
    for _ in range(5):
        assert ask("http", check(ip="192.0.2.7")).startswith(b"HTTP/1.1 200")
        assert b"allowed" in ask("resp", command("RATION.CHECK", "ip", "192.0.2.7"))


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_idle_connections_do_not_block_others(tmp_path, authority, pair, tls):  # noqa: F811
    more = ["--grpc", "127.0.0.1:0", "--workers", "2"]
    context = trusting(authority) if tls else None
    with Daemon(tmp_path, RULES, options=options(pair, *more) if tls else more, files=FILES) as daemon, \
            contextlib.ExitStack() as stack:
        busy = stack.enter_context(daemon.socket("resp"))
        if tls:
            busy = stack.enter_context(context.wrap_socket(busy, server_hostname="localhost"))
        for round in range(8):
            for port, first in (("http", HEALTH), ("resp", b"PING\r\n"), ("grpc", b""), ("admin", b"")):
                for n in range(15):
                    s = stack.enter_context(daemon.socket(port))
                    if first and not tls and n % 2:
                        s.sendall(first)
            busy.sendall(b"PING\r\n")
            assert busy.recv(100) == b"+PONG\r\n"  # busy connections stay
            serve_all(daemon, context)
        if not tls:
            assert metric(daemon, "ration_connections_crowded_total") > 100
            assert metric(daemon, "process_open_fds") < FILES


@pytest.mark.parametrize("tls", ["plain", "tls"])
def test_a_frozen_client_does_not_block_other_clients(tmp_path, authority, pair, tls):  # noqa: F811
    context = trusting(authority) if tls == "tls" else None
    more = options(pair) if context else []
    with Daemon(tmp_path, RULES, options=more, files=FILES) as daemon:
        with frozen_client(daemon.addresses["http"], 180, tls), \
                frozen_client(daemon.addresses["admin"], 60, tls):
            serve_all(daemon, context)


def drip(connections, done):
    """Goes on byte by byte, so that none of them is ever quiet."""
    while not done.wait(0.02):
        for s in connections:
            with contextlib.suppress(OSError):
                s.send(b"x")


@pytest.mark.parametrize("port, count, first", [
    ("admin", 32, b"GET /"),
    ("admin", 32, b"PUT /v1/rules HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n"),
    ("resp", 120, b"*2\r\n$60000\r\n"),
], ids=["head", "body", "resp"])
def test_requests_that_arrive_byte_by_byte_do_not_block_others(tmp_path, port, count, first):
    done = threading.Event()
    with Daemon(tmp_path, RULES, files=FILES) as daemon, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(daemon.socket(port)) for _ in range(count)]
        for s in slow:
            s.sendall(first)
        dripping = threading.Thread(target=drip, args=(slow, done))
        dripping.start()
        try:
            time.sleep(0.2)  # the tenth of a second that anybody may take
            serve_all(daemon)
        finally:
            done.set()
            dripping.join()
        assert metric(daemon, "ration_connections_crowded_total") > 0


def test_a_grpc_client_receives_goaway(tmp_path):
    with Daemon(tmp_path, RULES, options=["--grpc", "127.0.0.1:0", "--connections", "20",
                                          "--workers", "1"]) as daemon, contextlib.ExitStack() as stack:
        first = stack.enter_context(daemon.socket("grpc"))
        first.sendall(GREETING)
        assert first.recv(1000)
        for _ in range(25):
            s = stack.enter_context(daemon.socket("http"))
            s.sendall(HEALTH)
            assert s.recv(1000).startswith(b"HTTP/1.1 200")
        with first.makefile("rb") as file:
            said = file.read()
        assert b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" in said  # GOAWAY


# --- unfinished input -------------------------------------------------------------------------------

def half(size, path="/v1/check", method="POST"):
    return (f"{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n".encode() +
            b" " * (size * 9 // 10))


def half_call(stream):
    """A call whose message does not end. A peer may send 64 KiB before it hears more."""
    return (frame(HEADERS, END_HEADERS, stream, block(CALL)) +
            frame(DATA, 0, stream, b"\0\0\0\xfa\0" + b"x" * 15000))


FLOODS = {
    "bodies": ("http", 60, half(MIB)),
    "uploads": ("admin", 20, half(7 * MIB, "/v1/rules", "PUT")),
    "commands": ("resp", 200, b"*9\r\n$4\r\nECHO\r\n" + b"$60000\r\n%s\r\n" % (b"x" * 60000) * 3),
    "messages": ("grpc", 350, GREETING + b"".join(map(half_call, (1, 3, 5, 7)))),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_unfinished_input_has_one_budget(tmp_path, flood):
    port, count, data = FLOODS[flood]
    with Daemon(tmp_path, RULES, options=["--input-memory", "16M", "--grpc", "127.0.0.1:0"]) as daemon, \
            contextlib.ExitStack() as stack:
        before, most = rss(daemon.process.pid), 0
        for n in range(count):
            s = stack.enter_context(daemon.socket(port))
            s.settimeout(PATIENCE)
            with contextlib.suppress(OSError):
                s.sendall(data)
            if n % (count // 5) == 0:
                most = max(most, rss(daemon.process.pid))
                patient = stack.enter_context(daemon.socket("http"))
                body = check(ip="192.0.2.7")
                patient.sendall(body[:-3])  # honest, and slow
                assert metric(daemon, "ration_unfinished_input_bytes") <= 16 * MIB + MIB
                patient.sendall(body[-3:])
                assert patient.recv(1000).startswith(b"HTTP/1.1 200")
        assert most - before < 40 * MIB * ROOM
        wait_for(lambda: metric(daemon, "ration_connections_swamped_total", f'listener="{port}"') > 0,
                 "messages that are cut")
        daemon.logged("conn.swamped", "input_memory")


if __name__ == "__main__":
    freeze(*sys.argv[1:])
