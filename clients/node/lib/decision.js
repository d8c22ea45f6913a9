// SPDX-License-Identifier: Apache-2.0
// A decision: what rationd has answered, or the policy in its place, and how to tell an HTTP client.
"use strict";

const { BadAnswer, Fields, shown, toText } = require("./protocol.js");

const MOST_LIMITS = 64;
const INTEGER_MAX = 999_999_999_999_999; // of structured fields, RFC 9651
const TYPES = "https://iana.org/assignments/http-problem-types";
const PROBLEMS = { // error: type and title
    rate_limited: [`${TYPES}#quota-exceeded`, "Too Many Requests"],
    denied: ["about:blank", "Forbidden"],
    banned: [`${TYPES}#abnormal-usage-detected`, "Too Many Requests"],
    paused: [`${TYPES}#temporary-reduced-capacity`, "Temporary Reduced Capacity"],
    unavailable: ["about:blank", "Service Unavailable"],
};
const isNumber = (value) => typeof value === "number";
const isNumberOrNull = (value) => typeof value === "number" || value === null;
const isText = (value) => typeof value === "string";
const isTextOrNull = (value) => typeof value === "string" || value === null;
const isFlag = (value) => typeof value === "boolean";
const isStatus = (value) => Number.isInteger(value) && value >= 200 && value <= 599;
const isDelay = (value) => value === null || (isNumber(value) && value >= 0 && value <= 86_400);
const isLimits = (value) => Array.isArray(value) && value.length <= MOST_LIMITS;
const LIMIT = { __proto__: null, rule: isTextOrNull, limit: isNumberOrNull, remaining: isNumberOrNull, reset_after: isNumberOrNull };
const DECISION = { __proto__: null, allowed: isFlag, ...LIMIT, retry_after: isNumberOrNull, delay: isDelay, limits: isLimits };
const OPTIONAL = {
    __proto__: null, allowed: isFlag, soft: isFlag, shadow: isFlag, banned: isFlag, paused: isFlag, level: isNumber, waited: isNumber, lease: isText,
    charge: isText, status: isStatus, headers: isText, by: isText, message: isText, amount: isNumber, period: isNumberOrNull,
    decided_by: isNumber,
};

/** The members of the reply, by names of JavaScript. See index.d.ts. */
class Decision {
    #reply;
    #at = Date.now() / 1000;
    #limits = null;

    constructor(reply, by = "rationd", why = "") {
        this.allowed = reply.allowed;
        this.rule = reply.rule === null ? null : toText(reply.rule);
        this.limit = reply.limit;
        this.remaining = reply.remaining;
        this.resetAfter = reply.reset_after;
        this.retryAfter = reply.retry_after;
        this.delay = reply.delay ?? 0;
        this.soft = reply.soft ?? false;
        this.shadow = reply.shadow ?? false;
        this.banned = reply.banned ?? false;
        this.paused = reply.paused ?? false;
        this.level = reply.level ?? null;
        this.waited = reply.waited ?? 0;
        this.lease = ownText(reply.lease);
        this.charge = ownText(reply.charge);
        this.status = reply.allowed ? 200 : reply.status ?? 429;
        this.error = reply.allowed ? null : errorOf(reply);
        this.by = by;
        this.why = why;
        this.#reply = reply;
    }

    /** Throws BadAnswer for what is no decision. */
    static read(reply) {
        if (!(reply instanceof Fields) || !hasShape(reply, DECISION) || (!reply.allowed && reply.status < 400)) {
            throw new BadAnswer(`no decision: ${shown(reply)}`);
        }
        for (const limit of reply.limits) {
            if (!(limit instanceof Fields) || !hasShape(limit, LIMIT)) {
                throw new BadAnswer(`a limit is none: ${shown(limit)}`);
            }
        }
        return new Decision(reply);
    }

