# SPDX-License-Identifier: Apache-2.0
"""A rationd of one's own, on free ports, for the tests of a module.

    with Daemon(tmp_path, "limits: ...") as daemon:
        answer = daemon.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.7"}})
        assert answer.status == 200 and answer.json["allowed"]
        assert daemon.admin("GET", "/v1/rules").json["version"] == 1
        with daemon.resp() as redis:
            assert redis("PING") == b"PONG"

Leaving the block stops it by SIGTERM and expects a clean end. RATION_BUILD names
the build directory. A sanitizer's complaint makes stop() fail, since it changes
the exit status.
"""

import collections
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RATION_BUILD", ROOT / "build")).resolve()
RATIOND = BUILD / "rationd"

PATIENCE = 60 # seconds until something counts as hung, on a busy machine
CLAIMS = collections.deque()


def free_port():
    """Not one of those that the kernel gives to clients: a server that is started
    again would find it taken. Nor one that was given out before, here or by a run beside
    this one: abstract unix sockets are as wide as ports are, and end with their process."""
    while True:
        port = random.randrange(10240, 32768)
        claim = socket.socket(socket.AF_UNIX)
        with socket.socket() as s:
            try:
                claim.bind(f"\0ration test port {port}")
                s.bind(("", port))
            except OSError:
                claim.close()
                continue
        CLAIMS.append(claim)
        if len(CLAIMS) > 200:
            CLAIMS.popleft().close()
        return port


def wait_for(condition, what="it", seconds=PATIENCE):
    """Polls until the condition holds; returns its value."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"{what} did not come about in {seconds} s"
        time.sleep(0.002)
    return value


class Answer:
    """Of an HTTP request: status, headers (any letter case), body, json."""

    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body!r}>"


class UnixHTTP(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class RespError(Exception):
    pass


class Resp:
    """One connection to the RESP port: call it with the words of a command."""

    def __init__(self, address):
        self.socket = connect(address)
        self.file = self.socket.makefile("rb")

    def __call__(self, *words):
        self.send(*words)
        return self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) +
                            b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def read(self):
        """One reply: bytes, int, float, bool, None, list or dict."""
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError(f"the connection ended within {line!r}")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b"-":
            raise RespError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b",":
            return float(rest)
        if kind == b"#":
            return rest == b"t"
        if kind == b"_" or rest == b"-1":
            return None
        if kind == b"$":
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        raise ValueError(f"no RESP reply: {line!r}")

    def close(self):
        self.file.close()
        self.socket.close()


def connect(address):
    """A socket to `host:port` or `unix:PATH`."""
    if address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(PATIENCE)
        sock.connect(address[5:])
        return sock
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE)


class Daemon:
    """`rules` is the text of a file, or None for none; `options` go to rationd as they
    are and win over the defaults. `log` collects the lines of stderr. `status` is its last exit
    status. `files` is how many descriptors it may have, `pass_fds` are those that it inherits."""

    DEFAULTS = {"--http": "127.0.0.1:0", "--resp": "127.0.0.1:0", "--grpc": "none",
                "--admin": "127.0.0.1:0", "--state": "none"}

    def __init__(self, folder, rules=None, options=(), env=None, start=True, files=None):
        self.folder = pathlib.Path(folder)
        self.file = self.folder / "rules.yaml"
        self.options = [str(o) for o in options]
        self.env = {**os.environ, **(env or {})}
        self.log, self.addresses, self.process, self.status = [], {}, None, None
        self.pass_fds = ()
        self.wrapper = [] if files is None else ["prlimit", f"--nofile={files}"]
        if rules is not None:
            self.file.write_text(rules)
            self.options = ["--config", str(self.file), *self.options]
        for name, value in self.DEFAULTS.items():
            if not any(o == name or o.startswith(name + "=") for o in self.options):
                self.options += [name, value]
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process is None:
            return
        if kind is not None:
            self.kill()
            return
        self.stop()

    # --- life ---------------------------------------------------------------------

    def start(self):
        """Starts it and waits for the ready line."""
        self.log = []
        self.ready = threading.Event()
        self.process = subprocess.Popen([*self.wrapper, RATIOND, *self.options], cwd=self.folder, env=self.env,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, errors="replace",
                                        pass_fds=self.pass_fds)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if not self.ready.wait(PATIENCE) or not self.addresses:
            self.kill()
            raise RuntimeError("rationd did not start:\n" + "".join(self.log))

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            if line.startswith("rationd: ready"):
                self.addresses = dict(re.findall(r"(http|resp|grpc|admin)=(\S+)", line))
                self.ready.set()
        self.ready.set()

    def logged(self, *texts):
        """The first line of the log that has these texts, once it has been read: a line may come after the
        answer that the daemon gave at the same time."""
        return wait_for(lambda: next((line for line in self.log if all(text in line for text in texts)), None),
                        f"{texts} in the log")

    def _end(self):
        self.status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stderr.close()
        self.process = None
        self.addresses = {}
        return self.status

    def stop(self):
        """By SIGTERM; the end must be a clean one."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self._end()
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert status == 0, f"exit status {status}:\n" + "".join(self.log)

    def kill(self):
        """By SIGKILL, as a crash would end it."""
        self.process.kill()
        self._end()

    def freeze(self):
        """Until no thread of it runs any more: the kernel reports the stop of the last one."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def reload(self):
        self.process.send_signal(signal.SIGHUP)

    # --- asking -------------------------------------------------------------------

    def http(self, method, path, body=None, headers=None, port="http"):
        """One request on a new connection; a body that is no text is sent as JSON."""
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        with contextlib.closing(self.connection(port)) as connection:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())

    def admin(self, method, path, body=None, headers=None):
        return self.http(method, path, body, headers, port="admin")

    def connection(self, port="http"):
        """An http.client connection, for several requests."""
        address = self.addresses[port]
        if address.startswith("unix:"):
            return UnixHTTP(address[5:])
        host, _, number = address.rpartition(":")
        return http.client.HTTPConnection(host.strip("[]"), int(number), timeout=PATIENCE)

    def resp(self):
        return Resp(self.addresses["resp"])

    def socket(self, port="http"):
        """A plain socket, for what no client would send."""
        return connect(self.addresses[port])
