# SPDX-License-Identifier: Apache-2.0
"""An extension for Flask.

    Ration(app, Client())

The decision is flask.g.ration. `ip` is request.remote_addr: behind a proxy set up werkzeug's ProxyFix.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, List, Optional, Union

from flask import Flask, Response, g, request

from .client import Client
from .gate import Attributes, Ending, Settings, Skip, attributes_of, check_limiter, refusal, skips, target_of
from .inprocess import InProcess
from .wsgi import Body

ENDINGS = "ration.endings"  # in the environ: the ending of its request, once there is one


class Ration:
    """`attributes` and `skip` get flask.request."""

    def __init__(self, app: Flask, limiter: Union[Client, InProcess], *, attributes: Attributes = None, skip: Skip = None,
                 wait: Optional[float] = None) -> None:
        check_limiter(limiter, is_async=False)
        self.limiter, self.settings = limiter, Settings(attributes, skip, wait)
        app.before_request(self._decide)
        app.after_request(self._add_headers)
        app.teardown_request(self._end)
        app.wsgi_app = _followed(app.wsgi_app)  # type: ignore[method-assign]

    def _decide(self) -> Optional[Response]:
        if skips(self.settings, request):
            return None
        asked = attributes_of(self.settings, request, request.remote_addr, request.method, request.host,
                              target_of(request.environ))
        g.ration = decision = self.limiter.check(asked, wait=self.settings.wait, lease=True)
        if not decision.allowed:
            status, headers, body = refusal(decision, "GET", request.headers.getlist("Accept"))  # werkzeug knows HEAD
            return Response(body, status, headers)
        g._ration_ending = ending = Ending(self.limiter, decision)
        request.environ.get(ENDINGS, []).append(ending)
        if decision.delay:
            time.sleep(decision.delay)
        return None

    def _add_headers(self, response: Response) -> Response:
        ending = g.get("_ration_ending")
        if ending is not None:  # else refused, with its headers, or skipped
            for name, value in ending.decision.headers():
                response.headers[name] = value
        return response

    def _end(self, _: Any) -> None:
        """Of a context that no server has opened, as in tests."""
        ending = g.get("_ration_ending")
        if ending is not None and ENDINGS not in request.environ:
            ending.calls()


def _followed(app: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """What is sent in the end is seen only here: Flask drops a response when a function that runs after it fails or returns
    another one, and never closes that of send_file."""

    def follow(environ: "dict[str, Any]", start_response: Callable[..., Any]) -> Iterable[bytes]:
        endings: List[Ending] = environ.setdefault(ENDINGS, [])

        def start(status: str, headers: "list[tuple[str, str]]", *exc_info: Any) -> Any:
            for ending in endings:
                ending.status = int(status[:3])
            return start_response(status, headers, *exc_info)

        try:
            body = app(environ, start)
        except BaseException:
            for ending in endings:
                ending.status = 500
                ending.calls()
            raise
        for ending in endings:
            body = Body(body, ending) if ending.due else body
        return body

    return follow
