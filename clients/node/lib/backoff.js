// SPDX-License-Identifier: Apache-2.0
// How long to wait before a call is repeated. docs/retrying.md says what may be repeated, and when to stop.
"use strict";

const FIRST = 200; // milliseconds
const MOST = 10_000;

/** Seconds, of a Retry-After header: seconds or a date. Null without one, and for what is neither. */
function retryAfterSeconds(header) {
    const text = String(header ?? "").trim();
    if (/^\d+$/.test(text)) {
        return Number(text);
    }
    const date = /^[A-Z][a-z]+,? .*\d\d:\d\d:\d\d/.test(text) ? Date.parse(/GMT$/.test(text) ? text : `${text} GMT`) : NaN;
    return Number.isNaN(date) ? null : Math.max(0, (date - Date.now()) / 1000);
}

/** Milliseconds to wait after attempt 0, 1, ...: what the server asks for, and a random part that grows (full jitter). */
function backoff(attempt, retryAfter = null) {
    if (!Number.isInteger(attempt) || attempt < 0) {
        throw new RangeError(`attempt must be a whole number from 0, found ${attempt}`);
    }
    return 1000 * (retryAfterSeconds(retryAfter) ?? 0) + Math.random() * Math.min(MOST, FIRST * 2 ** attempt);
}

module.exports = { backoff, retryAfterSeconds };
