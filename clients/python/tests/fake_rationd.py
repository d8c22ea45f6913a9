# SPDX-License-Identifier: Apache-2.0
"""A server whose bytes are given: `fake` of clients/scenarios.yaml."""

import re
import socket
import threading


class FakeRationd:
    def __init__(self, fake, names):
        expand = lambda text: re.sub("<([a-z-]+)>", lambda m: names[m[1]], text).encode("latin-1")  # noqa: E731
        items = [item if isinstance(item, dict) else {"send": item} for item in fake["answers"]]
        self.answers = [{**item, "send": expand(item["send"])} for item in items]
        self.greeting, self.then = expand(fake.get("greeting", "<hello>")), {"send": expand(fake.get("then", ""))}
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.open.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        try:
            with connection, connection.makefile("rb") as commands:
                while True:
                    words = read_command(commands)
                    if words is None:
                        return
                    if words[0] == b"HELLO":
                        connection.sendall(self.greeting)
                        continue
                    with self.lock:
                        answer = self.answers.pop(0) if self.answers else self.then
                    step = 1 if answer.get("torn") else max(1, len(answer["send"]))
                    for at in range(0, len(answer["send"]), step):
                        connection.sendall(answer["send"][at:at + step])
                    if answer.get("close"):
                        return
        except OSError:
            pass  # the client has closed it

    def close(self):
        self.listener.close()
        for connection in self.open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def read_command(file):
    head = file.readline()
    if not head:
        return None
    words = []
    for _ in range(int(head[1:])):
        words.append(file.read(int(file.readline()[1:]) + 2)[:-2])
    return words
