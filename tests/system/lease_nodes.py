# SPDX-License-Identifier: Apache-2.0
"""Nodes that hold leases of one limit, in a time that the test makes: they crash and
come back, their calls are late or lost, and so are the replies. Every unit that one of
them spends is noted, to be judged by what the limit means."""

import heapq
import itertools
import mmap
import socket
import struct

from redis_server import GIVE_BACK, PEEK, TAKE

LEASE, RETURN = 7, 10
LONGEST = 1_000_000


class ScriptConnection:
    """Calls of one script, by hand: a client that takes its time would be most of the
    test."""

    def __init__(self, path, clock, text):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.replies = self.socket.makefile("rb")
        with open(clock.path, "r+b") as file:
            self.clock = mmap.mmap(file.fileno(), 16)
        self.sha = self.send(b"SCRIPT", b"LOAD", text.encode())

    def send(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.read()

    def read(self):
        line = self.replies.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(rest))]
        if kind == b"$":
            return self.replies.read(int(rest) + 2)[:-2]
        if kind == b"+":
            return rest
        assert kind == b":", line
        return int(rest)

    def run(self, now_us, key, argument, doubt=0, history=None):
        """The six numbers of one charge at one instant, of a store that may have lost keys
        of which there are leases for `doubt` us. `history`: its key, and an id."""
        self.clock[8:16] = struct.pack("=q", now_us * 1000)
        key_of_history, id = history or (None, b"")
        keys = [key, key_of_history] if history else [key]
        reply = self.send(b"EVALSHA", self.sha, b"%d" % len(keys), *keys, b"0", b"\0", argument, id, b"%d" % doubt)
        nonce, at, *numbers = struct.unpack("<c7d", reply)
        assert nonce == b"0" and at == now_us and numbers[0] >= 0, reply
        return list(map(int, numbers))


class Call:
    """One on its way to the store and back."""

    def __init__(self, node, keep, back, sent):
        node.calls += 1
        self.node, self.id, self.number = node, node.id, node.calls
        self.keep, self.back, self.sent = keep, back, sent
        self.least = self.want = 0
        self.ends = node.ends if node.ends > sent else 0


class Node:
    ids = itertools.count(1)

    def __init__(self):
        self.calls = self.starts = 0
        self.id = struct.pack("<Q", next(Node.ids))
        self.forget()

    def forget(self):
        self.units, self.deadline, self.call = 0, -1, None
        self.ends = 0  # of its lease, by the clock of the store
        self.known = self.recorded = 0  # units that the store knows of; that its record has
        self.last_ends = self.mark = 0  # in its record

    def restart(self, same_id):
        self.starts += 1
        self.calls = 0
        self.id = self.id if same_id else struct.pack("<Q", next(Node.ids))
        self.forget()

    def has(self, now):
        return self.units if now < self.deadline else 0


