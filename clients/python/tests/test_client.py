# SPDX-License-Identifier: Apache-2.0
"""What the table of scenarios cannot say: forks, cancelled tasks, TLS, settings of Python, the parts by themselves."""

import asyncio
import contextlib
import email.utils
import os
import signal
import socket
import ssl
import threading
import time

import pytest
from daemon import Daemon, wait_for
from fake_rationd import read_command
from runner import TABLE
from test_tls import Authority, has_tls

from ration_client import AsyncClient, Client, backoff, retry_after_seconds
from ration_client.decision import Decision
from ration_client.policy import LocalLimit
from ration_client.protocol import BadAnswer, Reader, encode

RULES = "limits:\n  - {name: api, key: ip, limit: 100 per hour}\n"
OPTIONS = ["--http", "none", "--admin", "none", "--workers", "1", "--memory", "2M"]


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, RULES, OPTIONS) as daemon:
        yield daemon


def url_of(daemon):
    return "ration://" + daemon.addresses["resp"]


def test_a_forked_child_has_connections_of_its_own(daemon):
    with Client(url_of(daemon), deadline=5.0) as client:
        assert client.take("ann", "9 per hour").remaining == 8
        child = os.fork()
        if child == 0:
            os._exit(client.take("ann", "9 per hour").remaining)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert client.take("ann", "9 per hour").remaining == 6


def test_a_forked_child_does_not_wait_for_locks_of_threads_that_it_has_not():
    client = Client("ration://127.0.0.1:1", policy="9 per hour", failures=1)
    with client._policy.local._lock, client._breaker._lock, client.on_event._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # it would wait for ever
            os._exit(client.take("ann", "9 per hour").remaining)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8


