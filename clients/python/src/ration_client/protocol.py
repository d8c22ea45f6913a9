# SPDX-License-Identifier: Apache-2.0
"""The bytes of RESP3: commands to bytes, bytes to replies. No I/O, no knowledge of limits."""

from __future__ import annotations

import re
from typing import Any, List, Sequence, Tuple

MOST_BYTES = 1 << 20  # of one reply
MOST_ITEMS = 4096  # of one array or map
MOST_DEPTH = 8
_KINDS = (b"$", b":", b",", b"#", b"*", b"%", b">", b"_", b"+", b"-", b"")  # nothing yet, too
# What most lines are.
_TEXTS = {b"$%d" % size: size for size in range(256)}
_SCALARS = {b"#t": True, b"#f": False, b"_": None, **{b":%d" % n: n for n in range(1024)}, **{b",%d" % n: n for n in range(1024)}}
_INTEGER = re.compile(rb"[+-]?\d{1,20}")
_DOUBLE = re.compile(rb"[+-]?\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,2})?", re.I)


class BadAnswer(Exception):
    """Bytes that rationd would not send."""


class ErrorReply(str):
    """A reply that is an error: its text."""


class Push(List[Any]):
    """What comes without being asked for."""


class _Incomplete(Exception):
    pass


def encode(words: Sequence[bytes]) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


class Reader:
    """Replies out of bytes that come in any pieces."""

    def __init__(self) -> None:
        self._data = b""

    @property
    def torn(self) -> bool:
        """Whether a part of a reply has arrived."""
        return bool(self._data)

    def feed(self, data: bytes) -> List[Any]:
        # Lines between the ends of lines; the last one is not complete yet. Splitting at once is what makes this fast.
        lines = (self._data + data).split(b"\r\n")
        replies, at, last = [], 0, len(lines) - 1
        try:
            while at < last:
                reply, at = _read(lines, at, 0)
                replies.append(reply)
        except _Incomplete:
            pass
        if lines[at][:1] not in _KINDS:
            raise BadAnswer(f"not RESP3: {lines[at][:40]!r}; give the address of rationd's --resp")
        self._data = b"\r\n".join(lines[at:])
        if len(self._data) > MOST_BYTES:
            raise BadAnswer(f"a reply of more than {MOST_BYTES} bytes")
        return replies


def _read(lines: List[bytes], at: int, depth: int) -> Tuple[Any, int]:
    """The reply that begins with line `at`, and the line behind it."""
    line, at = lines[at], at + 1
    if at >= len(lines):
        raise _Incomplete
    quick = _TEXTS.get(line)
    if quick is not None and len(lines[at]) == quick and at + 1 < len(lines):
        return lines[at], at + 1
    if line in _SCALARS:
        return _SCALARS[line], at
    kind, text = line[:1], line[1:]
    if kind == b"$":
        size = _count(text, MOST_BYTES)
        return (None, at) if size < 0 else _read_text(lines, at, size)
    if kind == b":" or kind == b",":
        if (_INTEGER if kind == b":" else _DOUBLE).fullmatch(text) is None:
            raise BadAnswer(f"no number: {text[:40]!r}")
        return (int(text) if kind == b":" or text.isdigit() else float(text)), at
    if kind == b"*" or kind == b">" or kind == b"%":
        return _read_items(lines, at, kind, _count(text, MOST_ITEMS), depth + 1)
    if kind == b"+":
        return text, at
    if kind == b"-":
        return ErrorReply(text.decode("utf-8", "replace")), at
    raise BadAnswer(f"not RESP3: {line[:40]!r}; give the address of rationd's --resp")


def _count(text: bytes, most: int) -> int:
    if text == b"-1":
        return -1
    if not text.isdigit() or len(text) > 9 or int(text) > most:
        raise BadAnswer(f"no length: {text[:40]!r}; it would be 0 to {most}")
    return int(text)


def _read_text(lines: List[bytes], at: int, size: int) -> Tuple[bytes, int]:
    """A text may have ends of lines in it."""
    text, at = lines[at], at + 1
    while len(text) < size and at < len(lines):
        text, at = text + b"\r\n" + lines[at], at + 1
    if len(text) != size and (at < len(lines) or len(text) > size + 1):
        raise BadAnswer("a text that is not as long as it says")
    if at >= len(lines):
        raise _Incomplete
    return text, at


def _read_items(lines: List[bytes], at: int, kind: bytes, count: int, depth: int) -> Tuple[Any, int]:
    if depth > MOST_DEPTH:
        raise BadAnswer(f"a reply of more than {MOST_DEPTH} levels")
    if kind == b"%":
        pairs = {}
        for _ in range(count):
            name, at = _read(lines, at, depth)
            if type(name) is not bytes:
                raise BadAnswer(f"the name in a map is no text: {name!r}")
            value, at = _read(lines, at, depth)
            pairs[name.decode("utf-8", "replace")] = value
        return pairs, at
    items: List[Any] = Push() if kind == b">" else []
    for _ in range(count):
        item, at = _read(lines, at, depth)
        items.append(item)
    return (items if count >= 0 else None), at
