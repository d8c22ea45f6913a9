// SPDX-License-Identifier: Apache-2.0
// What happens without rationd: the policy, the local limit, the breaker, and the events of both.
"use strict";

const { Decision } = require("./decision.js");

const LIMIT = /^(\d{1,15}) per (?:(\d{1,6}) )?(second|minute|hour|day)s?(?: burst (\d{1,15}))?$/;
const UNITS = { second: 1, minute: 60, hour: 3600, day: 86400 };
const MOST_KEYS = 10_000;
const MOST_WARNINGS = 8; // until rationd answers again
const TROUBLES = ["connect_failed", "bad_answer", "error_reply", "breaker_open"];

/** A token bucket for each key, in this process. The keys used last are kept. */
class LocalLimit {
    constructor(text) {
        const [, amount, periods, unit, burst] = LIMIT.exec(text) ?? [];
        if (!Number(amount) || Number(periods) === 0) {
            throw new TypeError("a policy is 'allow', 'refuse' or a local limit such as '100 per second' or " +
                `'5 per 10 minutes burst 20', found ${JSON.stringify(text)}`);
        }
        this.amount = Number(amount);
        this.period = Number(periods ?? 1) * UNITS[unit];
        this.burst = Number(burst ?? amount);
        this.buckets = new Map();
    }

    take(key, cost, why) {
        const now = performance.now();
        const rate = this.amount / this.period;
        const bucket = this.buckets.get(key) ?? { left: this.burst, at: now };
        let left = Math.min(this.burst, bucket.left + (rate * (now - bucket.at)) / 1000);
        const allowed = left + 1e-9 >= cost;
        left -= allowed ? cost : 0;
        bucket.left = left;
        bucket.at = now;
        this.buckets.delete(key); // a map keeps the order in which keys came
        this.buckets.set(key, bucket);
        if (this.buckets.size > MOST_KEYS) {
            this.buckets.delete(this.buckets.keys().next().value);
        }
        const numbers = {
            rule: null, limit: this.burst, remaining: Math.max(0, Math.floor(left + 1e-9)),
            reset_after: milliseconds((this.burst - left) / rate),
        };
        const retry = allowed ? 0 : cost > this.burst ? null : milliseconds((cost - left) / rate);
        return new Decision({
            ...numbers, allowed, retry_after: retry, delay: 0, decided_by: 0,
            limits: [{ ...numbers, allowed, amount: this.amount, period: this.period }],
        }, "policy", why);
    }
}

/** Seconds, as rationd writes them: up to a thousandth. */
function milliseconds(seconds) {
    return Math.ceil(seconds * 1000) / 1000;
}

/** "allow", "refuse", or a limit such as "100 per second". */
class Policy {
    constructor(text) {
        this.allows = text === "allow";
        this.local = text === "allow" || text === "refuse" ? null : new LocalLimit(text);
    }

    decide(key, cost, why) {
        if (this.local !== null) {
            return this.local.take(key, cost, why);
        }
        return new Decision({
            allowed: this.allows, rule: null, limit: null, remaining: null, reset_after: null,
            retry_after: this.allows ? 0 : 1, delay: 0, limits: [], status: 503, by: "unavailable",
        }, "policy", why);
    }
}

/** Decorrelated: a random time between the first and three times the one before, in milliseconds. */
class Jitter {
    constructor(first, most) {
        this.first = first;
        this.most = most;
        this.last = first;
    }

    next() {
        this.last = Math.min(this.most, this.first + Math.random() * (3 * this.last - this.first));
        return this.last;
    }

    reset() {
        this.last = this.first;
    }
}

/** Closed; open after so many failures in a row; then one request at a time is a probe. */
class Breaker {
    constructor(failures, jitter, events) {
        this.most = failures;
        this.jitter = jitter;
        this.events = events;
        this.failed = 0;
        this.open = false;
        this.probeAt = 0;
    }

    /** Whether rationd is asked. */
    admits() {
        if (!this.open) {
            return true;
        }
        const now = performance.now();
        if (now < this.probeAt) {
            return false;
        }
        this.probeAt = now + this.jitter.next(); // until the probe has ended, and if it never does
        return true;
    }

    succeed() {
        this.failed = 0;
        if (this.open) {
            this.open = false;
            this.jitter.reset();
            this.events.add("breaker_closed", "rationd answers again");
        }
    }

    fail(why) {
        this.failed += 1;
        if (this.failed >= this.most && !this.open) {
            this.open = true;
            this.probeAt = performance.now() + this.jitter.next();
            this.events.add("breaker_open", why);
        }
    }
}

/** Told in their order, and after what is being done: the callback may ask for decisions. */
class Events {
    constructor(callback) {
        this.callback = callback ?? this.warn.bind(this);
        this.warned = new Set();
    }

    add(name, detail) {
        queueMicrotask(() => this.tell(name, detail));
    }

    /** In the place of a callback. Each trouble is a warning once, until rationd answers again: it may come with every request. */
    warn(name, detail) {
        const text = `${name}: ${detail}`;
        if (name === "connected" || name === "breaker_closed") {
            this.warned.clear();
        } else if (TROUBLES.includes(name) && this.warned.size < MOST_WARNINGS && !this.warned.has(text)) {
            this.warned.add(text);
            process.emitWarning(`${text} (without rationd the policy decides)`, "RationWarning");
        }
    }

    async tell(name, detail) {
        try {
            await this.callback(name, detail);
        } catch (error) {
            process.emitWarning(`onEvent has failed: ${error?.stack ?? error}`, "RationWarning");
        }
    }
}

module.exports = { Breaker, Events, Jitter, LocalLimit, Policy };
