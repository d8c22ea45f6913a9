#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How clients that are refused should come back: a simulation, whose table is in docs/retrying.md.

1,000 clients want one request each, all at the same instant, from an API with `100 per second burst 100`.
Each way of retrying meets the same bucket. No clock is read and the random numbers are fixed: the table is
the same in each run.
"""

import heapq
import random

CLIENTS, RATE, BURST = 1000, 100, 100
FIRST, MOST = 0.2, 10.0


class Bucket:
    """A token bucket that says when a request would fit, as Retry-After does: in whole seconds, rounded up."""

    def __init__(self):
        self.level, self.at = float(BURST), 0.0

    def take(self, now):
        self.level, self.at = min(BURST, self.level + (now - self.at) * RATE), now
        if self.level >= 1 - 1e-9:
            self.level -= 1
            return True, 0
        return False, 1 # what is missing is back within a second


def jitter(rng, attempt):
    return rng.uniform(0, min(MOST, FIRST * 2 ** attempt))


WAYS = {
    "at once, again and again (every 10 ms)": lambda rng, asked, attempt: 0.01,
    "`Retry-After` to the second": lambda rng, asked, attempt: asked,
    "doubling, without jitter": lambda rng, asked, attempt: min(MOST, FIRST * 2 ** attempt),
    "doubling, full jitter": lambda rng, asked, attempt: jitter(rng, attempt),
    "**`Retry-After` and full jitter**": lambda rng, asked, attempt: asked + jitter(rng, attempt),
}


def simulate(wait):
    """(requests in all, most within 100 ms after the first instant, when the last client was served)"""
    rng, bucket = random.Random(1), Bucket()
    due = [(0.0, client, 0) for client in range(CLIENTS)]
    requests, slots, last = 0, {}, 0.0
    while due:
        now, client, attempt = heapq.heappop(due)
        requests += 1
        if now > 0:
            slots[int(now * 10)] = slots.get(int(now * 10), 0) + 1
        admitted, asked = bucket.take(now)
        if admitted:
            last = now
        else:
            heapq.heappush(due, (now + wait(rng, asked, attempt), client, attempt + 1))
    return requests, max(slots.values()), last


def main():
    print("| clients wait | requests in all | most in 100 ms, after the first instant | the last is served after |")
    print("|---|---|---|---|")
    for name, wait in WAYS.items():
        requests, most, last = simulate(wait)
        print(f"| {name} | {requests:,} | {most} | {last:.1f} s |")


if __name__ == "__main__":
    main()
