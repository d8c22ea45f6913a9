# SPDX-License-Identifier: Apache-2.0
"""Thousands of connections that each ask one thing over HTTP, and wait for the answer.

    with Crowd(daemon) as crowd:
        for i in range(200):
            crowd.ask(i, "/v1/check", {"attributes": {"user": "ann"}})
            crowd.wait_until(waiting=i + 1)
        answers = crowd.collect(200)       # of each: its status and JSON
"""

import json
import re
import resource
import select
import socket
import struct
import time

from concurrent_clients import post
from daemon import PATIENCE, wait_for


def raise_descriptors():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def read_answer(data):
    """Status and JSON of an answer; None: it is not complete."""
    head, end, body = bytes(data).partition(b"\r\n\r\n")
    if not end or len(body) < int(re.search(rb"(?i)content-length: *(\d+)", head)[1]):
        return None
    return int(head.split()[1]), json.loads(body)


class Crowd:
    def __init__(self, daemon):
        host, _, port = daemon.addresses["http"].rpartition(":")
        self.daemon, self.address = daemon, (host, int(port))
        self.poll, self.members, self.numbers = select.epoll(), {}, {}
        self.admin = daemon.connection("admin")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave(list(self.numbers))
        self.poll.close()
        self.admin.close()

    def ask(self, who, path, body):
        sock = socket.create_connection(self.address, timeout=PATIENCE)
        sock.sendall(post(path, body))
        self.members[sock.fileno()] = (who, sock, bytearray())
        self.numbers[who] = sock.fileno()
        self.poll.register(sock, select.EPOLLIN)

    def leave(self, some, reset=False):
        """Hangs up, by RST if so asked."""
        for who in some:
            _, sock, _ = self.members.pop(self.numbers.pop(who))
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()

    def collect(self, count):
        """The next answers; a connection that ends without one is an error."""
        answers, until = {}, time.monotonic() + PATIENCE
        while len(answers) < count:
            assert time.monotonic() < until, f"only {len(answers)} of {count} answers in {PATIENCE} s"
            for number, _ in self.poll.poll(0.1):
                who, sock, data = self.members[number]
                more = sock.recv(65536)
                assert more, f"the connection of {who} ended without an answer: {bytes(data)}"
                data += more
                if (answer := read_answer(data)) is not None:
                    answers[who] = answer
                    self.leave([who])
        return answers

    def metric(self, name):
        """The value of a metric without labels."""
        self.admin.request("GET", "/metrics")
        page = self.admin.getresponse().read().decode()
        return float(re.search(rf"^{name} (\S+)", page, re.M)[1])

    def wait_until(self, waiting):
        """So many stand in line, and none of them has an answer."""
        wait_for(lambda: self.metric("ration_waiting") == waiting, f"{waiting} in line")
