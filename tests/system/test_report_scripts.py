# SPDX-License-Identifier: Apache-2.0
"""The script of reports on a real redis-server whose clock the test moves: what was
admitted elsewhere is charged once, whole, to the very keys that strict decisions use."""

import random
import struct
from fractions import Fraction

import pytest

from redis_server import FORCE, PEEK, RESET, SECOND, SEED, TAKE, embed


# 100 a minute each: name, letter, parameters of the strict script.
BUCKET = ("bucket", "b", (1, 1, 600_000, 60_000_000, 0))
WINDOW = ("window", "w", (100, 60 * SECOND, 0, 0, 0, 0, 60 * SECOND))
FIRST = ("window", "w", (100, 60 * SECOND, 1, 0, 0, 0, 60 * SECOND))
COUNTER = ("counter", "c", (100, 60 * SECOND))
STEPS = ("bucket", "b", (6 * SECOND, 10, 1, 100, 0))
LIMITS = {"bucket": BUCKET, "steps": STEPS, "window": WINDOW, "from first": FIRST, "counter": COUNTER}
every_limit = pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)


@pytest.fixture(scope="module", autouse=True)
def report(runner):
    runner.report = runner.client.script_load(embed.assemble("report"))


@pytest.fixture(autouse=True)
def a_minute_begins(runner):
    runner.clock.set(runner.next_minute())


def strict_script(runner, limit):
    """The script that decides strictly, on an unused key."""
    name, letter, params = limit
    return runner.script(name, *params, letter=letter)


class Holder:
    names = 0

    def __init__(self, runner):
        Holder.names += 1
        self.runner, self.number, self.mark = runner, 0, f"ration:{{0}}:r:{Holder.names}"

    def send(self, number, *reports):
        """Each (strict script, units): states as the reply has them."""
        words = [word for script, units in reports
                 for word in (f"{script.key.split(':')[2]}{units}", script.argument(0))]
        reply = self.runner.client.evalsha(self.runner.report, 1 + len(reports), self.mark,
                                        *(script.key for script, _ in reports), number, *words)
        assert reply[0] == str(number).encode() and reply[1] == self.runner.clock.now_us
        return [reply[i:i + 4] for i in range(2, len(reply), 4)]

    def tell(self, *reports):
        self.number += 1
        return self.send(self.number, *reports)


@every_limit
def test_a_report_is_charged_where_strict_decisions_look(runner, limit):
    strict, holder = strict_script(runner, limit), Holder(runner)
    strict.ask(TAKE, 10)
    holder.tell((strict, 30))
    assert strict.ask(PEEK).remaining == 60
    strict.ask(TAKE, 60)
    assert strict.ask(TAKE, 1).allowed == 0


@every_limit
def test_a_report_that_comes_again_is_charged_once_and_answered_alike(runner, limit):
    strict, other, holder = strict_script(runner, limit), strict_script(runner, limit), Holder(runner)
    first = holder.send(1, (strict, 30), (other, 5))
    assert holder.send(1, (strict, 30), (other, 5)) == first
    assert strict.ask(PEEK).remaining == 70 and other.ask(PEEK).remaining == 95


def test_a_report_that_was_overtaken_by_a_later_one_changes_nothing(runner):
    strict, holder = strict_script(runner, BUCKET), Holder(runner)
    holder.send(1, (strict, 10))
    holder.send(2, (strict, 10))
    holder.send(1, (strict, 10))
    assert strict.ask(PEEK).remaining == 80


def test_holders_do_not_take_each_others_numbers(runner):
    strict = strict_script(runner, BUCKET)
    for _ in range(3):
        Holder(runner).send(1, (strict, 10))
    assert strict.ask(PEEK).remaining == 70


@every_limit
def test_units_beyond_the_limit_are_remembered(runner, limit):
    strict, holder = strict_script(runner, limit), Holder(runner)
    strict.ask(TAKE, 100)
    holder.tell((strict, 25))
    answer = strict.ask(TAKE, 1)
    assert answer.allowed == 0 and answer.remaining == 0
    runner.later(answer.retry - 1)
    assert strict.ask(PEEK).allowed == 0
    runner.later(1)
    assert strict.ask(PEEK).allowed == 1
    if limit in (BUCKET, STEPS):
        assert answer.retry >= 15 * SECOND, "25 and one more, at 100 a minute"


