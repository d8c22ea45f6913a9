// SPDX-License-Identifier: Apache-2.0
// Rules with what they decide now: searched, sorted and paged by rationd (/v1/activity), with a sparkline each
// from the history and the stream. On the overview and on the page of rules.

import { get, query } from './api.js';
import { choice, empty, failure, table, button } from './controls.js';
import { afterPause, el, given, replace, setText } from './dom.js';
import { count, exact, percent, plural } from './format.js';
import { listen, live, watchRules } from './live.js';
import { KINDS, appendLine, emptyCounts, perSecond, readHistory, stackOf } from './series.js';
import { sparkline } from './chart.js';

const REFRESH = 5000; // milliseconds: the rates are means of a minute
const SECONDS = 300; // of a sparkline
const STEP = 5;

function rateCell(value, className) {
    return el(
        'span',
        { title: `${exact(value)} per second`, class: value < 0.005 ? 'zero' : (className ?? null) },
        count(value),
    );
}

function shareCell(rule) {
    if (rule.share === null) return el('span', { class: 'zero' }, '–');
    const fill = el('span');
    fill.style.width = `${Math.min(100, rule.share * 100)}%`;
    return el(
        'span',
        { title: `${exact(rule.refused)} of ${exact(rule.allowed + rule.refused)} per second` },
        percent(rule.share),
        rule.share === 0 ? null : el('span', { class: 'bar short', 'aria-hidden': 'true' }, fill),
    );
}

function modeTag(rule) {
    return rule.mode === 'shadow'
        ? el('span', { class: 'tag shadow' }, 'shadow')
        : el('span', { class: 'sub' }, rule.mode);
}

function nameCell(rule, withSource) {
    return el(
        'span',
        {},
        el('a', { class: 'rule-name', href: `#/rules/${encodeURIComponent(rule.name)}` }, given(rule.name, 'name')),
        rule.mode === 'shadow' && !withSource ? [' ', modeTag(rule)] : null,
        el(
            'span',
            { class: 'sub-line' },
            rule.limits.map((limit, i) => [i ? ' · ' : null, given(limit)]),
        ),
    );
}

function columnsOf(withSource, sparks) {
    const spark = { label: 'Last 5 min', whole: true, spare: true, cell: (rule) => sparks.get(rule.name).chart.element };
    const rates = [
        { label: 'Allowed/s', sort: 'allowed', number: true, cell: (rule) => rateCell(rule.allowed) },
        { label: 'Refused/s', sort: 'refused', number: true, cell: (rule) => rateCell(rule.refused, 'more-refused') },
        { label: 'Share', sort: 'share', number: true, cell: shareCell },
        { label: 'Near/s', sort: 'near', number: true, cell: (rule) => rateCell(rule.near) },
        { label: 'Delayed/s', sort: 'delayed', number: true, cell: (rule) => rateCell(rule.delayed) },
        { label: 'Shadow/s', sort: 'shadowed', number: true, cell: (rule) => rateCell(rule.shadowed) },
    ];
    const name = { label: 'Rule', sort: 'name', cell: (rule) => nameCell(rule, withSource) };
    if (!withSource) return [name, spark, ...rates];
    return [
        name,
        { label: 'Key', cell: (rule) => given(rule.key || '(one counter for all)') },
        { label: 'Algorithm', cell: (rule) => given(rule.algorithm) },
        { label: 'Mode', cell: modeTag },
        {
            label: 'Source',
            spare: true,
            cell: (rule) => el('span', { class: 'sub' }, given(`${rule.file.split('/').pop()}:${rule.line}`)),
        },
        spark,
        ...rates.slice(0, 3),
    ];
}

/**
 * The table. `options`: count of a page, source (columns of the source in the place of rare rates), sort.
 * close() ends its requests.
 */
