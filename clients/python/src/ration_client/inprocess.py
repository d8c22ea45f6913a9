# SPDX-License-Identifier: Apache-2.0
"""Decisions in this process, without rationd: libration over the state file that rationd shares.

    limiter = InProcess("/var/lib/ration/ration.state", ["/etc/ration/ration.yaml"])
    limiter.take("ann", "100 per minute").allowed

The same machine, the same user as rationd (or one that may write the state file and the files beside it), and the same
rules. Open it after a fork. It has check, report and release, so that middleware takes it in the place of a Client.
"""

from __future__ import annotations

import ctypes as c
import struct
import threading
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from .commands import LOCAL_KEY, MOST_ATTRIBUTES, Value, check_integer, key_of, name_bytes, value_bytes
from .decision import Decision
from .policy import Policy

NOW, NEVER, UNLIMITED = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
VERSIONS = ("0.1.",)  # of libration whose structs are those below
CHARGE_NS = 300 * 10**9  # how long an outcome may be reported
LIMITS, TICKET, MOST_LIMITS = 16, 4096, 10_000
_KINDS = (b"limits", b"none", b"allow", b"deny", b"ban", b"ban", b"pause")
_FAMILIES = (b"both", b"x", b"ietf", b"none")


class Verdict(NamedTuple):
    """Of a limit that came along. Seconds; a retry_after of None: never."""

    allowed: bool
    limit: int
    remaining: int
    retry_after: Optional[float]
    reset_after: float
    delay: float


# Members that later versions add at the end are zero, and have room.
REST = ("rest", c.c_char * 256)


class _Error(c.Structure):
    _fields_ = [("code", c.c_int), ("pos", c.c_size_t), ("line", c.c_uint), ("column", c.c_uint), ("text", c.c_char * 240),
                REST]


class _Limit(c.Structure):
    _fields_ = [("algorithm", c.c_int), ("amount", c.c_uint64), ("period_ns", c.c_int64), ("burst", c.c_uint64),
                ("queue", c.c_uint64), ("sub_windows", c.c_uint32), ("from_first", c.c_bool), ("adaptive_min", c.c_uint16),
                ("step_ns", c.c_int64), ("lease_ns", c.c_int64), ("calendar", c.c_int), ("zone", c.c_char * 40), ("own", c.c_void_p), REST]


class _Options(c.Structure):
    _fields_ = [("state_path", c.c_char_p), ("memory_bytes", c.c_uint64), ("limits", c.c_void_p), ("limit_count", c.c_size_t),
                ("usage_bytes", c.c_uint64), ("store", c.c_void_p),
                ("own_algorithms", c.c_void_p), ("own_algorithm_count", c.c_size_t), REST]


class _Verdict(c.Structure):
    _fields_ = [("allowed", c.c_bool), ("limit", c.c_uint64), ("remaining", c.c_uint64), ("retry_after_ns", c.c_int64),
                ("reset_after_ns", c.c_int64), ("delay_ns", c.c_int64)]


class _Charge(c.Structure):
    _fields_ = [("limit", c.c_uint32), ("drain", c.c_bool), ("paused", c.c_bool), ("ad_hoc", c.c_void_p), ("key", c.c_char_p),
                ("key_len", c.c_size_t), ("cost", c.c_uint64), ("hash", c.c_uint64), ("verdict", _Verdict), ("error", c.c_int),
                ("at_ns", c.c_int64), ("mark", c.c_int64), ("taken", c.c_uint64), ("waiter", c.c_void_p), ("max_wait_ns", c.c_int64),
                REST]


class _Attribute(c.Structure):
    _fields_ = [("name", c.c_char_p), ("name_len", c.c_size_t), ("value", c.c_char_p), ("value_len", c.c_size_t)]


class _Request(c.Structure):
    _fields_ = [("attributes", c.c_void_p), ("count", c.c_size_t), ("cost", c.c_uint64), ("max_wait_ns", c.c_int64),
                ("waiter", c.c_void_p), ("drain", c.c_bool), ("shadow", c.c_bool), REST]


