# SPDX-License-Identifier: Apache-2.0
"""The application of clients/scenarios.yaml, once for each framework, behind a real server on a free port.

FastAPI runs in uvicorn. Plain ASGI runs in a small server of this file, so that it is tested where neither is installed.
"""

import asyncio
import contextlib
import io
import socketserver
import threading
import types
import wsgiref.simple_server

from ration_client import AsyncClient, Client

Broken = type("Broken", (Exception,), {})


def answer(path):
    """The status of the application's answer. /raise fails."""
    path = path.split("?")[0]
    if path == "/raise":
        raise Broken("as the scenario wants it")
    return int(path[8:]) if path.startswith("/status/") else 200


# --- WSGI -------------------------------------------------------------------------------------


class Handler(wsgiref.simple_server.WSGIRequestHandler):
    protocol_version = "HTTP/1.0"

    def get_environ(self):
        return {**super().get_environ(), "RAW_URI": self.path}

    def log_message(self, *_):
        pass

    def get_stderr(self):
        return io.StringIO()


class Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


@contextlib.contextmanager
def serve_wsgi(app):
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, app, Server, Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def plain(environ, start_response):
    status = answer(environ["PATH_INFO"])
    start_response(f"{status} Whatever", [("Content-Type", "text/plain")])
    return [b"ok"]


@contextlib.contextmanager
def wsgi(settings, skip, wait):
    from ration_client.wsgi import RationMiddleware
    with Client(**settings) as client, serve_wsgi(RationMiddleware(
            plain, client, attributes=lambda e: {"user": e.get("HTTP_X_USER")},
            skip=lambda e: e["PATH_INFO"] == skip, wait=wait)) as port:
        yield port


@contextlib.contextmanager
def flask(settings, skip, wait):
    import flask
    from ration_client.flask import Ration
    app = flask.Flask("site")
    app.logger.disabled = True
    app.add_url_rule("/<path:path>", view_func=lambda path: ("ok", answer("/" + path)), endpoint="any", methods=["GET", "POST"])
    app.add_url_rule("/", view_func=lambda: "ok", endpoint="root")
    with Client(**settings) as client:
        Ration(app, client, attributes=lambda r: {"user": r.headers.get("X-User")}, skip=lambda r: r.path == skip, wait=wait)
        with serve_wsgi(app) as port:
            yield port


@contextlib.contextmanager
def django(settings, skip, wait):
    import django.conf
    import django.core.handlers.wsgi
    import django.http
    import django.urls
    options = {**settings, "skip": lambda r: r.path == skip, "wait": wait, "attributes": lambda r: {"user": r.headers.get("X-User")}}
    if not django.conf.settings.configured:
        urls = types.ModuleType("site_urls")
        urls.urlpatterns = [django.urls.re_path("^(?P<path>.*)$", django_view)]
        django.conf.settings.configure(ROOT_URLCONF=urls, ALLOWED_HOSTS=["*"], LOGGING_CONFIG=None, DEBUG=False,
                                       SECRET_KEY="a test", MIDDLEWARE=["ration_client.django.RationMiddleware"])
        django.setup()
    django.conf.settings.RATION = options
    handler = django.core.handlers.wsgi.WSGIHandler()
    limiter = ration_of(handler)
    try:
        with serve_wsgi(handler) as port:
            yield port
    finally:
        limiter.close()


def ration_of(handler):
    """The client in the only middleware of Django's handler."""
    return next(cell.cell_contents.limiter for cell in handler._middleware_chain.__closure__
                if hasattr(cell.cell_contents, "limiter"))


def fail():
    raise Broken("before the server has sent anything")
    yield b""


def django_view(request, path=""):
    import django.http
    if path == "stream":
        return django.http.StreamingHttpResponse(iter(["a", "b"]))
    if path == "fail/first":
        return django.http.StreamingHttpResponse(fail())
    return django.http.HttpResponse("ok", status=answer("/" + path))


# --- ASGI -------------------------------------------------------------------------------------


async def plain_asgi(scope, receive, send):
    status = answer(scope["path"])
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def serve_one(app, reader, writer):
    """One request on one connection; 500 for an application that fails."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    path, _, query = target.partition("?")
    headers = [(name.lower().encode(), value.strip().encode("latin-1"))
               for name, _, value in (line.partition(":") for line in head[1:-2])]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": query.encode(),
             "headers": headers, "client": writer.get_extra_info("peername")}
    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    try:
        await app(scope, receive, send)
    except Broken:
        sent = [{"status": 500, "headers": []}, {"body": b""}]
    lines = [f"HTTP/1.1 {sent[0]['status']} Whatever".encode(), *(name + b": " + value for name, value in sent[0]["headers"])]
    writer.write(b"\r\n".join([*lines, b"Connection: close", b"", sent[1]["body"]]))
    writer.close()


@contextlib.contextmanager
def serve_loop(start):
    """Runs a server in a loop of its own, in a thread; `start` yields its port."""
    ready, state = threading.Event(), {}

    async def main():
        state["stop"], state["loop"] = asyncio.Event(), asyncio.get_running_loop()
        try:
            async with start() as state["port"]:
                ready.set()
                await state["stop"].wait()
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait()
    try:
        yield state["port"]
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        thread.join()


def asgi_options(skip, wait):
    def user(scope):
        return {"user": dict(scope["headers"]).get(b"x-user")}
    return {"attributes": user, "skip": lambda scope: scope["path"] == skip, "wait": wait}


@contextlib.contextmanager
def asgi(settings, skip, wait):
    from ration_client.asgi import RationMiddleware

    @contextlib.asynccontextmanager
    async def start():
        async with AsyncClient(**settings) as client:
            app = RationMiddleware(plain_asgi, client, **asgi_options(skip, wait))
            server = await asyncio.start_server(lambda r, w: serve_one(app, r, w), "127.0.0.1", 0)
            yield server.sockets[0].getsockname()[1]
            server.close()

    with serve_loop(start) as port:
        yield port


@contextlib.contextmanager
def fastapi(settings, skip, wait):
    import fastapi
    import fastapi.responses
    import uvicorn
    from ration_client.asgi import RationMiddleware
    site = fastapi.FastAPI()

    @site.api_route("/{path:path}", methods=["GET", "POST"])
    async def any(path: str):
        return fastapi.responses.PlainTextResponse("ok", answer("/" + path))

    @contextlib.asynccontextmanager
    async def start():
        async with AsyncClient(**settings) as client:
            site.add_middleware(RationMiddleware, limiter=client, **asgi_options(skip, wait))
            server = uvicorn.Server(uvicorn.Config(site, port=0, log_level="critical", lifespan="off"))
            task = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.005)
            yield server.servers[0].sockets[0].getsockname()[1]
            server.should_exit = True
            await task

    with serve_loop(start) as port:
        yield port


SITES = {"wsgi": wsgi, "flask": flask, "django": django, "asgi": asgi, "fastapi": fastapi}
