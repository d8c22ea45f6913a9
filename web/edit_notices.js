// SPDX-License-Identifier: Apache-2.0
// What the editor says above its text: rules on trial, changes of others, what was done.

import { ask, get } from './api.js';
import { button, changeButton, confirm, notice } from './controls.js';
import { diffView } from './diff_view.js';
import { el, given } from './dom.js';
import { when } from './format.js';

const ruleLinks = (names) =>
    names.map((name, i) => [i ? ', ' : null, el('a', { href: `#/rules/${encodeURIComponent(name)}` }, given(name))]);

/** Rules on trial, and a button that ends it; `ended` is called then. */
export function trialNotice(trial, ended) {
    const end = () =>
        confirm({
            title: 'End the trial',
            doIt: 'End the trial',
            say: el('p', {}, 'The rules from before are in force again, and what the trial has counted is gone.'),
            act: () => ask('DELETE', '/v1/rules/trial'),
        }).then((done) => done && ended());
    return notice(
        'row',
        el(
            'p',
            {},
            el('span', { class: 'tag shadow' }, 'trial'),
            ` since ${when(trial.since)}`,
            trial.by ? [', by ', given(trial.by)] : null,
            ': ',
            ruleLinks(trial.rules),
        ),
        changeButton('End the trial…', end),
    );
}

/** What rationd answers to a change: its note, its warnings. */
export function answerNotice(answer, ...text) {
    const warnings = (answer.warnings ?? []).map((one) => el('li', {}, given(one.message ?? one)));
    return notice(
        'done',
        el('p', {}, text),
        answer.note ? el('p', {}, given(answer.note)) : null,
        warnings.length ? el('ul', {}, warnings) : null,
    );
}

/** What is on trial now, and what of the new text could not be tried. */
export function trialBegun(answer) {
    const removed = answer.removed ?? [];
    const lacking = removed.map((name, i) => [i ? ', ' : null, given(name)]);
    return answerNotice(
        answer,
        'On trial: ',
        ruleLinks(answer.added ?? []),
        removed.length ? ['. The new text lacks ', lacking] : null,
        '.',
    );
}

/** Somebody else has changed the rules from `base` to `theirs`: what, who, and what to do. */
export async function conflictNotice(base, theirs, { keep, take }) {
    const { versions } = await get('/v1/rules/versions?count=1').catch(() => ({ versions: [] }));
    const by = versions.map((last) => [', by ', given(last.token ?? last.by), ` at ${when(last.time)}`]);
    return notice(
        'warning',
        el(
            'div',
            { class: 'stack' },
            el(
                'p',
                {},
                el('strong', {}, 'Somebody else has changed the rules meanwhile'),
                `: version ${theirs.version}`,
                by,
                '. Nothing of yours was applied. Their change:',
            ),
            diffView(base.text, theirs.text, 'What somebody else has changed').element,
            el(
                'div',
                { class: 'row' },
                button('Keep my text, and compare it with theirs', keep),
                button('Take theirs, and discard mine', take),
            ),
        ),
    );
}
