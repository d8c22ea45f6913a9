# SPDX-License-Identifier: Apache-2.0
"""The scripts of leases on a real redis-server whose clock the test moves: whatever
becomes of nodes, calls and replies, together they never spend more than the limit."""

import collections
import math
import os
import random
import struct

import pytest

from lease_nodes import LEASE, LONGEST, Crowd, Wire
from redis_server import FORCE, GIVE_BACK, PEEK, RESET, TAKE, Clock, RedisServer, embed

SECOND = 1_000_000
MANY = 100 if os.environ.get("RATION_SOAK") else 1
GRANTS = {"lease_bucket": 100_000 * MANY, "lease_window": 10_000 * MANY, "lease_counter": 10_000 * MANY}
STEPS = 1500
SEED = int(os.environ.get("RATION_SEED", "20260101"))


class Bucket:
    script = "lease_bucket"

    def __init__(self, amount, period, cap, tick=1):
        shared = math.gcd(amount, period)
        self.unit, self.paid = (1, amount * tick // period) if tick > 1 else (period // shared, amount // shared)
        self.cap, self.tick, self.full = cap, tick, cap * self.unit
        self.packed = struct.pack("<ddddd", tick, self.paid, self.unit, self.full, 0)
        self.each_us, self.span_us = period / amount, cap * period // amount

    def excess(self, spent):
        """The most that a bucket which is full at first would have to lend, in units."""
        debt = worst = last = 0
        for at, units in spent:
            tick = at // self.tick
            debt = max(debt - (tick - last) * self.paid, 0) + units * self.unit
            last, worst = tick, max(worst, debt - self.full)
        return worst / self.unit


class Window:
    script = "lease_window"

    def __init__(self, amount, period, first=0):
        self.cap, self.period = amount, period
        self.packed = struct.pack("<ddddddd", amount, period, first, 0, 0, 0, period)
        self.each_us, self.span_us = period / amount, period

    def excess(self, spent):
        counts = collections.Counter()
        for at, units in spent:
            counts[at // self.period] += units
        return max(max(counts.values()) - self.cap, 0)


class Counter(Window):
    script = "lease_counter"

    def __init__(self, amount, period):
        super().__init__(amount, period)
        self.packed = struct.pack("<dd", amount, period)

    def excess(self, spent):
        """In parts of the period, at each time at which something was spent."""
        worst, counts = 0, collections.Counter()
        for at, units in spent:
            number, into = divmod(at, self.period)
            counts[number] += units
            faded = counts[number - 1] * (self.period - into) + counts[number] * self.period
            worst = max(worst, faded - self.cap * self.period)
        return worst / self.period


LIMITS = {
    "lease_bucket": lambda source: Bucket(source.choice([5, 50, 300, 700]), SECOND, source.choice([5, 20, 100, 400])),
    "lease_window": lambda source: Window(source.choice([20, 100, 400]), source.choice([SECOND, 10 * SECOND])),
    "lease_counter": lambda source: Counter(source.choice([20, 100, 400]), source.choice([SECOND, 10 * SECOND])),
}


class Bed:
    def __init__(self, folder):
        self.clock = Clock(folder / "clock")
        self.server = RedisServer(folder, self.clock)
        self.now = self.clock.now_us

    def wire(self, text):
        return Wire(self.server.path, self.clock, text)

    def later(self):
        """Long after all that went before."""
        self.now += 10_000 * SECOND
        return self.now


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    bed = Bed(tmp_path_factory.mktemp("redis"))
    with bed.server:
        yield bed


def histories(bed, script, text, bug=None):
    """(excess, grants) of one random history after another."""
    wire = bed.wire(text)
    for number in range(10**9):
        source = random.Random(f"{SEED}{script}{number}")
        crowd = Crowd(source, wire, LIMITS[script](source), bed.later(), bug)
        yield crowd.live(STEPS), crowd.grants


@pytest.mark.parametrize("script", LIMITS)
def test_leases_never_add_up_to_more_than_the_limit(bed, script):
    grants = 0
    for excess, granted in histories(bed, script, embed.assemble(script)):
        assert excess == 0, (SEED, excess)
        grants += granted
        if grants >= GRANTS[script]:
            break


def swap(text, old, new, count=1):
    assert text.count(old) == count, old
    return text.replace(old, new)


def without_cap(text):
    return swap(text, "and bucket.out or bucket.debt", "and 0 or bucket.debt").replace(
        "bucket.debt - bucket.out\n", "bucket.debt\n")


def settled_first(text):
    """The caller's lease ends when the last refill was, not now."""
    text = swap(text, "    pay(bucket, tick)\n    return bucket", "    return bucket")
    return swap(text, "bucket.debt = bucket.debt - back * bucket.unit\n",
                "bucket.debt = bucket.debt - back * bucket.unit\n    pay(bucket, math.floor(now / bucket.tick_us))\n")


def without_order(text):
    return swap(text, "        pay(bucket, math.floor(lease.ends / tick_us))\n", "")


PLANTED = {
    "refill not capped by what is out": ("lease_bucket", without_cap, None),
    "settled before the refill": ("lease_bucket", settled_first, None),
    "leases end out of order": ("lease_bucket", without_order, None),
    "overtaken calls count": ("lease_bucket", lambda t: swap(t, "lease.call >= ask.call", "false"), None),
    "a lease that outlives its window": ("lease_window", lambda t: swap(t, ", math.max(ends(mark, arg) - now, 0)", ""), None),
    "a lease that outlives its half": ("lease_counter", lambda t: swap(t, ", math.max(ends(mark, arg) - now, 0)", ""), None),
    "what ends is not charged": ("lease_window", lambda t: swap(t, "cost = granted}", "cost = 0}"), None),
    "deadline from the reply": ("lease_bucket", lambda t: t, "deadline from the reply"),
    "a reused id": ("lease_bucket", lambda t: t, "a reused id"),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(bed, fault):
    script, mutate, bug = PLANTED[fault]
    for number, (excess, _) in enumerate(histories(bed, script, mutate(embed.assemble(script)), bug)):
        if excess > 0:
            print("found in history", number, excess)
            return
        assert number < 400, "not found in 400 histories"
