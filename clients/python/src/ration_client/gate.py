# SPDX-License-Identifier: Apache-2.0
"""What the middleware of all frameworks has in common: attributes of a request, the refusal, what follows the response."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple
from urllib.parse import quote

from .aio import AsyncClient
from .client import Client
from .commands import Value
from .decision import Decision
from .inprocess import InProcess

Attributes = Optional[Callable[[Any], Mapping[str, Value]]]
Skip = Optional[Callable[[Any], bool]]
REASONS = {403: "Forbidden", 429: "Too Many Requests", 503: "Service Unavailable"}
SAFE = "/%:@!$&'()*+,;=~-._"  # of a path: what stays as it is


class Settings(NamedTuple):
    """`attributes` gets the framework's request and adds to ip, method, host and path; None takes one away."""

    attributes: Attributes = None
    skip: Skip = None  # true for requests that are not limited
    wait: Optional[float] = None  # seconds that a request may stand in line


class Refusal(NamedTuple):
    status: int
    headers: List[Tuple[str, str]]
    body: bytes


def check_limiter(limiter: Any, is_async: bool) -> None:
    """Raises TypeError. The wrong one would fail with every request."""
    wanted, wrong = ("an AsyncClient", (Client, InProcess)) if is_async else ("a Client or an InProcess", (AsyncClient,))
    if not hasattr(limiter, "check") or isinstance(limiter, (type, *wrong)):
        raise TypeError(f"this middleware needs {wanted} as its limiter, found {limiter!r}")


def skips(settings: Settings, request: Any) -> bool:
    return settings.skip is not None and bool(settings.skip(request))


def attributes_of(settings: Settings, request: Any, ip: Optional[str], method: str, host: str, path: bytes) -> Dict[str, Value]:
    found: Dict[str, Value] = {"ip": ip or None, "method": method, "host": host or None, "path": path}
    if settings.attributes is not None:
        found.update(settings.attributes(request))
    return found


def refusal(decision: Decision, method: str, accept: Iterable[str]) -> Refusal:
    kind, body = decision.body(",".join(accept))
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *decision.headers()]
    return Refusal(decision.status, headers, b"" if method == "HEAD" else body)


def target_of(environ: Mapping[str, Any]) -> bytes:
    """The request target of WSGI as the client sent it, where the server tells; else as it must have been. A character of
    the environ is a byte."""
    raw = environ.get("RAW_URI") or environ.get("REQUEST_URI")
    if raw:
        return latin1(str(raw))
    path = quote((environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")).encode("latin-1"), SAFE) or "/"
    query = environ.get("QUERY_STRING", "")
    return latin1(f"{path}?{query}" if query else path)


def latin1(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:  # of a server that has decoded it
        return text.encode("utf-8", "surrogatepass")


class Ending:
    """What rationd must learn when a response has ended: its status, and that its places are free. Once."""

    def __init__(self, limiter: Any, decision: Decision) -> None:
        self.limiter, self.decision, self.status = limiter, decision, 500  # unless a response says otherwise
        self.due = bool(decision.lease or decision.charge)

    def calls(self) -> List[Any]:
        """Makes the calls, and returns what they return: for asyncio, what must be awaited."""
        due, self.due, decision, calls = self.due, False, self.decision, []
        if due and decision.charge:
            calls.append(self.limiter.report(decision.charge, self.status))
        if due and decision.lease:
            calls.append(self.limiter.release(decision.lease))
        return calls
