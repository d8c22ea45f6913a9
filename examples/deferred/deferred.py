#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deferred work: webhooks leave at the rate that their receiver takes. What exceeds it waits in a Redis stream.

    rationd &                                           # the limit comes along with each call: no rules are needed
    ./deferred.py send http://127.0.0.1:3000/hook '{"order": 7}'
    ./deferred.py work NAME                             # as many workers as you like, each with a name of its own

Needs python3-redis, which talks to both: Redis (REDIS_URL) keeps the jobs, rationd (RATION_URL) keeps the rate.

What this promises:
- The rate holds for senders and workers together, on all machines that ask the same rationd (or several with one Redis).
- A job that `send` has accepted is not lost: it stays in the stream until a worker has delivered it. A worker that is
  killed takes it up again when it is started under its name; if it never is, another one does, after ABANDONED_MS.
- A job may be delivered twice if a worker is killed between the delivery and its note of it. Both deliveries carry
  the same Idempotency-Key, by which the receiver must know the second.
- Without rationd nothing leaves, and `send` defers. Without Redis `send` fails: nothing is accepted that could be lost.

Redis must keep what it has acknowledged (`appendonly yes`), and must not evict (`maxmemory-policy noeviction`).
"""

import os
import sys
import time
import urllib.error
import urllib.request
import uuid

import redis

LIMIT = os.environ.get("LIMIT", "5 per second")
STREAM, GROUP, FAILED = "deferred", "workers", "deferred:failed"
TRIES = 8                  # after so many failed deliveries a job goes to the stream FAILED, for a human
ABANDONED_MS = int(os.environ.get("ABANDONED_MS", "60000")) # longer than a delivery with its deadline takes
WAIT_MS = 2000             # how long a worker stands in line at rationd before it asks again
DONE_SECONDS = 24 * 3600   # how long a delivered job is known

# Each call has a deadline: what is frozen is away, too.
ANSWER_SECONDS = float(os.environ.get("ANSWER_SECONDS", "1"))


def connect(variable, port, seconds):
    return redis.Redis.from_url(os.environ.get(variable, f"redis://127.0.0.1:{port}"), decode_responses=True,
                                socket_timeout=ANSWER_SECONDS + seconds, socket_connect_timeout=ANSWER_SECONDS)


jobs = connect("REDIS_URL", 6379, 0)
patient_jobs = connect("REDIS_URL", 6379, 1) # for commands that wait a second for a job
limiter = connect("RATION_URL", 6380, 0)
patient_limiter = connect("RATION_URL", 6380, WAIT_MS / 1000)


def log(text):
    print(f"deferred: {text}", file=sys.stderr, flush=True)


# --- the rate -------------------------------------------------------------------------


def take(asked, wait_ms):
    """Asks rationd for one delivery. Returns 0 if it may leave now, else after how many seconds to ask again."""
    answer = asked.execute_command("RATION.TAKE", "webhooks", LIMIT, "1", "WAIT", wait_ms)
    answer = dict(zip(answer[::2], answer[1::2]))
    return 0 if int(answer["allowed"]) else float(answer["retry_after"])


def wait_for_turn(still_mine):
    """Returns when one delivery may leave. A worker stands in line at rationd, where nobody overtakes it: senders
    are refused meanwhile, and defer. Without rationd it waits for rationd."""
    while True:
        try:
            seconds = take(patient_limiter, WAIT_MS)
        except redis.RedisError as error:
            log(f"rationd is away, or refuses the question: {error}")
            seconds = 0.5
        if seconds == 0:
            return
        time.sleep(min(seconds, 5))
        still_mine()


# --- jobs -----------------------------------------------------------------------------


def deliver(job):
    """One attempt. True if the receiver has taken the job."""
    request = urllib.request.Request(job["url"], job["body"].encode(), method="POST",
                                     headers={"Content-Type": "application/json", "Idempotency-Key": job["id"]})
    try:
        with urllib.request.urlopen(request, timeout=10):
            return True
    except (OSError, urllib.error.HTTPError) as error:
        log(f"{job['id']}: {error}")
        return False


def send(url, body):
    """Delivers at once if the rate allows it, else defers. Raises redis.RedisError if the job can be neither
    delivered nor kept."""
    job = {"id": uuid.uuid4().hex, "url": url, "body": body, "tries": 0}
    try:
        if take(limiter, 1) == 0 and deliver(job):
            return "delivered"
    except redis.RedisError as error:
        log(f"rationd is away, or refuses the question: {error}")
    jobs.xadd(STREAM, job)
    return "deferred"


def next_job(name):
    """(number in the stream, job), or None if there is none for a second."""
    # First what this worker has read and not settled: it was killed, or Redis was away.
    for _, messages in jobs.xreadgroup(GROUP, name, {STREAM: "0"}, count=1):
        if messages:
            return messages[0]
    # Then what another worker has left behind.
    for left in jobs.xpending_range(STREAM, GROUP, "-", "+", 1, idle=ABANDONED_MS):
        claimed = jobs.xclaim(STREAM, GROUP, name, ABANDONED_MS, [left["message_id"]])
        if claimed:
            return claimed[0]
    for _, messages in patient_jobs.xreadgroup(GROUP, name, {STREAM: ">"}, count=1, block=1000):
        return messages[0]
    return None


def settle(number, *commands):
    """Takes a job out of the stream, and does these commands, all or none. It must come about: without it the job
    would be delivered again. So it is sent until Redis answers; twice does no harm."""
    while True:
        try:
            with jobs.pipeline(transaction=True) as transaction:
                for command in commands:
                    transaction.execute_command(*command)
                transaction.xack(STREAM, GROUP, number)
                transaction.xdel(STREAM, number)
                transaction.execute()
            return
        except (redis.ConnectionError, redis.TimeoutError) as error:
            log(f"Redis is away: {error}")
            time.sleep(0.2)


def run(name, number, job):
    def still_mine():
        """Not abandoned: its worker waits for its turn."""
        jobs.xclaim(STREAM, GROUP, name, 0, [number], justid=True)

    done = f"deferred:done:{job['id']}"
    if jobs.exists(done): # another worker has delivered it since it was read
        return settle(number)
    wait_for_turn(still_mine)
    if deliver(job):
        return settle(number, ["SET", done, 1, "EX", DONE_SECONDS])
    # To the end of the stream, so that those behind it need not wait for it.
    tries = int(job["tries"]) + 1
    again = {**job, "tries": tries}
    settle(number, ["XADD", STREAM if tries < TRIES else FAILED, "*", *(x for pair in again.items() for x in pair)])


def work(name):
    while True:
        try:
            jobs.xgroup_create(STREAM, GROUP, "0", mkstream=True)
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error): # it is there already
                raise
        except (redis.ConnectionError, redis.TimeoutError) as error:
            log(f"Redis is away: {error}")
            time.sleep(0.2)
            continue
        break
    while True:
        try:
            found = next_job(name)
            if found:
                run(name, *found)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            log(f"Redis is away: {error}") # the job is still there
            time.sleep(0.2)


if __name__ == "__main__":
    if sys.argv[1:2] == ["send"] and len(sys.argv) == 4:
        print(send(*sys.argv[2:]))
    elif sys.argv[1:2] == ["work"] and len(sys.argv) == 3:
        work(sys.argv[2])
    else:
        sys.exit("usage: deferred.py send URL BODY\n       deferred.py work NAME")
