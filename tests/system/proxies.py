# SPDX-License-Identifier: Apache-2.0
"""The proxies of examples/forward-auth/, run by the real programs, for tests.

    with Site(Caddy, tmp_path, RULES) as site:
        assert site.ask("POST", "/login", body="user=ada").status == 200
        assert site.app.seen == [("POST", "/login")]
"""

import contextlib
import http.client
import http.server
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time

import pytest

from daemon import PATIENCE, ROOT, Answer, Daemon, free_port, wait_for

EXAMPLES = ROOT / "examples/forward-auth"
PROGRAMS = f"{ROOT}/build/proxies:/usr/sbin:/usr/bin" # Envoy and Traefik are not in Debian: ./dev deps
# Nothing grows back while a test runs.
RULES = (EXAMPLES / "ration.yaml").read_text().replace("per minute", "per day")


class Upstream(http.server.ThreadingHTTPServer):
    """The application: says what it was asked, and counts. Does not answer /broken."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self):
        super().__init__(("127.0.0.1", 0), UpstreamHandler)
        self.seen, self.lock = [], threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self):
        return self.server_address[1]


class UpstreamHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1 # one write for each answer

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            self.server.seen.append((self.command, self.path))
        if self.path == "/broken":
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + 3))
        self.end_headers()
        self.wfile.write(b"app" + body)

    def __getattr__(self, name): # whatever the method is
        if name.startswith("do_"):
            return self.do_GET
        raise AttributeError(name)

    def handle(self):
        with contextlib.suppress(ConnectionError): # proxies drop what they do not need
            super().handle()

    def log_message(self, *_):
        pass


def port_of(address):
    return int(address.rpartition(":")[2])


class Proxy:
    """One of the examples, with its ports replaced, run by the real program. `policy`: what it does
    when rationd does not answer, "allow" as shipped or "refuse". Without one it waits for rationd as
    long as a busy machine takes, so that tests can count."""

    passes_body = True # of rationd's refusals
    no_decision = 503  # what clients get when rationd says that it cannot decide
    to_refuse = None   # (found, written): the edit that refuses where rationd does not answer
    examples, listens = EXAMPLES, "8000"

    def __init__(self, folder, ports, policy=None):
        self.folder, self.policy = pathlib.Path(folder), policy
        self.log = open(self.folder / "proxy.log", "w+")
        for _ in range(3): # another process may take the port first
            self.port = free_port()
            self.ports = {self.listens: str(self.port), **ports}
            self.process = subprocess.Popen(
                self.command(), cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.log,
                stderr=self.log, env={"HOME": str(self.folder), "PATH": PROGRAMS})
            if self.is_listening():
                return
        self.close()
        raise RuntimeError("the proxy did not start:\n" + (self.folder / "proxy.log").read_text())

    def is_listening(self):
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            time.sleep(0.02)
        return False

    def copy(self, name, edit=lambda text: text):
        """The example's file with the ports of this test."""
        text = (self.examples / name).read_text()
        for example, real in self.ports.items():
            text = re.sub(rf"(?<![0-9.]){example}\b(?!s)", real, text)
        if self.policy == "refuse":
            text = text.replace(*self.to_refuse)
        elif self.policy is None:
            text = re.sub(r"\b[25]00ms\b|\b0\.[25]s\b", f"{PATIENCE}s", text)
            text = re.sub(r"(LAST_RESORT_MS =) \d+", rf"\1 {PATIENCE}000", text)
        (self.folder / name).write_text(edit(text))
        return str(self.folder / name)

    def ask(self, method="GET", path="/", client="127.0.0.2", headers=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE,
                                                source_address=(client, 0))
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())

    def send(self, request, client="127.0.0.2"):
        """Bytes as they are, for what no client library would send: the status of the answer, or
        None if the proxy closes without one."""
        with socket.create_connection(("127.0.0.1", self.port), PATIENCE,
                                      source_address=(client, 0)) as s:
            with contextlib.suppress(ConnectionError): # it need not read all
                s.sendall(request)
                while (line := s.makefile("rb").readline()).startswith(b"HTTP/1.1 100"):
                    s.makefile("rb").readline()
                return int(line.split()[1]) if line else None

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Caddy(Proxy):
    to_refuse = ("(without_rationd) {\n\treverse_proxy", "(without_rationd) {\n\trespond 503 #")

    def command(self):
        return ["caddy", "run", "--adapter", "caddyfile", "--config", self.copy("Caddyfile")]


