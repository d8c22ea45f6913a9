# SPDX-License-Identifier: Apache-2.0
"""Judges the decisions that many clients got about one limit.

Of each admission only this is known: when it was asked for and when the answer had come.
It was made in between. So whatever lies within an interval from an asking to an answer was
admitted in that interval, for sure: if these are more than the limit allows there, it was
broken. Nothing else is held against it. Seconds, on one clock.
"""

import bisect


class _Highest:
    """Numbers, each of which counts from the moment that `raise_from` names it: that
    raises it and all behind it by one. A tree: `best` of a node is the highest below it,
    `added` what all below it were raised by."""

    def __init__(self, numbers):
        self.numbers = numbers
        self.size = 1 << (len(numbers) - 1).bit_length()
        self.added = [0] * (2 * self.size)
        self.best = [float("-inf")] * (2 * self.size)

    def raise_from(self, index):
        node = index + self.size
        self.added[node] += 1
        self.best[node] = self.numbers[index] + self.added[node]
        while node > 1:
            if node % 2 == 0:
                self.best[node + 1] += 1
                self.added[node + 1] += 1
            node //= 2
            self.best[node] = max(self.best[2 * node], self.best[2 * node + 1]) + self.added[node]

    def highest(self):
        return self.best[1]


def most_beyond_rate(admissions, rate):
    """The most that any interval has more than rate x its length: what a bucket's burst is
    to be compared with."""
    if not admissions:
        return 0
    by_end = sorted(end for _, end in admissions)
    order = sorted(range(len(admissions)), key=lambda i: admissions[i][1])
    rank = {i: place for place, i in enumerate(order)}
    ends = _Highest([-rate * end for end in by_end])
    worst = float("-inf")
    for i in sorted(range(len(admissions)), key=lambda i: -admissions[i][0]):
        ends.raise_from(rank[i])
        worst = max(worst, ends.highest() + rate * admissions[i][0])
    return worst


def most_within(admissions, seconds):
    """The most in any interval that is shorter than this."""
    ends, most = [], 0
    for begin, end in sorted(admissions, reverse=True):
        bisect.insort(ends, end)
        most = max(most, bisect.bisect_left(ends, begin + seconds))
    return most


def most_in_window(admissions, seconds):
    """The most in one of the windows that begin at multiples of this."""
    counts = {}
    for begin, end in admissions:
        if begin // seconds == end // seconds:
            counts[begin // seconds] = counts.get(begin // seconds, 0) + 1
    return max(counts.values(), default=0)
