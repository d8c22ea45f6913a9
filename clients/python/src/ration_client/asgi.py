# SPDX-License-Identifier: Apache-2.0
"""Middleware for any ASGI application: Starlette, FastAPI, Django's, plain ones.

    app.add_middleware(RationMiddleware, limiter=AsyncClient())

The decision is scope["ration.decision"]; with FastAPI and Starlette, request.scope["ration.decision"].
"""

from __future__ import annotations

import asyncio
from typing import Any, Optional
from urllib.parse import quote

from .aio import AsyncClient
from .decision import Decision
from .gate import SAFE, Attributes, Ending, Settings, Skip, attributes_of, check_limiter, refusal, skips


class RationMiddleware:
    """`attributes` and `skip` get the scope."""

    def __init__(self, app: Any, limiter: AsyncClient, *, attributes: Attributes = None, skip: Skip = None,
                 wait: Optional[float] = None) -> None:
        check_limiter(limiter, is_async=True)
        self.app, self.limiter, self.settings = app, limiter, Settings(attributes, skip, wait)
        self.endings: "set[asyncio.Task[None]]" = set()  # a loop by itself does not keep its tasks

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or skips(self.settings, scope):
            await self.app(scope, receive, send)
            return
        decision = await self.limiter.check(self._attributes(scope), wait=self.settings.wait, lease=True)
        scope["ration.decision"] = decision
        if not decision.allowed:
            await self._refuse(decision, scope, receive, send)
            return
        ending = Ending(self.limiter, decision)

        async def send_on(message: Any) -> None:
            if message["type"] == "http.response.start":
                ending.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *_bytes(decision.headers())]}
            await send(message)

        try:
            if decision.delay:
                await asyncio.sleep(decision.delay)
            await self.app(scope, receive, send_on)
        finally:
            if ending.due:  # in a task of its own: that of the request may be cancelled meanwhile
                task = asyncio.ensure_future(_tell(ending))
                self.endings.add(task)
                task.add_done_callback(self.endings.discard)
                await asyncio.shield(task)

    def _attributes(self, scope: Any) -> Any:
        client, query = scope.get("client"), scope.get("query_string", b"")
        path = scope.get("raw_path") or quote(scope["path"], SAFE).encode()
        return attributes_of(self.settings, scope, client[0] if client else None, scope.get("method", "GET"),
                             ",".join(_header(scope, b"host")), path + b"?" + query if query and b"?" not in path else path)

    async def _refuse(self, decision: Decision, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":  # the server makes it a 403
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        status, headers, body = refusal(decision, scope["method"], _header(scope, b"accept"))
        await send({"type": "http.response.start", "status": status, "headers": _bytes(headers)})
        await send({"type": "http.response.body", "body": body})


async def _tell(ending: Ending) -> None:
    for call in ending.calls():
        await call


def _header(scope: Any, name: bytes) -> "list[str]":
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _bytes(headers: "list[tuple[str, str]]") -> "list[tuple[bytes, bytes]]":
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]
