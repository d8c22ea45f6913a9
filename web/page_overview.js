// SPDX-License-Identifier: Apache-2.0
// The overview: what is decided now and was decided lately, the rules, who is refused most, memory and store.

import { get } from './api.js';
import { stackedChart } from './chart.js';
import { choice, empty, facts, failure, notice, panel } from './controls.js';
import { el, replace, setText } from './dom.js';
import { bytes, count, duration, exact, latency, percent } from './format.js';
import { listen, live } from './live.js';
import { rulesTable } from './rules_table.js';
import { appendLine, chartData, keepKnown, readHistory, recent } from './series.js';
import { showTop } from './top_clients.js';

/** Spans of the chart: what to ask for, how many steps of it, and how many make a column. */
const SPANS = {
    minutes: { text: '5 min', ask: 'hour', steps: 300, size: 2 },
    hour: { text: 'Hour', ask: 'hour', steps: 3600, size: 15 },
    day: { text: 'Day', ask: 'day', steps: 1440, size: 5 },
};
const MEAN = 5; // seconds that the large numbers are means of
const SLOW = 10000; // milliseconds between looks at what changes slowly

const FIGURES = [
    ['decided', 'Decisions', 'first', 'allowed and refused'],
    ['allowed', 'Allowed', '', 'admitted, delayed ones included'],
    ['refused', 'Refused', '', 'over a limit, denied, banned or paused'],
    ['share', 'Share refused', '', 'of all decisions'],
    ['near', 'Near the limit', '', 'admissions that left less than a fifth'],
    ['delayed', 'Delayed', '', 'admitted after a wait'],
    ['shadowed', 'Shadow refusals', '', 'admitted, and refused but for shadow mode'],
    ['unmatched', 'Unmatched', '', 'no rule applied'],
    ['waiting', 'Waiting in line', '', 'requests that wait now'],
    ['p50', 'Latency p50', '', 'half of the decisions took no longer, over all protocols'],
    ['p99', 'Latency p99', '', '99 % of the decisions took no longer, over all protocols'],
];

function figures() {
    const cells = {};
    const element = el(
        'dl',
        { class: 'figures' },
        FIGURES.map(([key, label, className, title]) => {
            cells[key] = el('dd', {}, '–');
            return el('div', { class: className || null, title, 'data-figure': key }, el('dt', {}, label), cells[key]);
        }),
    );
    const rate = (key, value) => {
        replace(cells[key], count(value), value === null ? null : el('span', { class: 'unit' }, '/s'));
        cells[key].title = `${exact(value)} per second, mean of the last ${MEAN} seconds`;
    };
    return {
        element,
        show(total) {
            const mean = (key) => recent(total[key], MEAN, 1);
            const allowed = mean('allowed');
            const refused = mean('refused');
            rate('decided', allowed === null ? null : allowed + refused);
            for (const key of ['allowed', 'refused', 'near', 'delayed', 'shadowed', 'unmatched']) rate(key, mean(key));
            cells.refused.parentElement.classList.toggle('wrong', refused > 0);
            setText(cells.share, allowed + refused ? percent(refused / (allowed + refused)) : '–');
            for (const key of ['p50', 'p99']) {
                const known = total[key].slice(-30).filter((value) => value !== null);
                setText(cells[key], latency(known.at(-1) ?? null));
            }
            setText(cells.waiting, live.line ? count(live.line.waiting) : '–');
            return mean('unmatched');
        },
    };
}

/** Said while requests meet no rule. No live region: the number changes each second. */
function unmatchedHint() {
    const number = el('span');
    const element = el(
        'div',
        { class: 'notice warning', hidden: true },
        el(
            'p',
            {},
            el('strong', {}, number, ' requests per second meet no rule'),
            ', and nothing limits them. ',
            el('a', { href: '#/try' }, 'Try one'),
            ' to see why rules do not apply to it, or add a rule without ',
            el('code', {}, 'when'),
            ' for everything else.',
        ),
    );
    return {
        element,
        show(rate) {
            element.hidden = !rate;
            if (rate) setText(number, count(rate));
        },
    };
}

function memoryFacts(line, status) {
    const part = line.capacity ? line.live_keys / line.capacity : 0;
    const fill = el('span');
    fill.style.width = `${Math.min(100, part * 100)}%`;
    return [
        facts([
            [
                'Live keys',
                el(
                    'span',
                    { title: `${exact(line.live_keys)} of ${exact(line.capacity)}` },
                    `${count(line.live_keys)} of ${count(line.capacity)} (${percent(part)})`,
                ),
            ],
            ['Table', bytes(status.memory.bytes)],
            [
                'Forgotten',
                el(
                    'span',
                    { title: 'live keys that were forgotten because the table was full' },
                    exact(status.memory.evictions),
                ),
            ],
            ['Store', storeTag(line.store)],
            ['Up for', duration(status.uptime)],
            ['Rules', `version ${status.rules.version}, from ${status.rules.source === 'api' ? 'this API' : 'files'}`],
        ]),
        el('span', { class: 'bar', 'aria-hidden': 'true' }, fill),
    ];
}

