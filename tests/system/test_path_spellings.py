# SPDX-License-Identifier: Apache-2.0
"""Spellings of a limited path: whatever a client writes, nothing reaches a handler uncounted.

Proxies, frameworks and rules each read a path in their own way. Here real ones are combined: the
examples for Caddy, nginx, HAProxy, Envoy and Traefik and our module for nginx, in front of Flask,
Express, Go and Spring.
"""

import concurrent.futures
import contextlib
import socket

import pytest

from daemon import PATIENCE, Daemon, free_port
from gateway import Gateway
from proxies import PROXIES, installed
from sites import App, is_built

LIMIT = 2
RULES = f"""
{{paths}}
attributes:
  ip: {{{{ trusted_proxies: [127.0.0.1] }}}}
allow:
  - path: [/health, /health/**]
limits:
  - {{{{ name: login, when: {{{{ method: POST, path: /login }}}}, key: ip, limit: {LIMIT} per day }}}}
  - {{{{ name: buy, when: {{{{ method: POST, path: /items/*/buy }}}}, key: ip, limit: {LIMIT} per day }}}}
"""
PATHS = {"express": "paths: { case: ignore }"} # it takes /LOGIN for /login

LOGIN = rb"""
/login /%6cogin /%6Cogin /logi%6e /%6c%6f%67%69%6e /LOGIN /Login /%4cogin /%4C%4F%47%49%4E
/login/ /login// /login/// //login ///login //a/login /login/. /login/./ /login/.. /login/../login
/./login /.//login //./login /x/../login /x//../login /x/y/../../login /../login /x/../../login
/%2e/login /%2E/login /%2e%2e/login /x/%2e%2e/login /x/.%2e/login /x/%2e./login /login/%2e
/login;x=y /login; /login;x=y/ /login;/ /login/;x /;x=y/login /;/login /.;/login /x/..;/login
/x;a/../login /..;/login /login%3bx=y /login%3B /%3b/login /login;%2f /login;x=%2f..
/login? /login?x=y /login?x=/y /login%3f /login%3fx /login%3Fx=y /login? ?/login
/login# /login#x /login%23 /login%23x /login#/../x
/login%00 /login%00x /%00login /%00/login /login/%00 /login%00/
/login%20 /login%09 /login%0a /login%0d /login%0d%0a /login%7f /%20login /login+ /login%a0
/login. /login.json /login.html /login.. /login%2e /login%2ejson /.login
/login%2f /login%2F /%2flogin /%2Flogin /%2f%2flogin /.%2flogin /x%2f..%2flogin /x/..%2flogin
/x%2f../login /x/%2e%2e%2flogin /%2e%2flogin
/login\ /\login \login /%5clogin /login%5c /x\..\login /x%5c..%5clogin /x/..\login /.\login
/%256cogin /%25%36%63ogin /%2525%36cogin /login%252f /%252flogin /x/%252e%252e/login /login%253f
/%c1%acogin /%e0%81%acogin /%f0%80%81%acogin /%c0%aflogin /x/%c0%ae%c0%ae/login /login%c0%80
/log%c4%b1n /log%c4%b0n /%ef%bd%8cogin /l%ef%bd%8fgin /login%cc%81 /login%ff /%fflogin /login%e2%80%8b
/%u006cogin /login% /login%6 /login%zz /%login /%6 /l%6fg%69n%
http://a/login http://a//login http://a/%6cogin HTTP://a/login http://a:80/login http://b/login
http://a/x/../login http://a/login/ http://u:p@a/login https://a/login http:///login http:/login
http:login login a:80/login *
/%6c%6F%47in /l%4fgin /login&x /login=x /login,x /login:x /login@x /login~ /~login /login!
/health/../login /health/%2e%2e/login /health/..%2flogin /health%2f../login /health%2f..%2flogin
/health/..;/login /health;/../login /health/x/../../login /health/..\login /health\..\login
/health/..%5clogin /health/%252e%252e/login /health/..%252flogin /health%00/../login /health/..%00/login
/health#/../login /health?/../login /health%3f/../login /health%23/../login /health/%c0%ae%c0%ae/login
//health/../login //health/login /login#/health /login?/health /login;/health /login%00/health
/login/health/.. /login%2f..%2fhealth /login/..%2fhealth/../login http://health/login http:/health/../login
/login/x/.. /login/x/%2e%2e /login/%2e%2e/login /%2e%2e%2flogin /a/b/c/../../../login
""".split()
BUY = rb"""
/items/7/buy /items/%37/buy /%69tems/7/buy /items/7/%62uy /ITEMS/7/BUY /Items/7/Buy
/items/a%3fb/buy /items/a%3Fb/buy /items/%3f/buy /items/%23/buy /items/a%23b/buy /items/?/buy
/items/#/buy /items/a%2fb/buy /items/a%2Fb/buy /items/%2f/buy /items/%2f%2f/buy /items/a%252fb/buy
/items/./buy /items/%2e/buy /items/%2e%2e/buy /items/../buy /items/x/../7/buy /items/%2e%2e%2f7/buy
/items/.../buy /items/..%2fitems%2f7/buy /items/..;/buy /items/.;/buy /items/..%00/buy
/items/;/buy /items/;x=y/buy /items/7;x=y/buy /items/7;/buy;x /items;x/7/buy /items/7/buy; /items/%3b/buy
/items/%00/buy /items/7%00/buy /items/7/buy%00 /items/%ff/buy /items/%c3%a9/buy /items/%c0%af/buy
/items/%c1%a1/buy /items/%20/buy /items/%0a/buy /items/%0d%0a/buy /items/+/buy /items/%25/buy
/items/%2525/buy /items/%253f/buy /items/%zz/buy /items/%/buy /items/%u0041/buy
/items/\/buy /items/%5c/buy /items/a\b/buy /items/..\items\7/buy /items\7\buy /items%5c7%5cbuy
/items//buy /items///buy /items/7//buy //items/7/buy /items//7/buy /items/7/buy/ /items/7/buy//
/items%2f7%2fbuy /items/7%2fbuy /items%2f7/buy /items/7/./buy /items/7/x/../buy /items/7/buy/.
/items/7/buy? /items/7/buy?x=/y /items/7/buy#x /items/7/buy%3f /items/7/buy.json /items/7.json/buy
http://a/items/7/buy http://a/items/%23/buy http://a/items/a%3fb/buy /items/{7}/buy /items/*/buy
/items/**/buy /items/:7/buy /items/7@a/buy /items/%7e/buy /items/~/buy /items/a%2eb/buy
/health/../items/7/buy /health/..%2fitems/7/buy /health/..;/items/7/buy /items/..%2f..%2fhealth/buy
/items/7/buy;/../../../health /items/7/buy%2f..%2f..%2f..%2fhealth /items/7/buy/../../../health
/items/%2fhealth/buy /items/a%3fb%2fc/buy /items/%3f%23/buy /items/%3f%2e%2e/buy /items/a%3b%2fb/buy /items/%c3%28/buy
""".split()
LOGIN += [b"/lo\xe9gin", b"/login\xc0\x80", b"/login\xff", b"/login\t", b"/login\x7f", b"/\xef\xbd\x8cogin"]
BUY += [b"/items/\xc3\xa9/buy", b"/items/\xff/buy", b"/items/\xe2\x80\xae/buy", b"/items/\x7f/buy"]


