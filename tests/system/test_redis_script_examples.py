# SPDX-License-Identifier: Apache-2.0
"""Worked examples for the scripts on a real redis-server whose clock the test moves; batches, clusters and
keys of a wrong type."""

import time

import pytest
import redis

from daemon import PATIENCE, free_port
from naive_limits import Bucket, Counter, Log, Window
from redis_server import FORCE, GIVE_BACK, PEEK, SECOND, TAKE, RedisServer, Script, by_number, read_reply


def outcomes(runner, script, start_us, *asks):
    """(milliseconds after start, cost) each: the answers."""
    answers = []
    for ms, cost in asks:
        runner.clock.set(start_us + round(ms * 1000))
        answers.append(script.ask(TAKE, cost))
    return answers


def test_a_script_of_ten_at_five_a_second(runner):
    bucket = Bucket(5, SECOND, cap=10)
    got = outcomes(runner, runner.script("bucket", *bucket.params), runner.next_minute(),
                   (1000, 1), (1000, 1), (1100, 1), (1300, 1))
    assert [a.allowed for a in got] == [1, 1, 1, 1]
    assert [a.remaining for a in got] == [9, 8, 7, 7]


def test_whole_numbers_admit_at_the_exact_instant(runner):
    bucket = Bucket(5, SECOND, cap=2)
    got = outcomes(runner, runner.script("bucket", *bucket.params), runner.next_minute(),
                   (1000, 1), (1000, 1), (1000, 1), (1199, 1), (1200, 1))
    assert [a.allowed for a in got] == [1, 1, 0, 0, 1]


def test_a_step_back_of_two_seconds_neither_refuses_nor_mints(runner):
    bucket = Bucket(5, SECOND, cap=10)
    got = outcomes(runner, runner.script("bucket", *bucket.params), runner.next_minute(), (5000, 1), (3000, 1))
    assert [(a.allowed, a.remaining) for a in got] == [(1, 9), (1, 8)]


def test_a_clock_put_right_again_refills_nothing(runner):
    script = runner.script("bucket", *Bucket(5, SECOND, cap=10).params)
    got = outcomes(runner, script, runner.next_minute(), (5000, 5), (4500, 3), (5000, 0), (5200, 0))
    assert [a.remaining for a in got] == [5, 2, 2, 3]


def test_a_bucket_slower_than_an_hour_is_not_forgotten(runner):
    script = runner.script("bucket", *Bucket(36, 3600 * SECOND, cap=100).params)
    script.ask(TAKE, 100)
    runner.later(3600 * SECOND)
    assert script.ask(PEEK).remaining == 36


def test_fixed_windows_at_their_edge(runner):
    for first, passes in ((0, 1), (1, 0)):
        start = runner.next_minute()
        got = outcomes(runner, runner.script("window", *Window(10, 60 * SECOND, first).params), start,
                       (59_000, 10), (60_000, 10))
        assert [a.allowed for a in got] == [1, passes]


def test_a_sliding_counter_admits_again_at_66_seconds(runner):
    got = outcomes(runner, runner.script("counter", *Counter(10, 60 * SECOND).params), runner.next_minute(),
                   (59_000, 10), (60_000, 1), (65_999.999, 1), (66_000, 1))
    assert [a.allowed for a in got] == [1, 0, 0, 1]
    assert got[1].retry == 6 * SECOND


def test_weights_of_a_sliding_counter(runner):
    minute = 60_000
    for prev, cur, share, more in ((80, 20, 0.3, 24), (80, 30, 0.7, 46), (85, 20, 0.3, 20)):
        script = runner.script("counter", *Counter(100, 60 * SECOND).params)
        got = outcomes(runner, script, runner.next_minute(), (0, prev), (minute, 0), (minute * (1 + share), 0))
        assert all(a.allowed for a in got)
        script.ask(FORCE, cur)
        assert script.ask(PEEK).remaining == more, (prev, cur, share)


def test_a_log_admits_at_the_very_end_of_its_period(runner):
    got = outcomes(runner, runner.script("log", *Log(5, 10 * SECOND).params), runner.next_minute(),
                   *[(0, 1)] * 5, (5000, 1), (10_000, 1))
    assert [a.allowed for a in got] == [1] * 5 + [0, 1]
    assert got[5].retry == 5 * SECOND and got[6].remaining == 4


def test_a_queue_lets_them_leave_one_by_one(runner):
    script = runner.script("bucket", *Bucket(10, SECOND, cap=21, queue=1).params)
    got = [script.ask(TAKE) for _ in range(25)]
    assert [a.allowed for a in got] == [1] * 21 + [0] * 4
    assert [a.delay for a in got[:21]] == [i * 100_000 for i in range(21)]
    assert got[21].retry == 100_000
    # Only the last place can be given back.
    assert script.ask(GIVE_BACK, 1, mark=got[5].mark).allowed == 0
    assert script.ask(GIVE_BACK, 1, mark=got[20].mark).allowed == 1
    assert script.ask(TAKE).delay == 2_000_000


def test_another_amount_finds_the_same_share_spent(runner):
    slow, fast = Bucket(100, 60 * SECOND), Bucket(7000, 60 * SECOND)
    script = runner.script("bucket", *slow.params)
    script.ask(TAKE, 50)
    other = runner.script("bucket", *fast.params)
    other.key = script.key
    assert other.ask(PEEK).remaining == 3499  # half of it, rounded towards refusing


def test_a_calendar_is_chosen_from_by_the_stores_clock(runner):
    day = 86400 * SECOND
    begin = (runner.clock.now_us // day + 2) * day
    script = runner.script("window", 5, 31 * day, 0, begin, begin + 28 * day, begin + 59 * day, 32 * day)
    runner.clock.set(begin + 28 * day - 1)
    assert script.ask(TAKE, 5).reset == 1
    runner.clock.set(begin + 28 * day)
    answer = script.ask(TAKE, 5)
    assert answer.allowed == 1 and answer.reset == 31 * day
    runner.clock.set(begin + 59 * day)
    assert script.ask(TAKE, 1).allowed == -1, "beyond what was given: no answer"


# --- batches, clusters, bad luck -----------------------------------------------------------


def test_one_bad_key_spoils_only_its_own_charge(runner):
    limit = Bucket(5, SECOND)
    script = runner.script("bucket", *limit.params)
    bad = runner.key()
    runner.client.rpush(bad, "not a bucket")
    take, two = script.argument(TAKE), script.argument(TAKE, 2)
    answers = script.call(take, take, two, take, take, keys=[script.key, bad, script.key, bad, script.key])
    assert [a.allowed for a in answers] == [1, -1, 1, -1, 1]
    assert [answers[i].remaining for i in (0, 2, 4)] == [4, 2, 1]
    assert runner.client.lrange(bad, 0, -1) == [b"not a bucket"]


def test_scripts_that_run_twice_at_once_admit_the_limit(runner):
    """Two clients in turn, of which neither knows of the other."""
    script = runner.script("window", *Window(100, 60 * SECOND).params)
    other = Script(runner.server.client(), "window", Window(100, 60 * SECOND).params, script.key)
    with runner.client.pipeline(transaction=False) as a, other.client.pipeline(transaction=False) as b:
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
