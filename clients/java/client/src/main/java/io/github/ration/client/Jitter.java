// SPDX-License-Identifier: Apache-2.0
// Decorrelated jitter: a random time between the first and three times the one before. Its owner's lock guards it.

package io.github.ration.client;

import java.util.concurrent.ThreadLocalRandom;

final class Jitter {
    private final long first; // nanoseconds
    private final long most;
    private long last;

    Jitter(long first, long most) {
        this.first = first;
        this.most = most;
        this.last = first;
    }

    long next() {
        last = Math.min(most, ThreadLocalRandom.current().nextLong(first, 3 * last + 1));
        return last;
    }

    void reset() {
        last = first;
    }
}
