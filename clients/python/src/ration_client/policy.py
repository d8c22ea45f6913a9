# SPDX-License-Identifier: Apache-2.0
"""What happens without rationd: the policy, the local limit and the breaker."""

from __future__ import annotations

import logging
import math
import os
import random
import re
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any, Callable, Dict, Optional, Set, Tuple

from .decision import Decision

log = logging.getLogger("ration_client")
Events = Optional[Callable[[str, str], None]]
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_LIMIT = re.compile(r"(\d{1,15}) per (?:(\d{1,6}) )?(second|minute|hour|day)s?(?: burst (\d{1,15}))?")
MOST_KEYS = 10_000
MOST_WARNINGS = 8  # until rationd answers again
_TROUBLES = ("connect_failed", "bad_answer", "error_reply", "breaker_open")
REFUSED_FOR = 1.0  # seconds: Retry-After of a refusal by policy


class Unavailable(Exception):
    """Why rationd has not decided. It never leaves the client."""


def report(events: Callable[[str, str], None], name: str, detail: str) -> None:
    """Tells the callback. What that raises is logged: it must not reach a request."""
    try:
        events(name, detail)
    except Exception:
        log.exception("the callback on_event failed")


def logging_too(on_event: Callable[[str, str], None]) -> Callable[[str, str], None]:
    def tell(name: str, detail: str) -> None:
        log.info("%s: %s", name, detail)
        on_event(name, detail)

    return tell


class Locked:
    """Has a lock, which a process that forks does not inherit: a thread that is not there any more may hold it."""

    _all: "weakref.WeakSet[Locked]" = weakref.WeakSet()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        Locked._all.add(self)

    @staticmethod
    def renew() -> None:
        for each in Locked._all:
            each._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Locked.renew)


class Warnings(Locked):
    """In the place of a callback. Each trouble is a warning once, until rationd answers again: it may come with every request."""

    def __init__(self) -> None:
        super().__init__()
        self._told: Set[Tuple[str, str]] = set()

    def __call__(self, name: str, detail: str) -> None:
        with self._lock:
            is_new = name in _TROUBLES and (name, detail) not in self._told and len(self._told) < MOST_WARNINGS
            if is_new:
                self._told.add((name, detail))
            elif name in ("connected", "breaker_closed"):
                self._told.clear()
        if is_new:
            log.warning("ration: %s: %s (without rationd the policy decides)", name, detail)
        else:
            log.info("%s: %s", name, detail)


class LocalLimit(Locked):
    """A token bucket for each key, in this process. The keys used last are kept."""

    def __init__(self, text: str) -> None:
        match = _LIMIT.fullmatch(text) if isinstance(text, str) else None
        if match is None or int(match[1]) == 0 or match[2] is not None and int(match[2]) == 0:
            raise ValueError("a policy is 'allow', 'refuse' or a local limit such as '100 per second' or "
                             f"'5 per 10 minutes burst 20', found {text!r}")
        self.amount, self.period = int(match[1]), float(int(match[2] or 1) * _UNITS[match[3]])
        self.burst = int(match[4] or match[1])
        super().__init__()
        self._buckets: "OrderedDict[str, Tuple[float, float]]" = OrderedDict()

    def take(self, key: str, cost: int, why: str) -> Decision:
        now, rate = time.monotonic(), self.amount / self.period
        with self._lock:
            left, at = self._buckets.pop(key, (float(self.burst), now))
            left = min(float(self.burst), left + max(0.0, now - at) * rate)
            allowed = left + 1e-9 >= cost
            left -= cost if allowed else 0
            self._buckets[key] = (left, now)
            if len(self._buckets) > MOST_KEYS:
                self._buckets.popitem(last=False)
        never = cost > self.burst
        numbers: Dict[str, Any] = {"rule": None, "limit": self.burst, "remaining": max(0, math.floor(left + 1e-9)),
                                   "reset_after": (self.burst - left) / rate}
        limit = {**numbers, "allowed": allowed, "amount": self.amount, "period": self.period}
        retry = 0.0 if allowed else None if never else (cost - left) / rate
        return Decision({**numbers, "allowed": allowed, "retry_after": retry, "limits": [limit],
                         "decided_by": 0}, "policy", why)


class Policy:
    """"allow", "refuse", or a limit such as "100 per second"."""

    def __init__(self, text: str) -> None:
        self.allows = text == "allow"
        self.local = None if text in ("allow", "refuse") else LocalLimit(text)

    def decide(self, key: str, cost: int, why: str) -> Decision:
        if self.local is not None:
            return self.local.take(key, max(0, cost), why)
        answer = {"allowed": self.allows, "limits": [], "by": b"unavailable", "status": 503,
                  "reset_after": None, "retry_after": 0.0 if self.allows else REFUSED_FOR}
        return Decision(answer, "policy", why)


class Jitter:
    """Decorrelated: a random time between the first and three times the one before."""

    def __init__(self, first: float, most: float) -> None:
        self.first, self.most, self._last = first, most, first

    def next(self) -> float:
        self._last = min(self.most, random.uniform(self.first, self._last * 3))
        return self._last

    def reset(self) -> None:
        self._last = self.first


class Breaker(Locked):
    """Closed; open after so many failures in a row; then one request at a time is a probe."""

    def __init__(self, failures: int, jitter: Jitter, events: Callable[[str, str], None]) -> None:
        self._most, self._jitter, self._events = failures, jitter, events
        super().__init__()
        self._failed, self._probe_at = 0, 0.0
        self.open = False

    def admit(self) -> None:
        """Raises Unavailable if rationd is not to be asked."""
        if not self.open:
            return
        with self._lock:
            now = time.monotonic()
            if self.open and now < self._probe_at:
                raise Unavailable("the breaker is open")
            self._probe_at = now + self._jitter.next()  # until the probe has ended, and if it never does

    def succeeded(self) -> None:
        if not self._failed:
            return
        with self._lock:
            was, self.open, self._failed = self.open, False, 0
            self._jitter.reset()
        if was:
            report(self._events, "breaker_closed", "rationd answers again")

    def failed(self, why: str) -> None:
        with self._lock:
            self._failed += 1
            opens = not self.open and self._failed >= self._most
            if opens:
                self.open, self._probe_at = True, time.monotonic() + self._jitter.next()
        if opens:
            report(self._events, "breaker_open", why)
