// SPDX-License-Identifier: Apache-2.0
// Findings on a page, grouped by kind, with ways to their rules and clients.

import { el, given } from './dom.js';
import { plural } from './format.js';
import { askFor } from './lookup.js';
import { KINDS } from './report_findings.js';

const ROWS = 50; // of a kind, and ten times as many whenever more are asked for
const KEY_CUT = 47; // bytes: rationd cuts longer keys, and what is cut finds no client
const LONGEST = 300; // characters of a name

/** A name that somebody else chose, cut where it is of no use any more. */
export function shortened(text, className) {
    const characters = String(text ?? '');
    return given(characters.length > LONGEST ? `${characters.slice(0, LONGEST)}…` : characters, className);
}

function ruleLink(name) {
    return el('a', { href: `#/rules/${encodeURIComponent(name)}` }, shortened(name, 'name'));
}

function clientLink({ client: key, rule }) {
    if (new TextEncoder().encode(key).length >= KEY_CUT) return shortened(key);
    return el('a', { href: '#/clients', on: { click: () => askFor({ rule, key }) } }, shortened(key));
}

/** `linked`: the rules and clients are those of this rationd. */
function partOf(part, linked) {
    if (typeof part === 'string') return part;
    if (part.client !== undefined) return ['"', linked ? clientLink(part) : shortened(part.client), '"'];
    if (part.rule !== undefined) return ['"', linked ? ruleLink(part.rule) : shortened(part.rule, 'name'), '"'];
    return ['"', shortened(part.text), '"'];
}

/** A list that shows its first rows, and more when asked for. */
function listOf(findings, linked) {
    const list = el('ul', { class: 'findings' });
    const more = el('button', { type: 'button', on: { click: showMore } });

    function append(count) {
        for (const { parts } of findings.slice(list.children.length, list.children.length + count))
            list.append(
                el(
                    'li',
                    { tabindex: -1 },
                    parts.map((part) => partOf(part, linked)),
                ),
            );
        more.textContent = `Show more: ${findings.length - list.children.length} are left`;
        more.hidden = list.children.length === findings.length;
    }

    /** The focus goes to the first of the new rows: the button may be gone. */
    function showMore() {
        const before = list.children.length;
        append(ROWS * 10);
        list.children[before].focus();
    }

    append(ROWS);
    return [list, el('div', {}, more)];
}

export function findingsView(findings, { linked }) {
    return Object.entries(KINDS)
        .map(([kind, heading]) => [kind, heading, findings.filter((one) => one.kind === kind)])
        .filter(([, , some]) => some.length)
        .map(([kind, heading, some]) =>
            el(
                'div',
                { class: 'stack tight', 'data-kind': kind },
                el(
                    'div',
                    { class: 'row' },
                    el('h3', {}, heading),
                    el('span', { class: 'sub small' }, plural(some.length, 'finding')),
                ),
                listOf(some, linked),
            ),
        );
}
