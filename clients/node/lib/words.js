// SPDX-License-Identifier: Apache-2.0
// Arguments to the words of a command. Mistakes of the program are found here. Words are bytes: see protocol.js.
"use strict";

const { toBytes } = require("./protocol.js");
const { checkInteger, checkNumber } = require("./settings.js");

const MOST_VALUE = 8192; // bytes: longer values are cut
const MOST_ATTRIBUTES = 128;
const MOST_TOTAL = 200_000; // bytes of all names and values

function describe(value) {
    return typeof value === "string" ? JSON.stringify(value) : Array.isArray(value) ? "a list" : value === null ? "null" : typeof value;
}

/** A text or bytes, cut. Null for what is neither. */
function bytesOf(value) {
    if (typeof value === "string") {
        // A character has a byte at least.
        const bytes = toBytes(value.length > MOST_VALUE ? value.slice(0, MOST_VALUE) : value);
        return bytes.length > MOST_VALUE ? bytes.slice(0, MOST_VALUE) : bytes;
    }
    if (value instanceof Uint8Array) {
        return Buffer.from(value.buffer, value.byteOffset, Math.min(value.length, MOST_VALUE)).latin1Slice();
    }
    return null;
}

function textWord(name, value) {
    const bytes = bytesOf(value);
    if (!bytes) {
        throw new TypeError(`${name} must be a text that is not empty, found ${describe(value)}`);
    }
    return bytes;
}

/** What comes from outside may be empty. */
function keyWord(value) {
    const bytes = bytesOf(value);
    if (bytes === null) {
        throw new TypeError(`key must be a text, found ${describe(value)}`);
    }
    return bytes;
}

/** Where the word RULES would mean attributes, a key of that name gets a space. */
function subjectWord(value) {
    const key = keyWord(value);
    return key === "RULES" ? "RULES " : key;
}

function integerWord(name, value, least = 0) {
    checkInteger(name, value, least);
    return String(value);
}

function waitWord(wait) {
    checkNumber("wait", wait, 1, 60_000, "milliseconds");
    return String(Math.floor(wait));
}

function lengthWords(seconds) {
    if (seconds === undefined || seconds === null) {
        return [];
    }
    checkNumber("seconds", seconds, 0.001, 86_400, "a time");
    return ["FOR", seconds.toFixed(3)];
}

/** Adds names and values. Null and undefined leave an attribute out. */
function addAttributes(words, attributes) {
    if (attributes === null || typeof attributes !== "object") {
        throw new TypeError(`attributes must be an object such as { ip: "192.0.2.7" }, found ${describe(attributes)}`);
    }
    const first = words.length;
    let total = 0, any = false;
    for (const name of Object.keys(attributes)) {
        const value = attributes[name];
        any = true;
        if (value === null || value === undefined) {
            continue;
        }
        if (name === "" || name !== name.toLowerCase()) {
            throw new TypeError(`names of attributes are texts in lower case, found ${JSON.stringify(name)}`);
        }
        const word = typeof value === "number" || typeof value === "boolean" || typeof value === "bigint" ? String(value) : bytesOf(value);
        if (word === null) {
            throw new TypeError(`attribute ${name} must be a text, bytes, a number or a boolean, found ${describe(value)}`);
        }
        const bytes = toBytes(name);
        words.push(bytes, word);
        total += bytes.length + word.length;
    }
    const count = words.length - first;
    if (!any || count > 2 * MOST_ATTRIBUTES) {
        throw new RangeError(`a request has 1 to ${MOST_ATTRIBUTES} attributes, found ${count / 2}`);
    }
    if (total > MOST_TOTAL) {
        for (let i = first; i < words.length; i++) {
            words[i] = words[i].slice(0, Math.floor(MOST_TOTAL / count));
        }
    }
}

/** Places and reservations are of a key and a limit, or by the rules. */
function subjectWords(command, what, limit) {
    const byRules = what !== null && typeof what === "object" && !(what instanceof Uint8Array);
    const given = limit !== undefined && limit !== null;
    if (byRules && given) {
        throw new TypeError("give a key and a limit, or attributes without a limit, found attributes and a limit");
    }
    if (!byRules) {
        return [command, subjectWord(what), textWord("limit", limit)];
    }
    const words = [command, "RULES"];
    addAttributes(words, what);
    return words;
}

/** The key of the local limit. */
function localKeyOf(what, names) {
    if (typeof what === "string" || what instanceof Uint8Array) {
        return bytesOf(what);
    }
    for (const name of names) {
        const value = what[name];
        if (value !== null && value !== undefined) {
            return `${name}=${bytesOf(value) ?? value}`;
        }
    }
    return "";
}

module.exports = { addAttributes, integerWord, keyWord, lengthWords, localKeyOf, subjectWord, subjectWords, textWord, waitWord };
