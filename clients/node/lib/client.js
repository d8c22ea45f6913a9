// SPDX-License-Identifier: Apache-2.0
// The client: what it can ask, and how a call gets its answer. clients/README.md says what each operation does.
"use strict";

const { AsyncResource } = require("node:async_hooks");
const { setMaxListeners } = require("node:events");
const tls = require("node:tls");
const { Call, Deadlines } = require("./call.js");
const { Connection } = require("./connection.js");
const { Decision } = require("./decision.js");
const { Breaker, Events, Jitter, Policy } = require("./policy.js");
const { BadAnswer, ErrorReply, encode, shown } = require("./protocol.js");
const { Address, readSettings } = require("./settings.js");
const words = require("./words.js");

const NONE = Object.freeze({});

// How replies are read, and what callers get without one.
const DECISION = { read: Decision.read, instead: (call, why) => call.client.policy.decide(call.key, call.cost, why) };
const OUTCOME = {
    read(reply) {
        if (reply !== 0 && reply !== 1) {
            throw new BadAnswer(`neither 0 nor 1: ${shown(reply)}`);
        }
        return reply === 1;
    },
    instead: () => null,
};
const TIME_LEFT = {
    read(reply) {
        if (!Number.isInteger(reply)) {
            throw new BadAnswer(`no milliseconds: ${shown(reply)}`);
        }
        return reply / 1000;
    },
    instead: () => null,
};

class Core {
    constructor(given) {
        const settings = readSettings(given);
        this.address = new Address(settings);
        if (this.address.tls !== null) { // now, as wrong certificates are mistakes
            this.address.tls = { ...this.address.tls, secureContext: tls.createSecureContext(this.address.tls) };
        }
        this.policy = new Policy(settings.policy);
        this.localKey = settings.localKey;
        this.silence = settings.silence * settings.deadline;
        this.events = new Events(settings.onEvent);
        this.breaker = new Breaker(settings.failures, new Jitter(settings.probeFirst, settings.probeMost), this.events);
        this.deadlines = new Deadlines(settings.deadline, (call) => this.expire(call));
        this.scope = new AsyncResource("ration-client"); // connections belong to no request
        this.pool = Array.from({ length: settings.connections },
            () => new Connection(this, new Jitter(settings.probeFirst, settings.probeMost)));
        this.lines = 0;
        this.closed = false;
        this.outbox = []; // calls that have not been sent
        this.probing = false; // a probe is an attempt to connect at once
        this.scheduled = false;
        this.hasRead = false;
        this.flush = this.flush.bind(this);
    }

    ask(call, signal) {
        return new Promise((resolve) => {
            call.resolve = resolve;
            if (signal?.aborted) {
                resolve(call.kind.instead(call, goneBecause(signal)));
            } else if (!this.breaker.admits()) {
                resolve(call.kind.instead(call, "the breaker is open"));
            } else {
                if (signal) {
                    call.signal = signal;
                    setMaxListeners(0, signal); // any number of calls may share it
                    signal.addEventListener("abort", call);
                }
                this.probing ||= this.breaker.open;
                this.deadlines.add(call, performance.now());
                this.outbox.push(call);
                this.schedule();
            }
        });
    }

    /** All that is asked in one turn of the event loop is sent at its end. */
    schedule() {
        if (!this.scheduled) {
            this.scheduled = true;
            setImmediate(this.flush);
        }
    }

    flush() {
        if (!this.hasRead && this.pool.some(({ link }) => link?.owed.first === null)) {
            this.hasRead = true; // what has arrived on a connection that owes nothing: after the next turn, which begins with that
            setImmediate(this.flush);
            return;
        }
        const now = performance.now();
        const calls = this.outbox;
        this.scheduled = this.hasRead = false;
        this.outbox = [];
        if (calls.length > 0) {
            this.prepare(now);
        }
        for (const call of calls) {
            if (call.over) {
                continue;
            }
            const link = this.pick();
            if (link !== null) {
                link.send(call, now);
            } else if (this.pool.some(({ attempt }) => attempt !== null)) {
                this.outbox.push(call); // until there is a connection
            } else {
                this.fail(call, this.pool[0].why);
            }
        }
        for (const { link } of this.pool) {
            link?.flush();
        }
    }