class RandomHistory:
    """Some nodes, one limit, and a random history. `bug`: what they get wrong."""

    def __init__(self, source, connection, limit, start, bug=None):
        self.source, self.connection, self.limit, self.bug = source, connection, limit, bug
        self.now, self.events, self.order = start, [], itertools.count()
        self.key = b"ration:{0}:%d" % start
        self.nodes = [Node() for _ in range(source.randint(2, 12))]
        self.ttl = source.choice([20_000, 100_000, 500_000, LONGEST])
        self.hoards = source.random() < 0.5
        self.late = source.choice([0.05, 0.6])  # how many calls and replies are
        self.patience = source.choice([1000, 50_000])  # us until another call is made
        self.mishaps = source.choice([0, 0, 0.01, 0.03])  # what is lost hides what is minted
        self.losses, self.doubted = 0, start  # how often the store loses the key; until when it may have
        self.unnoticed = False  # by nodes, that is: the store's history tells
        self.history, self.id = self.key + b":history", b"%016x" % 0
        connection.send(b"SET", self.history, b"0")
        self.spent, self.grants, self.receipts, self.returned = [], 0, [], 0

    def at(self, when, do, *args):
        heapq.heappush(self.events, (when, next(self.order), do, args))

    def advance(self, to):
        while self.events and self.events[0][0] <= to:
            self.now, _, do, args = heapq.heappop(self.events)
            do(*args)
        self.now = to

    def argument(self, op, cost, age, mark, tail=b""):
        return struct.pack("<dddd", op, cost, age, mark) + self.limit.packed + tail

    def run(self, argument):
        history = (self.history, self.id) if self.unnoticed else None
        return self.connection.run(self.now, self.key, argument, max(self.doubted - self.now, 0), history)

    def lose(self):
        """The store is flushed, or is another one. If nodes notice that, one asks it at
        once."""
        self.connection.send(b"DEL", self.key)
        if not self.unnoticed:
            self.doubted, self.id = self.now + LONGEST, b"%016x" % self.source.getrandbits(64)
            self.run(self.argument(PEEK, 0, 0, 0))
        elif self.source.random() < 0.5:
            self.connection.send(b"DEL", self.history)
        else:
            self.id = b"%016x" % self.source.getrandbits(64)

    # --- leases

    def ask(self, node):
        has, source = node.has(self.now), self.source
        back = source.randrange(has + 1) if has and source.random() < 0.2 else 0
        call = node.call = Call(node, has - back, back, self.now)
        node.units = node.known = node.recorded = has - back
        call.want = source.choice([1, 1, self.limit.cap // 20 + 1, self.limit.cap // 3 + 1] +
                                  ([self.limit.cap] * 4 if self.hoards else []))
        call.least = source.choice([0, 1, 1, call.want])
        self.at(self.now + self.delay(), self.runs, call)

    def stop(self, node):
        """Cleanly: the rest is given back. Another process takes its place."""
        self.at(self.now + self.delay(), self.runs, Call(node, 0, node.has(self.now), self.now))
        node.restart(self.bug == "a reused id")

    def kill(self, node):
        """Another process takes its place, and may find its record."""
        tail = node.id + struct.pack("<dddd", node.calls, node.recorded, node.known, node.last_ends)
        if self.source.random() < 0.7:
            delay = self.source.choice([0, 500, self.ttl // 2, self.ttl, 2 * self.ttl, 2 * LONGEST])
            self.at(self.now + delay, self.recover, self.argument(RETURN, 0, 0, node.mark, tail))
        node.restart(self.bug == "a reused id")

    def recover(self, argument):
        self.returned += self.connection.run(self.now, self.key, argument, max(self.doubted - self.now, 0),
                                       (self.history, self.id))[0]

    def delay(self):
        late = self.source.random() < self.late
        return self.source.choice([3000, 30_000, self.ttl // 2, self.ttl] if late else [0, 0, 500])

    def runs(self, call):
        tail = call.id + struct.pack("<dddd", call.number, call.back, call.least, call.ends)
        argument = self.argument(LEASE, call.want, self.ttl, call.keep, tail)
        granted, _, _, _, lasts, kept = self.run(argument)
        self.grants += granted > 0
        call.ends = self.now + lasts if granted + (call.keep if kept else 0) else 0
        if self.source.random() < self.mishaps:
            return
        self.at(self.now + self.delay(), self.replied, call, granted, lasts, kept, self.limit.receipt(self.now))

    def replied(self, call, granted, lasts, kept, mark):
        node = call.node
        if node.call is not call:
            return
        node.call, node.ends = None, call.ends
        node.units = (node.has(self.now) if kept else 0) + granted
        node.known = (node.known if kept else 0) + granted
        node.last_ends, node.mark, node.recorded = call.ends, mark or call.ends, node.units
        node.deadline = (self.now if self.bug == "deadline from the reply" else call.sent) + lasts
        node.units = node.recorded = node.has(self.now)
        if self.hoards and node.units and self.source.random() < 0.5:
            self.at(node.deadline - 1, self.spend, node, node.units)

    def spend(self, node, units):
        units = min(node.has(self.now), units)
        node.units -= units
        if self.bug != "spent before it is recorded":
            node.recorded = node.units
        if units:
            self.spent.append((self.now, units))

    # --- strict

    def take(self, cost):
        answer = self.run(self.argument(TAKE, cost, 0, 0))
        if answer[0]:
            receipt = (self.now, cost)
            self.spent.append(receipt)
            self.receipts.append((receipt, answer[5]))

    def give_back(self):
        (at, cost), mark = self.receipts.pop(self.source.randrange(len(self.receipts)))
        argument = self.argument(GIVE_BACK, cost, self.now - at, mark)
        before = self.run(self.argument(PEEK, 0, 0, 0))[1]
        back = self.run(argument)
        assert back[1] - before <= cost
        if back[0]:
            self.spent.remove((at, cost))

    # --- all of it

    def rush(self):
        """All that anybody has is spent, and what is left is taken: were there more
        than there should be, it would show."""
        for node in self.nodes:
            self.spend(node, node.units)
        rest = self.run(self.argument(PEEK, 0, 0, 0))[1]
        if rest:
            self.take(rest)

    def step(self):
        source, node = self.source, self.source.choice(self.nodes)
        if self.losses and source.random() < self.losses:
            self.lose()
        chance = source.random()
        if chance < self.mishaps:
            self.kill(node)
        elif chance < 0.04:
            self.stop(node)
        elif chance < 0.07:
            self.take(source.choice([1, 1, 2, self.limit.cap // 4 + 1]))
        elif chance < 0.08 and self.receipts:
            self.give_back()
        elif node.call and self.now > node.call.sent + self.patience:
            node.call, node.ends = None, 0  # given up: it may be run all the same, and later than the next
        elif not node.call and (chance < 0.3 or not node.has(self.now)):
            self.ask(node)
        else:
            self.spend(node, source.choice([1, 1, 2, 5]))

    def live(self, steps):
        """Phases of haste, of leisure, and pauses. The units spent beyond the limit."""
        for step in range(steps):
            if step % 60 == 0:
                hurry = self.source.choice([8, 2, 1, 0.3])
                self.advance(self.now + int(self.limit.span_us * self.source.random()))
                self.rush()
            self.advance(self.now + int(self.source.expovariate(hurry) * self.limit.each_us) + 1)
            self.step()
        self.advance(self.now + 3 * LONGEST)
        return self.limit.excess(sorted(self.spent))
