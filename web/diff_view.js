// SPDX-License-Identifier: Apache-2.0
// A difference of two texts to look at: signs and words besides colours.

import { el, given } from './dom.js';
import { exact, plural } from './format.js';
import { diffLines, hunksOf } from './diff.js';

const MOST = 1500; // lines to show
const SIGNS = { same: ' ', added: '+', removed: '\u2212' };
const WORDS = { same: '', added: 'added: ', removed: 'removed: ' };

/** "12 lines added, 3 removed". */
export function diffSummary({ added, removed }) {
    if (!added && !removed) return 'no difference';
    return `${plural(added, 'line')} added, ${exact(removed)} removed`;
}

function lineOf(line) {
    return el(
        'tr',
        { class: line.kind, role: 'row' },
        el('td', { class: 'line-number', role: 'cell' }, line.before ?? ''),
        el('td', { class: 'line-number', role: 'cell' }, line.after ?? ''),
        el('td', { class: 'sign', role: 'cell', 'aria-hidden': 'true' }, SIGNS[line.kind]),
        el(
            'td',
            { class: 'text', role: 'cell' },
            WORDS[line.kind] ? el('span', { class: 'unseen' }, WORDS[line.kind]) : null,
            line.text === '' ? '' : given(line.text),
        ),
    );
}

const skip = (lines) =>
    el(
        'tr',
        { class: 'skipped', role: 'row' },
        el('td', { colspan: 4, role: 'cell' }, `${plural(lines, 'line')} the same`),
    );

/** The element, and the counts. `label` says what is compared. */
export function diffView(before, after, label) {
    const result = diffLines(before, after);
    const { hunks, rest } = hunksOf(result.lines);
    const rows = [];
    for (const hunk of hunks) {
        if (hunk.skipped) rows.push(skip(hunk.skipped));
        rows.push(...hunk.lines.map(lineOf));
        if (rows.length > MOST) break;
    }
    const cut = rows.length > MOST;
    if (cut) rows.length = MOST;
    else if (rest && hunks.length) rows.push(skip(rest));
    const element = el(
        'div',
        { class: 'diff', role: 'region', 'aria-label': label, tabindex: 0 },
        hunks.length
            ? el(
                  'table',
                  { role: 'table' },
                  el('caption', { class: 'unseen' }, label),
                  el('tbody', { role: 'rowgroup' }, rows),
              )
            : el('p', { class: 'empty' }, 'The texts do not differ.'),
        cut ? el('p', { class: 'sub' }, 'There is more than is shown here.') : null,
    );
    return { element, ...result };
}
