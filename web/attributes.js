// SPDX-License-Identifier: Apache-2.0
// Attributes of requests, as text and as elements.

import { el, given } from './dom.js';

/** The names of a rule's key: "api_key or ip", "ip, user". */
export function attributesOfKey(key) {
    return key
        .split(/,| or /u)
        .map((word) => word.trim())
        .filter((word) => /^[\w.-]+$/u.test(word));
}

/** "ip=192.0.2.1 user=ann" as an object. A value may have spaces. */
export function parseAttributes(text) {
    const parts = text
        .trim()
        .split(/\s+(?=[\w.-]+=)/u)
        .filter(Boolean)
        .map((part) => {
            const at = part.indexOf('=');
            if (at < 1) throw new Error(`"${part}" is no attribute: write name=value`);
            return [part.slice(0, at), part.slice(at + 1)];
        });
    return Object.fromEntries(parts);
}

/** The attributes to read: ip=192.0.2.1 method=POST. */
export function attributeList(attributes) {
    return Object.entries(attributes).map(([name, value], i) => [
        i ? ' ' : null,
        el('code', {}, given(name), '=', given(value)),
    ]);
}
