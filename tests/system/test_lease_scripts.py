# SPDX-License-Identifier: Apache-2.0
"""The lease scripts on a real redis-server whose clock the test moves: whatever happens to nodes,
calls and replies, together they never spend more than the limit."""

import collections
import itertools
import math
import os
import random
import struct

import pytest

from lease_nodes import LEASE, LONGEST, RETURN, RandomHistory, ScriptConnection
from redis_server import CREDIT, DRAIN, FORCE, GIVE_BACK, PEEK, RESET, SECOND, SEED, TAKE, embed

MANY = 100 if os.environ.get("RATION_SOAK") else 1
GRANTS = {"lease_bucket": 100_000 * MANY}
GRANTS_OF_WINDOWS = 5_000 * MANY
GRANTS_OF_LOSERS = 5_000 * MANY
GRANTS_OF_KILLED = 1_000 * MANY
STEPS = 1500
STARTS = itertools.count(1_800_010_000 * SECOND, 10_000 * SECOND)  # when histories begin, far apart
SOON = 60 * SECOND  # a lost limit that needs longer to refill starts full


class Bucket:
    script = "lease_bucket"

    def __init__(self, amount, period, cap, tick=1):
        shared = math.gcd(amount, period)
        self.unit, self.paid = (1, amount * tick // period) if tick > 1 else (period // shared, amount // shared)
        self.cap, self.tick, self.full = cap, tick, cap * self.unit
        self.packed = struct.pack("<ddddd", tick, self.paid, self.unit, self.full, 0)
        self.each_us, self.span_us = period / amount, cap * period // amount

    def receipt(self, now):
        """What a refund needs to know of a lease; 0: when the lease ended."""
        return 0

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

    def receipt(self, now):
        return (now // self.period + 1) * self.period

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

    def receipt(self, now):
        return now // self.period

    def excess(self, spent):
        """In parts of the period, at each time at which something was spent."""
        worst, counts = 0, collections.Counter()
        for at, units in spent:
            number, into = divmod(at, self.period)
            counts[number] += units
            faded = counts[number - 1] * (self.period - into) + counts[number] * self.period
            worst = max(worst, faded - self.cap * self.period)
        return worst / self.period


class SubWindows(Window):
    script = "lease_subs"

    def __init__(self, amount, period, subs):
        super().__init__(amount, period)
        self.grain, self.subs = -(-period // subs), subs
        self.packed = struct.pack("<ddd", amount, self.grain, subs + 1)

    def receipt(self, now):
        return now // self.grain

    def excess(self, spent):
        """The oldest sub-window, of which the window covers a part, counts whole."""
        worst, counts = 0, collections.Counter()
        for at, units in spent:
            number = at // self.grain
            counts[number] += units
            worst = max(worst, sum(counts[number - i] for i in range(self.subs + 1)) - self.cap)
        return worst


class Log(Window):
    script = "lease_log"

    def __init__(self, amount, period):
        super().__init__(amount, period)
        self.packed = struct.pack("<ddd", amount, 1, period)

    def receipt(self, now):
        return 0

    def excess(self, spent):
        """At each time at which something was spent, in the period that ends then."""
        worst = total = 0
        recent = collections.deque()
        for at, units in spent:
            recent.append((at, units))
            total += units
            while recent[0][0] + self.period <= at:
                total -= recent.popleft()[1]
            worst = max(worst, total - self.cap)
        return worst


LIMITS = {
    "lease_bucket": lambda source: Bucket(source.choice([5, 50, 300, 700]), SECOND, source.choice([5, 20, 100, 400])),
    "lease_window": lambda source: Window(source.choice([20, 100, 400]), source.choice([SECOND, 10 * SECOND])),
    "lease_counter": lambda source: Counter(source.choice([20, 100, 400]), source.choice([SECOND, 10 * SECOND])),
    "lease_subs": lambda source: SubWindows(source.choice([20, 100, 400]), source.choice([SECOND, 10 * SECOND]), 5),
    "lease_log": lambda source: Log(source.choice([20, 100, 400]), source.choice([SECOND, 10 * SECOND])),
}


def histories(runner, script, text, bug=None, shape=None):
    """(excess, grants) of one random history after another; `shape` is what all have."""
    connection = ScriptConnection(runner.server.path, runner.clock, text)
    for number in range(10**9):
        source = random.Random(f"{SEED}{script}{number}")
        history = RandomHistory(source, connection, LIMITS[script](source), next(STARTS), bug)
        vars(history).update(shape or {})
        if history.losses and history.limit.span_us > SOON:
            continue
        yield history.live(STEPS), history.grants, history.returned


def hold_to_the_limit(runner, script, goal, shape=None):
    """Returns the units that came back from holders that were killed."""
    grants = all_returned = 0
    for excess, granted, returned in histories(runner, script, embed.assemble(script), shape=shape):
        assert excess == 0, (SEED, excess)
        grants, all_returned = grants + granted, all_returned + returned
        if grants >= goal:
            return all_returned


@pytest.mark.parametrize("script", LIMITS)
def test_leases_never_add_up_to_more_than_the_limit(runner, script):
    hold_to_the_limit(runner, script, GRANTS.get(script, GRANTS_OF_WINDOWS))


@pytest.mark.parametrize("script", LIMITS)
def test_leases_keep_the_limit_when_the_store_has_lost_the_key(runner, script):
    hold_to_the_limit(runner, script, GRANTS_OF_LOSERS, LOSSY)


@pytest.mark.parametrize("script", LIMITS)
def test_leases_keep_the_limit_when_no_node_notices_a_lost_key(runner, script):
    hold_to_the_limit(runner, script, GRANTS_OF_LOSERS, UNNOTICED)


@pytest.mark.parametrize("script", LIMITS)
def test_leases_keep_the_limit_when_units_of_killed_holders_are_returned(runner, script):
    assert hold_to_the_limit(runner, script, GRANTS_OF_KILLED, KILLED) > 0


@pytest.mark.parametrize("script", LIMITS)
def test_leases_keep_the_limit_when_units_are_returned_to_a_store_that_has_lost_the_key(runner, script):
    hold_to_the_limit(runner, script, GRANTS_OF_KILLED, {**KILLED, **UNNOTICED})


# Nodes are killed often, and the next process returns their units.
KILLED = {"mishaps": 0.05}
# Where the store now and then is another one, that knows nothing.
LOSSY = {"losses": 0.005}
UNNOTICED = {"losses": 0.005, "unnoticed": True}


def swap(text, old, new, count=1):
    assert text.count(old) == count, old
    return text.replace(old, new)


def without_cap(text):
    return swap(text, "and bucket.out or bucket.debt", "and 0 or bucket.debt").replace(
        "bucket.debt - bucket.out\n", "bucket.debt\n")


def settled_first(text):
    """The caller's lease ends when the last refill was, not now."""
    text = swap(text, "    pay(bucket, tick)\n    return bucket", "    return bucket")
    return swap(text, "\n    bucket.debt = bucket.debt - back * bucket.unit\n",
                "\n    bucket.debt = bucket.debt - back * bucket.unit\n    pay(bucket, math.floor(now / bucket.tick_us))\n")


def without_order(text):
    return swap(text, "        pay(bucket, math.floor(lease.ends / tick_us))\n", "")


PLANTED = {
    "refill not capped by what is out": ("lease_bucket", without_cap, None),
    "settled before the refill": ("lease_bucket", settled_first, None),
    "leases end out of order": ("lease_bucket", without_order, None),
    "overtaken calls count": ("lease_bucket", lambda t: swap(t, "lease.call >= ask.call", "false"), None),
    "a lease that outlives its window": ("lease_window", lambda t: swap(t, ", math.max(ends(mark, ...) - now, 0)", ""), None),
    "a lease that outlives its half": ("lease_counter", lambda t: swap(t, ", math.max(ends(mark, ...) - now, 0)", ""), None),
    "a lease that outlives its sub-window": ("lease_subs", lambda t: swap(t, ", math.max(ends(mark, ...) - now, 0)", ""), None),
    "what is out of a log does not count": ("lease_log", lambda t: swap(t, "ask.least}, amount - out,", "ask.least}, amount,"), None),
    "what ends is not logged": ("lease_log", lambda t: swap(t, "log_spent(key, lease.ends, lease.units, amount, grain, period)", ""), None),
    "what is spent is not logged": ("lease_log", lambda t: swap(t, "log_spent(key, now, ended - back, amount, grain, period)\n    end", "end"), None),
    "what is spent is logged too early": ("lease_log", lambda t: swap(t, "log_spent(key, lease.ends, lease.units", "log_spent(key, lease.ends - 20000, lease.units"), None),
    "what ends is not charged": ("lease_window", lambda t: swap(t, "cost = granted}", "cost = 0}"), None),
    "a lost bucket starts full": ("lease_bucket", lambda t: swap(t, "return empty(bucket, now, DOUBT)", "return bucket"), None),
    "a lost bucket fills behind its holders": ("lease_bucket", lambda t: swap(t, "ends = now + lasts, call = 0", "ends = now, call = 0"), None),
    "a lost window starts full": ("lease_window", lambda t: swap(t, "DOUBT > 0 and redis", "false and redis"), None),
    "a lost half starts full": ("lease_counter", lambda t: swap(t, "DOUBT > 0 and redis", "false and redis"), None),
    "a lost log starts empty": ("lease_log", lambda t: swap(t, "DOUBT > 0 and redis", "false and redis"), None),
    "a lost log counts from too early": ("lease_log", lambda t: swap(t, "ends = now + lasts", "ends = now"), None),
    "a lost sub-window starts full": ("lease_subs", lambda t: swap(t, "DOUBT > 0 and redis", "false and redis"), None),
    "an emptied store is as good as ever": ("lease_bucket", lambda t: swap(t, "        since = now\n", "        since = since or 0\n"), None),
    "another id is nothing new": ("lease_bucket", lambda t: swap(t, "if goes_on and string.find(ids, id, 1, true) then", "if goes_on then"), None),
    "deadline from the reply": ("lease_bucket", lambda t: t, "deadline from the reply"),
    "a reused id": ("lease_bucket", lambda t: t, "a reused id"),
    "spent before it is recorded": ("lease_bucket", lambda t: t, "spent before it is recorded"),
    "a killed holder has spent nothing": ("lease_window", lambda t: swap(t, "lease.units - spent, 0", "lease.units, 0"), None),
    "a killed holder's log is empty": ("lease_log", lambda t: swap(t, "lease.units - spent, 0", "lease.units, 0"), None),
}


# Where calls overtake each other, and nothing is lost that would make up for it.
ROUGH = {"late": 0.6, "patience": 1000, "mishaps": 0, "ttl": LONGEST}
SHAPES = {"spent before it is recorded": KILLED, "a killed holder has spent nothing": KILLED,
          "a killed holder's log is empty": KILLED, "overtaken calls count": ROUGH, "a reused id": ROUGH,
          "an emptied store is as good as ever": UNNOTICED, "another id is nothing new": UNNOTICED,
          **{fault: LOSSY for fault in PLANTED if fault.startswith("a lost")}}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found(runner, fault):
    script, mutate, bug = PLANTED[fault]
    text = mutate(embed.assemble(script))
    for number, (excess, *_) in enumerate(histories(runner, script, text, bug, SHAPES.get(fault))):
        if excess > 0:
            return
        assert number < 400, "not found in 400 histories"


# --- worked examples --------------------------------------------------------------------


class ScriptClient:
    """Asks one script about its own key."""

    def __init__(self, runner, limit):
        self.runner, self.limit, self.now = runner, limit, next(STARTS)
        self.key = b"ration:{0}:%d" % self.now
        self.connection = ScriptConnection(runner.server.path, runner.clock, embed.assemble(limit.script))
        self.calls = 0

    def run(self, op, cost=1, age=0, mark=0, tail=b"", doubt=0, history=None):
        argument = struct.pack("<dddd", op, cost, age, mark) + self.limit.packed + tail
        return self.connection.run(self.now, self.key, argument, doubt, history)

    def left(self):
        return self.run(PEEK, 0)[1]

    def lease(self, holder, want, keep=0, back=0, least=1, ttl=200_000, call=None, doubt=0, ends=0):
        """Granted, left, until `least` is there, until all is, length, whether kept."""
        self.calls += 1
        tail = struct.pack("<Qdddd", holder, call or self.calls, back, least, ends)
        return self.run(LEASE, want, ttl, keep, tail, doubt)


ASKED = {
    "lease_bucket": lambda: Bucket(100, SECOND, 100),
    "lease_window": lambda: Window(100, SECOND),
    "lease_counter": lambda: Counter(100, SECOND),
    "lease_subs": lambda: SubWindows(100, SECOND, 4),
    "lease_log": lambda: Log(100, SECOND),
}


@pytest.fixture(params=ASKED)
def client(runner, request):
    return ScriptClient(runner, ASKED[request.param]())


def test_a_grant_is_at_most_half_unless_that_is_of_no_use(client):
    assert client.lease(1, 80)[:2] == [50, 50]
    assert client.lease(2, 80)[:2] == [25, 25]
    assert client.lease(3, 10)[:2] == [10, 15]
    assert client.lease(4, 12, least=12)[:2] == [12, 3]
    assert client.lease(5, 12, least=12)[0] < 12


def test_leased_units_are_not_left_for_single_charges(client):
    client.lease(1, 40)
    assert client.left() == 60
    assert client.run(TAKE, 61)[0] == 0
    assert client.run(TAKE, 60)[0] == 1
    assert client.lease(2, 1)[0] == 0


def test_units_given_back_are_there_at_once_and_spent_ones_are_not(client):
    client.lease(1, 40)
    assert client.lease(1, 0, keep=10, back=20)[:2] == [0, 80]
    assert client.lease(1, 0, keep=0, back=0)[:2] == [0, 80]
    assert client.lease(1, 0, keep=0, back=5)[:2] == [0, 80], "it has no more to give"


def test_a_holder_that_claims_more_than_its_grant_holds_nothing(client):
    client.lease(1, 10)
    assert client.lease(1, 0, keep=11)[5] == 0
    assert client.lease(2, 0, keep=1)[5] == 0
    assert client.left() == 90


def killed(client, holder, units, known, ends, call=None, mark=0):
    """What comes back of a holder that was killed; what is left."""
    tail = struct.pack("<Qdddd", holder, call or client.calls, units, known, ends)
    receipt = mark or client.limit.receipt(ends - 1) or ends
    return client.run(RETURN, 0, 0, receipt, tail, history=(client.key + b":history", b"1" * 16))[:2]


@pytest.fixture
def lived(client):
    """A holder got 40, and has spent 15 of them; the store has its history."""
    client.connection.send(b"SET", client.key + b":history", b"0")
    lasts = client.lease(1, 40)[4]
    return client, client.now + lasts


def test_all_unspent_units_of_a_killed_holder_come_back(lived):
    client, ends = lived
    assert killed(client, 1, 25, 40, ends) == [25, 85]
    assert killed(client, 1, 25, 40, ends) == [0, 85], "once"


def test_also_the_grant_of_a_reply_it_did_not_live_to_see(lived):
    client, ends = lived
    assert client.lease(1, 10, keep=30)[:2] == [10, 50]
    assert killed(client, 1, 25, 30, ends) == [35, 85]


def test_units_of_a_call_that_never_arrived_come_back(lived):
    client, ends = lived
    assert killed(client, 1, 25, 30, ends, call=client.calls + 1) == [25, 85]


LONG = {
    "lease_bucket": lambda: Bucket(100, 10_000 * SECOND, 100),
    "lease_window": lambda: Window(100, 10_000 * SECOND),
    "lease_counter": lambda: Counter(100, 10_000 * SECOND),
    "lease_subs": lambda: SubWindows(100, 10_000 * SECOND, 4),
    "lease_log": lambda: Log(100, 10_000 * SECOND),
}


@pytest.fixture(params=LONG)
def ended(runner, request):
    """The same of a limit that lasts, and the lease has ended since."""
    client = ScriptClient(runner, LONG[request.param]())
    client.now = (client.now // (10_000 * SECOND) + 1) * 10_000 * SECOND
    client.connection.send(b"SET", client.key + b":history", b"0")
    ends = client.now + client.lease(1, 40)[4]
    client.now = ends + SECOND
    return client, ends


def test_unspent_units_come_back_after_the_end_of_the_lease(ended):
    client, ends = ended
    assert client.left() == 60
    assert killed(client, 1, 25, 40, ends) == [25, 85]


def test_units_are_not_returned_to_a_server_that_was_flushed_since(ended):
    client, ends = ended
    client.connection.send(b"DEL", client.key, client.key + b":history")
    client.run(TAKE, 50)
    assert killed(client, 1, 25, 40, ends)[0] == 0


def test_a_reset_leaves_leased_units(client):
    client.lease(1, 40)
    client.run(TAKE, 60)
    assert client.run(RESET)[:2] == [1, 60]
    assert client.lease(1, 0, back=40)[1] == 100


def test_a_forced_charge_takes_what_is_left(client):
    client.lease(1, 40)
    assert client.run(FORCE, 500)[:2] == [1, 0]
    assert client.lease(1, 0, keep=40)[5] == 1


def test_a_drain_takes_what_no_lease_holds(client):
    client.lease(1, 40)
    assert client.run(DRAIN, 70)[:2] == [0, 0]
    assert client.lease(1, 0, keep=40)[5] == 1
    assert client.lease(1, 0, back=40)[1] == 40


def test_a_credit_gives_back_nothing_that_a_lease_holds(client):
    client.lease(1, 40)
    client.run(TAKE, 30)
    assert client.run(CREDIT, 10)[:2] == [1, 40]
    assert client.run(CREDIT, 500)[:2] == [1, 60]
    assert client.run(CREDIT, 500)[:2] == [0, 60]
    assert client.lease(1, 0, back=40)[1] == 100


def test_credits_and_drains_beside_leases_move_no_more_than_they_say(client):
    """A credit frees at most its units, and none that a lease holds; a refused drain leaves none."""
    chance, cap, held = random.Random(SEED), 100, {}
    for _ in range(400):
        client.now += chance.choice([0, 0, 0, 1000, 50_000, 300_000])
        before, step = client.left(), chance.randrange(4)
        if step == 0:
            client.run(TAKE, chance.randrange(1, 30))
        elif step == 1:
            holder, lasts = chance.randrange(3), chance.choice([50_000, 500_000, LONGEST])
            granted = client.lease(holder, chance.randrange(40), ttl=lasts)
            held[holder] = granted[0], client.now + granted[4]
        elif step == 2:
            units = chance.choice([1, 5, 50, 2**40])
            said = client.run(CREDIT, units)
            assert before <= client.left() <= min(before + units, cap), (before, units, said)
        else:
            said = client.run(DRAIN, chance.choice([1, 20, cap + 1, 2**50]))
            assert client.left() == (before - said[4] if said[0] == 0 else said[1]), (before, said)
            assert said[0] == 1 or client.left() == 0, (before, said)
        out = sum(units for units, ends in held.values() if client.now < ends)
        assert client.left() + out <= cap, (step, before, out)


def test_a_take_is_given_back_beside_leases(client):
    client.lease(1, 40)
    mark = client.run(TAKE, 30)[5]
    assert client.run(GIVE_BACK, 30, mark=mark)[:2] == [1, 60]


def test_one_holder_too_many_learns_that_units_are_not_the_reason(runner):
    client = ScriptClient(runner, Bucket(10_000, SECOND, 10_000))
    for holder in range(256):
        assert client.lease(holder, 1)[0] == 1
    assert client.lease(1000, 1)[:3] == [0, 10_000 - 256, 0]
    assert client.lease(7, 5, keep=1)[0] == 5
    client.now += 200_000
    assert client.lease(1000, 1)[0] == 1


def test_a_lease_from_a_clock_far_ahead_ends_in_a_second(runner):
    client = ScriptClient(runner, Bucket(100, SECOND, 100))
    client.lease(1, 100, least=100)
    client.now -= 3600 * SECOND
    assert client.run(TAKE)[0] == 0
    client.now += LONGEST - 1
    assert client.run(TAKE)[0] == 0, "it may be spent until then, for all that is known here"
    client.now += SECOND
    assert client.run(TAKE)[0] == 1


def test_a_key_with_leases_is_not_forgotten_before_they_end(client):
    client.lease(1, 40, ttl=LONGEST)
    with client.runner.server.client() as redis:
        assert redis.pttl(client.key) >= client.lease(1, 0, keep=40, ttl=LONGEST)[4] / 1000


def test_a_key_that_may_have_been_lost_starts_with_nothing_left(client):
    assert client.run(TAKE, doubt=LONGEST)[:2] == [0, 0]
    assert client.lease(1, 10, keep=5, doubt=LONGEST)[:2] == [0, 0]
    assert client.run(TAKE)[0] == 0, "any node, in doubt or not"


def test_a_lease_of_a_key_that_was_lost_is_burnt(client):
    assert client.lease(1, 10, keep=5, doubt=LONGEST)[5] == 0


def test_a_key_that_is_there_was_not_lost(client):
    client.lease(1, 40)
    assert client.run(TAKE, doubt=LONGEST)[:2] == [1, 59]
    assert client.lease(1, 10, keep=40, doubt=LONGEST)[5] == 1


def test_a_lost_bucket_fills_from_when_all_leases_of_it_have_ended(runner):
    client = ScriptClient(runner, Bucket(100, SECOND, 100))
    assert client.run(TAKE, doubt=300_000)[2] == 300_000
    client.now += 300_000
    assert client.left() == 0
    client.now += 250_000
    assert client.left() == 25
    assert client.lease(1, 10)[0] == 10


@pytest.mark.parametrize("limit", [
    Bucket(1, SECOND, 61), Window(100, 3600 * SECOND), Counter(100, 3600 * SECOND), SubWindows(100, 3600 * SECOND, 4),
    Log(100, 3600 * SECOND),
], ids=lambda limit: limit.script)
def test_a_limit_that_needs_more_than_a_minute_to_refill_starts_full(runner, limit):
    client = ScriptClient(runner, limit)
    assert client.lease(1, 10, doubt=LONGEST)[:2] == [10, limit.cap - 10]