export function rulesTable({ pageSize, source = false, sort = 'refused', order = 'desc' }) {
    const state = { sort, order, search: '', mode: '', offset: 0, matched: 0 };
    const owner = Symbol('rules');
    const sparks = new Map(); // name: { chart, counts, history }
    const body = el('div');
    const status = el('p', { class: 'sub small', role: 'status' });
    const pager = el('div', { class: 'pager' });
    const search = el('input', {
        type: 'search',
        placeholder: 'Search name, key, limit, file',
        'aria-label': 'Search rules',
    });
    let closed = new AbortController();
    let turn = 0;

    /** Which rows are in the window: only those are streamed. */
    const seen = new Set();
    const tellSeen = afterPause(300, () => watchRules(owner, [...seen]));
    const observer = new IntersectionObserver(
        (entries) => {
            for (const entry of entries) {
                if (entry.isIntersecting) seen.add(entry.target.ruleName);
                else seen.delete(entry.target.ruleName);
            }
            tellSeen();
        },
        { rootMargin: '120px' },
    );

    function sparkOf(name) {
        if (!sparks.has(name)) sparks.set(name, { chart: sparkline(), counts: emptyCounts(SECONDS) });
        return sparks.get(name);
    }

    function drawSpark({ chart, counts }) {
        chart.draw(stackOf(Object.fromEntries(KINDS.map((kind) => [kind, perSecond(counts[kind], STEP, 1)]))));
    }

    let historyEnd = 0;
    async function loadHistory(names) {
        if (!names.length) return;
        const history = await readHistory('hour', names, { steps: SECONDS, signal: closed.signal });
        historyEnd = history.end;
        for (const rule of history.rules) {
            const spark = sparkOf(rule.name);
            for (const kind of KINDS)
                spark.counts[kind] = [...emptyCounts(SECONDS)[kind], ...rule[kind]].slice(-SECONDS);
        }
        names.forEach((name) => drawSpark(sparkOf(name)));
    }

    function showRows(rules) {
        const focused = document.activeElement?.dataset?.sort;
        const columns = columnsOf(source, { get: sparkOf });
        observer.disconnect();
        seen.clear();
        const grid = table('Rules and what they decide', columns, rules, {
            by: state.sort,
            order: state.order,
            choose: sortBy,
        });
        grid.querySelectorAll('tbody tr').forEach((row, i) => {
            row.ruleName = rules[i].name;
            observer.observe(row);
        });
        replace(
            body,
            rules.length
                ? grid
                : empty(
                      state.search || state.mode
                          ? 'No rule matches this search.'
                          : 'There are no rules: everything is allowed. Edit the rules to add some.',
                  ),
        );
        if (focused) body.querySelector(`[data-sort="${focused}"]`)?.focus();
    }

    function showPager() {
        const last = Math.min(state.offset + pageSize, state.matched);
        setText(
            status,
            state.matched > pageSize
                ? `${exact(state.offset + 1)}–${exact(last)} of ${plural(state.matched, 'rule')}`
                : plural(state.matched, 'rule'),
        );
        const step = (by) => {
            state.offset = Math.max(0, state.offset + by);
            load();
        };
        replace(
            pager,
            state.matched <= pageSize
                ? null
                : [
                      button('Previous', () => step(-pageSize), { disabled: state.offset === 0 }),
                      button('Next', () => step(pageSize), { disabled: last >= state.matched }),
                  ],
        );
    }

    let shown = '';
    async function load({ quietly = false } = {}) {
        turn += 1;
        const mine = turn;
        try {
            const answer = await get(
                `/v1/activity${query({ sort: state.sort, order: state.order, search: state.search, mode: state.mode, offset: state.offset, count: pageSize })}`,
                { signal: closed.signal },
            );
            if (mine !== turn) return;
            state.matched = answer.matched;
            const names = answer.rules.map((rule) => rule.name);
            showRows(answer.rules);
            showPager();
            for (const name of sparks.keys()) if (!names.includes(name)) sparks.delete(name);
            if (names.join('\n') !== shown) {
                shown = names.join('\n');
                await loadHistory(names);
            }
        } catch (error) {
            if (closed.signal.aborted || (quietly && error.status === 0)) return;
            replace(body, failure(error));
        }
    }

    function sortBy(column) {
        if (state.sort === column) state.order = state.order === 'desc' ? 'asc' : 'desc';
        else state.order = column === 'name' ? 'asc' : 'desc';
        state.sort = column;
        state.offset = 0;
        load();
    }

    search.addEventListener(
        'input',
        afterPause(200, () => {
            state.search = search.value.trim();
            state.offset = 0;
            load();
        }),
    );
    const modes = choice(
        'Mode',
        [
            ['', 'All'],
            ['enforce', 'Enforced'],
            ['shadow', 'Shadow'],
        ],
        '',
        (mode) => {
            state.mode = mode;
            state.offset = 0;
            load();
        },
    );

    const unlisten = [
        listen('line', (line) => {
            for (const values of line.rules) {
                const spark = sparks.get(values.name);
                if (!spark) continue;
                appendLine({ end: spark.end ?? historyEnd }, spark.counts, line, values);
                spark.end = line.time;
                drawSpark(spark);
            }
        }),
        listen('state', (now) => {
            if (now !== 'live') return;
            shown = '';
            load({ quietly: true });
        }),
    ];
    /** Rows do not move under a pointer or the focus. */
    const isInUse = () =>
        body.matches(':hover') || (body.contains(document.activeElement) && !document.activeElement.dataset.sort);
    const timer = setInterval(() => live.state === 'live' && !isInUse() && load({ quietly: true }), REFRESH);
    load();
    return {
        element: el('div', {}, el('div', { class: 'row table-tools' }, search, modes, status), body, pager),
        search,
        close() {
            clearInterval(timer);
            unlisten.forEach((stop) => stop());
            observer.disconnect();
            tellSeen.cancel();
            watchRules(owner, []);
            closed.abort();
            closed = new AbortController();
        },
    };
}
