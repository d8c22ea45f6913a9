# SPDX-License-Identifier: Apache-2.0
"""Where `ration` finds a daemon, with which token, and what it says if another program answers."""

import os
import socket
import threading

import pytest

from daemon import PATIENCE, Daemon, free_port
from ration_command import RULES, daemon, run, server  # noqa: F401 (fixtures)
from test_tls import has_tls


def test_no_daemon():
    address = f"127.0.0.1:{free_port()}"
    answer = run("shadow", "status", "--admin", address)
    assert (answer.status, answer.out, answer.err) == (
        2, "", f"ration: cannot reach rationd at {address}: connection refused; is it running? "
               "--admin ADDR names another address\n")
    answer = run("ban", "list", "--json", "--admin", address)
    assert (answer.status, answer.out) == (2, "")
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


if not has_tls():
    def test_a_build_without_tls_says_so():
        for args in (["shadow", "status", "--admin", "https://127.0.0.1:9"],
                     ["bench", "--resp", "rediss://127.0.0.1:9"]):
            answer = run(*args)
            assert answer.status == 2 and answer.err.startswith("ration: this build has no TLS: "), answer


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
        for _ in range(4):
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
        env = {"RATION_TOKEN_FILE": tmp_path / "token"}
        assert run("shadow", "status", "--admin", address, env=env).status == 0
        assert run("shadow", "status", "--admin", address, env={**env, "RATION_TOKEN": "from-env"}).status == 0
        thread.join(PATIENCE)
    assert "\r\nAuthorization: Bearer from-env\r\n" in said[0]
    assert "\r\nAuthorization: Bearer from-file\r\n" in said[1]
    assert "\r\nAuthorization: Bearer from-file\r\n" in said[2]
    assert "\r\nAuthorization: Bearer from-env\r\n" in said[3]
    answer = run("shadow", "status", env={"RATION_TOKEN_FILE": tmp_path / "absent"})
    assert answer.status == 2 and answer.err.startswith("ration: RATION_TOKEN_FILE: ")
    answer = run("shadow", "status", env={"RATION_TOKEN": "a\r\nX: b"})
    assert answer.status == 2 and answer.err.startswith("ration: RATION_TOKEN: not a token; ")


def test_the_patience_comes_from_the_environment():
    """A server that never answers; --timeout comes before RATION_TIMEOUT."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        answer = run("shadow", "status", "--admin", address, env={"RATION_TIMEOUT": "20ms"})
        assert answer.status == 2 and "does not answer in time" in answer.err
        answer = run("shadow", "status", "--admin", address, "--timeout", "20ms", env={"RATION_TIMEOUT": "10 minutes"})
        assert answer.status == 2 and "does not answer in time" in answer.err
    answer = run("shadow", "status", env={"RATION_TIMEOUT": "soon"})
    assert answer.err == ('ration: RATION_TIMEOUT: found "soon", expected a length of time such as 5s, from 1 ms to 10 minutes\n')
    assert run("lint", "-", stdin="limits: []", env={"RATION_TIMEOUT": "soon"}).status == 0


def test_bench_finds_the_resp_port_in_the_environment(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        assert run("bench", "--requests", "100", env={"RATION_RESP": d.addresses["resp"]}).status == 0
    answer = run("bench", "--requests", "100", env={"RATION_RESP": "nonsense"})
    assert answer.status == 2 and answer.err.startswith("ration: RATION_RESP: ")
