# SPDX-License-Identifier: Apache-2.0
"""The scripts on a real redis-server whose clock the test moves, against what each
algorithm means, written down naively: lists that are never trimmed and fractions."""

import math
import os
import random
import struct
import time
from fractions import Fraction

import pytest
import redis

from daemon import PATIENCE, free_port
from redis_server import (CREDIT, DEBIT, DRAIN, FORCE, FORGIVE, GIVE_BACK, GIVE_BACK_UNFORGIVEN, PEEK, RELEASE,
                          RENEW, RESET, TAKE, Clock, RedisServer, Script, by_number, read_reply)

SECOND = 1_000_000
DECISIONS = 10_000
SEED = int(os.environ.get("RATION_SEED", "20260101"))


class Bed:
    """A server, a client, its clock, and fresh keys."""

    def __init__(self, folder):
        self.clock = Clock(folder / "clock")
        self.server = RedisServer(folder, self.clock)
        self.keys = 0

    def key(self):
        self.keys += 1
        return f"ration:{{0}}:t{self.keys}"

    def script(self, name, *params):
        return Script(self.client, name, params, self.key())


@pytest.fixture(scope="module")
def bed(tmp_path_factory):
    bed = Bed(tmp_path_factory.mktemp("redis"))
    with bed.server:
        bed.client = bed.server.client()
        yield bed


# --- limits: how the scripts are told, and what they mean -----------------------------


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


