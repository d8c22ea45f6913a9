# SPDX-License-Identifier: Apache-2.0
"""What both clients can do: arguments to commands, replies to answers, settings."""

from __future__ import annotations

import itertools
import re
import ssl
from typing import Any, Callable, Generic, Iterable, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union
from urllib.parse import unquote, urlsplit

from .decision import Decision
from .link import Request, read_outcome
from .policy import Breaker, Events, Jitter, Policy, Unavailable, Warnings, log, logging_too, report
from .protocol import BadAnswer, ErrorReply, encode

D = TypeVar("D")  # Decision, or what one awaits for it
B = TypeVar("B")  # True, False, or None where nobody knows
F = TypeVar("F")  # seconds, or None
Value = Union[str, bytes, int, float, bool, None]
MOST_VALUE = 8192  # bytes: longer values are cut
MOST_ATTRIBUTES = 128
MOST_TOTAL = 200_000  # bytes of all names and values
LONG_DEADLINE = 5  # seconds: more were perhaps meant to be milliseconds
LOCAL_KEY = ("user", "api_key", "ip")


class Address:
    """ration://[[name]:token@]host[:port], rations:// by TLS, unix:/path."""

    def __init__(self, url: str, token: Optional[str], tls: Optional[ssl.SSLContext]) -> None:
        found = re.sub(r"//.*@", "//", str(url))  # no tokens in messages
        try:
            parts = urlsplit(str(url))
            port = 6380 if parts.port is None else parts.port
        except ValueError:  # what is behind the colon is no port
            port = 0
        names_place = port and (parts.path if parts.scheme == "unix" else parts.hostname)
        if not names_place or parts.scheme not in ("ration", "rations", "unix"):
            raise ValueError(f"the address must be ration://host:port, rations://host:port or unix:/path, found {found!r}")
        if parts.scheme != "unix" and parts.path.strip("/"):
            raise ValueError(f"an address ends with its port: {parts.path!r} in {found!r} means nothing")
        if parts.username and not parts.password and not token:
            raise ValueError(f"a token comes behind a colon: {parts.scheme}://:token@host or {parts.scheme}://name:token@host")
        if tls is not None and not isinstance(tls, ssl.SSLContext):
            raise ValueError(f"tls must be an ssl.SSLContext, found {tls!r}; the address says by rations:// that TLS is spoken")
        if tls is not None and parts.scheme != "rations":
            raise ValueError(f"tls is for an address that begins with rations://, found {found!r}")
        self.url = found
        self.path = parts.path if parts.scheme == "unix" else None
        self.host, self.port = parts.hostname or "", port
        self.tls = None if parts.scheme != "rations" else tls if tls is not None else ssl.create_default_context()
        self.name, self.token = unquote(parts.username or ""), token or unquote(parts.password or "")

    def greeting(self) -> Tuple[bytes, int]:
        """What a connection begins with, and how many replies it draws; the last one is that of HELLO."""
        auth = [b"AUTH", *([self.name.encode()] if self.name else []), self.token.encode()]
        return (encode(auth) if self.token else b"") + encode([b"HELLO", b"3"]), 2 if self.token else 1

    def why_not(self, error: BaseException) -> str:
        """There is no connection."""
        is_plain = isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLCertVerificationError)
        return f"cannot connect to {self.url}: {str(error) or 'no answer'}" + ("; without TLS the address begins with ration://" if is_plain else "")

    def check_greeting(self, replies: Sequence[Any]) -> None:
        for reply in replies:
            if isinstance(reply, ErrorReply):
                raise BadAnswer(f"refused: {reply}")
        hello = replies[-1]
        if not isinstance(hello, dict) or hello.get("server") != b"ration":
            server = hello.get("server") if isinstance(hello, dict) else hello
            found = server.decode("utf-8", "replace") if isinstance(server, bytes) else str(server)
            raise BadAnswer(f"{self.url} is no rationd: HELLO answers server {found[:40]!r}; give the address of its --resp")


