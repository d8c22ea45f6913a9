// SPDX-License-Identifier: Apache-2.0
// What an operator does to a client. Each asks before, and names what will change.

import { ask, query } from './api.js';
import { attributeList, parseAttributes } from './attributes.js';
import { confirm, field } from './controls.js';
import { el, given } from './dom.js';
import { exact } from './format.js';

const said = (...parts) => el('p', {}, parts);
const ruleName = (rule) => given(rule, 'name');

/** An input in a field, for confirm(). */
function input(label, attributes = {}, hint) {
    const made = el('input', { autocomplete: 'off', ...attributes });
    field(label, made, hint);
    return made;
}

/** Seconds of "600", "10m", "2h", "1 day"; empty: null. */
export function secondsOf(text) {
    if (text === '') return null;
    const parts = /^(\d+(?:\.\d+)?)\s*(?:(s|m|h|d)|(s|m|h|d)(?:ec|econd|in|inute|our|ay)s?)?$/u.exec(text);
    if (!parts) throw new Error(`"${text}" is no length of time: write seconds, or 10m, 2h, 1d`);
    return Number(parts[1]) * { s: 1, m: 60, h: 3600, d: 86400 }[parts[2] ?? parts[3] ?? 's'];
}

const withoutNull = (body) =>
    Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null && value !== ''));

export function reset({ rule, attributes, limits }) {
    const spent = limits
        .map((limit) => (limit.limit === null ? 0 : limit.limit - limit.remaining))
        .map(exact)
        .join(', ');
    return confirm({
        title: 'Reset what was spent',
        doIt: 'Reset',
        say: said(
            'Under ',
            ruleName(rule),
            ', ',
            attributeList(attributes),
            ' has spent ',
            spent,
            '. This is forgotten, and places that it holds are free. Bans stay.',
        ),
        act: () => ask('POST', '/v1/state/reset', { body: { rule, attributes } }),
    });
}

export function adjust({ rule, attributes, limits }) {
    const left = limits[0]?.remaining ?? 0;
    return confirm({
        title: 'Adjust what is left',
        doIt: 'Adjust',
        say: said(
            'Under ',
            ruleName(rule),
            ', ',
            attributeList(attributes),
            ' has ',
            exact(left),
            ' left. Set what is left, or charge more units (below 0 gives back).',
        ),
        inputs: {
            remaining: input('Remaining', { inputmode: 'numeric', value: String(left) }),
            add: input(
                'Or charge units',
                { inputmode: 'numeric' },
                'If you give this, the field above does not count.',
            ),
        },
        act: ({ remaining, add }) =>
            ask('POST', '/v1/state/adjust', {
                body: {
                    rule,
                    attributes,
                    ...(add === '' ? { remaining: numberOf(remaining) } : { add: numberOf(add) }),
                },
            }),
    });
}

function numberOf(text) {
    if (!/^-?\d+$/u.test(text)) throw new Error(`"${text}" is no whole number`);
    return Number(text);
}

export function override({ rule, key, limits }) {
    return confirm({
        title: 'Another limit for this client',
        doIt: 'Set override',
        say: said(
            'Under ',
            ruleName(rule),
            ', ',
            attributeList(key),
            ' gets this limit in the place of ',
            given(limits[0]?.text ?? ''),
            '. What it has spent stays spent.',
        ),
        inputs: {
            limit: input('Limit', { required: true, placeholder: '1000 per minute' }),
            length: input('For', { placeholder: 'no end' }, 'Seconds, or 10m, 2h, 1d. Empty: until it is deleted.'),
            note: input('Note', {}, 'For operators who read the list.'),
        },
        act: ({ limit, length, note }) =>
            ask('PUT', '/v1/overrides', {
                body: withoutNull({ rule, attributes: key, limit, for: secondsOf(length), note }),
            }),
    });
}

