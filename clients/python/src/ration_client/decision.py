# SPDX-License-Identifier: Apache-2.0
"""A decision: what rationd has answered, or the policy in its place, and how to tell an HTTP client."""

from __future__ import annotations

import json
import math
import time
from typing import Any, Dict, List, Optional, Tuple

from .protocol import BadAnswer

MOST_LIMITS = 64
MOST_DELAY = 86_400  # seconds
INTEGER_MAX = 999_999_999_999_999  # of structured fields, RFC 9651
_TYPES = "https://iana.org/assignments/http-problem-types"
_KINDS = {  # error: type and title of the problem document
    "rate_limited": (_TYPES + "#quota-exceeded", "Too Many Requests"),
    "denied": ("about:blank", "Forbidden"),
    "banned": (_TYPES + "#abnormal-usage-detected", "Too Many Requests"),
    "paused": (_TYPES + "#temporary-reduced-capacity", "Temporary Reduced Capacity"),
    "unavailable": ("about:blank", "Service Unavailable"),
}
_NUMBERS = (int, float, type(None))
_OPTIONAL: Dict[str, Any] = {"soft": bool, "shadow": bool, "banned": bool, "paused": bool, "level": int, "waited": (int, float),
             "lease": bytes, "charge": bytes, "status": int, "headers": bytes, "by": bytes, "message": bytes,
             "amount": (int, float), "period": _NUMBERS, "decided_by": int}
_SHAPE = {"allowed": bool, "rule": (bytes, type(None)), "limit": _NUMBERS, "remaining": _NUMBERS,
          "reset_after": _NUMBERS, "retry_after": _NUMBERS, "delay": _NUMBERS, "limits": list}
_LIMIT_SHAPE = {"rule": (bytes, type(None)), "limit": _NUMBERS, "remaining": _NUMBERS, "reset_after": _NUMBERS}