    prepare(now) {
        for (const connection of this.pool) {
            if (connection.link?.isSilent(now)) {
                connection.close("silent for too long");
            }
            connection.start(now, this.probing);
        }
        this.probing = false;
    }

    /** The link that owes the fewest replies. */
    pick() {
        let best = null;
        for (const { link } of this.pool) {
            if (link !== null && (best === null || link.owed.length < best.owed.length)) {
                best = link;
            }
        }
        return best;
    }

    // --- the end of a call ----------------------------------------------------------------

    /** Throws BadAnswer. */
    answer(call, reply) {
        if (reply instanceof ErrorReply) {
            this.breaker.succeed(); // it answers, if not what was hoped for
            this.events.add("error_reply", reply.text);
            this.finish(call, call.kind.instead(call, `rationd has answered: ${reply.text}`));
            return;
        }
        let answer;
        try {
            answer = call.kind.read(reply);
        } catch (error) {
            this.fail(call, `bad answer: ${error.message}`);
            throw error;
        }
        this.breaker.succeed();
        this.finish(call, answer);
    }

    /** Of a reply that nobody waits for. Throws BadAnswer: then it is not that of this call, nor are those behind it of theirs. */
    check(call, reply) {
        if (!(reply instanceof ErrorReply)) {
            (call.kind ?? OUTCOME).read(reply);
        }
    }

    fail(call, why) {
        if (!call.over) {
            this.breaker.fail(why);
            this.finish(call, call.kind.instead(call, why));
        }
    }

    finish(call, answer) {
        call.end();
        call.resolve(answer);
    }

    expire(call) {
        this.fail(call, call.link === null ? "connecting takes longer than the deadline" : "no answer within the deadline");
        call.link?.giveUp(call, performance.now());
    }

    /** The caller has gone: no failure of rationd. */
    abort(call) {
        this.finish(call, call.kind.instead(call, goneBecause(call.signal)));
        call.link?.abandon(call);
    }

    /** The call stands in line. */
    prolong(call, milliseconds) {
        this.deadlines.remove(call);
        call.timer = setTimeout(() => setImmediate(() => {
            if (!call.over) {
                this.expire(call);
            }
        }), milliseconds + this.deadlines.length);
    }

    close() {
        this.closed = true;
        for (const connection of this.pool) {
            connection.close("the client is closed");
        }
        this.schedule(); // calls that have not been sent
    }
}

function goneBecause(signal) {
    return `the caller has gone: ${signal.reason?.message ?? signal.reason}`;
}

/** Throws for options that a call does not have. */
function checkOptions(options, names) {
    if (options === null || typeof options !== "object") {
        throw new TypeError(`options must be an object such as { ${names[0]}: ... }, found ${options === null ? "null" : typeof options}`);
    }
    for (const name in options) {
        if (!names.includes(name)) {
            throw new TypeError(`there is no option ${name} here; there are ${names.join(", ")}`);
        }
    }
}

const CHECK = ["cost", "wait", "lease", "signal"];
const TAKE = ["cost", "signal"];
const HOLD = ["cost", "seconds", "signal"];
const RENEW = ["seconds", "signal"];
const SIGNAL = ["signal"];

class Client {
    #core;
    #localKey;

    constructor(settings = NONE) {
        this.#core = new Core(settings);
        this.#localKey = this.#core.policy.local === null ? null : this.#core.localKey;
    }

    /** rationd's address, without a token. */
    get url() {
        return this.#core.address.url;
    }

    async check(attributes, options = NONE) {
        checkOptions(options, CHECK);
        const { cost = 1, wait, lease = false } = options;
        const asked = ["RATION.CHECK"];
        let line = 0;
        words.addAttributes(asked, attributes);
        if (cost !== 1) {
            asked.push("COST", words.integerWord("cost", cost, lease ? 1 : 0));
        }
        asked.push("FULL");
        if (lease) {
            asked.push("LEASE");
        }
        if (wait) {
            const most = words.waitWord(wait);
            line = ++this.#core.lines;
            asked.push("LINE", String(line), "WAIT", most);
        } else {
            asked.push("WAIT", "return");
        }
        return this.#decide(asked, attributes, cost, options.signal, line);
    }

