// SPDX-License-Identifier: Apache-2.0
// The keys that are refused most, each with a way to its client.

import { get, query } from './api.js';
import { empty, table } from './controls.js';
import { el, given, replace } from './dom.js';
import { count, duration, exact, moment, when } from './format.js';
import { live } from './live.js';
import { keyLink } from './lookup.js';

/** "3 s ago", or "just now", by the clock of rationd: that of the browser may be wrong. Empty: nobody knows. */
function lastWords(entry) {
    const last = entry.last?.[0];
    if (last === undefined || !live.line) return '';
    const seconds = Math.round(live.line.time - last);
    return seconds < 2 ? 'just now' : `${duration(seconds)} ago`;
}

/** Shows them in `element`. `rule`: only under this one. */
export async function showTop(element, { count: most, rule = null, signal, wide = false }) {
    const top = await get(`/v1/top${query({ count: rule ? 200 : most })}`, { signal });
    const keys = top.keys.filter((entry) => rule === null || entry.rule === rule).slice(0, most);
    if (!keys.length) {
        replace(element, empty('Nobody was refused since ', when(top.since), '.'));
        return;
    }
    const columns = [
        {
            label: 'Client',
            cell: (entry) =>
                el(
                    'span',
                    {},
                    keyLink(entry),
                    entry.banned_for
                        ? [' ', el('span', { class: 'tag bad' }, `banned ${duration(entry.banned_for)}`)]
                        : null,
                    wide
                        ? null
                        : el(
                              'span',
                              { class: 'sub-line' },
                              rule === null && [
                                  entry.rule === null ? 'limit given with the call' : given(entry.rule),
                                  lastWords(entry) && ', ',
                              ],
                              lastWords(entry),
                          ),
                ),
        },
        {
            label: 'Rule',
            cell: (entry) =>
                entry.rule === null
                    ? el('span', { class: 'sub' }, 'limit given with the call')
                    : el('a', { href: `#/rules/${encodeURIComponent(entry.rule)}` }, given(entry.rule)),
        },
        {
            label: 'Last refusals',
            cell: (entry) =>
                el(
                    'span',
                    { class: 'sub' },
                    entry.last?.length
                        ? entry.last
                              .slice(0, 3)
                              .map((at) => moment(at))
                              .join(', ')
                        : '–',
                ),
        },
        {
            label: 'Refused',
            number: true,
            cell: (entry) => el('span', { title: exact(entry.refused) }, count(entry.refused)),
        },
    ];
    replace(element, table('Keys refused most', wide ? columns : [columns[0], columns[3]], keys));
}