class Commands(Generic[D, B, F]):
    """Asks one rationd. If rationd has not answered within the deadline, the policy decides. Wrong arguments are a ValueError.

    url          ration://[[name]:token@]host[:port], rations:// by TLS, unix:/path
    policy       what decides without rationd: "allow", "refuse", or a local limit such as "100 per second"
    deadline     seconds of each call, connecting and queueing included
    connections  at most, each shared by many requests
    token        for operations that need rights
    tls          for rations://; without it the system's authorities
    failures     in a row that open the breaker
    silence      deadlines of silence after which a connection that owes replies is closed
    probe_first, probe_most  bounds of the seconds between probes, and between attempts to connect
    local_key    the first of these attributes that is there is the key of the local limit
    on_event     gets the name and the detail of what happens; without it troubles are warnings in the log
    """

    def __init__(self, url: str = "ration://127.0.0.1:6380", *, policy: str = "allow", deadline: float = 0.05,
                 connections: int = 2, token: Optional[str] = None, tls: Optional[ssl.SSLContext] = None,
                 failures: int = 5, silence: int = 4, probe_first: float = 0.1, probe_most: float = 2.0,
                 local_key: Sequence[str] = LOCAL_KEY, on_event: Events = None) -> None:
        check_seconds("deadline", deadline, 0.001, 60)
        for name, count in (("connections", connections), ("failures", failures), ("silence", silence)):
            check_integer(name, count, 1)
        check_seconds("probe_first", probe_first, 0.001, 3600)
        check_seconds("probe_most", probe_most, probe_first, 3600)
        if isinstance(local_key, str):
            raise ValueError(f"local_key must be a list of names, such as [{local_key!r}], found {local_key!r}")
        if on_event is not None and not callable(on_event):
            raise ValueError(f"on_event must be a function (name, detail), found {on_event!r}")
        if token is not None and not isinstance(token, str):
            raise ValueError(f"token must be a text, found {type(token).__name__}")
        if deadline > LONG_DEADLINE:
            log.warning("deadline=%g is seconds: a request may wait so long for a rationd that is ill", deadline)
        self.address = Address(url, token, tls)
        self.deadline, self.on_event = deadline, Warnings() if on_event is None else logging_too(on_event)
        self._size, self._silence = connections, silence * deadline
        self._policy, self._local_key = Policy(policy), tuple(local_key)
        self._jitter = lambda: Jitter(probe_first, probe_most)
        self._breaker = Breaker(failures, self._jitter(), self.on_event)
        self._lines = itertools.count(1)

    def _ask(self, request: Optional[Request]) -> Any:
        """None, for no request."""
        raise NotImplementedError

    def check(self, attributes: Mapping[str, Value], *, cost: int = 1, wait: Optional[float] = None,
              lease: bool = False) -> D:
        """By the rules. `wait`: how many seconds the request may stand in line. `lease`: takes places, too."""
        words, line = [b"RATION.CHECK", *_attributes(attributes)], 0
        words += [b"COST", _integer("cost", cost, int(lease)), b"FULL"] if cost != 1 else [b"FULL"]
        if lease:
            words.append(b"LEASE")
        if wait:
            line = next(self._lines)
            words += [b"LINE", b"%d" % line, b"WAIT", _milliseconds(wait)]
        else:
            words += [b"WAIT", b"return"]
        return self._decide(words, self._key_of(attributes), cost, line)

    def take(self, key: str, limit: str, cost: int = 1) -> D:
        """By a limit that comes along, such as "100 per minute"."""
        words = [b"RATION.TAKE", _text("key", key, empty=True), _text("limit", limit)]
        return self._decide(words + ([_integer("cost", cost)] if cost != 1 else []), key, cost)

    def acquire(self, what: Union[str, Mapping[str, Value]], limit: Optional[str] = None, *, cost: int = 1,
                seconds: Optional[float] = None) -> D:
        """Places: of a key and a limit such as "20 concurrent", or by the rules. `lease` of the answer is for release."""
        words = [b"RATION.ACQUIRE", *_subject(what, limit), b"COST", _integer("cost", cost, 1), b"WAIT", b"return"]
        return self._decide(words + _for(seconds), self._key_of(what), cost)

    def reserve(self, what: Union[str, Mapping[str, Value]], limit: Optional[str] = None, *, cost: int,
                seconds: Optional[float] = None) -> D:
        """Charges now; `lease` of the answer is for commit and refund."""
        words = [b"RATION.RESERVE", *_subject(what, limit)]
        words += [_integer("cost", cost, 1)] if limit is not None else [b"COST", _integer("cost", cost, 1)]
        return self._decide(words + _for(seconds) + [b"WAIT", b"return"], self._key_of(what), cost, settle=b"RATION.REFUND")

    def release(self, lease: Optional[str]) -> B:
        """Frees places. As all that settle: True, False (the lease had ended) or None: rationd did not say, or there was no
        lease, as in a decision by policy."""
        return self._settle(b"RATION.RELEASE", lease)

    def renew(self, lease: Optional[str], seconds: Optional[float] = None) -> B:
        """Keeps places for so many seconds from now on."""
        return self._settle(b"RATION.RENEW", lease, *_for(seconds))

    def commit(self, lease: Optional[str], cost: Optional[int] = None) -> B:
        """Keeps all of a reservation, or `cost` units of it, and gives back the rest."""
        return self._settle(b"RATION.COMMIT", lease, *([] if cost is None else [_integer("cost", cost)]))

    def refund(self, lease: Optional[str]) -> B:
        """Gives back all of a reservation."""
        return self._settle(b"RATION.REFUND", lease)

    def report(self, charge: Optional[str], status: int) -> B:
        """How the request of a decision with a `charge` has ended: its HTTP status."""
        return self._settle(b"RATION.CHARGE", charge, _integer("status", status))

    def pause(self, key: str, length: Union[str, float, None]) -> F:
        """Refuses a key for so many seconds, or for a Retry-After as it was received; None, as of a response without one, does
        nothing. The seconds that are left; None: nobody knows."""
        if length is None or length == "":
            return self._ask(None)
        words = [b"RATION.PAUSE", _key(key), _text("length", str(length))]
        return self._ask(Request(encode(words), _seconds_left, lambda why: None))

    def _decide(self, words: List[bytes], key: str, cost: int, line: int = 0, settle: bytes = b"RATION.RELEASE") -> Any:
        return self._ask(Request(encode(words), Decision.read, lambda why: self._policy.decide(key, cost, why), line, settle))

    def _settle(self, command: bytes, ticket: Optional[str], *words: bytes) -> Any:
        asked = None if ticket is None else Request(encode([command, _text("lease or charge", ticket), *words]), read_outcome, lambda why: None)
        return self._ask(asked)

    def _key_of(self, what: Union[str, Mapping[str, Value]]) -> str:
        return what if isinstance(what, str) else key_of(what, self._local_key)

    def _finish(self, request: Request, answer: Any) -> Any:
        """What the caller gets. Raises Unavailable."""
        if isinstance(answer, Exception):
            raise answer
        self._breaker.succeeded()
        if isinstance(answer, ErrorReply):  # it answers, if not what was hoped for
            report(self.on_event, "error_reply", answer)
            return request.instead(f"rationd has answered: {answer}")
        return answer

    def _fail(self, request: Request, why: Exception) -> Any:
        self._breaker.failed(str(why))
        return request.instead(str(why))


