# SPDX-License-Identifier: Apache-2.0
"""What the table of scenarios cannot say of middleware: streams, WebSockets, HEAD, failures that are answered."""

import asyncio
import contextlib
import io
import time

import frameworks
import pytest
from daemon import Daemon

from ration_client import AsyncClient, Client, asgi, wsgi

RULES = """
limits:
  - {name: places, key: ip, limit: 1 concurrent, when: {path: /stream}}
  - {name: api, key: ip, limit: 1 per hour, when: {path: /api}}
  - {name: errors, key: ip, limit: 1 per hour, charge_on: status 500, when: {path: /fail/**}}
"""
OPTIONS = ["--http", "none", "--admin", "none", "--workers", "1", "--memory", "2M"]
IP = "192.0.2.7"


@pytest.fixture
def url(tmp_path):
    with Daemon(tmp_path, RULES, OPTIONS) as daemon:
        yield "ration://" + daemon.addresses["resp"]


def place_is_free(url):
    with Client(url, deadline=5.0) as client:
        place = client.acquire({"ip": IP, "path": "/stream"})
        return place.allowed and client.release(place.lease)


# --- WSGI --------------------------------------------------------------------------------------


def wsgi_app(client):
    from ration_client.wsgi import RationMiddleware

    def app(environ, start_response):
        start_response("200 OK", [])
        return frameworks.fail() if environ["PATH_INFO"].startswith("/fail") else iter([b"a", b"b"])

    return RationMiddleware(app, client)


def flask_app(client):
    flask = pytest.importorskip("flask")
    from ration_client.flask import Ration
    app = flask.Flask("site")
    app.add_url_rule("/stream", view_func=lambda: flask.Response(iter(["a", "b"])), endpoint="stream")
    app.add_url_rule("/api", view_func=lambda: "ok", endpoint="api")
    app.add_url_rule("/fail", view_func=lambda: 1 / 0, endpoint="fail")
    app.add_url_rule("/fail/first", view_func=lambda: flask.Response(frameworks.fail()), endpoint="first")
    app.logger.disabled = True
    Ration(app, client)
    return app


class DjangoApp:
    """Django's own test client would not stream as a server does."""

    def __init__(self, client):
        pytest.importorskip("django")
        self.site = frameworks.django({"url": client.address.url, "deadline": 5.0}, None, None)
        self.port = self.site.__enter__()
        import django.core.handlers.wsgi
        self.app = django.core.handlers.wsgi.WSGIHandler()

    def __call__(self, environ, start_response):
        return self.app(environ, start_response)


def ask(app, path, method="GET"):
    """The status, the headers and the body, which is not read yet."""
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "REMOTE_ADDR": IP, "SERVER_NAME": "test", "SERVER_PORT": "80",
               "wsgi.url_scheme": "http", "HTTP_HOST": "test", "wsgi.input": io.BytesIO(), "wsgi.errors": io.StringIO()}
    seen = []
    body = app(environ, lambda status, headers, *_: seen.extend([int(status[:3]), dict(headers)]))
    return seen[0], seen[1], body


@contextlib.contextmanager
def site_of(make, client):
    app = make(client)
    try:
        yield app
    finally:
        if isinstance(app, DjangoApp):
            app.site.__exit__(None, None, None)


@pytest.mark.parametrize("make", [wsgi_app, flask_app, DjangoApp])
def test_places_are_free_when_a_stream_has_been_sent(make, url):
    with Client(url, deadline=5.0) as client, site_of(make, client) as app:
        status, headers, body = ask(app, "/stream")
        assert (status, headers["X-RateLimit-Limit"]) == (200, "1")
        stream = iter(body)
        assert next(stream) in (b"a", b"ab")
        assert not place_is_free(url)
        list(stream)
        body.close()
        assert place_is_free(url)


def test_a_failure_that_flask_answers_has_headers_and_is_charged(url):
    with Client(url, deadline=5.0) as client:
        app = flask_app(client)
        status, headers, body = ask(app, "/fail")
        body.close()
        assert (status, headers["X-RateLimit-Limit"]) == (500, "1")
        assert ask(app, "/fail")[0] == 429


