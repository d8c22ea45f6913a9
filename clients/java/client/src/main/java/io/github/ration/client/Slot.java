// SPDX-License-Identifier: Apache-2.0
// The place of a request among those that await their replies, and the thread that waits for it.

package io.github.ration.client;

import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

final class Slot {
    final Request<?> request; // null: a command of the connection's own
    final long sent = System.nanoTime();
    volatile long ends; // System.nanoTime() after which the caller goes
    volatile boolean done;
    Object answer; // once done: what was read, a Replies.Failure, or Unavailable
    Consumer<Object> late; // not null: nobody waits any more, and this gets the reply
    private final Thread caller = Thread.currentThread();

    Slot(Request<?> request, long ends, Consumer<Object> late) {
        this.request = request;
        this.ends = ends;
        this.late = late;
    }

    void settle(Object result) {
        answer = result;
        done = true;
        LockSupport.unpark(caller);
    }
}
