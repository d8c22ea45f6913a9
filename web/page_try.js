// SPDX-License-Identifier: Apache-2.0
// Try a request: what every rule makes of it, in words. /v1/explain counts nothing.

import { ask } from './api.js';
import { attributeForm } from './attribute_form.js';
import { decisionWords, otherRules, ruleWords } from './explain_words.js';
import { failure, field, notice } from './controls.js';
import { el, replace, setText } from './dom.js';
import { plural } from './format.js';
import { takeAsked } from './lookup.js';

const MANY = 200; // rules: then those that do not apply are asked for only when wanted

export async function open(root) {
    const stop = new AbortController();
    const { signal } = stop;
    const result = el('div', { class: 'stack' });
    const spoken = el('p', { class: 'unseen', role: 'status' });
    const cost = el('input', { type: 'number', min: 0, step: 1, value: '1', class: 'short' });
    const form = attributeForm({ label: 'A request', doIt: 'Explain', submit: show, more: [field('Cost', cost)] });
    let turn = 0;

    const explain = (attributes, matching) =>
        ask('POST', '/v1/explain', { body: { attributes, cost: Number(cost.value || 1), matching }, signal });

    async function show(attributes) {
        turn += 1;
        const mine = turn;
        try {
            const answer = await explain(attributes, true);
            if (mine !== turn) return;
            const rest = el(
                'details',
                {},
                el('summary', {}, 'Rules that do not apply, and why'),
                el('p', { class: 'sub' }, '…'),
            );
            rest.addEventListener('toggle', async () => {
                if (!rest.open || rest.dataset.loaded) return;
                rest.dataset.loaded = 'yes';
                try {
                    const all = await explain(attributes, false);
                    rest.lastChild.replaceWith(
                        otherRules(
                            all.rules.filter((rule) => !rule.applies),
                            MANY,
                        ),
                    );
                } catch (error) {
                    rest.lastChild.replaceWith(failure(error));
                }
            });
            const applying = answer.rules.filter((rule) => rule.applies);
            setText(
                spoken,
                `${answer.decision.allowed ? 'Allowed' : 'Refused'}; ${plural(applying.length, 'rule')} ${applying.length === 1 ? 'applies' : 'apply'}`,
            );
            replace(
                result,
                decisionWords(answer, attributes),
                applying.map((rule) => ruleWords(rule, answer.decision)),
                el('section', { class: 'panel' }, rest),
            );
            if (!applying.length) rest.open = true;
        } catch (error) {
            if (!signal.aborted) replace(result, failure(error));
        }
    }

    replace(
        root,
        el('h1', {}, 'Try a request'),
        el(
            'section',
            { class: 'panel stack', 'aria-label': 'The request' },
            el(
                'p',
                { class: 'sub' },
                'Which rules apply to it, why, and what would be decided now. Nothing is counted.',
            ),
            form.element,
        ),
        spoken,
        result,
    );
    const asked = takeAsked();
    if (asked?.attributes) {
        form.write(asked.attributes);
        show(asked.attributes);
    } else if (!asked) {
        form.write({ method: 'GET', path: '/', ip: '' });
    }
    if (!result.childElementCount)
        replace(
            result,
            notice(
                '',
                'Give the attributes of a request, as your application or proxy sends them: method, path, ip, header.x-api-key, user, …',
            ),
        );
    return () => stop.abort();
}
