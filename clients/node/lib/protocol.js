// SPDX-License-Identifier: Apache-2.0
// The bytes of RESP3: commands to bytes, bytes to replies. No I/O, no knowledge of limits.
//
// Bytes are strings here whose characters are bytes ("latin1"): V8 cuts and compares those fastest.
"use strict";

const MOST_BYTES = 1 << 20; // of one reply
const MOST_ITEMS = 4096; // of one array or map
const MOST_DEPTH = 8;
const INCOMPLETE = Symbol("the rest has not arrived");
const KINDS = "$:,#_*%>+-";
const HEADS = Array.from({ length: 256 }, (_, size) => `$${size}\r\n`);
const ASCII = /^[\x00-\x7f]*$/;
const INTEGER = /^[+-]?\d{1,19}$/;
const DOUBLE = /^[+-]?\d{1,20}(\.\d{1,20})?(e[+-]?\d{1,2})?$/i;

/** Bytes that rationd would not send. */
class BadAnswer extends Error {}

/** A reply that is an error. */
class ErrorReply {
    constructor(text) {
        this.text = text;
    }
}

/** What comes without being asked for. */
class Push {
    constructor(items) {
        this.items = items;
    }
}

/** A map. It inherits nothing, so that any name may be in it. */
function Fields() {}
Fields.prototype = Object.create(null);

/** A text as bytes in UTF-8. */
function toBytes(text) {
    return ASCII.test(text) ? text : Buffer.from(text, "utf8").latin1Slice();
}

/** And back: for people. */
function toText(bytes) {
    return ASCII.test(bytes) ? bytes : Buffer.from(bytes, "latin1").utf8Slice();
}

function encode(words) {
    let out = `*${words.length}\r\n`;
    for (const word of words) {
        out += (word.length < HEADS.length ? HEADS[word.length] : `$${word.length}\r\n`) + word + "\r\n";
    }
    return out;
}

/** A reply as a short text, for messages. */
function shown(reply) {
    const text = JSON.stringify(reply instanceof Push ? reply.items : reply);
    return text.length > 80 ? text.slice(0, 80) + "..." : text;
}

/** Replies out of bytes that come in any pieces: texts, numbers, booleans, null, arrays, Fields, ErrorReply, Push. */
class Reader {
    constructor() {
        this.data = "";
        this.at = 0;
        this.wants = 1; // bytes, before it is worth another look
    }

    /** Whether a part of a reply has arrived. */
    get torn() {
        return this.data !== "";
    }

    /** Throws BadAnswer. */
    feed(bytes) {
        this.data += bytes;
        const replies = [];
        let begin = 0;
        this.at = 0;
        while (this.data.length - begin >= this.wants) {
            const reply = this.next(0);
            if (reply === INCOMPLETE) {
                this.wants -= begin;
                break;
            }
            replies.push(reply);
            begin = this.at;
            this.wants = 1;
        }
        this.data = this.data.slice(begin);
        if (this.data !== "" && !KINDS.includes(this.data[0])) {
            throw new BadAnswer(`not RESP3: ${JSON.stringify(this.data.slice(0, 40))}; give the address of rationd's --resp`);
        }
        if (this.data.length > MOST_BYTES) {
            throw new BadAnswer(`a reply of more than ${MOST_BYTES} bytes`);
        }
        return replies;
    }

    incomplete(wants) {
        this.wants = wants;
        return INCOMPLETE;
    }

    next(depth) {
        const { data, at } = this;
        const end = data.indexOf("\r\n", at);
        if (end < 0) {
            return this.incomplete(data.length + 1);
        }
        this.at = end + 2;
        switch (data[at]) {
        case "$":
            return this.text(this.count(at + 1, end, MOST_BYTES));
        case ":":
            return this.number(at + 1, end, INTEGER);
        case ",":
            return this.number(at + 1, end, DOUBLE);
        case "*":
            return this.items(this.count(at + 1, end, MOST_ITEMS), depth + 1);
        case "%":
            return this.fields(this.count(at + 1, end, MOST_ITEMS), depth + 1);
        case ">": {
            const items = this.items(this.count(at + 1, end, MOST_ITEMS), depth + 1);
            return items === INCOMPLETE ? INCOMPLETE : new Push(items ?? []);
        }
        case "+":
            return data.slice(at + 1, end);
        case "-":
            return new ErrorReply(toText(data.slice(at + 1, end)));
        }
        const line = data.slice(at, end);
        if (line === "#t" || line === "#f") {
            return line === "#t";
        }
        if (line === "_") {
            return null;
        }
        throw new BadAnswer(line === "" ? "an empty line" : `not RESP3: ${JSON.stringify(line.slice(0, 40))}; give the address of rationd's --resp`);
    }

    /** A length; -1 for null. */
    count(from, end, most) {
        const { data } = this;
        let count = 0;
        for (let at = from; at < end; at++) {
            const digit = data.charCodeAt(at) - 48;
            count = digit >= 0 && digit <= 9 ? 10 * count + digit : Infinity;
        }
        if (from < end && count <= most) {
            return count;
        }
        const line = data.slice(from, end);
        if (line === "-1") {
            return -1;
        }
        throw new BadAnswer(`no length: ${JSON.stringify(line.slice(0, 40))}; it would be 0 to ${most}`);
    }

    number(from, end, form) {
        const line = this.data.slice(from, end);
        if (!form.test(line)) {
            throw new BadAnswer(`no number: ${JSON.stringify(line.slice(0, 40))}`);
        }
        return Number(line);
    }

    text(size) {
        const { data, at } = this;
        if (size < 0) {
            return null;
        }
        const stop = at + size;
        if ((data.length > stop && data[stop] !== "\r") || (data.length > stop + 1 && data[stop + 1] !== "\n")) {
            throw new BadAnswer("a text that is not as long as it says");
        }
        if (data.length < stop + 2) {
            return this.incomplete(data.length > stop ? stop + 2 : stop + 1);
        }
        this.at = stop + 2;
        return data.slice(at, stop);
    }

    items(count, depth) {
        const items = [];
        if (!this.hasRoom(count, depth)) {
            return INCOMPLETE;
        }
        for (let i = 0; i < count; i++) {
            const item = this.next(depth);
            if (item === INCOMPLETE) {
                return INCOMPLETE;
            }
            items.push(item);
        }
        return count < 0 ? null : items;
    }

    fields(count, depth) {
        const fields = new Fields();
        if (!this.hasRoom(2 * count, depth)) {
            return INCOMPLETE;
        }
        for (let i = 0; i < count; i++) {
            const name = this.next(depth);
            const value = name === INCOMPLETE ? INCOMPLETE : this.next(depth);
            if (value === INCOMPLETE) {
                return INCOMPLETE;
            }
            if (typeof name !== "string") {
                throw new BadAnswer(`the name in a map is no text: ${shown(name)}`);
            }
            fields[name] = value;
        }
        return count < 0 ? null : fields;
    }

    /** Whether so many items can have arrived: the shortest has three bytes. */
    hasRoom(count, depth) {
        if (depth > MOST_DEPTH) {
            throw new BadAnswer(`a reply of more than ${MOST_DEPTH} levels`);
        }
        if (this.data.length - this.at >= 3 * count) {
            return true;
        }
        this.wants = this.at + 3 * count;
        return false;
    }
}

module.exports = { BadAnswer, ErrorReply, Fields, INCOMPLETE, Push, Reader, encode, shown, toBytes, toText };
