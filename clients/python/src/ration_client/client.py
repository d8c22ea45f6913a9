# SPDX-License-Identifier: Apache-2.0
"""The client for threads.

Threads share connections. The thread that waits first reads for all that wait; when it has its reply, another
one reads on. There is no thread of the client's own, but for connecting.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from typing import Any, List, Optional, Tuple

from .commands import Commands
from .decision import Decision
from .link import Link, Request, Slot
from .policy import Unavailable, report
from .protocol import BadAnswer, Reader

CONNECT_SECONDS = 1.0  # for an attempt in the background
MOST_UNSENT = 1 << 20  # bytes that rationd has not taken
ROOM_SECONDS = 0.01  # after which one looks again, as the socket may be closed meanwhile


class _Connection:
    def __init__(self, client: "Client") -> None:
        self.client, self.jitter = client, client._jitter()
        self.changed = threading.Condition(threading.Lock())
        self.socket: Optional[socket.socket] = None  # None: not connected
        self.link = Link(client.deadline)
        self.connecting = self.reading = self.telling = False
        self.next_attempt, self.why = 0.0, "not connected"
        self.events: List[Tuple[str, str]] = []  # to be reported without the lock

    # --- its life -------------------------------------------------------------------------

    def start(self, at_once: bool = False) -> None:
        """Connects in the background, unless that is under way or was tried a moment ago. Under the lock."""
        due = at_once or time.monotonic() >= self.next_attempt
        if self.socket is None and not self.connecting and not self.client._closed and due:
            try:
                threading.Thread(target=self.connect, name="ration-connect", daemon=True).start()
                self.connecting = True  # connect() ends that, under the lock
            except RuntimeError as error:  # no more threads, or the interpreter ends
                self.next_attempt, self.why = time.monotonic() + self.jitter.next(), f"cannot connect: {error}"
                self.events.append(("connect_failed", self.why))

    def connect(self) -> None:
        sock = None
        try:
            sock = self.open()
            self.greet(sock)
            why = ""
        except (OSError, BadAnswer, ValueError) as error:
            why = self.client.address.why_not(error)
            if sock is not None:
                sock.close()
        with self.changed:
            self.connecting = False
            if self.client._closed and sock is not None:
                sock.close()
            elif why or sock is None:
                self.next_attempt, self.why = time.monotonic() + self.jitter.next(), why
            else:
                sock.setblocking(False)
                self.poll = select.poll()
                self.poll.register(sock, select.POLLIN)
                self.socket, self.link, self.unsent = sock, Link(self.client.deadline), b""
                self.link.send = self.send
                self.jitter.reset()
            self.events.append(("connect_failed" if why else "connected", why or self.client.address.url))
            self.changed.notify_all()
        self.tell()

    def open(self) -> socket.socket:
        address = self.client.address
        if address.path is not None:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(CONNECT_SECONDS)
            sock.connect(address.path)
        else:
            sock = socket.create_connection((address.host, address.port), CONNECT_SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return address.tls.wrap_socket(sock, server_hostname=address.host) if address.tls is not None else sock

    def greet(self, sock: socket.socket) -> None:
        greeting, count = self.client.address.greeting()
        reader, replies = Reader(), []  # type: ignore[var-annotated]
        ends = time.monotonic() + CONNECT_SECONDS
        sock.sendall(greeting)
        while len(replies) < count:
            sock.settimeout(max(0.001, ends - time.monotonic()))
            data = sock.recv(65536)
            if not data:
                raise BadAnswer("it closes the connection")
            replies += reader.feed(data)
            if len(replies) < count and time.monotonic() >= ends:
                raise BadAnswer("no greeting in time")
        if len(replies) > count or reader.torn:
            raise BadAnswer("more than a greeting")
        self.client.address.check_greeting(replies)

    def close(self, why: str) -> None:
        """All that wait learn why. Under the lock."""
        sock, self.socket = self.socket, None
        if sock is None:
            return
        try:
            sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads, which closes it
        except OSError:
            pass
        if not self.reading:
            sock.close()
        self.why = why
        self.events.append(("disconnected", why))
        self.link.lose(Unavailable(why))
        self.changed.notify_all()

    def close_after(self, error: BadAnswer) -> None:
        self.events.append(("bad_answer", str(error)))
        self.close(f"bad answer: {error}")

    def tell(self) -> None:
        """Without the lock. One thread at a time, so that events come in their order; a callback that asks leaves them to it."""
        with self.changed:
            if self.telling:
                return
            self.telling = True
        try:
            while self.events:
                report(self.client.on_event, *self.events.pop(0))
        finally:
            with self.changed:
                self.telling = False
        if self.events:  # since it has looked
            self.tell()

    # --- one request ----------------------------------------------------------------------

    def ask(self, request: Request, ends: float) -> Any:
        """The reply. Raises Unavailable when the deadline has passed or the connection is lost."""
        with self.changed:
            self.make_ready(ends)
            slot = Slot(request, ends)
            self.link.ask(slot)
            try:
                while self.unsent and not slot.done:
                    self.await_room(slot)
                while not slot.done:
                    self.await_reply(slot)
            except BaseException:  # the deadline, or a signal or a timeout of a greenlet, also when the reply has just come
                self.link.abandon(slot)
                raise
            return slot.answer

    def make_ready(self, ends: float) -> None:
        if self.socket is not None and self.link.is_silent(self.client._silence):
            self.close("silent for too long")
        elif self.socket is not None and not self.link.owed and not self.reading:
            self.receive(self.socket)  # the end, or what nobody has asked for
        self.start()
        while self.socket is None:
            if not self.connecting:
                raise Unavailable(self.why)
            if not self.changed.wait(ends - time.monotonic()):
                raise Unavailable("connecting takes longer than the deadline")

    def await_reply(self, slot: Slot) -> None:
        rest = slot.ends - time.monotonic()
        if rest <= 0:
            if self.link.is_silent(self.client._silence):
                self.close("silent for too long")
            raise Unavailable("no answer within the deadline")
        sock = self.socket
        if self.reading or sock is None:
            self.changed.wait(rest)
            return
        self.reading, poll = True, self.poll
        self.changed.release()
        try:
            poll.poll(rest * 1000)
        finally:
            self.changed.acquire()
            self.reading = False
            if self.socket is not sock:
                sock.close()
            else:
                self.receive(sock)
            self.changed.notify_all()

    def await_room(self, slot: Slot) -> None:
        """The kernel has not taken all bytes: of a long command over a slow network, or because rationd does not read."""
        sock, rest = self.socket, slot.ends - time.monotonic()
        if rest <= 0:
            self.close("it does not take commands any more")
        if sock is None or rest <= 0:
            raise Unavailable("no answer within the deadline")
        room = select.poll()
        room.register(sock, select.POLLOUT)
        self.changed.release()
        try:
            room.poll(min(rest, ROOM_SECONDS) * 1000)
        finally:
            self.changed.acquire()
        if self.socket is sock:
            self.send(b"")

    def send(self, data: bytes) -> None:
        self.unsent += data
        try:
            if self.socket is not None and len(self.unsent) <= MOST_UNSENT:
                self.unsent = self.unsent[self.socket.send(self.unsent):]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            self.close(f"cannot send: {error}")
        if len(self.unsent) > MOST_UNSENT:
            self.close("it does not take commands any more")

    def receive(self, sock: socket.socket) -> None:
        """All that has arrived."""
        try:
            while self.socket is sock:
                data = sock.recv(65536)
                if not data:
                    self.close("rationd has closed the connection")
                else:
                    self.link.feed(data)
                    if len(data) < 65536 and self.client.address.tls is None:
                        break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except BadAnswer as error:
            self.close_after(error)
        except OSError as error:
            self.close(f"cannot receive: {error}")


class Client(Commands[Decision, Optional[bool], Optional[float]]):
    """For threads, and for processes that fork: a child makes its own connections."""

    _closed = False
    _pid = 0
    _pool: List[_Connection] = []

    def _ask(self, request: Optional[Request]) -> Any:
        if request is None:
            return None
        ends = time.monotonic() + self.deadline
        try:
            self._breaker.admit()
        except Unavailable as why:
            return request.instead(str(why))
        connection = self._pick()
        try:
            return self._finish(request, connection.ask(request, ends))
        except Unavailable as why:
            return self._fail(request, why)
        finally:
            if connection.events:
                connection.tell()

    def _pick(self) -> _Connection:
        if self._pid != os.getpid():
            self._pool, self._pid = [_Connection(self) for _ in range(self._size)], os.getpid()
        best = None
        for connection in self._pool:
            if connection.socket is None:
                with connection.changed:
                    connection.start(at_once=self._breaker.open)
            elif best is None or len(connection.link.owed) < len(best.link.owed):
                best = connection
        return best or self._pool[0]

    def close(self) -> None:
        self._closed = True
        for connection in self._pool if self._pid == os.getpid() else []:
            with connection.changed:
                connection.close("the client is closed")
            connection.tell()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
