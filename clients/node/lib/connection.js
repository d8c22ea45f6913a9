// SPDX-License-Identifier: Apache-2.0
// One connection of the pool: its life, and which reply belongs to which call.
//
// Nothing here calls a program back: calls resolve promises, and events are delivered later. So no state changes in between.
"use strict";

const net = require("node:net");
const tls = require("node:tls");
const { Call, Queue } = require("./call.js");
const { BadAnswer, Fields, Push, Reader, encode, shown } = require("./protocol.js");

const CONNECT_TIME = 1000; // milliseconds for connecting, and again for the greeting
const MOST_UNSENT = 1 << 20; // bytes
const PIECE = 1 << 18;
const MOST_WAIT = 60_000; // milliseconds

/** It lives as long as its client, and has one link after the other. */
class Connection {
    constructor(client, jitter) {
        this.client = client;
        this.jitter = jitter;
        this.link = null; // null: not connected
        this.attempt = null; // the stream that is being connected
        this.timer = null; // of the attempt
        this.next = 0; // no attempt before
        this.why = "not connected";
    }

    /** Connects in the background, unless that is under way or was tried a moment ago. */
    start(now, atOnce) {
        if (this.link === null && this.attempt === null && !this.client.closed && (atOnce || now >= this.next)) {
            this.client.scope.runInAsyncScope(this.connect, this);
        }
    }

    connect() {
        const { address } = this.client;
        const secure = address.tls !== null;
        const options = { ...address.tls, ...address.place, noDelay: true, autoSelectFamily: true };
        const stream = this.attempt = secure ? tls.connect(options) : net.connect(options);
        const greeting = address.greeting();
        const replies = [];
        const reader = new Reader();
        stream.unref(); // calls that are under way keep the process alive: see Deadlines
        this.limit(stream);
        stream.on("error", (error) => this.lose(stream, reasonOf(error)));
        stream.on("end", () => this.lose(stream, "rationd has closed it"));
        stream.on("close", () => this.lose(stream, "it is closed"));
        stream.once(secure ? "secureConnect" : "connect", () => {
            this.limit(stream);
            stream.setNoDelay(true);
            stream.write(greeting.bytes, "latin1");
        });
        stream.on("data", (data) => {
            if (this.link?.stream === stream) {
                this.link.feed(data);
            } else if (this.attempt === stream) {
                this.greet(stream, greeting.count, replies, reader, data);
            }
        });
    }

    /** Of connecting, or of the greeting that comes next. What has arrived counts: see Deadlines. */
    limit(stream) {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => setImmediate(() => {
            if (this.attempt === stream) {
                this.lose(stream, "it takes longer than a second");
            }
        }), CONNECT_TIME).unref();
    }

    greet(stream, count, replies, reader, data) {
        try {
            replies.push(...reader.feed(data.latin1Slice()));
            if (replies.length < count) {
                return;
            }
            if (replies.length > count || reader.torn) {
                throw new BadAnswer("more than a greeting");
            }
            this.client.address.checkGreeting(replies);
        } catch (error) {
            this.lose(stream, reasonOf(error));
            return;
        }
        clearTimeout(this.timer);
        this.attempt = null;
        this.link = new Link(this, stream, reader);
        this.jitter.reset();
        this.client.events.add("connected", this.client.address.url);
        this.client.schedule();
    }

    /** The stream is of no use any more. */
    lose(stream, why) {
        if (this.link?.stream === stream) {
            this.close(`connection lost: ${why}`);
        } else if (this.attempt === stream) {
            clearTimeout(this.timer);
            this.attempt = null;
            this.why = `cannot connect to ${this.client.address.url}: ${why}`;
            this.next = performance.now() + this.jitter.next();
            this.client.events.add("connect_failed", this.why);
            this.client.schedule();
        }
        stream.destroy();
    }

    /** All that wait learn why. */
    close(why) {
        const { link, attempt } = this;
        this.why = why;
        if (attempt !== null) {
            clearTimeout(this.timer);
            this.attempt = null;
            attempt.destroy();
        }
        if (link !== null) {
            this.link = null;
            this.client.events.add("disconnected", why);
            link.stream.destroy();
            link.end(why);
        }
    }

    closeAfter(badAnswer) {
        this.client.events.add("bad_answer", badAnswer.message);
        this.close(`bad answer: ${badAnswer.message}`);
    }
}

function reasonOf(error) {
    if (error.code === "ERR_SSL_WRONG_VERSION_NUMBER") { // what OpenSSL says of that has two lines
        return "no TLS is spoken there; without it the address begins with ration://";
    }
    return error.errors?.map(({ message }) => message).join("; ") || error.message || error.code || String(error);
}

