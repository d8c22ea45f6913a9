# SPDX-License-Identifier: Apache-2.0
"""Clients that wait in line, over HTTP and RESP, on a clock that stands still.

    with Line(tmp_path, RULES) as line:
        first = line.http("/v1/throttle", key="ann", limit="1 per second", wait=5)
        line.stands(1)             # one request waits in line
        line.clock.advance(1)
        assert first.answer()["allowed"]
"""

import json
import re
import select
import socket
import struct

from concurrent_clients import command, post, read_http
from daemon import Daemon, Resp, wait_for
from stillclock import StillClock


class Client:
    """One connection, and what it has asked."""

    def __init__(self, daemon, port):
        self.socket, self.port = daemon.socket(port), port
        self.resp = None
        if port == "resp":
            self.resp = Resp.__new__(Resp)
            self.resp.socket, self.resp.file = self.socket, self.socket.makefile("rb")
        else:
            self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)
        return self

    def has_answer(self):
        """Whether something has arrived that is not read."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(0))

    def answer(self):
        """The next decision, as a dict of text; of HTTP with its `status` and `headers`."""
        if self.resp:
            return decision(self.resp.read())
        answer = read_http(self.file)
        assert answer, "the connection ended without an answer"
        status, headers, body = answer
        return {**(json.loads(body) if body else {"allowed": status == 200}), "status": status, "headers": headers}

    def leave(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        (self.resp or self).file.close()
        self.socket.close()


def decision(reply):
    """A decision of RESP2, which is a list of names and values, as HTTP tells it."""
    pairs = dict(zip(reply[::2], reply[1::2]))
    told = {name.decode(): value.decode() if isinstance(value, bytes) else value for name, value in pairs.items()}
    for name in ("waited", "held", "delay", "retry_after"):
        if told.get(name) is not None:
            told[name] = float(told[name])
    return {**told, "allowed": told["allowed"] == 1}


class Gateway:
    """A connection of RESP2 that also reads pushes."""

    def __init__(self, line):
        self.client = line.client("resp")

    def __call__(self, *words):
        self.client.send(command(*words))
        return self.read()

    def read(self):
        """A reply, or of a push its members behind `>`."""
        if self.client.resp.file.peek(1)[:1] != b">":
            return self.client.resp.read()
        head = self.client.resp.file.readline()
        return [b">", *(self.client.resp.read() for _ in range(int(head[1:])))]


class Line:
    """A rationd whose clock stands still, and its clients. `clock`: one that it shares."""

    def __init__(self, folder, rules=None, options=(), still=True, workers=1, clock=None):
        self.clock = clock or StillClock(folder / "clock")
        self.daemon = Daemon(folder, rules, ["--workers", workers, *options], env=self.clock.env() if still else None)
        self.clients = []

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for client in self.clients:
            client.leave()
        self.daemon.__exit__(kind)

    def client(self, port):
        self.clients.append(Client(self.daemon, port))
        return self.clients[-1]

    def http(self, path, **body):
        return self.client("http").send(post(path, body))

    def check(self, wait=None, **attributes):
        return self.http("/v1/check", attributes=attributes, **({"wait": wait} if wait is not None else {}))

    def words(self, *words):
        """One command over RESP."""
        return self.client("resp").send(command(*words))

    def metric(self, name, **labels):
        page = self.daemon.admin("GET", "/metrics").text
        label = "".join(f'{key}="{value}"' for key, value in labels.items())
        found = re.search(rf"^{name}{{{label}}} (\S+)" if label else rf"^{name} (\S+)", page, re.M)
        return float(found[1])

    def stands(self, count):
        """So many requests wait in line."""
        wait_for(lambda: self.metric("ration_waiting") == count, f"{count} in line")

    def admitted(self, *clients):
        """The answers of these, which must all be admitted, after some time in line."""
        answers = [client.answer() for client in clients]
        assert all(answer["allowed"] and answer["waited"] > 0 for answer in answers), answers
        return answers


def answered(clients):
    """Which of these have an answer that is not read."""
    return [i for i, client in enumerate(clients) if client.has_answer()]
