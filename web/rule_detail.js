// SPDX-License-Identifier: Apache-2.0
// One rule: what it says, what it decided lately, which clients it refused, and its overrides.

import { get, getText } from './api.js';
import { stackedChart } from './chart.js';
import { showOverrides } from './client_lists.js';
import { button, choice, empty, facts, failure, panel } from './controls.js';
import { el, given, replace } from './dom.js';
import { count, percent } from './format.js';
import { listen, watchRules } from './live.js';
import { findRule } from './lookup.js';
import { appendLine, chartData, readHistory } from './series.js';
import { rulesTabs } from './rules_tabs.js';
import { showTop } from './top_clients.js';

const SPANS = { hour: { text: 'Hour', size: 15 }, day: { text: 'Day', size: 5 } };

/** The rule's lines of the canonical text: from its name to the next rule, or the next section. */
function sourceOf(text, name) {
    const lines = text.split('\n');
    const start = lines.findIndex(
        (line) => line.trimStart() === `- name: ${JSON.stringify(name)}` || line.trimStart() === `- name: ${name}`,
    );
    if (start < 0) return null;
    const depth = lines[start].search(/\S/u);
    let end = start + 1;
    while (end < lines.length && (lines[end].trim() === '' || lines[end].search(/\S/u) > depth)) end += 1;
    return lines.slice(start, end).join('\n');
}

function ruleFacts(rule, factor) {
    return facts([
        [
            'Limits',
            el(
                'ul',
                { class: 'plain' },
                rule.limits.map((limit) => el('li', {}, given(limit))),
            ),
        ],
        ['Key', given(rule.key || 'none: one counter for all')],
        ['Algorithm', given(rule.algorithm)],
        [
            'Mode',
            rule.mode === 'shadow'
                ? el('span', { class: 'tag shadow' }, 'shadow: counts, refuses nothing')
                : given(rule.mode),
        ],
        ['Source', given(`${rule.file}:${rule.line}`)],
        factor && ['Factor', `${percent(factor.factor)} of the limits is in force`],
        [
            'Last minute',
            `${count(rule.allowed)} allowed, ${count(rule.refused)} refused per second; ${percent(rule.share)} refused, ${count(rule.near)}/s near the limit`,
        ],
    ]);
}

export async function showRule(root, name) {
    const stop = new AbortController();
    const { signal } = stop;
    const owner = Symbol('rule');
    const title = el('h1', {}, given(name));
    const found = await findRule(name, signal);
    if (!found) {
        replace(
            root,
            el('div', { class: 'head' }, title, rulesTabs('rules')),
            empty('The rules in force have no rule of this name.'),
        );
        return () => {};
    }
    const chart = stackedChart(`Decisions of ${name} per second`, 200);
    const what = el('div', {}, ruleFacts(found));
    const history = el('p', { class: 'sub small' });
    const top = el('div');
    const overrides = el('div');
    const source = el('div', {}, button('Show the source', showSource));
    let span = 'hour';
    let data = null;

    async function showSource() {
        try {
            const text = await getText('/v1/rules', { headers: { Accept: 'application/yaml' }, signal });
            const lines = sourceOf(text, name);
            replace(
                source,
                lines === null
                    ? empty(
                          'The text of the rules does not show this rule: it may have come in a file of Envoy’s format.',
                      )
                    : el('pre', { class: 'mono source', tabindex: 0 }, lines),
            );
        } catch (error) {
            if (!signal.aborted) replace(source, failure(error));
        }
    }

    function draw() {
        const rule = data?.rules.find((one) => one.name === name);
        if (!rule) {
            replace(
                history,
                'rationd keeps the past of the busiest rules, and this is none of them. It is shown from now on while rules are quiet enough.',
            );
            return;
        }
        replace(history);
        chart.draw(chartData(data, rule, rule.allowed.length, SPANS[span].size));
    }

    async function load() {
        try {
            data = await readHistory(span, [name], { signal });
            draw();
        } catch (error) {
            if (!signal.aborted && error.status !== 0) replace(history, failure(error));
        }
    }

    async function loadAround() {
        const [now, signals] = await Promise.all([findRule(name, signal), get('/v1/signals', { signal })]);
        if (now)
            replace(
                what,
                ruleFacts(
                    now,
                    signals.factors?.find((factor) => factor.rule === name),
                ),
            );
        await Promise.all([
            showTop(top, { count: 10, rule: name, signal }),
            showOverrides(overrides, signal, { rule: name }),
        ]);
    }

    replace(
        root,
        el('div', { class: 'head' }, title, rulesTabs('rules')),
        el(
            'div',
            { class: 'split' },
            el(
                'div',
                { class: 'stack' },
                panel(
                    'decisions',
                    'Decisions per second',
                    choice(
                        'Span',
                        Object.entries(SPANS).map(([key, { text }]) => [key, text]),
                        span,
                        (chosen) => {
                            span = chosen;
                            load();
                        },
                    ),
                    chart.element,
                    history,
                ),
                panel('says', 'What it says', el('a', { href: '#/edit' }, 'Edit rules'), what, source),
                panel('over', 'Overrides', null, overrides),
            ),
            panel('most', 'Refused most', null, top),
        ),
    );

    watchRules(owner, [name]);
    const unlisten = [
        listen('line', (line) => {
            const values = line.rules.find((one) => one.name === name);
            const rule = data?.rules.find((one) => one.name === name);
            if (!values || !rule || span !== 'hour') return;
            appendLine(data, rule, line, values);
            data.end = Math.max(data.end, line.time);
            draw();
        }),
        listen('state', (state) => state === 'live' && load()),
    ];
    await load();
    loadAround().catch((error) => signal.aborted || error.status === 0 || replace(top, failure(error)));
    return () => {
        watchRules(owner, []);
        unlisten.forEach((end) => end());
        chart.close();
        stop.abort();
    };
}