class _Decided(c.Structure):
    _fields_ = [("allowed", c.c_bool), ("decided_by", c.c_int), ("verdict", _Verdict)]


class _OutcomeLimit(c.Structure):
    _fields_ = [("rule", c.c_char * 64), ("verdict", _Verdict), ("algorithm", c.c_int), ("amount", c.c_uint64),
                ("period_ns", c.c_int64), ("shadow", c.c_bool)]


class _Outcome(c.Structure):
    """Up to what is read here; the rest is as large as it may ever be."""

    _fields_ = [("decision", _Decided), ("kind", c.c_int), ("soft", c.c_bool), ("shadow_refused", c.c_bool), ("hold", c.c_bool),
                ("retryafter", c.c_bool), ("in_line", c.c_bool), ("waited_ns", c.c_int64), ("delay_ns", c.c_int64),
                ("shadow_delay_ns", c.c_int64), ("status", c.c_uint16), ("level", c.c_uint16), ("headers", c.c_int),
                ("limit_count", c.c_uint32), ("listed", c.c_uint32), ("lease", c.c_uint64), ("place_count", c.c_uint32),
                ("receipt_count", c.c_uint32), ("at_ns", c.c_int64), ("due_count", c.c_uint32), ("rule", c.c_char * 64),
                ("message", c.c_char * 512), ("limits", _OutcomeLimit * LIMITS), ("rest", c.c_char * 8192)]


class _Workspace(threading.local):
    """The structs of one thread, filled again for each decision."""

    def __init__(self) -> None:
        self.charge, self.outcome = _Charge(cost=1), _Outcome()
        self.attributes = (_Attribute * MOST_ATTRIBUTES)()
        self.slots, self.names = list(self.attributes), [""] * MOST_ATTRIBUTES  # the names that the slots have
        self.request = _Request(attributes=c.addressof(self.attributes))
        self.ticket = c.create_string_buffer(TICKET)
        self.charge_ref, self.outcome_ref, self.request_ref = c.byref(self.charge), c.byref(self.outcome), c.byref(self.request)
        self.verdict = memoryview(self.charge).cast("B")[_Charge.verdict.offset:_Charge.verdict.offset + c.sizeof(_Verdict)]


_read_verdict = struct.Struct("@?QQqqq").unpack_from