function storeTag(store) {
    if (store === null || store === undefined) return 'local, no Redis';
    return store === 'up'
        ? el('span', { class: 'tag good' }, 'Redis is up')
        : el('span', { class: 'tag bad' }, 'Redis is down');
}

export async function open(root) {
    const numbers = figures();
    const hint = unmatchedHint();
    const chart = stackedChart('Decisions per second', 240);
    const rules = rulesTable({ pageSize: 25 });
    const topList = el('div');
    const memory = el('div', { class: 'stack' }, empty('…'));
    const troubles = el('div');
    const stop = new AbortController();
    let span = 'minutes';
    let seconds = null; // the history by the second
    let minutes = null;
    let status = null;

    function draw() {
        const { ask, steps, size } = SPANS[span];
        const history = ask === 'hour' ? seconds : minutes;
        if (!history) return;
        chart.draw(chartData(history, history.total, steps, size));
    }

    function showNow() {
        hint.show(numbers.show(seconds.total));
    }

    async function loadHistory() {
        try {
            seconds = keepKnown(seconds, await readHistory('hour', [], { signal: stop.signal }));
            if (span === 'day') minutes = keepKnown(minutes, await readHistory('day', [], { signal: stop.signal }));
            showNow();
            draw();
        } catch (error) {
            if (!stop.signal.aborted && error.status !== 0) replace(troubles, failure(error));
        }
    }

    async function loadSlowly() {
        try {
            status = await get('/v1/status', { signal: stop.signal });
            if (!topList.matches(':hover') && !topList.contains(document.activeElement))
                await showTop(topList, { count: 8, signal: stop.signal });
            replace(
                troubles,
                status.rules.last_reload_failed
                    ? notice(
                          'warning',
                          'The rules files have errors: the rules from before are in force. The log says what is wrong; ',
                          el('a', { href: '#/versions' }, 'read the files again'),
                          ' when they are mended.',
                      )
                    : null,
            );
            if (live.line) replace(memory, memoryFacts(live.line, status));
            if (span === 'day') {
                minutes = keepKnown(minutes, await readHistory('day', [], { signal: stop.signal }));
                draw();
            }
        } catch (error) {
            if (!stop.signal.aborted && error.status !== 0) replace(troubles, failure(error));
        }
    }

    replace(
        root,
        el('h1', { class: 'unseen' }, 'Overview'),
        troubles,
        el('section', { class: 'panel', 'aria-label': 'Now' }, numbers.element),
        hint.element,
        panel(
            'decisions',
            'Decisions per second',
            choice(
                'Span',
                Object.entries(SPANS).map(([key, { text }]) => [key, text]),
                span,
                (chosen) => {
                    span = chosen;
                    if (span === 'day' && !minutes) loadHistory();
                    else draw();
                },
            ),
            chart.element,
        ),
        el(
            'div',
            { class: 'split' },
            panel('rules-now', 'Rules', el('span', { class: 'sub small' }, 'means of about a minute'), rules.element),
            el(
                'div',
                { class: 'stack' },
                panel('limited', 'Refused most', el('a', { href: '#/clients' }, 'Clients'), topList),
                panel('memory', 'Memory and store', el('a', { href: '#/nodes' }, 'Nodes'), memory),
            ),
        ),
    );

    const unlisten = [
        listen('line', (line) => {
            if (!seconds) return;
            if (line.time - seconds.end > 3) loadHistory(); // lines were lost: the history has them
            appendLine(seconds, seconds.total, line, line.total);
            seconds.end = Math.max(seconds.end, line.time);
            showNow();
            if (span === 'minutes' || (span === 'hour' && line.time % 5 === 0)) draw();
            if (status) replace(memory, memoryFacts(line, status));
        }),
        listen('state', (state) => state === 'live' && (loadHistory(), loadSlowly())),
    ];
    const timer = setInterval(() => live.state === 'live' && loadSlowly(), SLOW);
    await Promise.all([loadHistory(), loadSlowly()]);
    return () => {
        clearInterval(timer);
        unlisten.forEach((end) => end());
        rules.close();
        chart.close();
        stop.abort();
    };
}