    /** All limits that applied. */
    get limits() {
        this.#limits ??= this.#reply.limits.map((limit) => ({
            rule: limit.rule === null ? null : toText(limit.rule), limit: limit.limit, remaining: limit.remaining,
            resetAfter: limit.reset_after, allowed: limit.allowed ?? true, shadow: limit.shadow ?? false,
            amount: limit.amount ?? null, period: limit.period ?? null,
        }));
        return this.#limits;
    }

    /** Those of docs/headers.md, in that order. */
    headers() {
        const out = {};
        const family = this.#reply.headers ?? "both";
        const retry = this.allowed || this.retryAfter === null ? null : String(Math.max(1, Math.ceil(this.retryAfter)));
        const { told, policies, states } = family === "none" ? {} : this.#items();
        if (family === "both" || family === "x") {
            if (this.limit !== null && states) {
                out["X-RateLimit-Limit"] = String(this.limit);
                out["X-RateLimit-Remaining"] = String(Math.max(0, this.remaining));
                if (this.resetAfter !== null) {
                    out["X-RateLimit-Reset"] = String(Math.ceil(this.#at + this.resetAfter));
                }
            }
            if (retry !== null) {
                out[this.#reply.retryafter ? "X-RateLimit-RetryAfter" : "X-RateLimit-Retry-After"] = retry;
            }
        }
        if ((family === "both" || family === "ietf") && states) {
            if (told) {
                out["RateLimit-Policy"] = policies;
            }
            out.RateLimit = states;
        }
        if (retry !== null) {
            out["Retry-After"] = retry;
        }
        if (this.soft && family !== "none") {
            out["X-RateLimit-Soft"] = "1";
        }
        if (this.level && retry !== null && family !== "none") {
            out["X-RateLimit-Ban-Level"] = String(this.level);
        }
        return out;
    }

    /** The values of RateLimit-Policy and of RateLimit, and whether all is known for the first. */
    #items() {
        const { limits } = this.#reply;
        const names = policyNames(limits);
        let told = true, policies = "", states = "";
        for (let i = 0; i < limits.length; i++) {
            const limit = limits[i];
            if (limit.shadow || limit.limit === null) {
                continue;
            }
            const begin = `${states && ", "}"${names[i].replace(/["\\]/g, "\\$&")}"`;
            const reset = limit.reset_after === null ? "" : `;t=${Math.ceil(limit.reset_after)}`;
            told &&= limit.amount !== undefined && limit.period !== undefined;
            policies += `${begin};q=${Math.min(limit.limit, INTEGER_MAX)}${windowOf(limit)}`;
            states += `${begin};r=${Math.min(Math.max(0, limit.remaining), INTEGER_MAX)}${reset}`;
        }
        return { told, policies, states };
    }

    /** Of a refusal: a problem document for those who accept one. */
    body(accept = "") {
        const { limits, decided_by: at } = this.#reply;
        const decisive = this.resetAfter === null ? undefined : limits[at];
        const problem = String(accept).toLowerCase().includes("application/problem+json");
        const [type, title] = PROBLEMS[this.error ?? "rate_limited"];
        const names = policyNames(limits);
        const violated = names.filter((_, i) => limits[i].allowed === false && !limits[i].shadow);
        const body = JSON.stringify({
            ...problem && {
                type, title: this.level ? "Abnormal Usage Detected" : title, status: this.status, detail: this.message(),
                ...violated.length > 0 && { "violated-policies": violated },
            },
            allowed: this.allowed, rule: this.rule, limit: this.limit, remaining: this.remaining, reset_after: this.resetAfter,
            retry_after: this.retryAfter, delay: this.delay,
            limits: this.limits.map(({ rule, limit, remaining, resetAfter }) => ({ rule, limit, remaining, reset_after: resetAfter })),
            ...this.banned && { banned: true },
            ...this.paused && { paused: true },
            ...this.level && { level: this.level },
            error: this.error ?? "rate_limited",
            ...!problem && { message: this.message() },
            window: decisive?.period || null,
            reset: decisive === undefined ? null : Math.ceil(this.#at + this.resetAfter),
        });
        return { contentType: problem ? "application/problem+json" : "application/json", body };
    }

    /** The rule's own, or a sentence for people. */
    message() {
        if (this.#reply.message) {
            return toText(this.#reply.message);
        }
        if (this.error === "denied") {
            return "Requests like this one are not allowed.";
        }
        if (this.retryAfter === null) {
            return "This request asks for more than its limit ever admits.";
        }
        const what = {
            banned: "Banned for a while.", paused: "Requests of this key are paused.", unavailable: "No decision could be made.",
        }[this.error] ?? "Too many requests.";
        const seconds = Math.max(1, Math.ceil(this.retryAfter));
        return `${what} Try again in ${seconds} second${seconds > 1 ? "s" : ""}.`;
    }
}

function errorOf(reply) {
    if (reply.banned) {
        return "banned";
    }
    if (reply.paused) {
        return "paused";
    }
    return reply.by === "deny" ? "denied" : reply.by === "unavailable" ? "unavailable" : "rate_limited";
}

/** Callers keep these for long: a copy, as a part of what was received would keep all of that. */
function ownText(bytes) {
    return bytes === undefined ? null : Buffer.from(bytes, "latin1").utf8Slice();
}

function hasShape(reply, shape) {
    for (const name in shape) {
        if (reply[name] === undefined) {
            return false;
        }
    }
    for (const name in reply) {
        const isRight = shape[name] ?? OPTIONAL[name];
        if (isRight !== undefined && !isRight(reply[name])) {
            return false;
        }
    }
    return true;
}

/** Each only once: the second limit of a rule is "api-2", unless a rule is really called so. */
function policyNames(limits) {
    const rules = limits.map(({ rule }) => toText(rule || "default").replace(/[^ -~]/gu, "?"));
    if (rules.length < 2) {
        return rules;
    }
    const names = [];
    rules.forEach((rule, at) => {
        let name = rule;
        for (let n = 2; names.includes(name) || (name !== rule && rules.includes(name, at + 1)); n++) {
            name = `${rule}-${n}`;
        }
        names.push(name);
    });
    return names;
}

/** The time in which the quota comes back, as a parameter. */
function windowOf({ limit, amount, period }) {
    if (!period) {
        return ";qu=\"concurrent-requests\"";
    }
    const seconds = amount ? (limit * period) / amount : period;
    return `;w=${Math.min(Math.ceil(Math.round(seconds * 1e6) / 1e6), INTEGER_MAX)}`;
}

module.exports = { Decision };
