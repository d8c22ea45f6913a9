# SPDX-License-Identifier: Apache-2.0
"""The scripts on a real redis-server whose clock the test moves, at random, against the naive definitions
of naive_limits.py. Worked examples are in test_redis_script_examples.py."""

import random
import struct

import pytest

from naive_limits import LIMITS, WITHOUT_STEPS, Bucket, Log, SubWindows
from redis_server import (CREDIT, DEBIT, DRAIN, FORCE, FORGIVE, GIVE_BACK, GIVE_BACK_UNFORGIVEN, PEEK, RELEASE,
                          RENEW, RESET, SECOND, SEED, TAKE)

DECISIONS = 10_000


def random_step(source, limit):
    """Mostly little at a time, so that the limit is met; now and then a pause."""
    each = limit.span // limit.cap
    return source.choice([0, 0, 1, source.randrange(2 * each), source.randrange(2 * each),
                          source.randrange(limit.span // 20 + 1)] +
                         ([source.randrange(2 * limit.span)] if source.random() < 0.02 else []))


def random_cost(source, limit):
    return source.choice([1, 1, 1, 2, 3, source.randrange(limit.cap + 2), 0])


@pytest.mark.parametrize("name", LIMITS)
def test_every_decision_is_the_one_the_definition_gives(runner, name):
    source, limit = random.Random(f"{SEED}{name}"), LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    done = admitted = refused = 0
    start = runner.clock.now_us
    while done < DECISIONS:
        runner.later(random_step(source, limit))
        limit.move(runner.clock.now_us, runner.clock.now_us - start)
        costs = [random_cost(source, limit) for _ in range(source.choice([1, 1, 2, 8]))]
        answers = script.call(*(script.argument(TAKE, cost) for cost in costs))
        for cost, answer in zip(costs, answers):
            assert answer.now_us == runner.clock.now_us, "seconds and microseconds"
            assert answer.allowed == limit.fits(cost), (SEED, done, cost)
            if answer.allowed:
                limit.charge(cost)
            assert limit.fits(answer.remaining) and not limit.fits(answer.remaining + 1)
            admitted, refused = admitted + answer.allowed, refused + 1 - answer.allowed
        done += len(costs)
        # A key may not be forgotten before it is as good as forgotten.
        if answers[-1].reset > 0:
            assert runner.client.pttl(script.key) * 1000 >= answers[-1].reset
    assert admitted > DECISIONS / 20 and refused > DECISIONS / 20


@pytest.mark.parametrize("name", LIMITS)
def test_late_debits_are_charged_where_they_first_fit(runner, name):
    source, limit = random.Random(f"{SEED}late{name}"), LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    start = runner.clock.now_us
    debits = lost = admitted = 0
    for step in range(DECISIONS // 20):
        runner.later(random_step(source, limit) * 4)
        limit.move(runner.clock.now_us, runner.clock.now_us - start)
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
                runner.later(answer.retry - 1)
                assert script.ask(PEEK, cost).allowed == 0
                runner.later(1)
                assert script.ask(PEEK, cost).allowed == 1
            admitted += answer.allowed
        limit.move(runner.clock.now_us, runner.clock.now_us - start)
        left = script.ask(PEEK).remaining
        assert (left == 0 or limit.fits(left)) and not limit.fits(left + 1)
        if answer.reset > 0:
            assert runner.client.pttl(script.key) * 1000 >= answer.reset - limit.span // 50
    assert debits > 30 and lost > debits / 20 and admitted > DECISIONS / 200


@pytest.mark.parametrize("name", LIMITS)
def test_drains_take_what_is_left_and_credits_give_back_what_is_spent(runner, name):
    source, limit = random.Random(f"{SEED}drain{name}"), LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    start = runner.clock.now_us
    drained = credited = 0
    for step in range(DECISIONS // 10):
        runner.later(random_step(source, limit))
        limit.move(runner.clock.now_us, runner.clock.now_us - start)
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
def test_drained_units_are_given_back_by_their_receipt(runner, name):
    limit = LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    script.ask(TAKE, limit.cap - 3)
    drained = script.ask(DRAIN, 5)
    assert (drained.allowed, drained.remaining, drained.delay) == (0, 0, 3)
    back = script.ask(GIVE_BACK, 3, mark=drained.mark)
    assert (back.allowed, back.remaining) == (1, 3)


@pytest.mark.parametrize("name", WITHOUT_STEPS)
def test_a_clock_that_goes_back_never_mints(runner, name):
    """A step back is no time passed. What the definition then says is not always
    certain, so the sum is judged: what the limit admits in the time of the forward
    steps. Windows that lie on the clock may be met once more after each step back."""
    source, limit = random.Random(f"{SEED}back{name}"), LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    forward = admitted = 0
    steps_back = 0
    for _ in range(DECISIONS // 4):
        step = random_step(source, limit)
        if source.random() < 0.01:
            step = -source.choice([1, SECOND, limit.span // 3, limit.span, 5 * limit.span])
        forward += max(step, 0)
        steps_back += step < 0
        runner.later(step)
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
def test_a_refusal_says_when_it_would_be_admitted(runner, name):
    source, limit = random.Random(f"{SEED}retry{name}"), LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    told = 0
    for _ in range(2000):
        runner.later(random_step(source, limit) // 4)
        cost = random_cost(source, limit)
        answer = script.ask(TAKE, cost)
        if answer.allowed:
            continue
        if cost > limit.cap:
            assert answer.retry == -1
            continue
        told += 1
        runner.later(answer.retry - 1)
        assert script.ask(PEEK, cost).allowed == 0
        runner.later(1)
        assert script.ask(PEEK, cost).allowed == 1
    assert told > 100


@pytest.mark.parametrize("name", LIMITS)
def test_a_look_and_a_refusal_change_nothing_and_a_reset_all(runner, name):
    limit = LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    script.ask(TAKE, limit.cap - 1)
    before = runner.client.dump(script.key)
    assert script.ask(PEEK, 1).allowed == 1
    assert script.ask(PEEK, 2).allowed == 0
    assert script.ask(TAKE, 2).allowed == 0
    assert runner.client.dump(script.key) == before
    assert script.ask(RESET).allowed == 1
    assert script.ask(RESET).allowed == 0
    assert script.ask(PEEK).remaining == limit.cap


@pytest.mark.parametrize("name", LIMITS)
def test_units_given_back_at_once_can_be_taken_again_and_no_more(runner, name):
    limit = LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    script.ask(TAKE, limit.cap - 3)
    taken = script.ask(TAKE, 3)
    assert script.ask(PEEK, 1).allowed == 0
    back = script.ask(GIVE_BACK, 3, age=runner.clock.now_us - taken.now_us, mark=taken.mark)
    assert back.allowed == 1 and back.remaining == 3
    assert script.ask(TAKE, 4).allowed == 0
    assert script.ask(TAKE, 3).allowed == 1


def pardoning(script, *asks, made=0):
    """Charges of one call that go with what is remembered of resets: operation, cost, age, mark."""
    keys = [script.key] * len(asks) + [f"{script.key}:f"] * len(asks)
    return script.call(*[script.argument(*ask, tail=struct.pack("<dd", made, len(asks) + 1 + i))
                         for i, ask in enumerate(asks)], keys=keys)


@pytest.mark.parametrize("name", LIMITS)
def test_charges_cleared_by_a_reset_are_not_given_back_as_well(runner, name):
    limit = LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    forgiven = script.ask(TAKE, 1)
    runner.later(1)
    assert pardoning(script, (FORGIVE, 0, 60_000_000, 0))[0].allowed == 1
    assert 59_000 < runner.client.pttl(f"{script.key}:f") <= 60_000
    assert script.ask(PEEK).remaining == limit.cap
    runner.later(1)
    taken = script.ask(TAKE, 3)
    back, same, whole = pardoning(script, (GIVE_BACK_UNFORGIVEN, 1, 2, forgiven.mark),
                                  (GIVE_BACK_UNFORGIVEN, 1, 1, forgiven.mark),
                                  (GIVE_BACK_UNFORGIVEN, 3, 0, taken.mark))
    assert (back.allowed, back.remaining, same.allowed) == (0, limit.cap - 3, 0)
    assert (whole.allowed, whole.remaining) == (1, limit.cap), "what was charged after it is"


@pytest.mark.parametrize("name", LIMITS)
def test_a_slow_refund_knows_the_time_of_its_take(runner, name):
    limit = LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    forgiven = script.ask(TAKE, 2)
    runner.later(5)
    pardoning(script, (FORGIVE, 0, 60_000_000, 0))
    runner.later(5)
    script.ask(TAKE, 2)
    [back] = pardoning(script, (GIVE_BACK_UNFORGIVEN, 2, 0, forgiven.mark), made=forgiven.now_us)
    assert (back.allowed, back.remaining) == (0, limit.cap - 2)


@pytest.mark.parametrize("name", LIMITS)
def test_charges_without_a_reset_are_given_back(runner, name):
    limit = LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    taken = script.ask(TAKE, 2)
    [back] = pardoning(script, (GIVE_BACK_UNFORGIVEN, 2, 0, taken.mark))
    assert (back.allowed, back.remaining) == (1, limit.cap)
    assert not runner.client.exists(f"{script.key}:f")


@pytest.mark.parametrize("name", LIMITS)
def test_nothing_is_given_back_after_its_time(runner, name):
    limit = LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    taken = script.ask(TAKE, limit.cap)
    runner.later(3 * limit.span)
    script.ask(TAKE, limit.cap)
    assert script.ask(GIVE_BACK, limit.cap, age=runner.clock.now_us - taken.now_us, mark=taken.mark).allowed == 0
    assert script.ask(PEEK, 1).allowed == 0


@pytest.mark.parametrize("name", LIMITS)
def test_a_forced_charge_fills_up_and_never_refuses(runner, name):
    limit = LIMITS[name]()
    script = runner.script(limit.script, *limit.params)
    script.ask(TAKE, limit.cap - 1)
    forced = script.ask(FORCE, 5)
    assert forced.allowed == 1 and forced.remaining == 0
    assert script.ask(TAKE, 1).allowed == 0


def test_refunds_and_takes_at_random_never_exceed_a_log(runner):
    source, limit = random.Random(f"{SEED}refund"), Log(60, 10 * SECOND)
    script, receipts, live = runner.script("log", *limit.params), [], []
    for _ in range(DECISIONS // 2):
        runner.later(source.randrange(SECOND))
        now = runner.clock.now_us
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


def test_places_are_taken_renewed_released_and_end_by_themselves(runner):
    source, amount, lease = random.Random(f"{SEED}places"), 8, 5 * SECOND
    script = runner.script("places", amount, lease, 86400 * SECOND)
    held = {}  # id: [end, places]
    for number in range(DECISIONS):
        runner.later(source.randrange(SECOND))
        now = runner.clock.now_us
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
