// SPDX-License-Identifier: Apache-2.0
// Bans, clients that rules have banned, and overrides: lists in pages, as the admin port gives them.

import { get, query } from './api.js';
import { attributeList } from './attributes.js';
import { deleteOverrideById, liftBan, liftByHash } from './client_actions.js';
import { button, changeButton, empty, table } from './controls.js';
import { el, given, replaceKeepingFocus } from './dom.js';
import { duration } from './format.js';
import { askFor, keyLink } from './lookup.js';

const PAGE = 20;

/**
 * Shows a page of a list, and a button for the next one. `read(answer)` has its entries; `changed` is called after an
 * entry was changed, `again` shows the first page.
 */
async function showPage(
    element,
    { path, parameters = {}, read, caption, columns, none, again, changed = again, signal },
) {
    const answer = await get(`${path}${query({ ...parameters, limit: PAGE })}`, { signal });
    const entries = read(answer);
    const next =
        answer.next === undefined
            ? null
            : button('Next', () =>
                  showPage(element, {
                      path,
                      parameters: { ...parameters, after: answer.next },
                      read,
                      caption,
                      columns,
                      none,
                      again,
                      changed,
                      signal,
                  }),
              );
    const first = parameters.after === undefined ? null : button('First', again);
    replaceKeepingFocus(
        element,
        entries.length ? table(caption, columns(changed), entries) : empty(none),
        next || first ? el('div', { class: 'pager' }, first, next) : null,
    );
}

const who = (attributes) =>
    el('a', { href: '#/clients', on: { click: () => askFor({ attributes }) } }, attributeList(attributes));
const ends = (seconds) => (seconds === null ? 'until lifted' : duration(seconds));
const act = (text, action, changed, names) =>
    changeButton(text, () => action().then((done) => done && changed()), { 'aria-label': names });

export function showBans(element, signal, changed) {
    const again = () => showBans(element, signal, changed);
    return showPage(element, {
        path: '/v1/bans',
        read: (answer) => answer.bans,
        caption: 'Bans by operators',
        none: 'No operator has banned anybody.',
        again,
        changed,
        signal,
        columns: (done) => [
            { label: 'Client', cell: (entry) => who(entry.attributes) },
            {
                label: 'Reason',
                cell: (entry) => (entry.reason ? given(entry.reason) : el('span', { class: 'sub' }, 'none')),
            },
            { label: 'Ends in', cell: (entry) => ends(entry.expires_after) },
            { label: 'Change', cell: (entry) => act('Lift…', () => liftBan(entry), done, `Lift ban ${entry.id}`) },
        ],
    });
}

export function showBanned(element, signal, changed) {
    const again = () => showBanned(element, signal, changed);
    return showPage(element, {
        path: '/v1/reputation',
        parameters: { banned: 'true' },
        read: (answer) => answer.clients,
        caption: 'Clients that rules ban',
        none: 'No rule bans anybody now.',
        again,
        changed,
        signal,
        columns: (done) => [
            {
                label: 'Client',
                cell: (entry) =>
                    entry.key === null
                        ? el('code', { title: 'only the hash is known' }, entry.hash)
                        : keyLink(entry),
            },
            {
                label: 'Rule',
                cell: (entry) => (entry.rule === null ? el('span', { class: 'sub' }, 'gone') : given(entry.rule)),
            },
            { label: 'Level', cell: (entry) => String(entry.level) },
            { label: 'Ends in', cell: (entry) => ends(entry.ends_after) },
            {
                label: 'Change',
                cell: (entry) =>
                    entry.rule === null
                        ? null
                        : act('Lift…', () => liftByHash(entry), done, `Lift the ban of ${entry.key ?? entry.hash}`),
            },
        ],
    });
}

export function showOverrides(element, signal, { rule = null, changed } = {}) {
    const again = () => showOverrides(element, signal, { rule, changed });
    return showPage(element, {
        path: '/v1/overrides',
        parameters: rule === null ? {} : { rule },
        read: (answer) => answer.overrides,
        caption: 'Overrides',
        none: 'There are no overrides: the rules hold for everybody.',
        again,
        changed,
        signal,
        columns: (done) => [
            { label: 'Client', cell: (entry) => who(entry.attributes) },
            {
                label: 'Rule',
                cell: (entry) =>
                    el(
                        'span',
                        {},
                        given(entry.rule),
                        entry.active
                            ? null
                            : [
                                  ' ',
                                  el(
                                      'span',
                                      { class: 'tag warn', title: 'the rule is gone, or counts by another key now' },
                                      'not active',
                                  ),
                              ],
                    ),
            },
            { label: 'Limit', cell: (entry) => given(entry.limit) },
            { label: 'Note', cell: (entry) => (entry.note ? given(entry.note) : el('span', { class: 'sub' }, 'none')) },
            { label: 'Ends in', cell: (entry) => ends(entry.expires_after) },
            {
                label: 'Change',
                cell: (entry) => act('Delete…', () => deleteOverrideById(entry), done, `Delete override ${entry.id}`),
            },
        ],
    });
}
