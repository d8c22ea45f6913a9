// SPDX-License-Identifier: Apache-2.0
// Closed; open after so many failures in a row; then one request at a time is a probe.

package io.github.ration.client;

import java.util.function.BiConsumer;

final class Breaker {
    private final int most;
    private final Jitter jitter;
    private final BiConsumer<String, String> events;
    private volatile int failed;
    private volatile boolean open;
    private long probeAt;

    Breaker(int most, Jitter jitter, BiConsumer<String, String> events) {
        this.most = most;
        this.jitter = jitter;
        this.events = events;
    }

    boolean isOpen() {
        return open;
    }

    /** Whether rationd may be asked. */
    boolean admits() {
        return !open || admitsProbe();
    }

    private synchronized boolean admitsProbe() {
        long now = System.nanoTime();
        if (open && now - probeAt < 0) {
            return false;
        }
        probeAt = now + jitter.next(); // until the probe has ended, and if it never does
        return true;
    }

    void succeeded() {
        if (failed > 0) {
            close();
        }
    }

    private synchronized void close() {
        boolean was = open;
        open = false;
        failed = 0;
        jitter.reset();
        if (was) {
            events.accept("breaker_closed", "rationd answers again");
        }
    }

    synchronized void failed(String why) {
        failed = failed + 1;
        if (!open && failed >= most) {
            open = true;
            probeAt = System.nanoTime() + jitter.next();
            events.accept("breaker_open", why);
        }
    }
}