def test_a_cancelled_task_gives_its_place_back(daemon):
    async def main():
        async with AsyncClient(url_of(daemon), deadline=5.0, connections=1) as client:
            await client.take("warm", "9 per hour")
            daemon.freeze()
            task = asyncio.create_task(client.acquire("job", "1 concurrent"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            daemon.thaw()
            until = time.monotonic() + 30
            while not (await client.acquire("job", "1 concurrent")).allowed:
                assert time.monotonic() < until
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_a_caller_that_gives_up_in_line_leaves_it(daemon):
    async def main():
        async with AsyncClient(url_of(daemon), deadline=5.0, connections=1) as client:
            await client.check({"ip": "192.0.2.7"}, cost=100)
            task = asyncio.create_task(client.check({"ip": "192.0.2.7"}, wait=59))
            connection = client._pool[0]
            until = time.monotonic() + 30
            while not connection.link.lines and time.monotonic() < until and not task.done():
                await asyncio.sleep(0.01)
            assert connection.link.lines, task
            task.cancel()
            while connection.link.lines:
                assert time.monotonic() < until
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_without_threads_the_policy_decides_until_there_are_some(daemon):
    events = []
    with Client(url_of(daemon), deadline=5.0, policy="refuse", failures=1000, on_event=lambda *event: events.append(event)) as client:
        usual = threading.stack_size(1 << 47)  # more than any machine has
        try:
            assert "thread" in client.take("ann", "9 per hour").why
        finally:
            threading.stack_size(usual)
        assert events[0][0] == "connect_failed"
        until = time.monotonic() + 30
        while client.take("ann", "9 per hour").by != "rationd":
            assert time.monotonic() < until, events
            time.sleep(0.01)


def bind_beside(port):
    """A socket on the port of rationd, at another address where it is free."""
    for address in (f"127.0.0.{n}" for n in range(2, 255)):
        beside = socket.socket()
        try:
            beside.bind((address, port))
            return beside
        except OSError:
            beside.close()
    raise AssertionError(f"port {port} is free nowhere")


def test_of_two_addresses_of_a_name_one_may_be_dead(daemon):
    class Loop(asyncio.SelectorEventLoop):
        async def getaddrinfo(self, host, port, **_):
            assert host == "rationd.test"
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in (dead.getsockname()[0], "127.0.0.1")]

    async def main(port):
        async with AsyncClient(f"ration://rationd.test:{port}", deadline=5.0) as client:
            return (await client.take("ann", "9 per hour")).by

    port = int(url_of(daemon).rpartition(":")[2])
    with contextlib.ExitStack() as stack:
        dead = stack.enter_context(bind_beside(port))
        dead.listen(0)
        for _ in range(8):  # more than it holds: later ones get no answer at all
            full = stack.enter_context(socket.socket())
            full.setblocking(False)
            full.connect_ex(dead.getsockname())
        loop = stack.enter_context(contextlib.closing(Loop()))
        assert loop.run_until_complete(main(port)) == "rationd"


def test_a_client_of_asyncio_goes_on_in_another_loop(daemon):
    client = AsyncClient(url_of(daemon), deadline=5.0)
    assert [asyncio.run(client.take("ann", "9 per hour")).remaining for _ in range(3)] == [8, 7, 6]


@contextlib.contextmanager
def slow_server():
    """Greets, and then reads a little at a time, as long as the event is set. Its kernel takes little."""
    listener, reads = socket.socket(), threading.Event()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    names = TABLE["bytes"]

    def serve():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.recv(4096)
            connection.sendall(names["hello"].encode())
            data = b""
            while reads.wait(30) and not data.endswith(b"$4\r\nWAIT\r\n$6\r\nreturn\r\n"):
                more = connection.recv(4096)
                if not more:
                    break
                data += more
            else:
                connection.sendall(names["seven"].encode())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield "ration://127.0.0.1:%d" % listener.getsockname()[1], reads
    finally:
        reads.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.fixture
def small_buffers(monkeypatch):
    """Over loopback a kernel would take long commands at once."""
    connect = socket.create_connection

    def create_connection(*args):
        sock = connect(*args)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        return sock

    monkeypatch.setattr(socket, "create_connection", create_connection)


LONG = {f"header.x-{i}": "x" * 8000 for i in range(24)}


def test_a_long_command_goes_out_in_pieces(small_buffers):
    with slow_server() as (url, reads), Client(url, deadline=30.0, connections=1) as client:
        reads.set()
        assert client.check(LONG).remaining == 7


def test_a_server_that_reads_nothing_costs_the_deadline(small_buffers):
    events = []
    with slow_server() as (url, reads), \
            Client(url, deadline=0.3, connections=1, policy="refuse", on_event=lambda name, _: events.append(name)) as client:
        began = time.monotonic()
        decisions = [client.check(LONG) for _ in range(2)]
        assert {(d.allowed, d.by) for d in decisions} == {(False, "policy")}
        assert time.monotonic() - began < 10
        assert "disconnected" in events


@contextlib.contextmanager
def server(serve):
    """Each connection in a thread of its own. Gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve_one(connection):
        with connection, contextlib.suppress(OSError):
            serve(connection)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve_one, args=listener.accept()[:1], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def test_a_greeting_that_drips_is_given_up():
    def drip(connection):
        connection.recv(4096)
        while True:
            connection.sendall(b"%")
            time.sleep(0.2)

    events = []
    with server(drip) as port, Client(f"ration://127.0.0.1:{port}", deadline=0.1, on_event=lambda *event: events.append(event)) as client:
        assert "longer than the deadline" in client.take("ann", "9 per hour").why
        wait_for(lambda: events, "the end of the attempt", 30)
        assert events[0][0] == "connect_failed"


@pytest.mark.skipif(not has_tls(), reason="this build has no TLS")
def test_with_tls_asyncio_does_not_take_the_next_connection_for_the_last_one(tmp_path):
    authority = Authority(tmp_path)
    cert, key = authority.sign("server")
    context, answers = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), [":1\r\n", TABLE["bytes"]["seven"]]
    context.load_cert_chain(cert, key)
    trust = ssl.create_default_context(cafile=str(authority.file))
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT

    def serve(connection):
        with context.wrap_socket(connection, server_side=True) as secure, secure.makefile("rb") as commands:
            while (words := read_command(commands)) is not None:
                secure.sendall((TABLE["bytes"]["hello"] if words[0] == b"HELLO" else answers.pop(0)).encode())

    async def main(port):
        async with AsyncClient(f"rations://127.0.0.1:{port}", deadline=5.0, connections=1, tls=trust) as client:
            return [(await client.take("ann", "9 per hour")).why for _ in range(2)]

    with server(serve) as port:
        bad, good = asyncio.run(main(port))
    assert "bad answer" in bad and good == ""


@pytest.mark.skipif(not has_tls(), reason="this build has no TLS")
def test_tls(tmp_path):
    authority = Authority(tmp_path)
    cert, key = authority.sign("server")
    trust = ssl.create_default_context(cafile=str(authority.file))
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT  # of Python 3.13: this authority is a simple one
    with Daemon(tmp_path, RULES, [*OPTIONS, "--tls-cert", str(cert), "--tls-key", str(key)]) as daemon:
        url = "rations://" + daemon.addresses["resp"]
        with Client(url, deadline=5.0, tls=trust) as client:
            assert [client.take("ann", "9 per hour").remaining for _ in range(3)] == [8, 7, 6]
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(client.take("crowd", "99 per hour"))) for _ in range(20)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(a.remaining for a in answers) == list(range(79, 99))
        with Client(url, deadline=5.0) as stranger:
            assert "certificate" in stranger.take("ann", "9 per hour").why

        async def main():
            async with AsyncClient(url, deadline=5.0, tls=trust) as client:
                return [(await client.take("ann", "9 per hour")).remaining for _ in range(2)]

        assert asyncio.run(main()) == [5, 4]


def test_a_callback_that_fails_reaches_nobody(daemon):
    def fail(name, detail):
        raise RuntimeError(name)

    with Client(url_of(daemon), deadline=5.0, on_event=fail) as client:
        assert client.take("ann", "9 per hour").by == "rationd"


def test_events_come_in_their_order():
    """The caller that finds the end of a connection tells of it later than the thread that makes the next one."""
    events, ended = [], threading.Event()

    def answer_once(connection):
        with connection.makefile("rb") as commands:
            for name in ("hello", "seven"):
                read_command(commands)
                connection.sendall(TABLE["bytes"][name].encode())
            connection.shutdown(socket.SHUT_RDWR)
            ended.set()

    with server(answer_once) as port, Client(f"ration://127.0.0.1:{port}", deadline=30.0, connections=1,
                                             on_event=lambda name, _: events.append(name)) as client:
        assert client.take("ann", "9 per hour").by == "rationd"
        assert ended.wait(30)
        assert client.take("ann", "9 per hour").by == "rationd"
    assert events == ["connected", "disconnected", "connected", "disconnected"]


def test_a_callback_may_ask(daemon):
    asked = []
    with Client(url_of(daemon), deadline=5.0, connections=1) as client:
        client.on_event = lambda name, _: asked.append((name, client.take("from callback", "9 per hour").by))
        client.take("ann", "9 per hour")
        daemon.kill()
        client.take("ann", "9 per hour")
        wait_for(lambda: any(name == "disconnected" for name, _ in asked), "the event")


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
def test_replies_come_in_any_pieces(step):
    data = encode([b"a", b"", b"x\r\ny"]) + b"%1\r\n+k\r\n,1.5\r\n>1\r\n:7\r\n#f\r\n_\r\n-ERR no\r\n$-1\r\n*-1\r\n:-12\r\n"
    reader, replies = Reader(), []
    for at in range(0, len(data), step):
        replies += reader.feed(data[at:at + step])
    assert replies == [[b"a", b"", b"x\r\ny"], {"k": 1.5}, [7], False, None, "ERR no", None, None, -12]


@pytest.mark.parametrize("data", [b"HTTP/1.1\r\n", b"x", b"$3\r\nabcd\r\n", b"*5000\r\n", b":1_0\r\n", b",inf\r\n", b"#x\r\n",
                                  b"%1\r\n:1\r\n:2\r\n", b"*1\r\n" * 20, b"$2000000\r\n", b"+" + b"x" * 1_200_000])
def test_nonsense_is_a_bad_answer(data):
    with pytest.raises(BadAnswer):
        Reader().feed(data)


def test_a_local_limit_refills_and_forgets():
    limit = LocalLimit("1000 per second burst 5")
    assert [limit.take("a", 1, "").allowed for _ in range(5)] == [True] * 5
    assert limit.take("a", 6, "").retry_after is None
    time.sleep(0.01)
    assert limit.take("a", 1, "").allowed
    for i in range(20_000):
        limit.take(str(i), 1, "")
    assert len(limit._buckets) == 10_000 and "a" not in limit._buckets


@pytest.mark.parametrize("text", ["", "many", "0 per second", "5 per 0 seconds", "5 per fortnight", "-1 per second"])
def test_a_local_limit_must_be_one(text):
    with pytest.raises(ValueError, match="local limit"):
        LocalLimit(text)


@pytest.mark.parametrize("settings, message", [
    ({"url": "ration://127.0.0.1:65536"}, "ration://host:port.*found 'ration://127.0.0.1:65536'"),
    ({"url": "ration://:secret@127.0.0.1:x"}, "found 'ration://127.0.0.1:x'"),
    ({"url": "ration://127.0.0.1:6380/0"}, "ends with its port"),
    ({"policy": "deny"}, "'allow', 'refuse' or a local limit.*found 'deny'"),
    ({"policy": None}, "found None"),
    ({"deadline": "50"}, "deadline must be seconds, from 0.001 to 60, found '50'"),
    ({"failures": 0}, "failures must be a whole number from 1, found 0"),
    ({"probe_first": 3}, "probe_most must be seconds, from 3 to 3600, found 2.0"),
    ({"local_key": "user"}, r"a list of names, such as \['user'\]"),
    ({"on_event": 7}, "on_event must be a function"),
    ({"tls": True}, "tls must be an ssl.SSLContext"),
    ({"tls": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}, "tls is for an address that begins with rations://, found 'ration://127.0.0.1:6380'"),
])
def test_a_wrong_setting_says_what_would_be_right(settings, message):
    with pytest.raises(ValueError, match=message):
        Client(**settings)


def test_half_a_character_is_no_error(daemon):
    """JSON may have it."""
    with Client(url_of(daemon), deadline=5.0) as client:
        assert client.check({"ip": "192.0.2.7", "user": "a\ud800"}).by == "rationd"
        assert [client.take(key, "9 per hour").remaining for key in ("\ud800", "\ud800", "\ud801")] == [8, 7, 8]


def test_attributes_are_a_mapping():
    with Client() as client, pytest.raises(ValueError, match="attributes must be a mapping.*found '192.0.2.7'"):
        client.check("192.0.2.7")


def test_a_deadline_in_milliseconds_draws_a_warning(caplog):
    Client(deadline=50).close()
    assert "deadline=50 is seconds" in caplog.text


def test_without_a_callback_each_trouble_is_a_warning_once(daemon, caplog):
    caplog.set_level("INFO", "ration_client")

    def warnings():
        return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]

    with Client(url_of(daemon), deadline=5.0, connections=1) as client:
        for _ in range(3):
            assert client.take("ann", "5 per fortnight").by == "policy"
        assert len(warnings()) == 1 and "fortnight" in warnings()[0]
        daemon.kill()
        assert wait_for(lambda: client.take("ann", "5 per hour").why.startswith("cannot connect"))
        assert wait_for(lambda: len(warnings()) > 1) and "cannot connect" in warnings()[1]


def test_names_of_rules_are_texts(daemon):
    with Client(url_of(daemon), deadline=5.0) as client:
        decision = client.check({"ip": "192.0.2.99"})
    assert decision.by == "rationd" and decision.limits and decision.rule in [limit["rule"] for limit in decision.limits]


def test_names_in_headers_are_unique_and_quoted():
    def limit(rule):
        return {"rule": rule, "limit": 5, "remaining": 4, "reset_after": 1.2, "amount": 5, "period": 60.0}

    rules = [b"api", b"api", b"api-2", b'a"\\b', "ü".encode()]
    decision = Decision.read({"allowed": True, "rule": b"api", "limit": 5, "remaining": 4, "reset_after": 1.2, "retry_after": 0,
                              "delay": 0, "limits": [limit(rule) for rule in rules]})
    names = [item.split(";")[0] for item in dict(decision.headers())["RateLimit"].split(", ")]
    assert names == ['"api"', '"api-3"', '"api-2"', '"a\\"\\\\b"', '"?"']


def test_backoff_honours_retry_after_and_grows():
    assert all(7 <= backoff(0, "7") <= 7.2 for _ in range(100))
    assert max(backoff(0) for _ in range(200)) <= 0.2 < max(backoff(9) for _ in range(200)) <= 10
    date = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert 55 <= retry_after_seconds(date) <= 60
    assert [retry_after_seconds(text) for text in (None, "soon", "", "-5", "Wed, 99 Nov")] == [None] * 5
    with pytest.raises(ValueError):
        backoff(-1)
