# SPDX-License-Identifier: Apache-2.0
"""Middleware for any WSGI application.

    application = RationMiddleware(application, Client())

The decision is environ["ration.decision"].
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Iterator, Optional, Union

from .client import Client
from .gate import REASONS, Attributes, Ending, Settings, Skip, attributes_of, check_limiter, refusal, skips, target_of
from .inprocess import InProcess


class RationMiddleware:
    """`attributes` and `skip` get the environ."""

    def __init__(self, app: Callable[..., Iterable[bytes]], limiter: Union[Client, InProcess], *, attributes: Attributes = None,
                 skip: Skip = None, wait: Optional[float] = None) -> None:
        check_limiter(limiter, is_async=False)
        self.app, self.limiter, self.settings = app, limiter, Settings(attributes, skip, wait)

    def __call__(self, environ: "dict[str, Any]", start_response: Callable[..., Any]) -> Iterable[bytes]:
        if skips(self.settings, environ):
            return self.app(environ, start_response)
        method = environ.get("REQUEST_METHOD", "GET")
        asked = attributes_of(self.settings, environ, environ.get("REMOTE_ADDR"), method, environ.get("HTTP_HOST", ""),
                              target_of(environ))
        decision = self.limiter.check(asked, wait=self.settings.wait, lease=True)
        environ["ration.decision"] = decision
        if not decision.allowed:
            refused = refusal(decision, method, [environ.get("HTTP_ACCEPT", "")])
            start_response(f"{refused.status} {REASONS.get(refused.status, 'Refused')}", refused.headers)
            return [refused.body]
        ending = Ending(self.limiter, decision)

        def start(status: str, headers: "list[tuple[str, str]]", *exc_info: Any) -> Any:
            ending.status = int(status[:3])
            return start_response(status, [*headers, *decision.headers()], *exc_info)

        try:
            if decision.delay:
                time.sleep(decision.delay)
            body = self.app(environ, start)
        except BaseException:
            ending.status = 500  # the server's, as it has sent nothing
            ending.calls()
            raise
        return Body(body, ending) if ending.due else body


class Body:
    """The response's own body, and what follows it."""

    def __init__(self, body: Iterable[bytes], ending: Ending) -> None:
        self.body, self.ending = body, ending

    def __iter__(self) -> Iterator[bytes]:
        sent = False
        try:
            for piece in self.body:
                sent = sent or bool(piece)
                yield piece
        except Exception:
            if not sent:  # the server has not sent the status yet, and answers 500
                self.ending.status = 500
            raise

    def close(self) -> None:
        try:
            if hasattr(self.body, "close"):
                self.body.close()
        finally:
            self.ending.calls()
