# SPDX-License-Identifier: Apache-2.0
"""What no client would send to the RESP port: malformed commands, commands in pieces, very many at once, and
other protocols."""

import socket
import threading

import pytest

from daemon import PATIENCE, Daemon, RespError
from resp_port import RULES, clock, daemon  # noqa: F401 (fixtures)


# --- what no client would send -------------------------------------------------------------------

NO_COMMANDS = [
    ("an inline command of 16 KiB", b"PING " + b"x" * 16384, "too big inline request"),
    ("quotes that do not end", b'ECHO "x\r\n', "unbalanced quotes in request"),
    ("too many arguments", b"*321\r\n", "invalid multibulk length"),
    ("an argument above 64 KiB", b"*2\r\n$4\r\nECHO\r\n$65537\r\n", "invalid bulk length"),
    ("an array within an array", b"*1\r\n*1\r\n$4\r\nPING\r\n", r"expected '\$', got '\*'"),
    ("a number for an argument", b"*2\r\n$4\r\nECHO\r\n:1\r\n", r"expected '\$', got ':'"),
    ("a negative length", b"*2\r\n$4\r\nECHO\r\n$-1\r\n", "invalid bulk length"),
    ("a length of letters", b"*x\r\n", "invalid multibulk length"),
    ("an argument that is longer than its length", b"*1\r\n$4\r\nPINGS\r\n", "expected CR LF"),
    ("too much in all", b"*5\r\n$4\r\nECHO\r\n" + (b"$65536\r\n" + b"x" * 65536 + b"\r\n") * 4,
     "too big"),
]


@pytest.mark.parametrize("sent, message", [case[1:] for case in NO_COMMANDS],
                         ids=[case[0] for case in NO_COMMANDS])
def test_a_malformed_command_gets_an_error_and_ends_the_connection(daemon, sent, message):
    with daemon.resp() as say:
        say.send("PING")
        say.socket.sendall(sent)
        assert say.read() == b"PONG"
        with pytest.raises(RespError, match="Protocol error: " + message):
            say.read()
        with pytest.raises((EOFError, ConnectionResetError)):
            say.read()
    with daemon.resp() as say:
        assert say("PING") == b"PONG"


def test_commands_of_the_largest_size_are_answered(daemon):
    with daemon.resp() as say:
        assert say("ECHO", b"x" * 65536) == b"x" * 65536
        say.socket.sendall(b"ECHO " + b"x" * (16384 - 7) + b"\r\n")
        assert say.read() == b"x" * (16384 - 7)
        say.socket.sendall(b"\r\n*0\r\n*-1\r\nPING\n")
        assert say.read() == b"PONG"
        with pytest.raises(RespError, match="usage: PING"):
            say("PING", *["x"] * 318)


def test_a_command_may_arrive_byte_by_byte(daemon):
    with daemon.resp() as say:
        say.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"*3\r\n$11\r\nRATION.TAKE\r\n$3\r\nann\r\n$10\r\n5 per hour\r\n":
            say.socket.sendall(bytes([byte]))
        assert say.read()[7] == 4


def test_ten_thousand_mixed_commands_are_answered_in_order(daemon):
    def command(i):
        return [("ECHO", str(i)),
                ("CL.THROTTLE", "cell", 19999, 1, 60),
                ("RATION.TAKE", f"own-{i}", f"{i + 1} per hour"),
                ("NONSENSE", i),
                ("THROTTLE", f"crab-{i}", i + 1, 1, 60),
                ("RATION.CHECK", "user", f"u{i}", "COST", 2),
                ("RATION.TAKE", f"log-{i}", "9 per hour", 3, "ALGORITHM", "sliding-log"),
                ("CL.THROTTLE", "cell", 19999, "x", 60),
                ("RATION.TAKE", "shared", "20000 per hour"),
                ("PING",)][i % 10]

    def reply(i):
        turn = i // 10
        return [str(i).encode(), [0, 20000, 19999 - turn, -1, 60 * (turn + 1)], i + 1,
                'ERR unknown command "NONSENSE"; RATION.HELP lists what there is', i + 1,
                3, 6, 'ERR count must be a whole number, found "x"', 19999 - turn,
                b"PONG"][i % 10]

    def brief(i, found):
        """Of a decision the number that tells it from others."""
        if i % 10 in (2, 4):
            return found[5] if i % 10 == 2 else found[1]
        return found[7] if i % 10 in (5, 6, 8) else found

    with daemon.resp() as say:
        def send():
            for i in range(10000):
                say.send(*command(i))

        sender = threading.Thread(target=send)
        sender.start()
        for i in range(10000):
            try:
                found = brief(i, say.read())
            except RespError as error:
                found = str(error)
            assert found == reply(i), f"reply {i} to {command(i)}"
        sender.join(PATIENCE)


