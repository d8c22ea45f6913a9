// SPDX-License-Identifier: Apache-2.0
// Settings of a client, and the address of rationd.
"use strict";

const { BadAnswer, ErrorReply, Fields, encode, shown, toBytes } = require("./protocol.js");

const DEFAULTS = {
    url: "ration://127.0.0.1:6380",
    policy: "allow",
    deadline: 50, // milliseconds
    connections: 2,
    token: null,
    tls: null,
    failures: 5,
    silence: 4, // deadlines
    probeFirst: 100, // milliseconds
    probeMost: 2000,
    localKey: ["user", "api_key", "ip"],
    onEvent: null,
};

/** With defaults. Throws what is wrong. */
function readSettings(given) {
    if (given === null || typeof given !== "object") {
        throw new TypeError(`settings must be an object such as { url: "${DEFAULTS.url}" }, found ${given}`);
    }
    for (const name of Object.keys(given)) {
        if (!Object.hasOwn(DEFAULTS, name)) {
            throw new TypeError(`there is no setting ${name}; there are ${Object.keys(DEFAULTS).join(", ")}`);
        }
    }
    const settings = { ...DEFAULTS };
    for (const [name, value] of Object.entries(given)) {
        settings[name] = value ?? DEFAULTS[name];
    }
    checkNumber("deadline", settings.deadline, 1, 60_000, "milliseconds");
    checkNumber("probeFirst", settings.probeFirst, 1, 3_600_000, "milliseconds");
    checkNumber("probeMost", settings.probeMost, settings.probeFirst, 3_600_000, "milliseconds, and not less than probeFirst,");
    for (const name of ["connections", "failures", "silence"]) {
        checkInteger(name, settings[name], 1);
    }
    if (!Array.isArray(settings.localKey) || !settings.localKey.every((name) => typeof name === "string")) {
        throw new TypeError(`localKey must be a list of names of attributes, found ${JSON.stringify(settings.localKey)}`);
    }
    if (settings.onEvent !== null && typeof settings.onEvent !== "function") {
        throw new TypeError(`onEvent must be a function (name, detail), found ${typeof settings.onEvent}`);
    }
    if (settings.token !== null && typeof settings.token !== "string") {
        throw new TypeError(`token must be a text, found ${typeof settings.token}`);
    }
    return settings;
}

function checkNumber(name, value, least, most, unit) {
    if (typeof value !== "number" || !(value >= least && value <= most)) {
        throw new RangeError(`${name} must be ${unit} from ${least} to ${most}, found ${shownValue(value)}`);
    }
}

/** The text "50" is no number. */
function shownValue(value) {
    return typeof value === "string" ? JSON.stringify(value) : String(value);
}

function checkInteger(name, value, least) {
    if (!Number.isSafeInteger(value) || value < least) {
        throw new RangeError(`${name} must be a whole number from ${least}, found ${shownValue(value)}`);
    }
}

/** ration://[[name]:token@]host[:port], rations:// by TLS, unix:/path. */
class Address {
    constructor({ url, token, tls }) {
        const parts = /^(?:unix:(\/.+)|(rations?):\/\/(?:([^@/]*)@)?(\[[^\]]+\]|[^:@/[\]]+)(?::(\d+))?\/?)$/.exec(String(url));
        const port = Number(parts?.[5] ?? 6380);
        if (parts === null || port < 1 || port > 65535) {
            const found = String(url).replace(/\/\/[^/]*@/, "//"); // no tokens in messages
            throw new TypeError(`the address must be ration://host:port, rations://host:port or unix:/path, found ${JSON.stringify(found)}`);
        }
        const [, path, scheme, rights = "", host] = parts;
        const at = rights.indexOf(":");
        this.name = decode(at < 0 ? rights : rights.slice(0, at));
        this.token = token ?? decode(at < 0 ? "" : rights.slice(at + 1));
        if (this.name && !this.token) {
            throw new TypeError(`a token comes behind a colon: ${scheme}://:token@host or ${scheme}://name:token@host`);
        }
        this.place = path === undefined ? { host: host.replace(/[[\]]/g, ""), port } : { path };
        this.url = path === undefined ? `${scheme}://${host}:${port}` : `unix:${path}`;
        this.tls = scheme === "rations" ? tls ?? {} : null;
        if (tls !== null && this.tls === null) {
            throw new TypeError(`tls is for an address that begins with rations://, found ${JSON.stringify(this.url)}`);
        }
    }

    /** What a connection begins with, and how many replies it draws; the last one is that of HELLO. */
    greeting() {
        const hello = encode(["HELLO", "3"]);
        if (!this.token) {
            return { bytes: hello, count: 1 };
        }
        const rights = this.name ? [this.name, this.token] : [this.token];
        return { bytes: encode(["AUTH", ...rights.map(toBytes)]) + hello, count: 2 };
    }

    /** Throws BadAnswer. */
    checkGreeting(replies) {
        for (const reply of replies) {
            if (reply instanceof ErrorReply) {
                throw new BadAnswer(`refused: ${reply.text}`);
            }
        }
        const hello = replies[replies.length - 1];
        const server = hello instanceof Fields ? hello.server : hello;
        if (!(hello instanceof Fields) || server !== "ration") {
            throw new BadAnswer(`${this.url} is no rationd: HELLO answers server ${shown(server ?? null)}; give the address of its --resp`);
        }
    }
}

function decode(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text; // a token with a percent sign
    }
}

module.exports = { Address, checkInteger, checkNumber, readSettings };