class Decision:
    """The members of docs/http.md, and `by`: "rationd", or "policy" and `why`."""

    __slots__ = ("allowed", "rule", "limit", "remaining", "reset_after", "retry_after", "delay", "limits", "soft",
                 "shadow", "banned", "paused", "level", "waited", "lease", "charge", "status", "by", "why", "_more", "_at")

    allowed: bool
    rule: Optional[str]
    limit: Optional[int]
    remaining: Optional[int]
    reset_after: Optional[float]
    retry_after: Optional[float]
    delay: float
    limits: List[Dict[str, Any]]
    level: Optional[int]
    lease: Optional[str]
    charge: Optional[str]

    def __init__(self, answer: Dict[str, Any], by: str = "rationd", why: str = "") -> None:
        get = answer.get
        self.by, self.why, self._at, self._more = by, why, time.time(), answer
        self.allowed, self.rule, self.limits = answer["allowed"], _text(get("rule")), answer["limits"]
        for limit in self.limits:
            limit["rule"] = _text(limit["rule"])
        self.limit, self.remaining, self.reset_after = get("limit"), get("remaining"), get("reset_after")
        self.retry_after, self.delay, self.waited = get("retry_after"), get("delay") or 0.0, get("waited") or 0.0
        self.soft, self.shadow, self.banned = bool(get("soft")), bool(get("shadow")), bool(get("banned"))
        self.paused, self.level = bool(get("paused")), get("level")
        self.lease, self.charge = _text(get("lease")), _text(get("charge"))
        self.status = 200 if self.allowed else get("status", 429)

    @classmethod
    def read(cls, reply: Any) -> "Decision":
        """Raises BadAnswer for what is no decision."""
        if not isinstance(reply, dict) or not _has_shape(reply, _SHAPE):
            raise BadAnswer(f"no decision: {str(reply)[:80]}")
        has_status = reply["allowed"] or 400 <= reply.get("status", 429) <= 599
        if not (has_status and 0 <= (reply["delay"] or 0) <= MOST_DELAY and len(reply["limits"]) <= MOST_LIMITS):
            raise BadAnswer(f"no decision: {str(reply)[:80]}")
        if not all(isinstance(limit, dict) and _has_shape(limit, _LIMIT_SHAPE) for limit in reply["limits"]):
            raise BadAnswer(f"a limit is none: {str(reply['limits'])[:80]}")
        return cls(reply)

    def __repr__(self) -> str:
        return f"<{'allowed' if self.allowed else 'refused'} by {self.by} {self.rule or self.why}>"

    @property
    def error(self) -> Optional[str]:
        """Of a refusal: rate_limited, denied, banned, paused, unavailable."""
        if self.allowed:
            return None
        by = _text(self._more.get("by"))
        return ("banned" if self.banned else "paused" if self.paused else "denied" if by == "deny"
                else "unavailable" if by == "unavailable" else "rate_limited")

    def headers(self) -> List[Tuple[str, str]]:
        """Those of docs/headers.md, in that order."""
        family = _text(self._more.get("headers")) or "both"
        retry = None if self.allowed or self.retry_after is None else str(max(1, math.ceil(self.retry_after)))
        shown = [(name, limit) for name, limit in zip(_policy_names(self.limits), self.limits)
                 if not limit.get("shadow") and limit.get("limit") is not None]
        out = []
        if family in ("both", "x"):
            if self.limit is not None and shown:
                out += [("X-RateLimit-Limit", str(self.limit)), ("X-RateLimit-Remaining", str(self.remaining))]
                if self.reset_after is not None:
                    out.append(("X-RateLimit-Reset", str(math.ceil(self._at + self.reset_after))))
            if retry:
                spelled = "RetryAfter" if self._more.get("retryafter") else "Retry-After"
                out.append((f"X-RateLimit-{spelled}", retry))
        if family in ("both", "ietf") and shown:
            if all("amount" in limit for _, limit in shown):
                out.append(("RateLimit-Policy", ", ".join(_policy_item(*each) for each in shown)))
            out.append(("RateLimit", ", ".join(_state_item(*each) for each in shown)))
        if retry:
            out.append(("Retry-After", retry))
        if self.soft and family != "none":
            out.append(("X-RateLimit-Soft", "1"))
        if self.level and retry and family != "none":
            out.append(("X-RateLimit-Ban-Level", str(self.level)))
        return out

    def body(self, accept: Optional[str] = None) -> Tuple[str, bytes]:
        """Of a refusal: the content type and the body, as a problem document for those who accept one."""
        error = self.error or "rate_limited"
        members: Dict[str, Any] = {name: getattr(self, name) for name in _SHAPE if name != "limits"}
        members["limits"] = [{name: limit.get(name) for name in _LIMIT_SHAPE} for limit in self.limits]
        members.update({name: True for name in ("banned", "paused") if getattr(self, name)})
        if self.level:
            members["level"] = self.level
        at = self._more.get("decided_by", -1)
        counted = 0 <= at < len(self.limits) and self.reset_after is not None
        members["error"], members["window"] = error, (self.limits[at].get("period") or None) if counted else None
        members["reset"] = math.ceil(self._at + self.reset_after) if counted else None  # type: ignore[operator]
        if "application/problem+json" not in (accept or "").lower():
            return "application/json", json.dumps({**members, "message": self.message()}).encode()
        kind, title = _KINDS[error]
        title = "Abnormal Usage Detected" if self.level else title
        violated = [name for name, limit in zip(_policy_names(self.limits), self.limits)
                    if limit.get("allowed") is False and not limit.get("shadow")]
        problem = {"type": kind, "title": title, "status": self.status, "detail": self.message()}
        if violated:
            problem["violated-policies"] = violated
        return "application/problem+json", json.dumps({**problem, **members}).encode()

    def message(self) -> str:
        """The rule's own, or a sentence for people."""
        own = _text(self._more.get("message"))
        if own:
            return own
        if self.error == "denied":
            return "Requests like this one are not allowed."
        if self.retry_after is None:
            return "This request asks for more than its limit ever admits."
        what = {"banned": "Banned for a while.", "paused": "Requests of this key are paused.",
                "unavailable": "No decision could be made."}.get(self.error or "", "Too many requests.")
        seconds = max(1, math.ceil(self.retry_after))
        return f"{what} Try again in {seconds} second{'s' if seconds > 1 else ''}."


def _text(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _has_shape(reply: Dict[str, Any], shape: Dict[str, Any]) -> bool:
    return (all(name in reply and isinstance(reply[name], kind) for name, kind in shape.items())
            and all(isinstance(value, _OPTIONAL.get(name, object)) for name, value in reply.items()))


def _policy_names(limits: List[Dict[str, Any]]) -> List[str]:
    """Each only once: the second limit of a rule is "api-2", unless a rule is really called so."""
    rules = ["".join(c if " " <= c <= "~" else "?" for c in limit["rule"] or "default") for limit in limits]
    names: List[str] = []
    for at, rule in enumerate(rules):
        name, n = rule, 2
        while name in names or (name != rule and name in rules[at + 1:]):
            name, n = f"{rule}-{n}", n + 1
        names.append(name)
    return names


def _policy_item(name: str, limit: Dict[str, Any]) -> str:
    quota, amount, period = limit["limit"], limit["amount"], limit["period"]
    item = f"{_quoted(name)};q={min(quota, INTEGER_MAX)}"
    if not period:
        return item + ';qu="concurrent-requests"'
    window = quota * period / amount if amount and amount != quota else period
    return item + f";w={min(math.ceil(round(window, 6)), INTEGER_MAX)}"


def _state_item(name: str, limit: Dict[str, Any]) -> str:
    item = f"{_quoted(name)};r={min(limit['remaining'] or 0, INTEGER_MAX)}"
    reset = limit["reset_after"]
    return item if reset is None else item + f";t={math.ceil(reset)}"


def _quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
