# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio. It belongs to the loop that it is first used in; in another one it starts over."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Awaitable, List, Optional

from .client import CONNECT_SECONDS
from .commands import Commands
from .decision import Decision
from .link import Link, Request, Slot
from .policy import Unavailable, report
from .protocol import BadAnswer, Reader

MOST_UNSENT = 1 << 20  # bytes that rationd has not taken
NEXT_ADDRESS_SECONDS = 0.25  # after which the next address of a name is tried, too


class _Stream(asyncio.Protocol):
    """One attempt to connect, and what comes of it. It knows its connection; what asyncio says of an old one reaches no new one."""

    def __init__(self, connection: "_Connection") -> None:
        self.connection, self.greeting = connection, connection.loop.create_future()
        self.reader, self.greeted = Reader(), []  # type: ignore[var-annotated]
        self.why = ""  # why it is of no use, while nobody has it

    def data_received(self, data: bytes) -> None:
        if self.connection.stream is self:
            self.connection.receive(data)
        elif self.greeting.done():
            self.why = "more than a greeting"
        else:
            try:
                self.greet(data)
            except BadAnswer as error:
                self.why = str(error)
                self.greeting.set_result(None)  # connect() looks why

    def greet(self, data: bytes) -> None:
        address = self.connection.client.address
        count = address.greeting()[1]
        self.greeted += self.reader.feed(data)
        if len(self.greeted) >= count:
            if len(self.greeted) > count or self.reader.torn:
                raise BadAnswer("more than a greeting")
            address.check_greeting(self.greeted)
            self.greeting.set_result(None)

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.why = f"it closes the connection{f': {error}' if error else ''}"
        if self.connection.stream is self:
            self.connection.close(f"connection lost: {error or 'rationd has closed it'}")
        elif not self.greeting.done():
            self.greeting.set_result(None)


class _Connection:
    def __init__(self, client: "AsyncClient", loop: asyncio.AbstractEventLoop) -> None:
        self.client, self.loop, self.jitter = client, loop, client._jitter()
        self.transport: Optional[asyncio.Transport] = None  # None: not connected
        self.stream: Optional[_Stream] = None  # the same
        self.link = Link(client.deadline)
        self.attempt: Optional["asyncio.Task[None]"] = None
        self.next_attempt, self.why = 0.0, "not connected"

    # --- its life -------------------------------------------------------------------------

    def start(self, at_once: bool = False) -> None:
        """Connects in the background, unless that is under way or was tried a moment ago."""
        due = at_once or time.monotonic() >= self.next_attempt
        if self.transport is None and self.attempt is None and not self.client._closed and due:
            self.attempt = self.loop.create_task(self.connect())

    async def connect(self) -> None:
        transport, why, stream = None, "", _Stream(self)
        try:
            transport = await asyncio.wait_for(self.open(stream), CONNECT_SECONDS)
            transport.write(self.client.address.greeting()[0])
            await asyncio.wait_for(stream.greeting, CONNECT_SECONDS)
            if stream.why:
                raise BadAnswer(stream.why)
        except (OSError, BadAnswer, ValueError, asyncio.TimeoutError) as error:
            why = self.client.address.why_not(error)
        finally:
            self.attempt = None
            if transport is not None and (why or self.client._closed):
                transport.abort()
        if why:
            self.next_attempt, self.why = time.monotonic() + self.jitter.next(), why
        elif not self.client._closed:
            self.transport, self.stream, self.link = transport, stream, Link(self.client.deadline)
            self.link.send = self.send
            self.jitter.reset()
        report(self.client.on_event, "connect_failed" if why else "connected", why or self.client.address.url)

    async def open(self, stream: _Stream) -> Any:
        address = self.client.address
        if address.path is not None:
            transport, _ = await self.loop.create_unix_connection(lambda: stream, address.path)
        else:
            transport, _ = await self.loop.create_connection(
                lambda: stream, address.host, address.port, ssl=address.tls, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS)
        return transport

    def close(self, why: str) -> None:
        """All that wait learn why."""
        transport, self.transport, self.stream = self.transport, None, None
        if transport is not None:
            self.why = why
            transport.abort()
            self.link.lose(Unavailable(why))
            report(self.client.on_event, "disconnected", why)

    def close_after(self, error: BadAnswer) -> None:
        report(self.client.on_event, "bad_answer", str(error))
        self.close(f"bad answer: {error}")

    def receive(self, data: bytes) -> None:
        try:
            self.link.feed(data)
        except BadAnswer as error:
            self.close_after(error)

    # --- one request ----------------------------------------------------------------------

    async def ask(self, request: Request, ends: float) -> Any:
        """The reply. Raises Unavailable when the deadline has passed or the connection is lost."""
        await self.make_ready(ends)
        slot, done = Slot(request, ends), self.loop.create_future()
        slot.wake = lambda: None if done.done() else done.set_result(None)
        link = self.link
        link.ask(slot)
        timer = self.loop.call_later(ends - time.monotonic(), lambda: self.expire(slot))
        try:
            await done
        except asyncio.CancelledError:
            link.abandon(slot)
            raise
        finally:
            timer.cancel()
        return slot.answer

    async def make_ready(self, ends: float) -> None:
        if self.transport is not None and self.link.is_silent(self.client._silence):
            self.close("silent for too long")
        self.start()
        if self.transport is None and self.attempt is not None:
            await asyncio.wait([self.attempt], timeout=ends - time.monotonic())
        if self.transport is None:
            raise Unavailable(self.why if self.attempt is None else "connecting takes longer than the deadline")

    def expire(self, slot: Slot) -> None:
        rest = slot.ends - time.monotonic()
        if slot.done or slot.late is not None:
            return
        if rest > 0:  # it waits in line
            self.loop.call_later(rest, lambda: self.expire(slot))
        else:
            link = self.link
            link.abandon(slot)
            slot.settle(Unavailable("no answer within the deadline"))
            if link.is_silent(self.client._silence):
                self.close("silent for too long")

    def send(self, data: bytes) -> None:
        """A rationd that does not even take commands is as good as gone."""
        if self.transport is not None:
            self.transport.write(data)
            if self.transport.get_write_buffer_size() > MOST_UNSENT:
                self.close("it does not take commands any more")


class AsyncClient(Commands[Awaitable[Decision], Awaitable[Optional[bool]], Awaitable[Optional[float]]]):
    _closed = False
    _loop: Optional[asyncio.AbstractEventLoop] = None
    _pool: List[_Connection] = []

    async def _ask(self, request: Optional[Request]) -> Any:
        if request is None:
            return None
        ends = time.monotonic() + self.deadline
        try:
            self._breaker.admit()
        except Unavailable as why:
            return request.instead(str(why))
        connection = self._pick()
        try:
            return self._finish(request, await connection.ask(request, ends))
        except Unavailable as why:
            return self._fail(request, why)

    def _pick(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._pool, self._loop = [_Connection(self, loop) for _ in range(self._size)], loop
        best = None
        for connection in self._pool:
            if connection.transport is None:
                connection.start(at_once=self._breaker.open)
            elif best is None or len(connection.link.owed) < len(best.link.owed):
                best = connection
        return best or self._pool[0]

    async def close(self) -> None:
        self._closed = True
        for connection in self._pool if self._loop is asyncio.get_running_loop() else []:
            connection.close("the client is closed")
            attempt = connection.attempt
            if attempt is not None:
                attempt.cancel()
                await asyncio.wait([attempt])

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
