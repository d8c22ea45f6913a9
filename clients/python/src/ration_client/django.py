# SPDX-License-Identifier: Apache-2.0
"""Middleware for Django.

    MIDDLEWARE = ["ration_client.django.RationMiddleware", ...]
    RATION = {"url": "unix:/run/ration/resp.sock", "policy": "allow"}

RATION has the arguments of Client, and `attributes`, `skip` and `wait`; functions, or their dotted names. They get the
HttpRequest. The decision is request.ration. `ip` is REMOTE_ADDR.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable

from django.conf import settings
from django.core.signals import request_finished
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from .client import Client
from .gate import Ending, Settings, attributes_of, refusal, skips, target_of
from .wsgi import Body


class RationMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        options = dict(settings.RATION)
        own = {name: options.pop(name) for name in ("attributes", "skip", "wait") if name in options}
        self.settings = Settings(**{name: import_string(value) if isinstance(value, str) else value for name, value in own.items()})
        self.limiter, self.get_response = Client(**options), get_response
        self.thread = threading.local()
        request_finished.connect(self._end)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if skips(self.settings, request):
            return self.get_response(request)
        meta, method = request.META, request.method or "GET"
        asked = attributes_of(self.settings, request, meta.get("REMOTE_ADDR"), method, meta.get("HTTP_HOST", ""), target_of(meta))
        decision: Any = self.limiter.check(asked, wait=self.settings.wait, lease=True)
        request.ration = decision  # type: ignore[attr-defined]
        if not decision.allowed:
            status, headers, body = refusal(decision, method, [meta.get("HTTP_ACCEPT", "")])
            return HttpResponse(body, status=status, headers=dict(headers))
        ending = Ending(self.limiter, decision)
        try:
            if decision.delay:
                time.sleep(decision.delay)
            response = self.get_response(request)
        except BaseException:
            ending.calls()
            raise
        for name, value in decision.headers():
            response[name] = value
        ending.status = response.status_code
        if ending.due:
            _after(response, ending)
            if hasattr(request, "environ"):  # WSGI: one request at a time in a thread, and the status goes out with the first byte
                self.thread.ending = ending
                _watch(response, ending)
        return response

    def _end(self, **_: Any) -> None:
        """Of a response that nobody has closed: middleware before this one has failed, or has answered by another response."""
        ending, self.thread.ending = getattr(self.thread, "ending", None), None
        if ending is not None:
            ending.calls()


def _after(response: HttpResponseBase, ending: Ending) -> None:
    """A stream has not been sent yet: its places are free when the server closes it."""
    close = response.close

    def close_and_tell() -> None:
        try:
            close()
        finally:
            ending.calls()

    response.close = close_and_tell  # type: ignore[method-assign]


def _watch(response: Any, ending: Ending) -> None:
    """A file goes by itself, so that the server can send it by sendfile."""
    if response.streaming and not getattr(response, "is_async", False) and getattr(response, "file_to_stream", None) is None:
        response.streaming_content = iter(Body(response.streaming_content, ending))
