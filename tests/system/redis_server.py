# SPDX-License-Identifier: Apache-2.0
"""A real redis-server for tests: on its own unix socket, or a free port."""

import contextlib
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time

import redis

from daemon import BUILD, PATIENCE

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLAIN = ROOT / "build"
SCRIPTS = ROOT / "src" / "redis" / "scripts"
sys.path.insert(0, str(SCRIPTS))
sys.dont_write_bytecode = True

import embed  # noqa: E402  (src/redis/scripts)

PEEK, TAKE, FORCE, GIVE_BACK, RENEW, RELEASE, RESET = range(7)
DEBIT, DRAIN, CREDIT = 11, 12, 13
GIVE_BACK_UNFORGIVEN, FORGIVE = 8, 9
SECOND = 1_000_000
SEED = int(os.environ.get("RATION_SEED", "20260101"))  # of tests that choose at random


class Clock:
    """Redis's wall clock, in microseconds: stands still until it is moved."""

    def __init__(self, path, now_us=1_800_000_000_000_000):
        self.path = path
        self.file = open(path, "w+b", buffering=0)
        self.set(now_us)

    def set(self, now_us):
        self.now_us = now_us
        self.file.seek(0)
        self.file.write(struct.pack("=qq", 10**15, now_us * 1000))

    def env(self):
        return {"STILLCLOCK": str(self.path),
                "LD_PRELOAD": str(BUILD / "tests" / "libstillclock.so")}


class RedisServer:
    """Runs from `with` to the end of it. `port` 0: on `path` only."""

    def __init__(self, folder, clock=None, port=0, options=()):
        self.folder, self.port, self.options = pathlib.Path(folder), port, options
        self.path = str(self.folder / "redis.sock")
        self.url = f"redis+unix://{self.path}"
        self.env = {**os.environ, **(clock.env() if clock else {})}
        if clock:  # no sanitizer watches the server: what is preloaded must need none
            library = pathlib.Path(self.env["LD_PRELOAD"]).name
            self.env["LD_PRELOAD"] = str(PLAIN / "tests" / library)
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        with open(self.folder / "redis.log", "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                 "--unixsocket", self.path, "--dir", str(self.folder), *self.options],
                env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + PATIENCE
        while not self.answers():
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError((self.folder / "redis.log").read_text())
            time.sleep(0.01)

    def answers(self):
        """Whatever it says, but that it is still reading its files. That it listens is too little: it may yet fail to open a port."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(self.path)
            s.sendall(b"PING\r\n")
            said = s.recv(64)
            return said != b"" and not said.startswith(b"-LOADING")
        return False

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def flush_and_vouch(self):
        """Flushes it, and vouches for its history: there are no earlier leases."""
        with self.client() as client:
            client.flushall()
            client.set("ration:history", "0")

    def states(self):
        """How many keys have been charged, whether or not a node has heard of it."""
        with self.client() as client:
            return sum(1 for _ in client.scan_iter("ration:{*}:?:*", count=1000))

    def client(self, **options):
        return redis.Redis(unix_socket_path=self.path, **options)


@contextlib.contextmanager
def silence(server):
    """Redis is there and says nothing."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def by_number(arguments):
    """As batch.lua reads them: which is whose, then each of them once."""
    each = list(dict.fromkeys(arguments))
    return [bytes(each.index(argument) for argument in arguments), *each]


def read_reply(reply, nonce):
    """The time of the store, and six whole numbers for each charge."""
    if isinstance(reply, list):  # with an error of some key, which has its own answer
        reply, _ = reply
    assert reply.startswith(nonce.encode())
    numbers = [number for number, in struct.iter_unpack("<d", reply[len(nonce):])]
    assert all(number.is_integer() for number in numbers)
    now_us, *rest = map(int, numbers)
    return now_us, [rest[i:i + 6] for i in range(0, len(rest), 6)]


class Answer:
    def __init__(self, numbers, now_us):
        self.allowed, self.remaining, self.retry, self.reset, self.delay, self.mark = numbers
        self.now_us = now_us


class Script:
    """One script on one server; `params` are what follows the ask in each argument."""

    def __init__(self, client, name, params, key):
        self.client, self.key = client, key
        self.sha = client.script_load(embed.assemble(name))
        self.params = b"".join(p if isinstance(p, bytes) else struct.pack("<d", p) for p in params)
        self.last = ["", "0"] if name.startswith("lease_") else []  # nothing is in doubt
        self.nonce = 0

    def argument(self, op, cost=1, age=0, mark=0, tail=b""):
        return struct.pack("<dddd", op, cost, age, mark) + self.params + tail

    def call(self, *arguments, keys=None):
        """Several charges in one call; answers in the same order."""
        self.nonce += 1
        keys = keys or [self.key] * len(arguments)
        reply = self.client.evalsha(self.sha, len(keys), *keys, str(self.nonce), *by_number(arguments),
                                    *self.last)
        now_us, answers = read_reply(reply, str(self.nonce))
        assert len(answers) == len(arguments)
        return [Answer(numbers, now_us) for numbers in answers]

    def ask(self, op, cost=1, **more):
        return self.call(self.argument(op, cost, **more))[0]


class ScriptRunner:
    """A Redis whose clock the test moves, a client of it, and unused keys."""

    def __init__(self, folder):
        self.clock = Clock(folder / "clock")
        self.server = RedisServer(folder, self.clock)
        self.keys = 0

    def key(self, letter="t"):
        self.keys += 1
        return f"ration:{{0}}:{letter}:{self.keys}"

    def script(self, name, *params, letter="t"):
        return Script(self.client, name, params, self.key(letter))

    def later(self, us):
        self.clock.set(self.clock.now_us + us)

    def next_minute(self):
        """The beginning of a minute long after all that went before."""
        return (self.clock.now_us // (60 * SECOND) + 100) * 60 * SECOND
