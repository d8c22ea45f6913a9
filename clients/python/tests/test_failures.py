# SPDX-License-Identifier: Apache-2.0
"""rationd is killed and frozen while requests come: nobody waits for longer than the deadline, the policy holds, the client
comes back by itself, and nothing is left behind.

Twice; with RATION_SOAK=1 ten times, and then a million requests. Figures are printed (pytest -s) and reported as properties;
the bounds asserted are generous, as machines that run tests are busy.
"""

import asyncio
import gc
import os
import pathlib
import threading
import time

import pytest
from daemon import Daemon, free_port, wait_for

from ration_client import AsyncClient, Client
from ration_client.asgi import RationMiddleware as AsgiMiddleware
from ration_client.wsgi import RationMiddleware as WsgiMiddleware

SOAK = bool(os.environ.get("RATION_SOAK"))
ROUNDS = 10 if SOAK else 2
REQUESTS = 1_000_000 if SOAK else 5_000
DEADLINE, GENEROUS = 0.05, 1.0
CALLERS = 8
RULES = "limits:\n  - {name: api, key: ip, limit: 1000000000 per hour}\n"
OPTIONS = ["--http", "none", "--admin", "none", "--workers", "1", "--memory", "2M"]


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, RULES, [*OPTIONS, "--resp", f"127.0.0.1:{free_port()}"]) as daemon:
        yield daemon
        if daemon.process is not None:
            daemon.thaw()


def settings(daemon):
    return {"url": "ration://" + daemon.addresses["resp"], "deadline": DEADLINE, "probe_most": 0.5}


def open_files():
    return len(os.listdir("/proc/self/fd"))


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


class Seen:
    """What the callers have met: how long each request took, and who decided it."""

    def __init__(self):
        self.times, self.late, self.by, self.faults = [], [], {"rationd": 0, "policy": 0}, []
        self.sleeps = []  # how long a mere sleep of the deadline takes on this machine meanwhile

    def note(self, seconds, decision, status):
        self.times.append(seconds)
        if decision.by == "policy" and "deadline" in decision.why:
            self.late.append(seconds)
        self.by[decision.by] += 1
        if status != 200:
            self.faults.append(status)

    def grows(self, by, more=50):
        goal = self.by[by] + more
        wait_for(lambda: self.by[by] >= goal or self.faults, f"{more} more decisions by {by}")

    def report(self, what, record_property):
        figures = {"requests": len(self.times), "p99_ms": 1000 * percentile(self.times, 0.99), "most_ms": 1000 * max(self.times),
                   "p99_of_a_sleep_ms": 1000 * percentile(self.sleeps, 0.99), "deadline_passed": len(self.late), "p99_of_those_ms": 1000 * percentile(self.late, 0.99) if self.late else 0.0}
        print(f"\n{what}:", ", ".join(f"{name} {value:.1f}" for name, value in figures.items()))
        for name, value in figures.items():
            record_property(name, round(value, 2))


def trouble(daemon, seen):
    """Each round kills and freezes it, and waits until the policy decides, and until rationd does again."""
    stop = threading.Event()

    def sleep():
        while not stop.is_set():
            began = time.monotonic()
            time.sleep(DEADLINE)
            seen.sleeps.append(time.monotonic() - began)

    control = threading.Thread(target=sleep)
    control.start()
    try:
        seen.grows("rationd")
        for _ in range(ROUNDS):
            for harm, cure in ((daemon.freeze, daemon.thaw), (daemon.kill, daemon.start)):
                harm()
                seen.grows("policy")
                cure()
                seen.grows("rationd")
    finally:
        stop.set()
        control.join()


def check(seen):
    assert not seen.faults, seen.faults[:5]
    assert percentile(seen.times, 0.99) < DEADLINE + GENEROUS


def call(app, seen):
    """One request to a WSGI application."""
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "REMOTE_ADDR": "192.0.2.7", "SERVER_NAME": "test", "SERVER_PORT": "80",
               "wsgi.url_scheme": "http", "HTTP_HOST": "test"}
    statuses = []
    began = time.monotonic()
    body = app(environ, lambda status, headers, *_: statuses.append(int(status[:3])))
    b"".join(body)
    if hasattr(body, "close"):
        body.close()
    seen.note(time.monotonic() - began, environ["ration.decision"], statuses[0])


