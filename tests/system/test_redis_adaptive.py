# SPDX-License-Identifier: Apache-2.0
"""Adaptive concurrency in Redis: the script against src/core/adaptive_places.c, bit by bit."""

import random
import struct
import subprocess

import pytest

from daemon import BUILD
from redis_server import GIVE_BACK, PEEK, RELEASE, RENEW, SECOND, SEED, TAKE

OPERATIONS = {"take": TAKE, "peek": PEEK, "renew": RENEW, "release": RELEASE, "give_back": GIVE_BACK}
LEASE = 30 * SECOND
LONGEST = 86400 * SECOND


def decide_in_core(least, most, trace):
    text = "".join(f"{op} {at} {number} {cost}\n" for op, at, number, cost in trace)
    done = subprocess.run([BUILD / "tests/print_adaptive", str(least), str(most), str(LEASE)], input=text,
                          capture_output=True, text=True, check=True, timeout=60)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


class Redis:
    """Decides with the script; what is held is known from its answers."""

    def __init__(self, runner, least, most):
        self.runner, self.least, self.most = runner, least, most
        self.script = runner.script("adaptive", least, most, LEASE, LONGEST)
        self.trace, self.answers, self.held, self.last = [], [], [], 0

    def ask(self, op, number, cost=1):
        answer = self.script.ask(OPERATIONS[op], cost, tail=struct.pack("<Q", number))
        self.trace.append((op, self.runner.clock.now_us, number, cost))
        best, recent = divmod(int(answer.mark), 1 << 26)
        self.answers.append((answer.allowed, answer.remaining, answer.retry, answer.reset, answer.delay, best,
                             recent))
        return answer

    def take(self, cost=1):
        self.last += 1
        answer = self.ask("take", self.last, cost)
        if answer.allowed:
            self.held.append(self.last)
        return answer

    def end(self, op="release", number=None):
        self.held = [n for n in self.held if n != number]
        return self.ask(op, number)

    def agree(self):
        for i, (ours, core) in enumerate(zip(self.answers, decide_in_core(self.least, self.most, self.trace))):
            assert tuple(map(int, ours)) == core, (SEED, i, self.trace[i])
        assert len(self.answers) == len(self.trace)


@pytest.mark.parametrize("least, most, knee", [(1, 8, 3), (5, 60, 20), (10, 10, 5)])
def test_every_decision_is_the_one_that_core_gives(runner, least, most, knee):
    source, redis = random.Random(f"{SEED}{least}"), Redis(runner, least, most)
    for _ in range(12000):
        held = redis.held
        runner.later(source.randrange(4000 if len(held) <= knee else 12000))
        kind = source.random()
        if kind < 0.001:  # places end by themselves, and now and then all is forgotten
            runner.later(source.choice([LEASE, LEASE, 700 * SECOND]))
            redis.held = []
        elif kind < 0.5:
            redis.take(source.choice([1] * 9 + [2]))
        elif kind < 0.53:
            redis.ask(source.choice(["renew", "peek"]), source.choice(held) if held else 10**6)
        elif kind < 0.54:
            redis.end("give_back", source.choice(held) if held else 10**6)
        elif held:
            redis.end("release", source.choice(held))
    redis.agree()
    assert len({answer[5] for answer in redis.answers}) > 2, "the best latency was learnt, and learnt again"


def test_a_clock_that_goes_back_frees_the_places_within_a_day(runner):
    redis = Redis(runner, 2, 10)
    redis.take(), redis.take()
    runner.later(-300 * 86400 * SECOND)
    assert redis.take().allowed == 0
    runner.later(LONGEST)
    assert redis.take().allowed == 1
    redis.agree()
