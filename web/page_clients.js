// SPDX-License-Identifier: Apache-2.0
// Clients: one looked up across all rules, with what can be done to it, and the lists of bans, overrides and those
// that are refused most.

import { ask, get, query } from './api.js';
import { attributeForm } from './attribute_form.js';
import { clientCard, clientHead } from './client_card.js';
import { showBans, showBanned, showOverrides } from './client_lists.js';
import { failure, notice, panel, readOnlyNote } from './controls.js';
import { el, given, replace, replaceKeepingFocus, setText } from './dom.js';
import { plural } from './format.js';
import { live } from './live.js';
import { attributesFor, conditionsOf, takeAsked } from './lookup.js';
import { showTop } from './top_clients.js';

const REFRESH = 10000; // milliseconds: of the lists

/** What each rule that applies has of the client: its state, and its key and tier as explain tells them. */
async function lookUp(attributes, signal) {
    const [state, explained] = await Promise.all([
        get(`/v1/state${query(attributes)}`, { signal }),
        ask('POST', '/v1/explain', { body: { attributes, matching: true }, signal }),
    ]);
    return { attributes, state, explained };
}

/** Why no rule applies, in the words of the rules that come nearest: fewest conditions that do not hold. */
async function nearMisses(attributes, signal) {
    const { rules } = await ask('POST', '/v1/explain', { body: { attributes }, signal });
    const missed = (rule) => conditionsOf(rule).filter((condition) => !condition.holds).length;
    return rules
        .filter((rule) => !rule.applies)
        .sort((a, b) => missed(a) - missed(b))
        .slice(0, 5)
        .map((rule) => el('li', {}, given(rule.rule, 'name'), ': ', given(rule.reason)));
}

export async function open(root) {
    const stop = new AbortController();
    const { signal } = stop;
    const result = el('div', { class: 'stack' });
    const spoken = el('p', { class: 'unseen', role: 'status' });
    const lists = { top: el('div'), bans: el('div'), banned: el('div'), overrides: el('div') };
    const form = attributeForm({ label: 'Look up a client', doIt: 'Look up', submit: show });
    let turn = 0;
    let refresh = () => loadLists(); // and the client that is shown

    async function show(attributes) {
        turn += 1;
        const mine = turn;
        if (!Object.keys(attributes).length) {
            replace(result, notice('warning', 'Give at least one attribute of the client, such as ip or api_key.'));
            return;
        }
        try {
            const found = await lookUp(attributes, signal);
            if (mine !== turn) return;
            refresh = () => {
                loadLists();
                return show(attributes);
            };
            if (!found.state.limits.length && !found.state.reputation?.length) {
                const misses = await nearMisses(attributes, signal);
                setText(spoken, '');
                replaceKeepingFocus(
                    result,
                    clientHead(found, refresh),
                    notice(
                        '',
                        el(
                            'p',
                            {},
                            'No rule applies to these attributes. A rule applies to a request, so its path and method may be needed, too.',
                        ),
                        misses.length ? el('ul', {}, misses) : null,
                    ),
                );
                return;
            }
            const rules = [...new Set(found.state.limits.map((limit) => limit.rule))];
            setText(
                spoken,
                `${plural(rules.length, 'rule')} ${rules.length === 1 ? 'applies' : 'apply'} to the client`,
            );
            replaceKeepingFocus(
                result,
                clientHead(found, refresh),
                rules.map((rule) => clientCard(rule, found, refresh, signal)),
            );
        } catch (error) {
            if (!signal.aborted) replace(result, failure(error));
        }
    }

    const readers = {
        top: (element) => showTop(element, { count: 25, wide: true, signal }),
        bans: (element) => showBans(element, signal, () => refresh()),
        banned: (element) => showBanned(element, signal, () => refresh()),
        overrides: (element) => showOverrides(element, signal, { changed: () => refresh() }),
    };

    /** Lists in which somebody reads or works stay as they are, unless something was changed. */
    async function loadLists({ gently = false } = {}) {
        const isInUse = (element) => gently && (element.matches(':hover') || element.contains(document.activeElement));
        await Promise.all(
            Object.entries(readers)
                .filter(([name]) => !isInUse(lists[name]))
                .map(([name, read]) =>
                    read(lists[name]).catch(
                        (error) =>
                            signal.aborted || (gently && error.status === 0) || replace(lists[name], failure(error)),
                    ),
                ),
        );
    }

    const section = (id, title, element, hint) =>
        panel(id, title, hint ? el('span', { class: 'sub small' }, hint) : null, element);
    replace(
        root,
        el('h1', {}, 'Clients'),
        readOnlyNote(),
        el(
            'section',
            { class: 'panel stack', 'aria-labelledby': 'look-up' },
            el('h2', { id: 'look-up' }, 'Look one up'),
            el('p', { class: 'sub' }, 'By the attributes of one of its requests. All rules that apply are shown.'),
            form.element,
        ),
        spoken,
        result,
        section(
            'most',
            'Refused most',
            lists.top,
            'of this rationd, since its start; counts of rare keys are approximate',
        ),
        el(
            'div',
            { class: 'pair' },
            section('bans', 'Bans by operators', lists.bans),
            section('banned', 'Banned by rules', lists.banned),
        ),
        section('overrides', 'Overrides', lists.overrides),
    );

    const asked = takeAsked();
    if (asked) {
        (async () => {
            const attributes = asked.attributes ?? (await attributesFor(asked)).attributes;
            form.write(attributes);
            await show(attributes);
        })().catch((error) => signal.aborted || replace(result, failure(error)));
    }
    // Links to other clients on this very page.
    root.addEventListener('click', async (event) => {
        if (!event.target.closest('a[href="#/clients"]')) return;
        event.preventDefault();
        const next = takeAsked();
        if (!next) return;
        const attributes = next.attributes ?? (await attributesFor(next)).attributes;
        form.write(attributes);
        await show(attributes);
        result.scrollIntoView({ block: 'start' });
    });
    loadLists();
    const timer = setInterval(() => live.state === 'live' && loadLists({ gently: true }), REFRESH);
    return () => {
        clearInterval(timer);
        stop.abort();
    };
}