class Nginx(Proxy):
    passes_body = False
    to_refuse = ("return 204;", "return 403;")

    def command(self):
        def privately(text): # files under our folder, in the foreground
            user = "user root;\n" if os.getuid() == 0 else ""
            return (f"{user}daemon off;\npid {self.folder}/pid;\nerror_log stderr;\n" +
                    text.replace("events {}", "events { worker_connections 4096; }")
                    .replace("http {", "http {\naccess_log off;\n" + "".join(
                        f"{name}_temp_path {self.folder}/{name};\n" for name in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")), 1))
        return ["nginx", "-p", str(self.folder), "-c", self.copy("nginx.conf", privately)]


class Haproxy(Proxy):
    to_refuse = ('WITHOUT_RATIOND = "allow"', 'WITHOUT_RATIOND = "refuse"')

    def command(self):
        self.ports["8079"] = str(free_port()) # its own way to rationd
        self.copy("ration.lua")
        return ["haproxy", "-db", "-f", self.copy("haproxy.cfg")]


class Envoy(Proxy):
    no_decision = 403 # any 5xx is a failure to it, which it may answer by letting the request pass
    to_refuse = ("failure_mode_allow: true", "failure_mode_allow: false")

    def command(self):
        return ["envoy", "-c", self.copy("envoy.yaml"), "--concurrency", "2", "--disable-hot-restart",
                "--log-level", "error"]


class Traefik(Proxy):
    no_decision = 403 # 502 and 504 are its own
    to_refuse = ("{ 502-504: 200 }", "{ 502-504: 503 }")

    def command(self):
        self.ports["8079"] = str(free_port()) # its own way to rationd
        self.copy("traefik-site.yml")

        def hastily(text): # it would wait for 2 s before it reads, and for 10 s before it ends
            return (text.replace("providers:\n", "providers:\n  providersThrottleDuration: 1ms\n")
                    .replace("    address:", "    transport: { lifeCycle: { graceTimeOut: 1ms } }\n    address:"))
        return ["traefik", "--configFile=" + self.copy("traefik.yml", hastily)]

    def is_listening(self):
        """It opens its ports one after the other, and answers 404 until it has read its dynamic configuration. Asks
        about a client of its own."""
        def is_set_up():
            asked = http.client.HTTPConnection("127.0.0.1", int(self.ports["8079"]), timeout=PATIENCE)
            with contextlib.closing(asked), contextlib.suppress(ConnectionRefusedError):
                asked.request("GET", "/v1/auth/traefik", headers={"X-Forwarded-For": "127.255.0.1"})
                return asked.getresponse().status != 404
            return False

        if not super().is_listening():
            return False
        wait_for(is_set_up, "Traefik has read its configuration")
        return True


PROXIES = {"caddy": Caddy, "nginx": Nginx, "haproxy": Haproxy, "envoy": Envoy, "traefik": Traefik}


def installed(kinds, name):
    """The one of these kinds of proxies, for a test that needs it."""
    if not shutil.which(name, path=PROGRAMS):
        pytest.skip(f"{name} is not installed: ./dev deps")
    return kinds[name]


class Site:
    """An application behind a proxy that asks a rationd."""

    def __init__(self, kind, folder, rules, options=(), policy=None):
        port = str(free_port()) # where it comes back after its end
        self.daemon = Daemon(folder, rules, ["--http", f"127.0.0.1:{port}", *options])
        self.app = Upstream()
        try:
            self.proxy = kind(folder, {"8080": port, "3000": str(self.app.port)}, policy)
        except BaseException:
            self.daemon.kill()
            raise
        self.ask = self.proxy.ask

    def __enter__(self):
        return self

    @contextlib.contextmanager
    def frozen(self):
        """rationd neither answers nor closes."""
        self.daemon.freeze()
        try:
            yield
        finally:
            self.daemon.thaw()

    def __exit__(self, *args):
        self.proxy.close()
        self.app.shutdown()
        self.app.server_close()
        self.daemon.__exit__(*args)


@pytest.fixture(params=PROXIES)
def kind(request):
    return installed(PROXIES, request.param)
