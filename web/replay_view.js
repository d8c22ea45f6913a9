// SPDX-License-Identifier: Apache-2.0
// A replay that replay_file.js has read: what was refused, when, by rule and by client.

import { stackedChart } from './chart.js';
import { empty, facts, table } from './controls.js';
import { el, replace } from './dom.js';
import { count, duration, exact, percent, plural, when } from './format.js';
import { findingsView, shortened } from './findings_view.js';
import { findingsOf } from './report_findings.js';

const ROWS = 100; // of a table

const number = (value) => el('span', { title: exact(value) }, count(value));
const ofAll = (part, whole) => (whole ? `${exact(part)} of ${exact(whole)} (${percent(part / whole)})` : '0');
const moment = (text) => (text === null ? '–' : when(text));
const spanOf = ({ first, last }) =>
    first === null ? el('span', { class: 'sub' }, 'never') : `${moment(first)} to ${moment(last)}`;
const longFor = (seconds) => (seconds ? duration(seconds) : '–');

/** Clients that a rule or a side has seen and refused. Beyond the memory of a replay they are estimates. */
function clientsOf({ seen, refused, exact: counted }) {
    return `${counted ? '' : 'about '}${ofAll(refused, seen)}`;
}

function summary(replay) {
    const { replayed, by } = replay;
    return facts([
        [
            'Logs',
            el(
                'ul',
                { class: 'plain' },
                replay.logs
                    .slice(0, ROWS)
                    .map((log) =>
                        el(
                            'li',
                            {},
                            shortened(log.file),
                            `: ${plural(log.requests, 'request')} in ${plural(log.lines, 'line')}`,
                        ),
                    ),
            ),
        ],
        ['Rules', shortened(replayed.rules_file)],
        ['Time', replay.from === null ? 'no requests' : `${moment(replay.from)} to ${moment(replay.to)}`],
        ['Requests refused', ofAll(replayed.refused, replayed.requests)],
        ['Clients refused', [clientsOf(replayed.clients), ', by ', shortened(by)]],
        replayed.delayed && ['Requests delayed', ofAll(replayed.delayed, replayed.requests)],
        replayed.shadowed && ['Shadow refusals', ofAll(replayed.shadowed, replayed.requests)],
        ['Requests without a rule', ofAll(replayed.unmatched, replayed.requests)],
    ]);
}

function changes({ against, changes: change }) {
    const words = (both, more, fewer) =>
        `${exact(both)} refused by both, ${exact(more)} newly refused, ${exact(fewer)} no longer refused`;
    return facts([
        ['Compared with', shortened(against.rules_file)],
        ['Requests', words(change.refused_by_both, change.newly_refused, change.no_longer_refused)],
        [
            'Clients',
            words(change.clients_refused_by_both, change.clients_newly_refused, change.clients_no_longer_refused),
        ],
    ]);
}

/** Says that a table has not all of them. */
function cut(list, one) {
    if (list.length <= ROWS) return null;
    return el(
        'p',
        { class: 'sub small' },
        `The first ${ROWS} of ${plural(list.length, one)}; the others are in the file.`,
    );
}

function rulesTable(rules) {
    const sorted = rules.toSorted((a, b) => b.refused - a.refused);
    return [
        table(
            'Rules of the replay',
            [
                { label: 'Rule', cell: (rule) => shortened(rule.rule, 'name') },
                { label: 'Requests', number: true, cell: (rule) => number(rule.requests) },
                { label: 'Refused', number: true, cell: (rule) => number(rule.refused) },
                { label: 'Shadow', number: true, cell: (rule) => number(rule.shadowed) },
                { label: 'Delayed', number: true, cell: (rule) => number(rule.delayed) },
                { label: 'Clients refused', number: true, cell: (rule) => clientsOf(rule.clients) },
                { label: 'Refused or delayed', whole: true, cell: spanOf },
            ],
            sorted.slice(0, ROWS),
        ),
        cut(sorted, 'rule'),
    ];
}

function clientsTable(top) {
    if (!top.length) return empty('No client would have been refused or delayed.');
    return [
        table(
            'Clients limited most',
            [
                { label: 'Client', cell: (row) => shortened(row.client, 'name') },
                { label: 'Rule', whole: true, cell: (row) => shortened(row.rule) },
                { label: 'Refused', number: true, cell: (row) => number(row.refused) },
                { label: 'Of', number: true, cell: (row) => number(row.requests) },
                { label: 'Limited for', number: true, cell: (row) => longFor(row.limited_for) },
                { label: 'Refused or delayed', whole: true, cell: spanOf },
            ],
            top.slice(0, ROWS),
        ),
        cut(top, 'client'),
    ];
}

/** The unit in which a rate per second has a figure before the point. */
function unitOf(peak) {
    const units = { second: 1, minute: 60, hour: 3600, day: 86400 };
    const per = Object.keys(units).find((name) => peak * units[name] >= 1) ?? 'day';
    return { per, length: units[per] };
}

/** What the chart draws: counts of columns become rates. A replay has no row of shadow refusals. */
function chartOf({ from, width, allowed, delayed, refused }) {
    const sums = allowed.map((n, i) => n + delayed[i] + refused[i]);
    const { per, length } = unitOf(Math.max(...sums) / width);
    const rates = (counts) => counts.map((n) => (n / width) * length);
    return {
        stack: {
            allowed: rates(allowed),
            delayed: rates(delayed),
            refused: rates(refused),
            shadowed: allowed.map(() => 0),
        },
        end: Date.parse(from) / 1000 + allowed.length * width,
        seconds: width,
        per,
    };
}

/**
 * The parts of the page. draw() when they are on it; judge(permille) draws the conclusions; close() ends the chart.
 */
export function replayView(replay) {
    const chart = stackedChart('Requests of the log over time', 220);
    const conclusions = el('div', { class: 'stack' });
    const { timeline, replayed, notes } = replay;
    const part = (title, ...children) => el('div', { class: 'stack tight' }, el('h3', {}, title), children);
    const over = [
        chart.element,
        el('p', { class: 'sub small' }, `One column is ${duration(timeline.width)}. Times are in your time zone.`),
    ];
    const rules = replayed.rules.length ? rulesTable(replayed.rules) : empty('There are no rules in the replay.');
    const list = notes.slice(0, ROWS).map((note) => el('li', {}, shortened(note)));
    return {
        element: el(
            'div',
            { class: 'stack' },
            summary(replay),
            replay.against ? part('What changes', changes(replay)) : null,
            part('Over time', timeline.allowed.length ? over : empty('The log has no requests.')),
            part('Rules', rules),
            part('Clients limited most', clientsTable(replayed.top)),
            conclusions,
            notes.length ? part('Notes', el('ul', { class: 'findings' }, list)) : null,
        ),
        draw: () => timeline.allowed.length && chart.draw(chartOf(timeline)),
        judge(permille) {
            const findings = findingsOf(replayed, permille);
            replace(
                conclusions,
                findings.length ? findingsView(findings, { linked: false }) : empty('The report finds nothing in it.'),
            );
        },
        close: () => chart.close(),
    };
}