def request(target):
    return (b"POST " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")


def send(port, client, target):
    """The status of the answer, or None for none: what reached a handler, the application tells."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE / 3, source_address=(client, 0)) as s:
        with contextlib.suppress(ConnectionError, TimeoutError):
            s.sendall(request(target))
            line = s.makefile("rb").readline().split()
            return int(line[1]) if len(line) > 1 else None


@pytest.fixture(scope="module")
def apps(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apps")
    with contextlib.ExitStack() as stack:
        started = {}
        for name in ("spring", "flask", "express", "go"): # the slowest first
            if is_built(name):
                started[name] = App(name, folder)
                stack.callback(started[name].close)
        yield started


@pytest.fixture(params=["flask", "express", "go", "spring"])
def app(request, apps):
    if request.param not in apps:
        pytest.skip(f"{request.param} is not built: ./dev deps")
    return apps[request.param].ready()


@contextlib.contextmanager
def gateway(app, rules, folder):
    made = Gateway(folder, rules, "ration on; location / { proxy_pass http://127.0.0.1:%d; }" % app.port)
    try:
        yield made.start().port
    finally:
        made.stop()


@contextlib.contextmanager
def proxy(kind, app, rules, folder):
    port = str(free_port())
    with Daemon(folder, rules, ["--http", f"127.0.0.1:{port}"]):
        made = kind(folder, {"8080": port, "3000": str(app.port)})
        try:
            yield made.port
        finally:
            made.close()


@pytest.fixture(params=[*PROXIES, "module"])
def port(request, app, tmp_path):
    """Of something that limits, in front of the application."""
    rules = RULES.format(paths=PATHS.get(app.name, ""))
    if request.param == "module":
        with gateway(app, rules, tmp_path) as port:
            yield port
        return
    with proxy(installed(PROXIES, request.param), app, rules, tmp_path) as port:
        yield port


def send_all(port, client, targets):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda target: send(port, client, target), targets))


def calls_of(app, port, client, targets):
    """What handlers were called with, by the spelling that did it."""
    found = {}
    for target in targets:
        before = len(app.calls())
        send(port, client, target)
        found[target] = app.calls()[before:]
    return {target: calls for target, calls in found.items() if calls}


@pytest.mark.parametrize("targets, least", [(LOGIN, 8), (BUY, 20)], ids=["login", "buy"])
def test_many_spellings_reach_a_handler_that_nothing_protects(app, targets, least):
    """Or the test below would show nothing."""
    before = len(app.calls())
    send_all(app.port, "127.0.0.2", targets)
    assert len(targets) >= 40 and len(app.calls()) - before >= least


def test_no_spelling_reaches_a_handler_when_the_limit_is_spent(app, port):
    for route in (b"/login", b"/items/7/buy"):
        statuses = [send(port, "127.0.0.2", route) for _ in range(LIMIT + 1)]
        assert statuses == [200] * LIMIT + [429]
    before = len(app.calls())
    send_all(port, "127.0.0.2", LOGIN + BUY)
    if len(app.calls()) > before:
        pytest.fail(f"uncounted: {calls_of(app, port, '127.0.0.2', LOGIN + BUY)}")
    assert send(port, "127.0.0.2", b"/elsewhere") == 404, "other paths are not limited"