@pytest.mark.parametrize("make", [wsgi_app, flask_app])
def test_head_is_refused_without_a_body(make, url):
    with Client(url, deadline=5.0) as client:
        app = make(client)
        ask(app, "/api", "HEAD")
        status, headers, body = ask(app, "/api", "HEAD")
        assert status == 429 and b"".join(body) == b""
        assert int(headers["Content-Length"]) > 0 and "Retry-After" in headers


@pytest.mark.parametrize("make", [wsgi_app, flask_app, DjangoApp])
def test_a_stream_that_fails_before_its_first_byte_is_charged_as_a_500(make, url):
    with Client(url, deadline=5.0) as client, site_of(make, client) as app:
        _, _, body = ask(app, "/fail/first")
        with pytest.raises(frameworks.Broken):
            list(body)
        body.close()
        assert ask(app, "/fail/first")[0] == 429


def test_an_application_of_wsgi_that_fails_behind_its_status_is_charged_as_a_500(url):
    from ration_client.wsgi import RationMiddleware

    def app(environ, start_response):
        start_response("200 OK", [])
        raise frameworks.Broken("the server has sent nothing yet")

    with Client(url, deadline=5.0) as client:
        limited = RationMiddleware(app, client)
        with pytest.raises(frameworks.Broken):
            ask(limited, "/fail")
        assert ask(limited, "/fail")[0] == 429


def file_of_flask(flask, response):
    return flask.send_file(io.BytesIO(b"x"), mimetype="text/plain")


def another_response(flask, response):
    return flask.Response("another one")


def no_response(flask, response):
    raise frameworks.Broken("in a function that runs behind ours")


@pytest.mark.parametrize("after", [file_of_flask, another_response, no_response])
def test_places_are_free_when_flask_does_not_close_the_response(after, url):
    flask = pytest.importorskip("flask")
    from ration_client.flask import Ration
    with Client(url, deadline=5.0) as client:
        app = flask.Flask("site")
        app.logger.disabled = True
        app.after_request(lambda response: after(flask, response))  # registered first, runs last
        app.add_url_rule("/stream", view_func=lambda: "ok")
        Ration(app, client)
        body = ask(app, "/stream")[2]
        assert not place_is_free(url)
        list(body)
        body.close()
        assert place_is_free(url)


def test_places_are_free_after_a_request_of_flask_that_no_server_has_opened(url):
    with Client(url, deadline=5.0) as client:
        app = flask_app(client)
        with app.test_request_context("/stream", environ_base={"REMOTE_ADDR": IP}):
            assert app.preprocess_request() is None
            assert not place_is_free(url)
        assert place_is_free(url)


def test_places_are_free_when_other_middleware_of_django_drops_the_response(url):
    with Client(url, deadline=5.0) as client, site_of(DjangoApp, client) as site:
        from django.http import HttpResponse
        limited = site.app._middleware_chain
        site.app._middleware_chain = lambda request: limited(request) and HttpResponse("another one")
        _, _, body = ask(site, "/stream")
        assert list(body) == [b"another one"] and not place_is_free(url)
        body.close()
        assert place_is_free(url)


def test_a_thread_that_is_stopped_in_its_delay_gives_its_place_back(url, monkeypatch):
    """By a signal, or a timeout of gevent."""
    import ration_client.wsgi

    class Stopped(BaseException):
        pass

    def stop(_):
        raise Stopped

    with Client(url, deadline=5.0) as client:
        check = client.check

        def check_with_delay(*args, **named):
            decision = check(*args, **named)
            decision.delay = 1.0
            return decision

        monkeypatch.setattr(client, "check", check_with_delay)
        monkeypatch.setattr(ration_client.wsgi.time, "sleep", stop)
        with pytest.raises(Stopped):
            ask(wsgi_app(client), "/stream")
        assert place_is_free(url)


# --- ASGI ----------------------------------------------------------------------------------------