@pytest.mark.parametrize("limit", [BUCKET, STEPS], ids=["bucket", "steps"])
def test_neither_a_look_nor_a_forced_charge_nor_a_step_back_forgives_debt(runner, limit):
    strict, holder = strict_script(runner, limit), Holder(runner)
    holder.tell((strict, 140))
    strict.ask(PEEK)
    strict.ask(FORCE, 50)
    runner.later(-600 * SECOND)
    strict.ask(FORCE, 1)
    holder.tell((strict, 0))
    runner.later(24 * SECOND)
    assert strict.ask(PEEK, 1).allowed == 0, "40 too many take 24 seconds"
    runner.later(6 * SECOND)
    assert strict.ask(PEEK, 1).allowed == 1


def test_a_window_in_which_a_report_arrives_pays_for_it(runner):
    for limit in (WINDOW, FIRST):
        strict, holder = strict_script(runner, limit), Holder(runner)
        strict.ask(TAKE, 100)
        runner.later(60 * SECOND)
        holder.tell((strict, 7))
        assert strict.ask(PEEK).remaining == 93


@every_limit
def test_a_state_is_returned_without_a_charge_and_nothing_is_written(runner, limit):
    strict, holder = strict_script(runner, limit), Holder(runner)
    holder.tell((strict, 0))
    assert runner.client.exists(strict.key) == 0
    strict.ask(TAKE, 10)
    before = runner.client.dump(strict.key)
    holder.tell((strict, 0))
    assert runner.client.dump(strict.key) == before


@every_limit
def test_a_state_in_a_reply_equals_the_stored_state(runner, limit):
    strict, holder = strict_script(runner, limit), Holder(runner)
    told = holder.tell((strict, 42))[0]
    value = runner.client.get(strict.key)
    kept = struct.unpack("<dd", value[:16]) + ((struct.unpack("<d", value[16:])[0],) if limit is COUNTER else (0,))
    assert told == [1, *map(int, kept)]


@every_limit
def test_keys_and_marks_have_an_end_but_not_before_their_time(runner, limit):
    strict, holder = strict_script(runner, limit), Holder(runner)
    holder.tell((strict, 130))
    reset = strict.ask(PEEK).reset
    assert reset * 1000 <= runner.client.pttl(strict.key) * 1_000_000 <= (reset + 2 * SECOND) * 1000
    assert 500_000 < runner.client.pttl(holder.mark) <= 600_000


def test_after_a_reset_only_later_reports_count(runner):
    strict, holder = strict_script(runner, BUCKET), Holder(runner)
    holder.tell((strict, 130))
    assert strict.ask(RESET).remaining == 100
    holder.send(1, (strict, 130))
    assert strict.ask(PEEK).remaining == 100
    holder.tell((strict, 5))
    assert strict.ask(PEEK).remaining == 95


def test_a_key_that_holds_something_else_spoils_only_itself(runner):
    strict, bad, holder = strict_script(runner, BUCKET), strict_script(runner, BUCKET), Holder(runner)
    runner.client.rpush(bad.key, "no bucket")
    told = holder.tell((bad, 5), (strict, 5))
    assert told[0] == [0, 0, 0, 0] and told[1][0] == 1
    assert strict.ask(PEEK).remaining == 95


def test_reports_and_takes_at_random_are_what_a_bucket_with_a_memory_would_count(runner):
    source, strict, holders = random.Random(SEED), strict_script(runner, BUCKET), [Holder(runner) for _ in range(3)]
    rate, debt = Fraction(100, 60 * SECOND), Fraction(0)
    refused = 0
    for _ in range(3000):
        step = source.choice([0, 1000, SECOND, 3 * SECOND])
        runner.later(step)
        debt = max(debt - step * rate, Fraction(0))
        if source.random() < 0.3:
            units, holder = source.randrange(9), source.choice(holders)
            holder.tell((strict, units))
            if source.random() < 0.5:
                holder.send(holder.number, (strict, units))
            debt += units
        else:
            cost = source.randrange(1, 4)
            fits = strict.ask(TAKE, cost).allowed
            assert fits == (debt + cost <= 100), (SEED, debt)
            debt += fits * cost
            refused += not fits
    assert 100 < refused < 2000