def test_a_long_run_of_charges_is_answered_one_by_one(daemon):
    """Charges in a row are decided together, up to 64 of limits known by heart; these
    are more, and the limits change."""
    def command(i):
        more = i // 500
        return [("CL.THROTTLE", f"a{i}", 9 + more, 1, 60), ("GCRA", "d", 9999, 1, 60),
                ("RATION.TAKE", f"b{i}", f"{20 + more} per hour"),
                ("THROTTLE", f"c{i}", 40 + more, 1, 60)][i % 4]

    def limit_and_left(i, found):
        return (found[5], found[7]) if i % 4 == 2 else (found[1], found[2])

    with daemon.resp() as say:
        sender = threading.Thread(target=lambda: [say.send(*command(i)) for i in range(8000)])
        sender.start()
        for i in range(8000):
            limit = [10 + i // 500, 10000, 20 + i // 500, 40 + i // 500][i % 4]
            left = 9999 - i // 4 if i % 4 == 1 else limit - 1
            assert limit_and_left(i, say.read()) == (limit, left), f"reply {i} to {command(i)}"
        sender.join(PATIENCE)


def test_replies_keep_their_order_behind_a_delayed_reply(daemon):
    with daemon.resp() as say:
        say.send("RATION.TAKE", "ann", "20 per second queue 5")
        say.send("RATION.TAKE", "ann", "20 per second queue 5", "WAIT", "hold")
        say.send("RATION.TAKE", "ann", "20 per second queue 5")
        say.send("PING")
        assert say.read()[13] == b"0"
        assert say.read()[13:] == [b"0.05", b"limits", [[b"rule", None, b"limit", 6, b"remaining",
                                   4, b"reset_after", b"0.1"]], b"held", b"0.05"]
        assert say.read()[13] == b"0.1"
        assert say.read() == b"PONG"


# --- other protocols ------------------------------------------------------------------------------

def spend_one(say):
    assert say("RATION.TAKE", "ann", "5 per hour")[7] == 4


def left(say):
    return say("RATION.PEEK", "ann", "5 per hour")[7]


@pytest.mark.parametrize("start", [
    b"POST / HTTP/1.1\r\nContent-Type: text/plain\r\n", b"GET / HTTP/1.0\n", b"host: a\r\n",
    b"PING / HTTP/1.1\r\nHost: a\r\n", b"\r\n\r\nPUT /x HTTP/1.1\r\nAccept: */*\r\n",
], ids=["post", "get", "host", "a method that is a command", "empty lines"])
@pytest.mark.parametrize("body", [
    b'RATION.RESET ann "5 per hour"\r\n',
    b"*3\r\n$12\r\nRATION.RESET\r\n$3\r\nann\r\n$10\r\n5 per hour\r\n",
], ids=["inline", "array"])
def test_commands_in_the_body_of_an_http_request_are_not_executed(tmp_path, start, body):
    with Daemon(tmp_path, RULES) as daemon, daemon.resp() as say:
        spend_one(say)
        with daemon.socket("resp") as s:
            s.sendall(start + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            with s.makefile("rb") as file:
                said = file.read()
        assert b"-ERR Protocol error: this port speaks the Redis protocol, not HTTP\r\n" in said
        assert b":1\r\n" not in said
        assert left(say) == 4
        assert "ration_resp_http_total 1\n" in daemon.admin("GET", "/metrics").text
        daemon.logged("resp.http")


@pytest.mark.parametrize("start", [b"GET /\r\n", b"OPTIONS * RTSP/1.0\r\n", b"EHLO a\r\n", b"USER a\n",
                                   b"post / http/1.1\r\n"])
def test_nothing_behind_a_line_that_is_no_command_is_executed(daemon, start):
    with daemon.resp() as say:
        say("RATION.RESET", "ann", "5 per hour")
        spend_one(say)
        with daemon.socket("resp") as s:
            s.sendall(start + b"*3\r\n$12\r\nRATION.RESET\r\n$3\r\nann\r\n$10\r\n5 per hour\r\n")
            with s.makefile("rb") as file:
                assert file.read().startswith(b'-ERR unknown command "')
        assert left(say) == 4


def test_inline_commands_change_nothing(daemon):
    with daemon.resp() as say:
        say("RATION.RESET", "ann", "5 per hour")
        spend_one(say)
        for line in (b'RATION.RESET ann "5 per hour"', b'RATION.TAKE ann "5 per hour"',
                     b"cl.throttle ann 4 5 3600", b"RATION.CHECK user ann",
                     b'RATION.ACQUIRE ann "2 concurrent"', b'"RATION.RESET" ann "5 per hour"'):
            say.socket.sendall(line + b"\r\n")
            with pytest.raises(RespError, match="changes state, which no inline command may; send it as an array"):
                say.read()
        say.socket.sendall(b'RATION.PEEK ann "5 per hour"\r\nPING\r\n')
        assert say.read()[7] == 4
        assert say.read() == b"PONG"