class InProcess:
    """`policy` decides where check() cannot: the table is full, say. take() and allows() raise OSError then."""

    def __init__(self, state: str, rules: Sequence[str] = (), *, policy: str = "allow", library: str = "libration.so.0",
                 refresh: float = 0.25) -> None:
        self._policy = Policy(policy)
        if isinstance(rules, str):
            raise ValueError(f"rules must be a list of files, such as [{rules!r}], found {rules!r}")
        try:
            self._lib = lib = c.CDLL(library)
        except OSError as error:
            raise OSError(f"{error}; install libration0, or name the file by library=") from error
        lib.ration_version.restype = c.c_char_p
        version = lib.ration_version().decode()
        if not version.startswith(VERSIONS):
            raise OSError(f"{library} is version {version}; this package knows {', '.join(VERSIONS)}x")
        for name in ("acquire_request", "outcome_ticket", "ticket_charge", "ticket_release", "open", "rules_load",
                     "limit_parse", "clients_refresh"):
            getattr(lib, f"ration_{name}").restype = c.c_int
        lib.ration_report_text.restype = lib.ration_error_text.restype = c.c_char_p
        quick = c.PyDLL(library)  # decisions never block: they keep the interpreter's lock
        self._take, self._decide, self._own = quick.ration_take, quick.ration_decide, _Workspace()
        self._take.argtypes = [c.c_void_p, c.c_void_p, c.c_int64]
        self._peek = quick.ration_decide_peek
        self._decide.argtypes = self._peek.argtypes = [c.c_void_p, c.c_void_p, c.c_int64, c.c_void_p]
        self._limits: Dict[str, _Limit] = {}
        handle, error = c.c_void_p(), _Error()
        if lib.ration_open(c.byref(_Options(state_path=state.encode())), c.byref(handle), c.byref(error)) != 0:
            raise OSError(f"{state}: {error.text.decode()}")
        self._handle: Optional[int] = handle.value
        try:
            self.load(rules)
        except BaseException:
            self._close_handle()
            raise
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._refresh, args=(refresh,), name="ration-refresh", daemon=True)
        self._thread.start()

    def load(self, rules: Sequence[str]) -> None:
        """Files and directories, in the place of the current rules."""
        if not rules:
            return
        paths, report = (c.c_char_p * len(rules))(*[path.encode() for path in rules]), c.c_void_p()
        code = self._lib.ration_rules_load(c.c_void_p(self._handle), paths, c.c_size_t(len(rules)), c.byref(report))
        text = self._lib.ration_report_text(report).decode() if report else "out of memory"
        self._lib.ration_report_free(report)
        if code != 0:
            raise ValueError(text)

    def take(self, key: str, limit: str, cost: int = 1) -> Verdict:
        own = self._own
        charge, name = own.charge, key.encode("utf-8", "surrogateescape")
        if cost != 1:
            check_integer("cost", cost)
        ad_hoc = self._limits.get(limit)
        charge.ad_hoc = c.addressof(self._parse(limit) if ad_hoc is None else ad_hoc)
        charge.key, charge.key_len, charge.cost = name, len(name), cost
        code = self._take(self._handle, own.charge_ref, NOW)
        if code != 0:
            raise OSError(self._text_of(code))
        allowed, most, left, retry, reset, delay = _read_verdict(own.verdict)
        return Verdict(allowed, most, left, None if retry == NEVER else retry / 1e9, reset / 1e9, delay / 1e9)

    def allows(self, attributes: Mapping[str, Value], cost: int = 1) -> bool:
        """By the rules; only whether the request may go ahead. Not for rules with places, charges by outcome or delays."""
        own = self._own
        self._fill(own, attributes, cost)
        code = (self._decide if cost else self._peek)(self._handle, own.request_ref, NOW, own.outcome_ref)
        if code != 0:
            raise OSError(self._text_of(code))
        return own.outcome.decision.allowed

    def check(self, attributes: Mapping[str, Value], *, cost: int = 1, wait: Optional[float] = None, lease: bool = False) -> Decision:
        """By the rules. `lease` takes places, too."""
        if wait:
            raise ValueError("a request cannot wait in line here; ask rationd, or leave out wait")
        if lease:
            check_integer("cost", cost, 1)
        own, lib, handle = self._own, self._lib, c.c_void_p(self._handle)
        self._fill(own, attributes, cost)
        own.ticket[0] = b"\0"
        if lease:
            code = lib.ration_acquire_request(handle, own.request_ref, c.c_int64(0), c.c_int64(NOW), own.outcome_ref, own.ticket)
        else:
            code = (self._decide if cost else self._peek)(handle, own.request_ref, NOW, own.outcome_ref)
        if code != 0:
            return self._policy.decide(key_of(attributes, LOCAL_KEY), cost, self._text_of(code))
        answer = _read_outcome(own.outcome)
        if own.ticket.value:
            answer["lease"] = own.ticket.value
        if own.outcome.due_count:
            if lib.ration_outcome_ticket(handle, own.outcome_ref, c.c_int64(CHARGE_NS), own.ticket) == 0:
                answer["charge"] = own.ticket.value
        return Decision(answer, "libration")

    def report(self, charge: str, status: int) -> bool:
        count, ticket = c.c_uint32(), charge.encode()
        code = self._lib.ration_ticket_charge(c.c_void_p(self._handle), ticket, c.c_size_t(len(ticket)), c.c_uint(status),
                                              c.c_int64(NOW), c.byref(count))
        return code == 0 and count.value > 0

    def release(self, lease: str) -> bool:
        ticket = lease.encode()
        return bool(self._lib.ration_ticket_release(c.c_void_p(self._handle), ticket, c.c_size_t(len(ticket)), c.c_int64(NOW)) == 0)

    def close(self) -> None:
        """No thread may be in a call."""
        self._closed.set()
        self._thread.join()
        if self._handle is not None:
            self._close_handle()

    def _close_handle(self) -> None:
        """libration would take a null pointer at its word."""
        self._lib.ration_close(c.c_void_p(self._handle))
        self._handle, self._lib = None, _Closed()
        self._take = self._decide = self._peek = _closed

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refresh(self, seconds: float) -> None:
        """Takes over the overrides and bans that were set in rationd."""
        while not self._closed.wait(seconds):
            self._lib.ration_clients_refresh(c.c_void_p(self._handle), None)

    def _parse(self, text: str) -> _Limit:
        limit, error, data = _Limit(), _Error(), text.encode()
        if self._lib.ration_limit_parse(data, c.c_size_t(len(data)), c.byref(limit), c.byref(error)) != 0:
            raise ValueError(f"in the limit {text!r}: {error.text.decode()}")
        if len(self._limits) < MOST_LIMITS:
            self._limits[text] = limit
        self._own.limit = limit  # it must live as long as the call
        return limit

    @staticmethod
    def _fill(own: _Workspace, attributes: Mapping[str, Value], cost: int) -> None:
        at, names, slots = 0, own.names, own.slots
        if cost != 1:
            check_integer("cost", cost)
        for name, value in attributes.items():
            if value is None:
                continue
            if at == MOST_ATTRIBUTES:
                raise ValueError(f"a request has at most {MOST_ATTRIBUTES} attributes")
            slot = slots[at]
            if names[at] != name:
                slot.name = known = name_bytes(name)
                slot.name_len, names[at] = len(known), name
            slot.value = data = value_bytes(name, value)
            slot.value_len, at = len(data), at + 1
        own.request.count, own.request.cost = at, cost

    def _text_of(self, code: int) -> str:
        return f"no decision: {self._lib.ration_error_text(code).decode()}"