def random_step(source, limit):
    """Mostly little at a time, so that the limit is met; now and then a pause."""
    each = limit.span // limit.cap
    return source.choice([0, 0, 1, source.randrange(2 * each), source.randrange(2 * each),
                          source.randrange(limit.span // 20 + 1)] +
                         ([source.randrange(2 * limit.span)] if source.random() < 0.02 else []))


def random_cost(source, limit):
    return source.choice([1, 1, 1, 2, 3, source.randrange(limit.cap + 2), 0])


@pytest.mark.parametrize("name", LIMITS)
def test_every_decision_is_the_one_the_definition_gives(bed, name):
    source, limit = random.Random(f"{SEED}{name}"), LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    done = admitted = refused = 0
    start = bed.clock.now_us
    while done < DECISIONS:
        bed.clock.set(bed.clock.now_us + random_step(source, limit))
        limit.move(bed.clock.now_us, bed.clock.now_us - start)
        costs = [random_cost(source, limit) for _ in range(source.choice([1, 1, 2, 8]))]
        answers = script.call(*(script.argument(TAKE, cost) for cost in costs))
        for cost, answer in zip(costs, answers):
            assert answer.now_us == bed.clock.now_us, "seconds and microseconds"
            assert answer.allowed == limit.fits(cost), (SEED, done, cost)
            if answer.allowed:
                limit.charge(cost)
            assert limit.fits(answer.remaining) and not limit.fits(answer.remaining + 1)
            admitted, refused = admitted + answer.allowed, refused + 1 - answer.allowed
        done += len(costs)
        # A key may not be forgotten before it is as good as forgotten.
        if answers[-1].reset > 0:
            assert bed.client.pttl(script.key) * 1000 >= answers[-1].reset
    assert admitted > DECISIONS / 20 and refused > DECISIONS / 20


@pytest.mark.parametrize("name", LIMITS)
def test_late_debits_are_charged_where_they_first_fit(bed, name):
    source, limit = random.Random(f"{SEED}late{name}"), LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    start = bed.clock.now_us
    debits = lost = admitted = 0
    for step in range(DECISIONS // 20):
        bed.clock.set(bed.clock.now_us + random_step(source, limit) * 4)
        limit.move(bed.clock.now_us, bed.clock.now_us - start)
        cost = random_cost(source, limit)
        if source.random() < 0.12:
            cost += source.choice([0, limit.cap, 3 * limit.cap])
            answer = script.ask(DEBIT, cost)
            assert answer.delay == limit.debit(cost), (SEED, step, cost)
            debits, lost = debits + 1, lost + (answer.delay > 0)
        else:
            answer = script.ask(TAKE, cost)
            assert answer.allowed == (cost == 0 or limit.fits(cost)), (SEED, step, cost)
            if answer.allowed:
                limit.charge(cost)
            elif 0 < answer.retry <= limit.span // 50:  # and not a moment before
                bed.clock.set(bed.clock.now_us + answer.retry - 1)
                assert script.ask(PEEK, cost).allowed == 0
                bed.clock.set(bed.clock.now_us + 1)
                assert script.ask(PEEK, cost).allowed == 1
            admitted += answer.allowed
        limit.move(bed.clock.now_us, bed.clock.now_us - start)
        left = script.ask(PEEK).remaining
        assert (left == 0 or limit.fits(left)) and not limit.fits(left + 1)
        if answer.reset > 0:
            assert bed.client.pttl(script.key) * 1000 >= answer.reset - limit.span // 50
    assert debits > 30 and lost > debits / 20 and admitted > DECISIONS / 200


@pytest.mark.parametrize("name", LIMITS)
def test_drains_take_what_is_left_and_credits_give_back_what_is_spent(bed, name):
    source, limit = random.Random(f"{SEED}drain{name}"), LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    start = bed.clock.now_us
    drained = credited = 0
    for step in range(DECISIONS // 10):
        bed.clock.set(bed.clock.now_us + random_step(source, limit))
        limit.move(bed.clock.now_us, bed.clock.now_us - start)
        cost, kind = random_cost(source, limit), source.random()
        left = script.ask(PEEK).remaining
        if kind < 0.1:
            answer = script.ask(CREDIT, cost)
            limit.credit(cost)
            assert left <= answer.remaining <= min(left + cost + 1, limit.cap)
            credited += answer.allowed
        elif kind < 0.15:
            assert script.ask(DEBIT, cost).delay == limit.debit(cost), (SEED, step, cost)
        else:
            answer = script.ask(DRAIN if kind < 0.5 else TAKE, cost)
            assert answer.allowed == (cost == 0 or limit.fits(cost)), (SEED, step, cost)
            if answer.allowed:
                limit.charge(cost)
            elif kind < 0.5:
                assert (answer.remaining, answer.delay) == (0, left)
                assert answer.retry == script.ask(PEEK, cost).retry
                limit.charge(left)
                drained += left > 0
        left = script.ask(PEEK).remaining
        assert (left == 0 or limit.fits(left)) and not limit.fits(left + 1), (SEED, step, cost)
    assert drained > 5 and credited > 20


@pytest.mark.parametrize("name", LIMITS)
def test_what_was_drained_is_given_back_by_its_receipt(bed, name):
    limit = LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    script.ask(TAKE, limit.cap - 3)
    drained = script.ask(DRAIN, 5)
    assert (drained.allowed, drained.remaining, drained.delay) == (0, 0, 3)
    back = script.ask(GIVE_BACK, 3, mark=drained.mark)
    assert (back.allowed, back.remaining) == (1, 3)


@pytest.mark.parametrize("name", WITHOUT_STEPS)
def test_a_clock_that_goes_back_never_mints(bed, name):
    """A step back is no time passed. What the definition then says is not always
    certain, so the sum is judged: what the limit admits in the time of the forward
    steps. Windows that lie on the clock may be met once more after each step back."""
    source, limit = random.Random(f"{SEED}back{name}"), LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    forward = admitted = 0
    steps_back = 0
    for _ in range(DECISIONS // 4):
        step = random_step(source, limit)
        if source.random() < 0.01:
            step = -source.choice([1, SECOND, limit.span // 3, limit.span, 5 * limit.span])
        forward += max(step, 0)
        steps_back += step < 0
        bed.clock.set(bed.clock.now_us + step)
        cost = random_cost(source, limit)
        answer = script.ask(TAKE, cost)
        admitted += answer.allowed * cost
        assert 0 <= answer.retry <= 2 * limit.span or answer.retry == -1
    if isinstance(limit, Bucket):
        assert admitted <= limit.cap + forward * limit.rate
    else:
        whole = isinstance(limit, (Log, SubWindows))
        assert admitted <= limit.cap * (forward // limit.period + 2 + (0 if whole else steps_back))


@pytest.mark.parametrize("name", LIMITS)
def test_a_refusal_says_when_it_would_be_admitted(bed, name):
    source, limit = random.Random(f"{SEED}retry{name}"), LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    told = 0
    for _ in range(2000):
        bed.clock.set(bed.clock.now_us + random_step(source, limit) // 4)
        cost = random_cost(source, limit)
        answer = script.ask(TAKE, cost)
        if answer.allowed:
            continue
        if cost > limit.cap:
            assert answer.retry == -1
            continue
        told += 1
        bed.clock.set(bed.clock.now_us + answer.retry - 1)
        assert script.ask(PEEK, cost).allowed == 0
        bed.clock.set(bed.clock.now_us + 1)
        assert script.ask(PEEK, cost).allowed == 1
    assert told > 100


@pytest.mark.parametrize("name", LIMITS)
def test_a_look_and_a_refusal_change_nothing_and_a_reset_all(bed, name):
    limit = LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    script.ask(TAKE, limit.cap - 1)
    before = bed.client.dump(script.key)
    assert script.ask(PEEK, 1).allowed == 1
    assert script.ask(PEEK, 2).allowed == 0
    assert script.ask(TAKE, 2).allowed == 0
    assert bed.client.dump(script.key) == before
    assert script.ask(RESET).allowed == 1
    assert script.ask(RESET).allowed == 0
    assert script.ask(PEEK).remaining == limit.cap


@pytest.mark.parametrize("name", LIMITS)
def test_units_given_back_at_once_can_be_taken_again_and_no_more(bed, name):
    limit = LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    script.ask(TAKE, limit.cap - 3)
    taken = script.ask(TAKE, 3)
    assert script.ask(PEEK, 1).allowed == 0
    back = script.ask(GIVE_BACK, 3, age=bed.clock.now_us - taken.now_us, mark=taken.mark)
    assert back.allowed == 1 and back.remaining == 3
    assert script.ask(TAKE, 4).allowed == 0
    assert script.ask(TAKE, 3).allowed == 1


def pardoning(script, *asks, made=0):
    """Charges of one call that go with what is remembered of resets: operation, cost, age, mark."""
    keys = [script.key] * len(asks) + [f"{script.key}:f"] * len(asks)
    return script.call(*[script.argument(*ask, tail=struct.pack("<dd", made, len(asks) + 1 + i))
                         for i, ask in enumerate(asks)], keys=keys)


@pytest.mark.parametrize("name", LIMITS)
def test_charges_cleared_by_a_reset_are_not_given_back_as_well(bed, name):
    limit = LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    forgiven = script.ask(TAKE, 1)
    bed.clock.set(bed.clock.now_us + 1)
    assert pardoning(script, (FORGIVE, 0, 60_000_000, 0))[0].allowed == 1
    assert 59_000 < bed.client.pttl(f"{script.key}:f") <= 60_000
    assert script.ask(PEEK).remaining == limit.cap
    bed.clock.set(bed.clock.now_us + 1)
    taken = script.ask(TAKE, 3)
    back, same, whole = pardoning(script, (GIVE_BACK_UNFORGIVEN, 1, 2, forgiven.mark),
                                  (GIVE_BACK_UNFORGIVEN, 1, 1, forgiven.mark),
                                  (GIVE_BACK_UNFORGIVEN, 3, 0, taken.mark))
    assert (back.allowed, back.remaining, same.allowed) == (0, limit.cap - 3, 0)
    assert (whole.allowed, whole.remaining) == (1, limit.cap), "what was charged after it is"


@pytest.mark.parametrize("name", LIMITS)
def test_a_slow_refund_knows_the_time_of_its_take(bed, name):
    limit = LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    forgiven = script.ask(TAKE, 2)
    bed.clock.set(bed.clock.now_us + 5)
    pardoning(script, (FORGIVE, 0, 60_000_000, 0))
    bed.clock.set(bed.clock.now_us + 5)
    script.ask(TAKE, 2)
    [back] = pardoning(script, (GIVE_BACK_UNFORGIVEN, 2, 0, forgiven.mark), made=forgiven.now_us)
    assert (back.allowed, back.remaining) == (0, limit.cap - 2)


@pytest.mark.parametrize("name", LIMITS)
def test_charges_without_a_reset_are_given_back(bed, name):
    limit = LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    taken = script.ask(TAKE, 2)
    [back] = pardoning(script, (GIVE_BACK_UNFORGIVEN, 2, 0, taken.mark))
    assert (back.allowed, back.remaining) == (1, limit.cap)
    assert not bed.client.exists(f"{script.key}:f")


@pytest.mark.parametrize("name", LIMITS)
def test_nothing_is_given_back_after_its_time(bed, name):
    limit = LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    taken = script.ask(TAKE, limit.cap)
    bed.clock.set(bed.clock.now_us + 3 * limit.span)
    script.ask(TAKE, limit.cap)
    assert script.ask(GIVE_BACK, limit.cap, age=bed.clock.now_us - taken.now_us, mark=taken.mark).allowed == 0
    assert script.ask(PEEK, 1).allowed == 0


@pytest.mark.parametrize("name", LIMITS)
def test_a_forced_charge_fills_up_and_never_refuses(bed, name):
    limit = LIMITS[name]()
    script = bed.script(limit.script, *limit.params)
    script.ask(TAKE, limit.cap - 1)
    forced = script.ask(FORCE, 5)
    assert forced.allowed == 1 and forced.remaining == 0
    assert script.ask(TAKE, 1).allowed == 0


def test_refunds_and_takes_at_random_never_exceed_a_log(bed):
    source, limit = random.Random(f"{SEED}refund"), Log(60, 10 * SECOND)
    script, receipts, live = bed.script("log", *limit.params), [], []
    for _ in range(DECISIONS // 2):
        bed.clock.set(bed.clock.now_us + source.randrange(SECOND))
        now = bed.clock.now_us
        live = [c for c in live if c[0] + limit.span > now]
        if receipts and source.random() < 0.3:
            at, mark, cost = receipts.pop(source.randrange(len(receipts)))
            found = [c for c in live if c[0] <= mark]
            back = script.ask(GIVE_BACK, cost, age=now - at, mark=mark)
            assert back.allowed == bool(found)
            if found:
                found[-1][1] -= min(cost, found[-1][1])
                live = [c for c in live if c[1]]
        else:
            cost = source.randrange(1, 20)
            answer = script.ask(TAKE, cost)
            assert answer.allowed == (sum(u for _, u in live) + cost <= limit.cap)
            if answer.allowed:
                live.append([now, cost])
                receipts.append((answer.now_us, answer.mark, cost))


# --- worked examples --------------------------------------------------------------------


def outcomes(bed, script, start_us, *asks):
    """(milliseconds after start, cost) each: the answers."""
    answers = []
    for ms, cost in asks:
        bed.clock.set(start_us + round(ms * 1000))
        answers.append(script.ask(TAKE, cost))
    return answers


def later(bed):
    """A whole minute after all that went before."""
    return (bed.clock.now_us // (60 * SECOND) + 100) * 60 * SECOND


def test_a_script_of_ten_at_five_a_second(bed):
    bucket = Bucket(5, SECOND, cap=10)
    got = outcomes(bed, bed.script("bucket", *bucket.params), later(bed),
                   (1000, 1), (1000, 1), (1100, 1), (1300, 1))
    assert [a.allowed for a in got] == [1, 1, 1, 1]
    assert [a.remaining for a in got] == [9, 8, 7, 7]


def test_whole_numbers_admit_at_the_exact_instant(bed):
    bucket = Bucket(5, SECOND, cap=2)
    got = outcomes(bed, bed.script("bucket", *bucket.params), later(bed),
                   (1000, 1), (1000, 1), (1000, 1), (1199, 1), (1200, 1))
    assert [a.allowed for a in got] == [1, 1, 0, 0, 1]


def test_a_step_back_of_two_seconds_neither_refuses_nor_mints(bed):
    bucket = Bucket(5, SECOND, cap=10)
    got = outcomes(bed, bed.script("bucket", *bucket.params), later(bed), (5000, 1), (3000, 1))
    assert [(a.allowed, a.remaining) for a in got] == [(1, 9), (1, 8)]


def test_a_clock_put_right_again_refills_nothing(bed):
    script = bed.script("bucket", *Bucket(5, SECOND, cap=10).params)
    got = outcomes(bed, script, later(bed), (5000, 5), (4500, 3), (5000, 0), (5200, 0))
    assert [a.remaining for a in got] == [5, 2, 2, 3]


def test_a_bucket_slower_than_an_hour_is_not_forgotten(bed):
    script = bed.script("bucket", *Bucket(36, 3600 * SECOND, cap=100).params)
    script.ask(TAKE, 100)
    bed.clock.set(bed.clock.now_us + 3600 * SECOND)
    assert script.ask(PEEK).remaining == 36


def test_fixed_windows_at_their_edge(bed):
    for first, passes in ((0, 1), (1, 0)):
        start = later(bed)
        got = outcomes(bed, bed.script("window", *Window(10, 60 * SECOND, first).params), start,
                       (59_000, 10), (60_000, 10))
        assert [a.allowed for a in got] == [1, passes]


def test_a_sliding_counter_admits_again_at_66_seconds(bed):
    got = outcomes(bed, bed.script("counter", *Counter(10, 60 * SECOND).params), later(bed),
                   (59_000, 10), (60_000, 1), (65_999.999, 1), (66_000, 1))
    assert [a.allowed for a in got] == [1, 0, 0, 1]
    assert got[1].retry == 6 * SECOND


def test_weights_of_a_sliding_counter(bed):
    minute = 60_000
    for prev, cur, share, more in ((80, 20, 0.3, 24), (80, 30, 0.7, 46), (85, 20, 0.3, 20)):
        script = bed.script("counter", *Counter(100, 60 * SECOND).params)
        got = outcomes(bed, script, later(bed), (0, prev), (minute, 0), (minute * (1 + share), 0))
        assert all(a.allowed for a in got)
        script.ask(FORCE, cur)
        assert script.ask(PEEK).remaining == more, (prev, cur, share)


def test_a_log_admits_at_the_very_end_of_its_period(bed):
    got = outcomes(bed, bed.script("log", *Log(5, 10 * SECOND).params), later(bed),
                   *[(0, 1)] * 5, (5000, 1), (10_000, 1))
    assert [a.allowed for a in got] == [1] * 5 + [0, 1]
    assert got[5].retry == 5 * SECOND and got[6].remaining == 4


def test_a_queue_lets_them_leave_one_by_one(bed):
    script = bed.script("bucket", *Bucket(10, SECOND, cap=21, queue=1).params)
    got = [script.ask(TAKE) for _ in range(25)]
    assert [a.allowed for a in got] == [1] * 21 + [0] * 4
    assert [a.delay for a in got[:21]] == [i * 100_000 for i in range(21)]
    assert got[21].retry == 100_000
    # Only the last place can be given back.
    assert script.ask(GIVE_BACK, 1, mark=got[5].mark).allowed == 0
    assert script.ask(GIVE_BACK, 1, mark=got[20].mark).allowed == 1
    assert script.ask(TAKE).delay == 2_000_000


def test_another_amount_finds_the_same_share_spent(bed):
    slow, fast = Bucket(100, 60 * SECOND), Bucket(7000, 60 * SECOND)
    script = bed.script("bucket", *slow.params)
    script.ask(TAKE, 50)
    other = bed.script("bucket", *fast.params)
    other.key = script.key
    assert other.ask(PEEK).remaining == 3499  # half of it, rounded towards refusing


def test_a_calendar_is_chosen_from_by_the_stores_clock(bed):
    day = 86400 * SECOND
    begin = (bed.clock.now_us // day + 2) * day
    script = bed.script("window", 5, 31 * day, 0, begin, begin + 28 * day, begin + 59 * day, 32 * day)
    bed.clock.set(begin + 28 * day - 1)
    assert script.ask(TAKE, 5).reset == 1
    bed.clock.set(begin + 28 * day)
    answer = script.ask(TAKE, 5)
    assert answer.allowed == 1 and answer.reset == 31 * day
    bed.clock.set(begin + 59 * day)
    assert script.ask(TAKE, 1).allowed == -1, "beyond what was given: no answer"


# --- places ------------------------------------------------------------------------------


def test_places_are_taken_renewed_released_and_end_by_themselves(bed):
    source, amount, lease = random.Random(f"{SEED}places"), 8, 5 * SECOND
    script = bed.script("places", amount, lease, 86400 * SECOND)
    held = {}  # id: [end, places]
    for number in range(DECISIONS):
        bed.clock.set(bed.clock.now_us + source.randrange(SECOND))
        now = bed.clock.now_us
        held = {k: v for k, v in held.items() if v[0] > now}
        live = sum(n for _, n in held.values())
        name = number.to_bytes(8, "little")
        other = source.choice(list(held)) if held and source.random() < 0.9 else b"nobody.."
        op = source.choice([TAKE, TAKE, TAKE, RENEW, RELEASE, PEEK])
        if op in (TAKE, PEEK):
            cost = source.choice([1, 1, 2, 9])
            answer = script.ask(op, cost, tail=name)
            assert answer.allowed == (live + cost <= amount)
            if answer.allowed and op == TAKE:
                held[name] = [now + lease, cost]
            if not answer.allowed and cost <= amount:
                # As docs/algorithms.md has it: by the age of the holder in the middle.
                ends = sorted(e for e, n in held.values() for _ in range(n))
                age, needed = max(lease - (ends[live - live // 2 - 1] - now), 0), live + cost - amount
                guess = -(-2 * age * needed // live)
                assert answer.retry == min(max(guess, SECOND), ends[needed - 1] - now)
        else:
            answer = script.ask(op, 0, tail=other)
            assert answer.allowed == (other in held)
            if other in held and op == RENEW:
                held[other][0] = now + lease
            elif op == RELEASE:
                held.pop(other, None)
        assert answer.remaining == amount - sum(n for _, n in held.values())


# --- batches, clusters, bad luck -----------------------------------------------------------


def test_one_bad_key_spoils_only_its_own_charge(bed):
    limit = Bucket(5, SECOND)
    script = bed.script("bucket", *limit.params)
    bad = bed.key()
    bed.client.rpush(bad, "not a bucket")
    take, two = script.argument(TAKE), script.argument(TAKE, 2)
    answers = script.call(take, take, two, take, take, keys=[script.key, bad, script.key, bad, script.key])
    assert [a.allowed for a in answers] == [1, -1, 1, -1, 1]
    assert [answers[i].remaining for i in (0, 2, 4)] == [4, 2, 1]
    assert bed.client.lrange(bad, 0, -1) == [b"not a bucket"]


def test_scripts_that_run_twice_at_once_admit_the_limit(bed):
    """Two clients in turn, of which neither knows of the other."""
    script = bed.script("window", *Window(100, 60 * SECOND).params)
    other = Script(bed.server.client(), "window", Window(100, 60 * SECOND).params, script.key)
    with bed.client.pipeline(transaction=False) as a, other.client.pipeline(transaction=False) as b:
        for pipe in (a, b):
            for _ in range(80):
                pipe.evalsha(script.sha, 1, script.key, "n", *by_number([script.argument(TAKE)]))
        admitted = sum(read_reply(reply, "n")[1][0][0] for pipe in (a, b) for reply in pipe.execute())
    assert admitted == 100


def test_in_a_cluster_the_keys_of_one_tag_go_in_one_call(tmp_path):
    options = ["--cluster-enabled", "yes", "--cluster-port", str(free_port())]
    with RedisServer(tmp_path, port=free_port(), options=options) as server:
        client = server.client()
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until = time.monotonic() + PATIENCE
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            assert time.monotonic() < until
        script = Script(client, "counter", Counter(10, 60 * SECOND).params, "ration:{3f}:a")
        take = script.argument(TAKE)
        both = script.call(take, take, keys=["ration:{3f}:a", "ration:{3f}:b"])
        assert [a.allowed for a in both] == [1, 1]
        with pytest.raises(redis.exceptions.ResponseError, match="slot"):
            script.call(take, take, keys=["ration:{3f}:a", "ration:{40}:b"])
