# SPDX-License-Identifier: Apache-2.0
"""`ration` and a daemon that it asks, for the tests of its commands.

RATION_BUILD names the build directory.
"""

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest

from daemon import BUILD, PATIENCE, Daemon

RATION = BUILD / "ration"

RULES = """\
deny:
  - {ip: 203.0.113.0/24}
limits:
  - name: login
    when: { method: POST, path: /login }
    key: ip
    limit: 5 per hour
    algorithm: sliding-log
    response: { status: 403, message: Go away. }
  - name: api
    when: { path: /api/** }
    key: user
    limit: { by: tier, free: 10 per hour, pro: unlimited, default: free }
  - name: everything
    key: ip
    limit: 1000 per hour
"""
LOGIN = ["method=POST", "path=/login"]


class Answer:
    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"<{self.status}>\n{self.out}{self.err}"


def run(*args, env=None, stdin="", cwd=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RATION_")}
    return Answer(subprocess.run([RATION, *map(str, args)], input=stdin, text=True, cwd=cwd,
                                 capture_output=True, timeout=PATIENCE, env={**clean, **(env or {})}))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("daemon"), RULES) as daemon:
        yield daemon


@pytest.fixture
def ration(daemon):
    """Runs ration with the daemon's addresses in the environment."""
    env = {"RATION_HTTP": daemon.addresses["http"], "RATION_ADMIN": daemon.addresses["admin"]}

    def ask(*args, stdin="", **more):
        return run(*args, env={**env, **more}, stdin=stdin)

    return ask


@pytest.fixture
def fresh(tmp_path):
    """A daemon of one's own, for what others should not see."""
    with Daemon(tmp_path, RULES) as daemon:
        env = {"RATION_HTTP": daemon.addresses["http"], "RATION_ADMIN": daemon.addresses["admin"]}
        daemon.ration = lambda *args, **more: run(*args, env=env, **more)
        yield daemon


def refuse(daemon, ip, times):
    """That many requests to log in, of which the rules admit five."""
    connection = daemon.connection()
    for _ in range(times):
        connection.request("POST", "/v1/check", json.dumps(
            {"attributes": {"method": "POST", "path": "/login", "ip": ip}}))
        connection.getresponse().read()
    connection.close()


@contextlib.contextmanager
def server(reply):
    """Something that listens, and says `reply` to whatever comes; None: nothing, ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept = []

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    kept.append(connection)
                    if reply is None:
                        continue
                    connection.recv(65536)
                    connection.sendall(reply)
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield "127.0.0.1:%d" % listener.getsockname()[1]
        for connection in kept:
            connection.close()


class Terminal:
    """A program on its own terminal. `seen` is all that it has written."""

    def __init__(self, *args, env=None, size=(24, 80)):
        self.seen = ""
        pid, self.fd = pty.fork()
        if pid == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
            os.environ.update(env or {}, TERM="xterm")
            os.execvp(args[0], args)
        self.pid = pid

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, text, since=0, patience=PATIENCE):
        end = time.monotonic() + patience
        while text not in self.seen[since:]:
            assert time.monotonic() < end, f"no {text!r} in {self.seen!r}"
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 65536).decode()
                except OSError: # the other end is closed
                    assert text in self.seen[since:], f"no {text!r} in {self.seen!r}"
        return self.seen.index(text, since) + len(text)

    def write(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        """Exit status, after the screen was left and the cursor shown."""
        self.read_until("\x1b[?25h\x1b[?1049l")
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status


@pytest.fixture
def terminal(fresh):
    started = []

    def start(*args, **options):
        env = {"RATION_ADMIN": fresh.addresses["admin"]}
        started.append(Terminal(*map(str, args), env=env, **options))
        started[-1].daemon = fresh
        return started[-1]

    yield start
    for t in started:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(t.pid, signal.SIGKILL)
            os.waitpid(t.pid, 0)
