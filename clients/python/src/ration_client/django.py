# SPDX-License-Identifier: Apache-2.0
"""Middleware for Django.

    MIDDLEWARE = ["ration_client.django.RationMiddleware", ...]
    RATION = {"url": "unix:/run/ration/resp.sock", "policy": "allow"}

RATION has the arguments of Client, and `attributes`, `skip` and `wait`; functions, or their dotted names. They get the
HttpRequest. The decision is request.ration. `ip` is REMOTE_ADDR.
"""

from __future__ import annotations

import time
from typing import Any, Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from .client import Client
from .gate import Ending, Settings, attributes_of, refusal, skips, target_of


class RationMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        options = dict(settings.RATION)
        own = {name: options.pop(name) for name in ("attributes", "skip", "wait") if name in options}
        self.settings = Settings(**{name: import_string(value) if isinstance(value, str) else value for name, value in own.items()})
        self.limiter, self.get_response = Client(**options), get_response

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
        return response


def _after(response: HttpResponseBase, ending: Ending) -> None:
    """A stream has not been sent yet: its places are free when the server closes it."""
    close = response.close

    def close_and_tell() -> None:
        try:
            close()
        finally:
            ending.calls()

    response.close = close_and_tell  # type: ignore[method-assign]