def _text(name: str, value: Any, empty: bool = False) -> bytes:
    if not isinstance(value, (str, bytes)) or not (value or empty):
        raise ValueError(f"{name} must be a text{'' if empty else ' that is not empty'}, found {value!r}")
    return _bytes(value)[:MOST_VALUE]


def _bytes(value: Union[str, bytes]) -> bytes:
    """Half a character, as JSON may have it ("\\ud800"), is no error: it comes from outside."""
    if isinstance(value, bytes):
        return value
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


def _key(value: Any) -> bytes:
    """Where the word RULES would mean attributes, a key of that name gets a space."""
    key = _text("key", value, empty=True)
    return b"RULES " if key == b"RULES" else key


def _integer(name: str, value: Any, least: int = 0) -> bytes:
    check_integer(name, value, least)
    return b"%d" % value


def check_integer(name: str, value: Any, least: int = 0) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 63:
        raise ValueError(f"{name} must be a whole number from {least}, found {value!r}")


def check_seconds(name: str, value: Any, least: float, most: float) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be seconds, from {least} to {most}, found {value!r}")


def _milliseconds(wait: float) -> bytes:
    check_seconds("wait", wait, 0.001, 60)
    return b"%d" % (wait * 1000)


def _for(seconds: Optional[float]) -> List[bytes]:
    if seconds is None:
        return []
    check_seconds("seconds", seconds, 0.001, 86400)
    return [b"FOR", b"%.3f" % seconds]


def _subject(what: Union[str, Mapping[str, Value]], limit: Optional[str]) -> List[bytes]:
    if isinstance(what, str) != (limit is not None):
        raise ValueError("give a key and a limit, or attributes without a limit")
    if isinstance(what, str):
        return [_key(what), _text("limit", limit)]
    return [b"RULES", *_attributes(what)]


def key_of(attributes: Mapping[str, Value], names: Sequence[str]) -> str:
    """The key of the local limit."""
    name = next((name for name in names if attributes.get(name) is not None), None)
    return "" if name is None else f"{name}={attributes[name]!r}"


def name_bytes(name: Any) -> bytes:
    if not isinstance(name, str) or not name or name != name.lower():
        raise ValueError(f"names of attributes are texts in lower case, found {name!r}")
    return name.encode()


def value_bytes(name: str, value: Value) -> bytes:
    if isinstance(value, (bool, int, float)):
        value = str(value).lower()
    elif not isinstance(value, (str, bytes)):
        raise ValueError(f"attribute {name} must be a text, a number or a boolean, found {value!r}")
    return _bytes(value)[:MOST_VALUE]


def check_mapping(attributes: Any) -> None:
    if not hasattr(attributes, "items"):
        raise ValueError(f"attributes must be a mapping such as {{'ip': '192.0.2.7'}}, found {attributes!r}")


def _attributes(attributes: Mapping[str, Value]) -> List[bytes]:
    words: List[bytes] = []
    check_mapping(attributes)
    for name, value in attributes.items():
        if value is not None:
            words += [name_bytes(name), value_bytes(name, value)]
    if not attributes or len(words) > 2 * MOST_ATTRIBUTES:
        raise ValueError(f"a request has 1 to {MOST_ATTRIBUTES} attributes, found {len(words) // 2}")
    if sum(map(len, words)) > MOST_TOTAL:
        words = [word[:MOST_TOTAL // len(words)] for word in words]
    return words


def _seconds_left(reply: Any) -> float:
    if type(reply) is not int:
        raise BadAnswer(f"no milliseconds: {str(reply)[:80]}")
    return reply / 1000