/** One life of a connection. */
class Link {
    constructor(connection, stream, reader) {
        this.connection = connection;
        this.client = connection.client;
        this.stream = stream;
        this.reader = reader;
        this.owed = new Queue();
        this.lines = new Map(); // calls that stand in line, by their ids
        this.heard = performance.now();
        this.unsent = "";
        this.batches = 0; // writes
        this.taken = 0; // of these, what the kernel has taken
        this.onTaken = () => {
            this.taken += 1;
        };
    }

    // --- commands -------------------------------------------------------------------------

    send(call, now) {
        call.link = this;
        call.sent = now;
        call.batch = this.batches + 1;
        this.owed.push(call);
        this.unsent += call.command;
    }

    /** All commands of one turn of the event loop in one write. */
    flush() {
        const data = this.unsent;
        if (data === "") {
            return;
        }
        this.unsent = "";
        this.batches += 1;
        let at = 0;
        for (; at + PIECE < data.length; at += PIECE) {
            this.stream.write(data.slice(at, at + PIECE), "latin1");
        }
        this.stream.write(at === 0 ? data : data.slice(at), "latin1", this.onTaken);
        if (this.stream.writableLength > MOST_UNSENT) {
            this.connection.close("it does not take commands any more");
        }
    }

    /** Whether a reply is owed, and nothing has come for too long. */
    isSilent(now) {
        return this.owed.first !== null && now - Math.max(this.heard, this.owed.first.sent) > this.client.silence;
    }

    /** The caller has gone. The reply keeps its place: see drop(). */
    abandon(call) {
        if (this.connection.link !== this) {
            return;
        }
        if (this.lines.get(call.line) === call) {
            this.leave(call.line);
        }
    }

    /** The caller has gone because the deadline has passed. */
    giveUp(call, now) {
        this.abandon(call);
        if (this.connection.link !== this) {
            return;
        }
        if (call.batch > this.taken) {
            this.connection.close("it does not take commands any more");
        } else if (this.isSilent(now)) {
            this.connection.close("silent for too long");
        }
    }

    end(why) {
        for (const call of this.lines.values()) {
            this.client.fail(call, why);
        }
        for (let call = this.owed.shift(); call !== null; call = this.owed.shift()) {
            this.client.fail(call, why);
        }
        this.lines.clear();
    }

    // --- replies --------------------------------------------------------------------------

    feed(data) {
        try {
            for (const reply of this.reader.feed(data.latin1Slice())) {
                this.heard = performance.now();
                this.take(reply);
            }
        } catch (error) {
            if (!(error instanceof BadAnswer)) {
                throw error;
            }
            this.connection.closeAfter(error);
        }
    }

    take(reply) {
        if (reply instanceof Push) {
            this.takeTurn(reply.items);
            return;
        }
        const call = this.owed.shift();
        if (call === null) {
            throw new BadAnswer("a reply that nobody has asked for");
        }
        if (call.line !== 0 && Array.isArray(reply) && reply.length === 3 && reply[0] === "WAIT" && reply[1] === call.line) {
            this.stand(call, reply[2]);
        } else {
            this.give(call, reply);
        }
    }

    stand(call, milliseconds) {
        if (!Number.isInteger(milliseconds) || milliseconds < 0 || milliseconds > MOST_WAIT) {
            this.client.fail(call, "bad answer");
            throw new BadAnswer(`no time to wait: ${shown(milliseconds)}`);
        }
        this.lines.set(call.line, call);
        if (call.over) {
            this.leave(call.line);
        } else {
            this.client.prolong(call, milliseconds);
        }
    }

    takeTurn(items) {
        const call = items.length === 3 && items[0] === "ration.turn" ? this.lines.get(items[1]) : undefined;
        if (call === undefined) {
            throw new BadAnswer(`a push that nobody waits for: ${shown(items)}`);
        }
        this.lines.delete(call.line);
        this.give(call, items[2]);
    }

    give(call, reply) {
        if (call.over) {
            this.client.check(call, reply);
            this.drop(call, reply);
        } else {
            this.client.answer(call, reply);
        }
    }

    /** What a reply brings that nobody waits for is given back. */
    drop(call, reply) {
        if (call.leaves !== 0 && reply === 1) {
            this.lines.delete(call.leaves); // else the decision is under way, and is dropped, too
        }
        if (call.kind !== null && reply instanceof Fields) {
            if (typeof reply.lease === "string") {
                this.tell([call.settle, reply.lease]);
            }
            if (typeof reply.turn === "string") {
                this.tell(["RATION.REFUND", reply.turn]);
            }
        }
    }

    leave(line) {
        this.tell(["RATION.LEAVE", String(line)], line);
    }

    tell(words, leaves = 0) {
        const call = new Call(this.client, encode(words), null);
        call.leaves = leaves;
        this.send(call, performance.now());
        this.client.schedule();
    }
}

module.exports = { Connection };
