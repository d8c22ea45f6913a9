# SPDX-License-Identifier: Apache-2.0
"""The rationd that nginx asks, for tests, or a server that passes for one."""

import contextlib
import pathlib
import socket
import threading

from daemon import Daemon

# Far apart, so that each answer shows which of the two decided.
THEIRS = "limits:\n  - {name: api, key: ip, limit: 5 per 7 days}\n"
OURS = "limits:\n  - {name: own, key: ip, limit: 2 per 7 days%s}\n"
UP = '" answers\n'  # as the log tells it
PATIENT = "timeout=10s"  # for tests in which rationd is well, however busy the machine
LOG = ("log_format source '$status $request_uri verdict=$ration_verdict rule=$ration_rule "
       "source=$ration_source delay=$ration_delay';")


class Rationd(Daemon):
    """One on a unix socket, which can be stopped and started again."""

    def __init__(self, folder, rules=THEIRS, resp=None, state="none", options=(), **more):
        home = folder / "rationd"
        home.mkdir(exist_ok=True)
        super().__init__(home, rules, ["--resp", resp or f"unix:{home}/resp.sock", "--state", state,
                                       "--http", "none", "--workers", "1", *options], **more)

    @property
    def address(self):
        return self.addresses["resp"]

    def waiting(self):
        """Bytes that the kernel holds for it over TCP: those it has not read, and those that
        clients could not send yet."""
        port = f":{int(self.address.rpartition(':')[2]):04X}"
        rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        queues = [(row, [int(part, 16) for part in row[4].split(":")]) for row in rows]
        return (sum(unread for row, (_, unread) in queues if row[1].endswith(port)),
                sum(unsent for row, (unsent, _) in queues if row[2].endswith(port)))

    def kill(self):
        with contextlib.suppress(OSError):
            self.thaw()
        super().kill()


PING = b"*1\r\n$4\r\nPING\r\n"
LEAVE_NOBODY = b"*2\r\n$12\r\nRATION.LEAVE\r\n$1\r\n0\r\n"  # whether it knows lines


class FakeRationd:
    """A server that says what a test wants: `answer` gets the commands of one read as
    bytes and returns bytes, or None to end the connection. The greeting is answered unless
    `answer` is to see it; `lines` says whether as one that knows lines. What `push` sends, it sends
    on the newest connection."""

    def __init__(self, path, answer, pings=True, lines=True):
        self.answer, self.pings, self.seen, self.connections = answer, pings, [], 0
        self.lines, self.newest = lines, None
        self.open = self.most_at_once = 0
        self.path = str(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(16)
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return "unix:" + self.path

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.open += 1
            self.most_at_once = max(self.most_at_once, self.open)
            self.connections += 1
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        self.newest = s
        with s:
            with contextlib.suppress(OSError):
                self.talk(s)
            self.open -= 1

    def talk(self, s):
        while data := s.recv(65536):
            self.seen.append(data)
            if self.pings and data.startswith(PING + LEAVE_NOBODY):
                s.sendall(b"+PONG\r\n" + (b":0\r\n" if self.lines else b"-ERR unknown command\r\n"))
                data = data[len(PING + LEAVE_NOBODY):]
            reply = self.answer(data) if data or not self.pings else b""
            if reply is None:
                return
            s.sendall(reply)

    def push(self, data):
        self.newest.sendall(data)

    def close(self):
        self.listener.close()


def answers(g):
    """Until rationd can be asked."""
    g.wait_for_log(UP, "error", int(g.settings["workers"]))
    return g