def scope_of(path, kind="http"):
    return {"type": kind, "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": [],
            "client": (IP, 1), "root_path": "", "scheme": "http", "http_version": "1.1", "subprotocols": []}


async def call(app, scope, sent):
    async def receive():
        return {"type": "websocket.connect"} if scope["type"] == "websocket" else {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)
        await asyncio.sleep(0)

    await app(scope, receive, send)


def test_places_are_free_when_an_asgi_stream_has_ended_or_its_task(url):
    from ration_client.asgi import RationMiddleware

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(3600)

    async def main():
        async with AsyncClient(url, deadline=5.0) as client:
            sent = []
            task = asyncio.create_task(call(RationMiddleware(app, client), scope_of("/stream"), sent))
            while not sent:
                await asyncio.sleep(0.005)
            assert dict(sent[0]["headers"])[b"x-ratelimit-limit"] == b"1"
            assert not await asyncio.to_thread(place_is_free, url)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(place_is_free, url)

    asyncio.run(main())


def test_a_task_that_is_cancelled_while_it_gives_its_place_back_gives_it_back(url):
    from ration_client.asgi import RationMiddleware

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def main():
        async with AsyncClient(url, deadline=5.0) as client:
            asked, release = asyncio.Event(), client.release

            async def slow_release(lease):
                asked.set()
                await asyncio.sleep(0.05)
                return await release(lease)

            client.release = slow_release
            task = asyncio.create_task(call(RationMiddleware(app, client), scope_of("/stream"), []))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            until = time.monotonic() + 30
            while not await asyncio.to_thread(place_is_free, url):
                assert time.monotonic() < until
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_bytes_of_the_target_reach_rules_as_they_came():
    from ration_client.gate import target_of
    from ration_client.asgi import RationMiddleware
    wanted = "/café?x=ü".encode()
    as_latin1 = wanted.decode("latin-1")
    path, _, query = as_latin1.partition("?")
    assert [target_of({name: as_latin1}) for name in ("RAW_URI", "REQUEST_URI")] == [wanted, wanted]
    assert target_of({"PATH_INFO": path, "QUERY_STRING": query}) == b"/caf%C3%A9?x=" + "ü".encode()
    assert target_of({"RAW_URI": "/\u20ac\ud800"}) == b"/\xe2\x82\xac\xed\xa0\x80"  # a server that decodes is no failure
    middleware = RationMiddleware(None, AsyncClient())
    scope = {**scope_of("/café"), "query_string": query.encode("latin-1")}
    assert middleware._attributes(scope)["path"] == wanted
    assert middleware._attributes({**scope, "raw_path": None})["path"] == b"/caf%C3%A9?x=" + "ü".encode()


def test_the_handshake_of_a_websocket_is_limited(url):
    from ration_client.asgi import RationMiddleware

    async def app(scope, receive, send):
        await send({"type": "websocket.accept"})

    async def main():
        async with AsyncClient(url, deadline=5.0) as client:
            site, answers = RationMiddleware(app, client), []
            for _ in range(2):
                await call(site, scope_of("/api", "websocket"), answers)
            assert [message["type"] for message in answers] == ["websocket.accept", "websocket.close"]
            await call(site, {"type": "lifespan"}, answers)  # nothing of ours
            assert answers[-1]["type"] == "websocket.accept"

    asyncio.run(main())


@pytest.mark.parametrize("middleware, limiter, message", [
    (wsgi.RationMiddleware, AsyncClient(), "a Client or an InProcess as its limiter, found <ration_client.aio.AsyncClient"),
    (wsgi.RationMiddleware, "ration://127.0.0.1", "a Client or an InProcess as its limiter, found 'ration://127.0.0.1'"),
    (asgi.RationMiddleware, Client(), "an AsyncClient as its limiter, found <ration_client.client.Client"),
    (asgi.RationMiddleware, AsyncClient, "an AsyncClient as its limiter, found <class"),
])
def test_the_wrong_kind_of_client_is_a_mistake_at_once(middleware, limiter, message):
    with pytest.raises(TypeError, match=message):
        middleware(None, limiter)