    async take(key, limit, options = NONE) {
        checkOptions(options, TAKE);
        const { cost = 1, signal } = options;
        const asked = ["RATION.TAKE", words.keyWord(key), words.textWord("limit", limit)];
        if (cost !== 1) {
            asked.push(words.integerWord("cost", cost));
        }
        return this.#decide(asked, key, cost, signal);
    }

    async acquire(what, ...rest) {
        const { limit, cost, seconds, signal } = holdOptions(rest);
        const asked = words.subjectWords("RATION.ACQUIRE", what, limit);
        asked.push("COST", words.integerWord("cost", cost, 1), "WAIT", "return", ...words.lengthWords(seconds));
        return this.#decide(asked, what, cost, signal);
    }

    async reserve(what, ...rest) {
        const { limit, cost, seconds, signal } = holdOptions(rest);
        const asked = words.subjectWords("RATION.RESERVE", what, limit);
        asked.push(...limit === undefined ? ["COST"] : [], words.integerWord("cost", cost, 1), ...words.lengthWords(seconds), "WAIT", "return");
        return this.#decide(asked, what, cost, signal, 0, "RATION.REFUND");
    }

    async release(lease, options = NONE) {
        checkOptions(options, SIGNAL);
        return this.#settle("RATION.RELEASE", lease, [], options);
    }

    async renew(lease, options = NONE) {
        checkOptions(options, RENEW);
        return this.#settle("RATION.RENEW", lease, words.lengthWords(options.seconds), options);
    }

    async commit(lease, options = NONE) {
        checkOptions(options, TAKE);
        const { cost } = options;
        const more = cost === undefined || cost === null ? [] : [words.integerWord("cost", cost)];
        return this.#settle("RATION.COMMIT", lease, more, options);
    }

    async refund(lease, options = NONE) {
        checkOptions(options, SIGNAL);
        return this.#settle("RATION.REFUND", lease, [], options);
    }

    async report(charge, status, options = NONE) {
        checkOptions(options, SIGNAL);
        return this.#settle("RATION.CHARGE", charge, [words.integerWord("status", status)], options);
    }

    async pause(key, length, options = NONE) {
        checkOptions(options, SIGNAL);
        if (length === null || length === undefined || length === "") {
            return null; // a response without Retry-After
        }
        const asked = ["RATION.PAUSE", words.subjectWord(key), words.textWord("length", typeof length === "number" ? String(length) : length)];
        return this.#core.ask(new Call(this.#core, encode(asked), TIME_LEFT), options.signal);
    }

    close() {
        this.#core.close();
    }

    #decide(asked, what, cost, signal, line = 0, settle = "RATION.RELEASE") {
        const call = new Call(this.#core, encode(asked), DECISION);
        call.key = this.#localKey === null ? "" : words.localKeyOf(what, this.#localKey);
        call.cost = cost;
        call.line = line;
        call.settle = settle;
        return this.#core.ask(call, signal);
    }

    /** Null at once without a lease or charge, which a decision by policy has not. */
    #settle(command, ticket, more, options) {
        if (ticket === null || ticket === undefined) {
            return null;
        }
        const asked = [command, words.textWord("lease or charge", ticket), ...more];
        return this.#core.ask(new Call(this.#core, encode(asked), OUTCOME), options.signal);
    }
}

/** After a key come a limit and options, after attributes only options. */
function holdOptions(rest) {
    const limit = typeof rest[0] === "string" || rest[0] instanceof Uint8Array ? rest[0] : undefined;
    const options = (limit === undefined && rest.length === 1 ? rest[0] : rest[1]) ?? NONE;
    checkOptions(options, HOLD);
    return { cost: 1, ...options, limit };
}

module.exports = { Client };
