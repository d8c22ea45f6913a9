# SPDX-License-Identifier: Apache-2.0
"""Clients that call without a pause while rationd is restarted, and miss nothing.

Each client charges a key of its own, so that what was charged can be compared with what was answered. When
the server closes a connection in an orderly way before a byte of the answer has come, the client connects
again and repeats the request, as every HTTP client and every Redis client does. A refused connection, a
reset, half an answer or a wrong one is a fault.

    python3 restart_clients.py HTTP_PORT RESP_PORT STOP_FILE    calls until there is such a file, then prints JSON
"""

import json
import os
import socket
import sys
import threading
import time

LIMIT = 10_000_000
TEXT = f"{LIMIT} per 7 days"
ALGORITHM = "fixed-window"  # nothing comes back meanwhile
SILENCE = 60  # seconds without an answer that are a fault


class Ended(Exception):
    """The server has closed before it answered."""


class Client(threading.Thread):
    """`every`: how many requests go over one connection; 0: as many as the server takes."""

    def __init__(self, kind, port, every, ended, pause):
        super().__init__(daemon=True)
        self.kind, self.port, self.every, self.ended, self.pause = kind, port, every, ended, pause
        self.key = os.urandom(8).hex()
        self.answered, self.repeated, self.longest, self.faults = 0, 0, 0.0, []
        self.file = self.socket = None

    def run(self):
        try:
            while not self.ended():
                began = time.monotonic()
                left = self.ask(1)
                self.longest = max(self.longest, time.monotonic() - began)
                self.answered += 1
                if left != LIMIT - self.answered:
                    self.faults.append(f"{left} left after {self.answered} answers")
                    return
                time.sleep(self.pause)
                if self.every and self.answered % self.every == 0:
                    self.close()
        except Exception as error:  # noqa: BLE001 - whatever it was, a client has noticed the restart
            self.faults.append(f"{type(error).__name__}: {error}, after {self.answered} answers")
        finally:
            self.close()

    def close(self):
        if self.socket:
            self.file.close()
            self.socket.close()
        self.socket = None

    def ask(self, cost):
        """What is left of the key."""
        while True:
            if not self.socket:
                self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=SILENCE)
                self.file = self.socket.makefile("rb")
            try:
                return self.ask_http(cost) if self.kind == "http" else self.ask_resp(cost)
            except Ended:
                self.close()
                self.repeated += 1

    def send(self, data):
        try:
            self.socket.sendall(data)
        except BrokenPipeError:  # it had closed, and had our answer to that
            raise Ended from None

    def ask_http(self, cost):
        body = json.dumps({"key": self.key, "limit": TEXT, "algorithm": ALGORITHM, "cost": cost}).encode()
        self.send(b"POST /v1/throttle HTTP/1.1\r\nHost: ration\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        line = self.file.readline()
        if not line:
            raise Ended
        length, closes = 0, False
        status = line.split()[1]
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().lower().partition(":")
            length = int(value) if name == "content-length" else length
            closes = closes or (name == "connection" and "close" in value)
        answer = self.file.read(length)
        if closes:
            self.close()
        if status != b"200":
            raise ValueError(f"status {status.decode()}: {answer.decode()}")
        return json.loads(answer)["remaining"]

    def ask_resp(self, cost):
        words = [b"RATION.TAKE", self.key.encode(), TEXT.encode(), str(cost).encode(), b"ALGORITHM", ALGORITHM.encode()]
        self.send(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        line = self.file.readline()
        if not line:
            raise Ended
        if line[:1] != b"*":
            raise ValueError(line.decode())
        values = [self.read_value() for _ in range(int(line[1:]))]
        return values[values.index(b"remaining") + 1]

    def read_value(self):
        line = self.file.readline()
        if line[:1] == b":":
            return int(line[1:])
        if line[:1] == b"*":
            return [self.read_value() for _ in range(int(line[1:]))]
        if line == b"$-1\r\n":
            return None
        if line[:1] == b"$":
            return self.file.read(int(line[1:]) + 2)[:-2]
        if line[:1] != b"+":
            raise ValueError(f"an answer ends with {line!r}")
        return line[1:-2]


class Clients:
    """All kinds of them at once. `pause`: seconds between two requests of one, so that others get to run."""

    def __init__(self, http_port, resp_port, ended, pause=0):
        self.all = [Client(kind, port, every, ended, pause)
                    for kind, port in (("http", http_port), ("resp", resp_port)) for every in (0, 0, 1, 7)]
        for client in self.all:
            client.start()

    def answered(self):
        return sum(client.answered for client in self.all)

    def finish(self):
        """A summary, once `ended` is true."""
        for client in self.all:
            client.join()
        return {"answered": self.answered(), "least": min(client.answered for client in self.all),
                "repeated": sum(client.repeated for client in self.all),
                "longest": round(max(client.longest for client in self.all), 3),
                "faults": [f"{client.kind}, {client.every or 'all'} per connection: {fault}"
                           for client in self.all for fault in client.faults]}


if __name__ == "__main__":
    http, resp, stop = sys.argv[1:]
    print(json.dumps(Clients(int(http), int(resp), lambda: os.path.exists(stop)).finish()), flush=True)
