# SPDX-License-Identifier: Apache-2.0
"""An extension for Flask.

    Ration(app, Client())

The decision is flask.g.ration. `ip` is request.remote_addr: behind a proxy set up werkzeug's ProxyFix.
"""

from __future__ import annotations

import time
from typing import Any, Optional, Union

from flask import Flask, Response, g, request

from .client import Client
from .gate import Attributes, Ending, Settings, Skip, attributes_of, check_limiter, refusal, skips, target_of
from .inprocess import InProcess


class Ration:
    """`attributes` and `skip` get flask.request."""

    def __init__(self, app: Flask, limiter: Union[Client, InProcess], *, attributes: Attributes = None, skip: Skip = None,
                 wait: Optional[float] = None) -> None:
        check_limiter(limiter, is_async=False)
        self.limiter, self.settings = limiter, Settings(attributes, skip, wait)
        app.before_request(self._decide)
        app.after_request(self._add_headers)
        app.teardown_request(self._end)

    def _decide(self) -> Optional[Response]:
        if skips(self.settings, request):
            return None
        asked = attributes_of(self.settings, request, request.remote_addr, request.method, request.host,
                              target_of(request.environ))
        g.ration = decision = self.limiter.check(asked, wait=self.settings.wait, lease=True)
        if not decision.allowed:
            status, headers, body = refusal(decision, "GET", request.headers.getlist("Accept"))  # werkzeug knows HEAD
            return Response(body, status, headers)
        g._ration_ending = Ending(self.limiter, decision)
        if decision.delay:
            time.sleep(decision.delay)
        return None

    def _add_headers(self, response: Response) -> Response:
        ending = g.pop("_ration_ending", None)
        if ending is not None:  # else refused, with its headers, or skipped
            for name, value in ending.decision.headers():
                response.headers[name] = value
            ending.status = response.status_code
            response.call_on_close(ending.calls)
        return response

    def _end(self, _: Any) -> None:
        """After an exception that has not become a response."""
        ending = g.pop("_ration_ending", None)
        if ending is not None:
            ending.calls()
