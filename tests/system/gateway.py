# SPDX-License-Identifier: Apache-2.0
"""nginx with our module, and something behind it, for tests."""

import contextlib
import http.client
import http.server
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

from daemon import BUILD, PATIENCE, ROOT, free_port, wait_for

# Set to a build folder: its module, which the address sanitizer watches.
SANITIZED = os.environ.get("RATION_NGINX_SANITIZED")
MODULE = (ROOT / SANITIZED if SANITIZED else BUILD) / "ngx_http_ration_module.so"
NGINX = os.environ.get("RATION_NGINX", "/usr/sbin/nginx")  # another one needs a module built for it


def is_alive(pid):
    """Whether it runs. A zombie does not."""
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    return False


def sanitizer(folder):
    """What nginx, which is not built for it, needs to load such a module."""
    if not SANITIZED:
        return {}
    name = f"libclang_rt.asan-{os.uname().machine}.so"
    path = subprocess.run(["clang", f"-print-file-name={name}"], capture_output=True, text=True,
                          check=True).stdout.strip()
    return {"LD_PRELOAD": path, "ASAN_OPTIONS": f"detect_leaks=0:log_path={folder}/asan",
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={folder}/asan"}


class Upstream:
    """The protected server: notes when each request arrived, and with which
    headers; /hold answers when told to, /status/401 and /hold/401 with that status."""

    def __init__(self):
        self.arrivals, self.release = [], threading.Event()
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                arrived = time.monotonic()
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                upstream.arrivals.append((arrived, self.path, dict(self.headers), len(body)))
                if self.path.startswith("/hold"):
                    upstream.release.wait(PATIENCE)
                status = re.match(r"/(?:status|hold)/(\d{3})", self.path)
                with contextlib.suppress(OSError):
                    self.send_response(int(status[1]) if status else 200)
                    self.send_header("content-length", "2")
                    self.end_headers()
                    self.wfile.write(b"ok")

            do_GET = do_POST = do_PUT = answer

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 4096 # a connection beyond it tries again after seconds
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def count(self, path):
        return sum(a[1].startswith(path) for a in self.arrivals)

    def close(self):
        self.release.set()
        self.server.shutdown()
        self.server.server_close()


def proxied(upstream, more=""):
    """A server in front of it."""
    return (f"ration on; location / {{ proxy_pass http://127.0.0.1:{upstream.port}; "
            f"proxy_set_header x-delay $ration_delay; {more} }}")


THREE = "limits:\n  - {name: api, key: ip, limit: 3 per 7 days}\n"
PLACES = "limits:\n  - {name: places, key: ip, limit: 2 concurrent, lease: %s, when: {path: /hold}}\n"
GIF = "ration on; location / { empty_gif; }"

CONF = """load_module {module};
{user}
daemon {daemon};
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log {log_level};
{top}
events {{ worker_connections {connections}; }}
http {{
  log_format verdict '$status $request_uri verdict=$ration_verdict rule=$ration_rule remaining=$ration_remaining delay=$ration_delay';
  access_log {folder}/access.log verdict;
  client_body_temp_path {folder}/tmp; proxy_temp_path {folder}/tmp; fastcgi_temp_path {folder}/tmp;
  uwsgi_temp_path {folder}/tmp; scgi_temp_path {folder}/tmp;
  ration_rules {folder}/rules.yaml;
  {zone}
  {http}
  server {{
    listen 127.0.0.1:{port} {listen};
    {server}
  }}
}}
"""


class Gateway:
    """One nginx, its configuration and its logs, in its own folder."""

    def __init__(self, folder, rules, server, **settings):
        self.folder, self.port, self.process, self.master = folder, free_port(), None, None
        self.settings = {
            "http": "", "workers": 1, "daemon": "off", "listen": "", "top": "", "connections": 512,
            "log_level": "info", "user": "user root;" if os.geteuid() == 0 else "",
            "zone": f"ration_zone 8m state={folder}/state;", **settings, "server": server}
        for name in sanitizer(folder):  # nginx forgets others, also for a new binary
            self.settings["top"] += f" env {name};"
        self.write(rules)

    def write(self, rules=None, **settings):
        """Puts down the files, changed where it is said."""
        self.settings.update(settings)
        if rules is not None:
            (self.folder / "rules.yaml").write_text(rules)
        (self.folder / "nginx.conf").write_text(CONF.format(
            module=MODULE, folder=self.folder, port=self.port, **self.settings))

    def command(self, *words):
        return [NGINX, "-p", str(self.folder), "-c", str(self.folder / "nginx.conf"), *words]

    def test(self):
        """nginx -t: its exit status and what it says."""
        done = subprocess.run(self.command("-t"), capture_output=True, text=True, timeout=60,
                              env={**os.environ, **sanitizer(self.folder)})
        return done.returncode, done.stderr

    # --- running ---

    def start(self, *wrapper, env=None):
        self.process = subprocess.Popen([*wrapper, *self.command()], stdin=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **sanitizer(self.folder), **(env or {})})
        if self.settings["daemon"] == "on":
            assert self.process.wait(PATIENCE) == 0, self.process.stderr.read()
        wait_for(self.accepts, "nginx accepts connections")
        self.master = int(wait_for(self.pid_text, "nginx writes its pid"))
        wait_for(lambda: "master_process off" in self.settings["top"] or self.workers(), "workers")
        return self

    def pid_text(self):
        path = self.folder / "nginx.pid"
        return path.read_text().strip() if path.exists() else ""

    def accepts(self):
        if self.settings["daemon"] == "off":
            assert self.process.poll() is None, self.process.stderr.read()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 5):
            return True
        return False

    def workers(self):
        text = pathlib.Path(f"/proc/{self.master}/task/{self.master}/children").read_text()
        return {int(word) for word in text.split()}

    def reload(self):
        """Until new workers serve; the old ones may still be ending."""
        before = self.workers()
        os.kill(self.master, signal.SIGHUP)
        count = int(self.settings["workers"])
        wait_for(lambda: len(self.workers() - before) >= count, "new workers")

    def stop(self):
        if self.process is None:
            return
        if self.settings["daemon"] == "off":
            self.process.terminate()
            self.process.wait(PATIENCE)
        elif self.master is not None:
            os.kill(self.master, signal.SIGTERM)
            wait_for(lambda: not is_alive(self.master), "nginx stops")
        self.process.stderr.close()
        self.process = self.master = None
        found = [path.read_text() for path in self.folder.glob("asan.*")]
        assert not found, found[0]

    # --- asking ---

    def connection(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, path="/", method="GET", body=None, **headers):
        """(status, headers, body) of a new connection."""
        with contextlib.closing(self.connection()) as connection:
            return self.ask_on(connection, path, method, body, **headers)

    @staticmethod
    def ask_on(connection, path="/", method="GET", body=None, **headers):
        connection.request(method, path, body,
                           {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.headers, response.read()

    def statuses(self, count, path="/", **headers):
        return [self.ask(path, **headers)[0] for _ in range(count)]

    def log(self, name="access"):
        path = self.folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def wait_for_log(self, text, name="access", count=1):
        wait_for(lambda: self.log(name).count(text) >= count, f"{text!r} in {name}.log")


def begin(g, path):
    """Asks and does not wait for the answer."""
    s = socket.create_connection(("127.0.0.1", g.port), 30)
    s.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    return s


STATUSES = """limits:
  - {name: api, key: ip, limit: 1 per 7 days, when: {path: /rate}}
  - {name: line, key: ip, limit: 1 per 3 seconds queue 1, when: {path: /line}}
  - {name: trial, key: ip, limit: 1 per 7 days queue 1, mode: shadow, when: {path: /trial}}
  - {name: places, key: ip, limit: 1 concurrent, when: {path: /hold}}
  - {name: beside, key: ip, limit: 9 per 7 days, when: {path: /hold}}
  - {name: narrow, key: ip, limit: 1 concurrent, mode: shadow, when: {path: /hold/narrow}}
"""


def telling_statuses(upstream):
    """A server whose answers tell them, as rate/places."""
    tell = 'add_header x-statuses "$ration_rate_status/$ration_concurrency_status" always;'
    return (proxied(upstream, tell) +
            f" location /shadow {{ ration shadow; ration_attribute path /rate; {tell} empty_gif; }}")


def assert_statuses_in_words_of_nginx(g, upstream):
    """Those that $limit_req_status and $limit_conn_status have."""
    def told(path, count=1):
        return [g.ask(path)[1]["x-statuses"] for _ in range(count)]

    assert told("/none") == ["/"]
    assert told("/rate", 2) == ["PASSED/", "REJECTED/"]
    assert told("/line", 2) == ["PASSED/", "DELAYED/"]
    assert told("/trial", 3) == ["PASSED/", "DELAYED_DRY_RUN/", "REJECTED_DRY_RUN/"]
    assert told("/shadow") == ["REJECTED_DRY_RUN/"]
    with begin(g, "/hold"), begin(g, "/hold/narrow"):
        wait_for(lambda: upstream.count("/hold") == 2, "both hold their places")
        assert told("/hold") == ["PASSED/REJECTED"]
        with begin(g, "/hold/narrow") as third:
            wait_for(lambda: upstream.count("/hold") == 3, "a limit in shadow mode lets it through")
            upstream.release.set()
            assert b"x-statuses: /REJECTED_DRY_RUN\r\n" in third.recv(4096)


def wrk(g, path="/"):
    """For a second: answers, and of these those that were refused."""
    out = subprocess.run(["wrk", "-t2", "-c32", "-d1s", f"http://127.0.0.1:{g.port}{path}"],
                         capture_output=True, text=True, timeout=120, check=True).stdout
    refused = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    return int(re.search(r"(\d+) requests in", out).group(1)), int(refused.group(1)) if refused else 0


def wrk_beyond_limit(g):
    """The same, for as long as it takes until there are refusals."""
    answers = refused = 0
    while refused == 0:
        more = wrk(g)
        answers, refused = answers + more[0], refused + more[1]
    return answers, refused


BY_WORKER = "log_format worker '$pid $ration_verdict'; access_log worker.log worker;"


def assert_workers_admit(g, limit):
    """Under a load beyond the limit, several workers together admit exactly the limit. Requests whose clients
    left before the answer may count either way. `g` has BY_WORKER, and a socket for each worker (reuseport)."""
    answers, refused = wrk_beyond_limit(g)
    g.stop()
    lines = [line.split() for line in g.log("worker").splitlines()]
    admitted = [worker for worker, verdict in lines if verdict == "allowed"]
    untold = sum(verdict not in ("allowed", "refused") for _, verdict in lines)
    assert limit - untold <= len(admitted) <= limit, (len(admitted), untold)
    assert len(set(admitted)) > 1, "one worker alone"
    assert answers - refused <= limit and len(lines) >= answers, (answers, refused, len(lines))


class LoopingClients:
    """Clients that ask until told to stop or their block ends, a connection for each
    request."""

    def __init__(self, g, size=4, path="/", method="GET"):
        self.g, self.path, self.method, self.stop = g, path, method, threading.Event()
        self.answers, self.lost = [], []
        self.threads = [threading.Thread(target=self.run) for _ in range(size)]
        for thread in self.threads:
            thread.start()

    def run(self):
        while not self.stop.is_set():
            try:
                self.answers.append(self.g.ask(self.path, self.method)[0])
            except OSError as error:
                self.lost.append(error)

    def end(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
