# SPDX-License-Identifier: Apache-2.0
"""Which reply belongs to which request of one connection. No I/O: the clients send and receive."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Callable, Deque, Dict, NamedTuple, Optional

from .protocol import BadAnswer, ErrorReply, Push, Reader, encode

MOST_WAIT = 60_000  # milliseconds in line


class Request(NamedTuple):
    command: bytes
    read: Callable[[Any], Any]  # a reply to what the caller gets; raises BadAnswer
    instead: Callable[[str], Any]  # what the caller gets by policy, and why
    line: int = 0  # not 0: may wait in line, under this id
    settle: bytes = b"RATION.RELEASE"  # ends the lease of a reply that came too late


class Slot:
    """The place of a request among those that await their replies."""

    __slots__ = ("request", "ends", "sent", "done", "answer", "reply", "late", "wake")

    def __init__(self, request: Optional[Request], ends: float) -> None:
        self.request, self.ends, self.sent = request, ends, time.monotonic()
        self.done, self.answer, self.reply = False, None, None
        self.late: Optional[Callable[[Any], None]] = None  # set: nobody waits any more
        self.wake: Callable[[], None] = _nothing

    def settle(self, answer: Any, reply: Any = None) -> None:
        """`answer` is what was read of the reply, an ErrorReply, or why there is none."""
        self.done, self.answer, self.reply = True, answer, reply
        self.wake()

    def read(self, reply: Any) -> Any:
        """Raises BadAnswer: then this is no reply to that request, nor are those behind it to theirs."""
        if isinstance(reply, ErrorReply):
            return reply
        return read_outcome(reply) if self.request is None else self.request.read(reply)


def _nothing() -> None:
    pass


def read_outcome(reply: Any) -> bool:
    if type(reply) is not int or reply not in (0, 1):
        raise BadAnswer(f"neither 0 nor 1: {str(reply)[:80]}")
    return reply == 1


class Link:
    """One life of one connection. `send` is set by its owner; it writes, or breaks the connection."""

    def __init__(self, deadline: float) -> None:
        self.deadline, self.heard = deadline, time.monotonic()
        self.reader = Reader()
        self.owed: Deque[Slot] = deque()
        self.lines: Dict[int, Slot] = {}
        self.send: Callable[[bytes], None]

    def ask(self, slot: Slot) -> None:
        assert slot.request is not None
        self.owed.append(slot)
        self.send(slot.request.command)

    def feed(self, data: bytes) -> None:
        """Raises BadAnswer: the connection must be closed then."""
        for reply in self.reader.feed(data):
            self.heard = time.monotonic()
            if isinstance(reply, Push):
                self._take_turn(reply)
            elif self.owed:
                self._settle(self.owed[0], reply)
            else:
                raise BadAnswer("a reply that nobody has asked for")

    def is_silent(self, most: float) -> bool:
        """Whether a reply is owed, and nothing has come for longer than `most`."""
        return bool(self.owed) and time.monotonic() - max(self.heard, self.owed[0].sent) > most

    def abandon(self, slot: Slot) -> None:
        """The caller has gone, perhaps at the very moment at which its reply came. The reply keeps its place; a place or a reservation that it brings is given back."""
        slot.late = lambda reply: self._give_back(slot, reply)
        if slot.done:
            slot.late(slot.reply)
        elif slot.request is not None and slot.request.line in self.lines:
            self._leave(slot.request.line)

    def lose(self, why: Exception) -> None:
        for slot in [*self.owed, *self.lines.values()]:
            slot.settle(why)
        self.owed.clear()
        self.lines.clear()

    def _settle(self, slot: Slot, reply: Any) -> None:
        line = slot.request.line if slot.request is not None else 0
        waits = line and isinstance(reply, list) and len(reply) == 3 and reply[:2] == [b"WAIT", line]
        if waits and (type(reply[2]) is not int or not 0 <= reply[2] <= MOST_WAIT):
            raise BadAnswer(f"no time to wait: {reply[2]!r}")
        answer = None if waits else slot.read(reply)
        self.owed.popleft()  # not before: a bad answer is the end of all that are in it
        if waits:
            self.lines[line] = slot
            slot.ends = time.monotonic() + reply[2] / 1000 + self.deadline
            if slot.late is not None:
                self._leave(line)
        else:
            self._give(slot, answer, reply)

    def _take_turn(self, push: Push) -> None:
        slot = self.lines.get(push[1]) if len(push) == 3 and isinstance(push[1], int) else None
        if slot is None or push[0] != b"ration.turn":
            raise BadAnswer(f"a push that nobody waits for: {str(list(push))[:80]}")
        answer = slot.read(push[2])
        del self.lines[push[1]]
        self._give(slot, answer, push[2])

    def _give(self, slot: Slot, answer: Any, reply: Any) -> None:
        slot.late(reply) if slot.late is not None else slot.settle(answer, reply)

    def _leave(self, line: int) -> None:
        """If it comes too late, 0, the decision is under way, and is given back."""
        self._tell([b"RATION.LEAVE", b"%d" % line], lambda reply: self.lines.pop(line, None) if reply == 1 else None)

    def _give_back(self, slot: Slot, reply: Any) -> None:
        settle = slot.request.settle if slot.request is not None else b""
        for name, command in (("lease", settle), ("turn", b"RATION.REFUND")):
            if isinstance(reply, dict) and isinstance(reply.get(name), bytes):
                self._tell([command, reply[name]], lambda _: None)

    def _tell(self, words: "list[bytes]", late: Callable[[Any], Any]) -> None:
        slot = Slot(None, 0.0)
        slot.late = late
        self.owed.append(slot)
        self.send(encode(words))
