# SPDX-License-Identifier: Apache-2.0
"""What each algorithm means, written down naively with lists that are never trimmed and fractions; and
the parameters of its script. Tests of the scripts compare with it."""

import math
from fractions import Fraction

from redis_server import SECOND


class Bucket:
    script = "bucket"

    def __init__(self, amount, period, cap=None, tick=1, queue=0):
        self.cap = cap or amount
        if tick > 1:  # in steps
            unit, paid = 1, amount * tick // period
        else:
            shared = math.gcd(amount, period)
            unit, paid = period // shared, amount // shared
        self.params = (tick, paid, unit, self.cap * unit, queue)
        self.tick, self.rate = tick, Fraction(paid, unit)
        self.span = self.cap * period // amount + tick
        self.debt, self.at = Fraction(0), None

    def move(self, now, forward):
        del forward
        tick = now // self.tick
        if self.at is not None and tick > self.at:
            self.debt = max(self.debt - (tick - self.at) * self.rate, Fraction(0))
        self.at = tick

    def fits(self, cost):
        return self.debt + cost <= self.cap

    def charge(self, cost):
        self.debt += cost

    def debit(self, cost):
        charged = min(cost, max(2 * self.cap - self.debt, 0))
        self.debt += charged
        return math.ceil(cost - charged)

    def credit(self, cost):
        self.debt = max(self.debt - cost, Fraction(0))


class Window:
    script = "window"

    def __init__(self, amount, period, first=0):
        self.params = (amount, period, first, 0, 0, 0, period)
        self.cap, self.span, self.first = amount, period, first
        self.period = period
        self.end, self.count, self.owed, self.now = 0, 0, 0, 0

    def move(self, now, forward):
        del forward
        self.now = now
        if now >= self.end and self.owed:
            self.end, self.count, self.owed = self.end + self.span, self.owed, 0
        if now >= self.end:
            self.end, self.count, self.owed = 0, 0, 0

    def fits(self, cost):
        return self.count + self.owed + cost <= self.cap

    def charge(self, cost):
        if cost and not self.end:
            self.end = self.now + self.span if self.first else (self.now // self.span + 1) * self.span
        self.count += cost

    def debit(self, cost):
        fits = min(cost, max(self.cap - self.count - self.owed, 0))
        self.charge(fits)
        put_off = min(cost - fits, self.cap - self.owed)
        self.owed += put_off
        return cost - fits - put_off

    def credit(self, cost):
        forgiven = min(self.owed, cost)
        self.owed -= forgiven
        self.count = max(self.count - (cost - forgiven), 0)


class Charges:
    """Algorithms that look at every charge ever made: (time, elapsed time, units)."""

    def __init__(self):
        self.all, self.now, self.elapsed = [], 0, 0

    def move(self, now, forward):
        self.now, self.elapsed = now, forward
        self.all = [c for c in self.all if c[1] > forward - 5 * self.span]

    def charge(self, cost):
        self.all.append((self.now, self.elapsed, cost))

    def debit(self, cost):
        """What does not fit takes the place of the oldest, when they leave."""
        fits = next(n for n in range(min(cost, self.cap), -1, -1) if n == 0 or self.fits(n))
        self.charge(fits)
        live = sorted(c for c in self.all if self.counts(c))
        owed = sum(c[2] for c in live if c[0] // self.grain > self.now // self.grain)
        over = put_off = min(cost - fits, self.cap - owed)
        for at, elapsed, units in live:
            skipped = min(units, owed)
            placed = min(units - skipped, over)
            owed, over = owed - skipped, over - placed
            if placed:
                self.all.append((at + self.life, elapsed + self.life, placed))
        return cost - fits - put_off

    def credit(self, cost):
        """The youngest go, those put off before all others."""
        kept = []
        for at, elapsed, units in sorted(self.all, reverse=True):
            gone = min(units, cost) if self.counts((at, elapsed, units)) else 0
            cost -= gone
            kept.insert(0, (at, elapsed, units - gone))
        self.all = kept


class Counter(Charges):
    script = "counter"

    def __init__(self, amount, period):
        super().__init__()
        self.params, self.cap, self.span = (amount, period), amount, period
        self.period = period
        self.owed = (0, 0)

    def counts(self, charge):
        return charge[0] // self.span >= self.now // self.span - 1

    def credit(self, cost):
        super().credit(cost)
        self.owed = (self.owed[0], max(self.owed[1] - cost, 0))

    def fits(self, cost):
        number, into = divmod(self.now, self.span)
        prev = sum(u for t, _, u in self.all if t // self.span == number - 1)
        cur = sum(u for t, _, u in self.all if t // self.span >= number)
        return prev * (self.span - into) + (cur + cost) * self.span <= self.cap * self.span

    def debit(self, cost):
        number = self.now // self.span
        fits = next(n for n in range(min(cost, self.cap), -1, -1) if n == 0 or self.fits(n))
        self.charge(fits)
        owed = self.owed[1] if self.owed[0] == number else 0
        over = min(cost - fits, self.cap - owed)
        self.owed = (number, owed + over)
        here = min(over, max(self.cap - sum(u for t, _, u in self.all if t // self.span == number), 0))
        self.charge(here)
        self.all.append(((number + 1) * self.span, self.elapsed + self.span, over - here))
        return cost - fits - over


class Log(Charges):
    script = "log"

    def __init__(self, amount, period):
        super().__init__()
        self.params, self.cap, self.span = (amount, 1, period), amount, period
        self.period, self.life, self.grain = period, period, 1

    def counts(self, charge):
        return charge[1] > self.elapsed - self.span

    def fits(self, cost):
        return sum(c[2] for c in self.all if self.counts(c)) + cost <= self.cap


class SubWindows(Charges):
    script = "log"

    def __init__(self, amount, period, subs):
        super().__init__()
        self.cap, self.subs, self.grain = amount, subs, -(-period // subs)
        self.period, self.span = period, period + self.grain
        self.params = (amount, self.grain, subs + 1)
        self.life = (subs + 1) * self.grain

    def counts(self, charge):
        return charge[0] // self.grain >= self.now // self.grain - self.subs

    def fits(self, cost):
        return sum(c[2] for c in self.all if self.counts(c)) + cost <= self.cap


LIMITS = {
    "token bucket": lambda: Bucket(100, 60 * SECOND),
    "token bucket of sevenths": lambda: Bucket(7000, SECOND, cap=50),
    "slow token bucket": lambda: Bucket(36, 3600 * SECOND, cap=100),
    "token bucket in steps": lambda: Bucket(100, 60 * SECOND, cap=30, tick=6 * SECOND),
    "leaky bucket": lambda: Bucket(3, SECOND, cap=21, queue=1),
    "fixed window": lambda: Window(40, 10 * SECOND),
    "fixed window from the first request": lambda: Window(40, 10 * SECOND, first=1),
    "sliding window counter": lambda: Counter(60, 10 * SECOND),
    "sliding log": lambda: Log(60, 10 * SECOND),
    "sliding sub-windows": lambda: SubWindows(60, 10 * SECOND, 7),
}
WITHOUT_STEPS = [name for name in LIMITS if "steps" not in name]


def with_leases(limit):
    """The script that knows leases, as long as there are none."""
    limit.script = "lease_subs" if isinstance(limit, SubWindows) else "lease_" + limit.script
    return limit


LIMITS.update({f"{name}, leased": lambda plain=LIMITS[name]: with_leases(plain()) for name in (
    "token bucket of sevenths", "token bucket in steps", "fixed window", "sliding window counter",
    "sliding log", "sliding sub-windows")})
WITHOUT_STEPS.append("token bucket of sevenths, leased")