def _closed(*_: object) -> int:
    raise ValueError("the limiter is closed")


class _Closed:
    """In the place of libration."""

    def __getattr__(self, _: str) -> Any:
        return _closed


def _read_outcome(o: _Outcome) -> Dict[str, Any]:
    """As a decision of rationd has it, with FULL."""
    by, verdict = _KINDS[o.kind], o.decision.verdict
    counted = by == b"limits" and verdict.limit != UNLIMITED
    limits: List[Dict[str, Any]] = []
    for each in o.limits[:o.listed]:
        v = each.verdict
        limits.append({"rule": each.rule or None, **_numbers(v, v.limit != UNLIMITED), "allowed": v.allowed,
                       "amount": each.amount, "period": each.period_ns / 1e9})
        if each.shadow:
            limits[-1]["shadow"] = True
    answer = {"allowed": o.decision.allowed, "rule": o.rule or None, **_numbers(verdict, counted),
              "retry_after": _seconds(verdict.retry_after_ns), "delay": o.delay_ns / 1e9, "limits": limits, "soft": o.soft,
              "shadow": o.shadow_refused, "by": by, "decided_by": o.decision.decided_by, "status": o.status,
              "headers": _FAMILIES[o.headers], "retryafter": o.retryafter, "message": o.message}
    if not o.decision.allowed and by in (b"ban", b"pause"):
        answer["banned" if by == b"ban" else "paused"] = True
        answer["level"] = o.level or None
    return answer


def _numbers(v: _Verdict, counted: bool) -> Dict[str, Any]:
    return {"limit": v.limit if counted else None, "remaining": v.remaining if counted else None,
            "reset_after": _seconds(v.reset_after_ns)}


def _seconds(ns: int) -> Optional[float]:
    return None if ns == NEVER else ns / 1e9
