// SPDX-License-Identifier: Apache-2.0
// One question to rationd, from its first to its last moment, and the deadlines of all that are under way.
"use strict";

class Call {
    constructor(client, command, kind) {
        this.client = client;
        this.command = command; // bytes
        this.kind = kind; // reads its reply, or decides in its place; null: nobody waits for it
        this.key = ""; // of the local limit
        this.cost = 1;
        this.line = 0; // not 0: may stand in line, under this id
        this.leaves = 0; // the line that this call leaves
        this.settle = "RATION.RELEASE"; // ends the lease of a reply that comes too late
        this.signal = null;
        this.ends = 0; // when its caller has waited enough
        this.sent = 0;
        this.link = null; // null: has not been sent
        this.batch = 0; // the write that its command is in
        this.over = kind === null; // nobody waits any more
        this.resolve = null;
        this.timer = null; // while it stands in line
        this.behind = null; // the next one that awaits its reply
        this.earlier = this.later = null; // in order of deadlines
    }

    /** Nobody waits from now on. */
    end() {
        this.over = true;
        this.client.deadlines.remove(this);
        clearTimeout(this.timer);
        this.signal?.removeEventListener("abort", this);
    }

    /** For AbortSignal: the caller has gone. */
    handleEvent() {
        this.client.abort(this);
    }
}

/** Calls in the order in which they were sent. */
class Queue {
    constructor() {
        this.first = this.last = null;
        this.length = 0;
    }

    push(call) {
        if (this.first === null) {
            this.first = call;
        } else {
            this.last.behind = call;
        }
        this.last = call;
        this.length += 1;
    }

    shift() {
        const call = this.first;
        if (call !== null) {
            this.first = call.behind;
            call.behind = null; // else an old call would keep all after it in memory
            this.length -= 1;
        }
        return call;
    }
}

/**
 * All calls that end at their deadline, in that order, with one timer. It keeps the process alive as long as there are any.
 *
 * A timer that comes late, as the program was busy, comes before what has arrived meanwhile is read. So calls expire
 * after the next reading.
 */
class Deadlines {
    constructor(length, expire) {
        this.length = length; // milliseconds
        this.expire = expire;
        this.first = this.last = null;
        this.timer = null; // never one that has fired: Node 18 miscounts if that is released again
        this.sweep = this.sweep.bind(this);
        this.onTimer = () => {
            this.timer = null;
            setImmediate(this.sweep);
        };
    }

    add(call, now) {
        call.ends = now + this.length;
        call.earlier = this.last;
        if (this.last !== null) {
            this.last.later = call;
        } else {
            this.first = call;
            this.timer === null ? this.start(now) : this.timer.ref();
        }
        this.last = call;
    }

    remove(call) {
        const { earlier, later } = call;
        if (earlier === null && this.first !== call) {
            return; // it is not there
        }
        call.earlier = call.later = null;
        earlier === null ? this.first = later : earlier.later = later;
        later === null ? this.last = earlier : later.earlier = earlier;
        if (this.first === null) {
            this.timer?.unref();
        }
    }

    start(now) {
        this.timer = setTimeout(this.onTimer, Math.max(1, Math.ceil(this.first.ends - now)));
    }

    sweep() {
        const now = performance.now();
        while (this.first !== null && this.first.ends <= now) {
            this.expire(this.first);
        }
        if (this.first !== null && this.timer === null) {
            this.start(now);
        }
    }
}

module.exports = { Call, Deadlines, Queue };