def wsgi_site(client):
    def app(environ, start_response):
        start_response("200 OK", [])
        return [b"ok"]
    return WsgiMiddleware(app, client)


def flask_site(client):
    flask = pytest.importorskip("flask")
    from ration_client.flask import Ration
    app = flask.Flask("site")
    app.add_url_rule("/", view_func=lambda: "ok")
    Ration(app, client)

    @app.after_request
    def show(response):
        flask.request.environ["ration.decision"] = flask.g.ration
        return response

    return app


@pytest.mark.parametrize("site", [wsgi_site, flask_site])
def test_threads_under_load(site, daemon, record_property):
    seen, stop = Seen(), threading.Event()

    def work(app):
        while not stop.is_set():
            try:
                call(app, seen)
            except Exception as error:
                seen.faults.append(error)
            time.sleep(0.002)

    files = open_files()
    with Client(**settings(daemon)) as client:
        app = site(client)
        threads = [threading.Thread(target=work, args=(app,)) for _ in range(CALLERS)]
        for thread in threads:
            thread.start()
        try:
            trouble(daemon, seen)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
    seen.report(f"threads, {site.__name__}", record_property)
    check(seen)
    wait_for(lambda: open_files() <= files + 1, "connections to be closed")
    wait_for(lambda: not any(t.name == "ration-connect" for t in threading.enumerate()), "threads to end")


async def plain_app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def asgi_site(client):
    return AsgiMiddleware(plain_app, client)


def fastapi_site(client):
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()

    @app.get("/")
    async def root():
        return "ok"

    app.add_middleware(AsgiMiddleware, limiter=client)
    return app


@pytest.mark.parametrize("site", [asgi_site, fastapi_site])
def test_asyncio_under_load(site, daemon, record_property):
    seen, stop = Seen(), threading.Event()
    site(AsyncClient())  # skips what is not installed

    async def work(app):
        while not stop.is_set():
            statuses = []

            async def send(message):
                statuses.append(message.get("status"))

            async def receive():
                return {"type": "http.request", "body": b"", "more_body": False}

            scope = {"type": "http", "method": "GET", "path": "/", "raw_path": b"/", "query_string": b"", "headers": [],
                     "client": ("192.0.2.7", 1), "root_path": "", "scheme": "http", "http_version": "1.1"}
            began = time.monotonic()
            try:
                await app(scope, receive, send)
                seen.note(time.monotonic() - began, scope["ration.decision"], statuses[0])
            except Exception as error:
                seen.faults.append(error)
            await asyncio.sleep(0.002)

    async def main():
        async with AsyncClient(**settings(daemon)) as client:
            app = site(client)
            await asyncio.gather(*(work(app) for _ in range(CALLERS)))

    files = open_files()
    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    try:
        trouble(daemon, seen)
    finally:
        stop.set()
        thread.join()
    seen.report(f"asyncio, {site.__name__}", record_property)
    check(seen)
    assert open_files() <= files + 1


def resident_kb():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])


def test_many_requests_leave_nothing_behind(daemon, record_property):
    """By rationd, and by policy with a key for each request."""
    with Client(**{**settings(daemon), "deadline": 5.0, "policy": "5 per second"}) as client:
        def ask(count):
            for i in range(count):
                client.check({"ip": f"192.0.2.{i % 250}", "path": "/"})

        ask(2000)
        gc.collect()
        files, memory = open_files(), resident_kb()
        ask(REQUESTS)
        gc.collect()
        grown = resident_kb() - memory
        assert open_files() == files
        assert sum(len(c.link.owed) for c in client._pool) == 0
        daemon.kill()
        for i in range(25_000):
            client.check({"ip": str(i)})
        assert len(client._policy.local._buckets) == 10_000
    print(f"\n{REQUESTS} requests: resident memory grew by {grown} KB")
    record_property("grown_kb", grown)
    assert grown < 8192