export function deleteOverride({ rule, key }) {
    return confirm({
        title: 'Delete the override',
        doIt: 'Delete override',
        danger: true,
        say: said('Under ', ruleName(rule), ', the limit of the rule holds for ', attributeList(key), ' again.'),
        act: () => ask('DELETE', '/v1/overrides', { body: { rule, attributes: key } }),
    });
}

export function lift({ rule, attributes }) {
    return confirm({
        title: 'Lift the ban of the rule',
        doIt: 'Lift',
        say: said(
            'Under ',
            ruleName(rule),
            ', the ban of ',
            attributeList(attributes),
            ', its level and the refusals that were counted are forgotten.',
        ),
        act: () => ask('DELETE', '/v1/reputation', { body: { rule, attributes } }),
    });
}

/** By the hash alone: of most clients rationd does not keep the name. */
export function liftByHash({ rule, hash, key }) {
    return confirm({
        title: 'Lift the ban of the rule',
        doIt: 'Lift',
        say: said(
            'Under ',
            ruleName(rule),
            ', the ban of ',
            key === null ? el('code', {}, hash) : given(key),
            ', its level and the refusals that were counted are forgotten.',
        ),
        act: () => ask('DELETE', '/v1/reputation', { body: { rule, hash } }),
    });
}

/** Begins with the key that a rule counts the client by: every attribute more lets more of its requests pass. */
export function ban(attributes, { rules }) {
    const key = rules.find((rule) => rule.applies && Object.keys(rule.key ?? {}).length)?.key ?? attributes;
    const chosen = input(
        'Attributes',
        {
            required: true,
            value: Object.entries(key)
                .filter(([name]) => name !== 'path' && name !== 'method')
                .map(([name, value]) => `${name}=${value}`)
                .join(' '),
            class: 'mono',
        },
        'name=value, parted by spaces. Requests that have all of them are refused. ip may be a network.',
    );
    return confirm({
        title: 'Ban',
        doIt: 'Ban',
        danger: true,
        say: said('Every request that has these attributes is refused, under all rules.'),
        inputs: {
            chosen,
            length: input('For', { placeholder: 'no end' }, 'Seconds, or 10m, 2h, 1d. Empty: until it is lifted.'),
            reason: input('Reason', {}, 'The refused client reads it. Leave it empty if it should not.'),
        },
        act: ({ chosen: text, length, reason }) =>
            ask('PUT', '/v1/bans', {
                body: withoutNull({ attributes: parseAttributes(text), for: secondsOf(length), reason }),
            }),
    });
}

export function liftBan({ id, attributes }) {
    return confirm({
        title: 'Lift the ban',
        doIt: 'Lift',
        say: said('Requests with ', attributeList(attributes), ' are decided by the rules again.'),
        act: () => ask('DELETE', `/v1/bans/${id}`),
    });
}

export function deleteOverrideById({ id, rule, attributes, limit }) {
    return confirm({
        title: 'Delete the override',
        doIt: 'Delete override',
        danger: true,
        say: said(
            'Under ',
            ruleName(rule),
            ', the limit of the rule holds for ',
            attributeList(attributes),
            ' again, in the place of ',
            given(limit),
            '.',
        ),
        act: () => ask('DELETE', `/v1/overrides/${id}`),
    });
}

export function pauseClient(attributes) {
    return confirm({
        title: 'Pause',
        doIt: 'Pause',
        say: said(
            'Requests of ',
            attributeList(attributes),
            ' are refused for a while, under each rule that applies. Nothing is charged.',
        ),
        inputs: { length: input('For', { required: true, value: '30s' }, 'Up to a day: 30s, 10m, 2h.') },
        act: ({ length }) => ask('POST', '/v1/pause', { body: { attributes, for: secondsOf(length) } }),
    });
}

export function endPause({ rule, attributes }) {
    return confirm({
        title: 'End the pause',
        doIt: 'End pause',
        say: said(
            'Under ',
            ruleName(rule),
            ', requests of ',
            attributeList(attributes),
            ' are decided by its limits again.',
        ),
        act: () => ask('DELETE', `/v1/pause${query({ ...attributes, rule })}`),
    });
}
