# SPDX-License-Identifier: Apache-2.0
"""A server that passes for a Redis, a node of a cluster or a Sentinel, and says what a test
wants."""

import collections
import re
import socket
import struct
import threading

from redis.crc import key_slot

from daemon import PATIENCE

KEY = re.compile(rb"ration:\{(\w+)\}:\w:[0-9a-f]{16}$")
TRYAGAIN = b"TRYAGAIN Multiple keys request during rehashing of slot"
REFUSING = [
    b"BUSY Redis is busy running a script.",
    b"LOADING Redis is loading the dataset in memory",
    b"MASTERDOWN Link with MASTER is down",
    b"READONLY You can't write against a read only replica.",
    TRYAGAIN,
    b"CLUSTERDOWN Hash slot not served",
    b"NOSCRIPT No matching script.",
]
NAMES = [error.split()[0].decode() for error in REFUSING]


class FakeRedis:
    """Greets like a Redis and gives each call what `answers` makes of its number and nonce;
    None closes the connection instead, and after nothing it is silent for ever."""

    def __init__(self, answers):
        self.answers, self.calls, self.askings, self.connections = answers, 0, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.owner = self.listener.getsockname()[1]  # owner: of all slots; the master
        self.role = b"master"
        self.slot, self.words = None, []  # of the last call
        self.secret = b""
        self.heard = collections.Counter()  # commands
        self.mutes = []  # to each of these commands, once, the reply is silence on that connection
        self.welcome = threading.Event()  # cleared: new connections are not greeted
        self.welcome.set()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.cluster = f"redis+cluster://127.0.0.1:{self.port}"
        self.sentinel = f"redis+sentinel://127.0.0.1:{self.port}/shared"
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()

    def accept(self):
        while True:
            try:
                peer = self.listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        with peer, peer.makefile("rb") as file:
            try:
                while line := file.readline():
                    words = [file.read(int(file.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
                    reply = self.reply(words)
                    peer.sendall(reply or file.read()[:0])  # until the other end has gone
            except OSError:
                return  # the node has gone, or was sent away

    def reply(self, words):
        self.heard[words[0]] += 1
        if words[0] in self.mutes:
            self.mutes.remove(words[0])
            return b""
        if words[0] == b"INFO":
            self.welcome.wait(PATIENCE)
            return bulk(b"role:master\r\nmaster_replid:%040x\r\n" % self.connections)
        if words[0] == b"CLUSTER":
            return b"*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n" % self.owner
        if words[0] == b"SENTINEL":
            return b"*2\r\n" + bulk(b"127.0.0.1") + bulk(b"%d" % self.owner)
        if words[0] == b"ROLE":
            return b"*1\r\n" + bulk(self.role)
        if words[0] == b"GET":  # the secret that was set last
            return bulk(self.secret)
        if words[0] == b"SET":
            self.secret = words[2]
        if words[0] == b"ASKING":
            self.askings += 1
        if words[0] not in (b"EVAL", b"EVALSHA"):
            return b"+OK\r\n"
        return self.run(words, int(words[2]))

    def run(self, words, keys):
        if words[3].endswith(b":history"):  # began long ago
            return b"*3\r\n:0\r\n:0\r\n:%d\r\n" % 10**12
        key = KEY.match(words[3])
        if not key:
            return b"-ERR not for us\r\n"
        self.slot, self.words = key_slot(key[1]), words
        answer = self.answers(self.calls, words[3 + keys])
        self.calls += 1
        if answer is None:
            raise OSError
        return answer

    def keys(self):
        """Of the last call: those of its charges first."""
        return self.words[3:3 + int(self.words[2])]

    def charges(self):
        """How many the last call has."""
        return len(self.words[4 + len(self.keys())])

    def is_report(self):
        """Whether the last call is one of an async limit."""
        return b":r:" in self.words[3]

    def report_answer(self, number):
        """Of the last call: the states of its keys, none of which has one."""
        return b"*%d\r\n" % (4 * len(self.keys()) - 2) + bulk(number) + b":1800000000000000\r\n" + \
            b":0\r\n" * (4 * len(self.keys()) - 4)

    def admit(self, nonce):
        """An answer that admits all of them."""
        return admission(nonce, (1800000000000000, *(1, 5, 0, 0, 0, 0) * self.charges()))


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text)


def admission(nonce, numbers=(1800000000000000, 1, 5, 0, 0, 0, 0), rest=b""):
    return bulk(nonce + struct.pack("<%dd" % len(numbers), *numbers) + rest)
