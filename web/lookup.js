// SPDX-License-Identifier: Apache-2.0
// From a key that was refused to attributes of a request that its rule applies to. Values of clients stay out of the
// address of the page: browsers keep addresses.

import { ask, get, query } from './api.js';
import { attributesOfKey } from './attributes.js';
import { el, given } from './dom.js';

let asked = null; // { rule, key } or { attributes }, until the page of clients takes it

/** Says what the page of clients shows when it opens next. */
export function askFor(what) {
    asked = what;
}

export function takeAsked() {
    const what = asked;
    asked = null;
    return what;
}

const LONGEST_KEY = 63; // bytes that rationd keeps of a key that was refused or banned

/** If only the beginning of the key is known: a look-up would find another client. */
const isCut = (key) => new TextEncoder().encode(key).length >= LONGEST_KEY;

/** The key to read, and to look its client up; `entry` has key and rule. */
export function keyLink(entry) {
    if (isCut(entry.key))
        return el('span', { title: 'rationd keeps only the beginning of so long a key' }, given(entry.key), '…');
    if (entry.rule === null) return given(entry.key);
    return el('a', { href: '#/clients', on: { click: () => askFor(entry) } }, given(entry.key));
}

/** A value that a condition accepts, or null: /api/** accepts /api/x. */
function exampleFor(condition) {
    if (condition.not || !condition.values?.length) return null;
    if (condition.test === 'one_of') return condition.values[0];
    if (condition.test === 'pattern') return condition.values[0].replaceAll(/\*+/gu, 'x');
    return null;
}

/** Conditions of a rule as explain tells them: of several alternatives the one that comes nearest. */
export function conditionsOf(rule) {
    if (!rule.alternatives) return rule.conditions ?? [];
    const missed = (one) => one.conditions.filter((condition) => !condition.holds).length;
    return rule.alternatives.toSorted((a, b) => missed(a) - missed(b))[0]?.conditions ?? [];
}

/** The rule of this name as /v1/activity tells it, or null. */
export async function findRule(name, signal) {
    const { rules } = await get(`/v1/activity${query({ search: name, sort: 'name', order: 'asc', count: 200 })}`, {
        signal,
    });
    return rules.find((rule) => rule.name === name) ?? null;
}

/**
 * Attributes of a request of the client that has this key under this rule: those of the key, and examples of what the
 * rule asks for besides. A key of several values is one text; if it cannot be parted, its first attribute has all.
 */
export async function attributesFor({ rule, key }) {
    const found = await findRule(rule);
    if (!found) return { attributes: {}, rule: null };
    const names = attributesOfKey(found.key);
    const attributes = {};
    if (found.key.includes(' or ') || names.length < 2) {
        const isAddress = /^[0-9a-f.:/]+$/iu.test(key) && /[.:]/u.test(key);
        const name = names.includes('ip') && isAddress ? 'ip' : (names.find((one) => one !== 'ip') ?? names[0]);
        if (name) attributes[name] = key;
    } else {
        const values = key.split(' ');
        names.forEach((name, i) => {
            attributes[name] = i === names.length - 1 ? values.slice(i).join(' ') : (values[i] ?? '');
        });
    }
    const { rules } = await ask('POST', '/v1/explain', { body: { attributes } });
    const explained = rules.find((one) => one.rule === rule);
    for (const condition of explained ? conditionsOf(explained) : []) {
        const example = condition.holds || condition.found !== null ? null : exampleFor(condition);
        if (example !== null) attributes[condition.attribute] = example;
    }
    return { attributes, rule: found };
}
