// SPDX-License-Identifier: Apache-2.0
// Nodes and store: this rationd, its listeners and memory, Redis with its breaker, leases and clocks, the fleet,
// signals and factors, lines.

import { get, getText } from './api.js';
import { empty, facts, failure, notice, panel, table } from './controls.js';
import { el, given, replace } from './dom.js';
import { bytes, count, duration, exact, latency, percent, plural, when } from './format.js';
import { listen, live } from './live.js';
import { parseMetrics } from './metrics.js';
import { fleetFacts, storePart, upTag } from './store_parts.js';
import { session } from './session.js';

const REFRESH = 5000;

const number = (value) => el('span', { title: exact(value) }, count(value));

function nodeFacts({ status, ready, metrics }) {
    const cpu = metrics.value('process_cpu_seconds_total');
    return facts([
        ['Node', session.node ? given(session.node, 'name') : 'one node, no fleet'],
        [
            'Takes requests',
            ready.ready ? upTag(true, 'yes') : el('span', {}, upTag(false, '', 'no'), ' ', given(ready.reason)),
        ],
        ['Version', status.version],
        ['Up for', duration(status.uptime)],
        ['Threads', exact(status.workers)],
        [
            'CPU time used',
            cpu === null ? '–' : `${duration(cpu)} (${percent(cpu / status.uptime)} of a core, on average)`,
        ],
        ['Memory of the process', bytes(metrics.value('process_resident_memory_bytes') ?? 0)],
        [
            'Rules',
            `${plural(status.rules.count, 'rule')}, version ${status.rules.version}, from ${status.rules.source === 'api' ? 'this API' : 'files'} since ${when(status.rules.loaded_at)}`,
        ],
        ['Last reading of files', upTag(!status.rules.last_reload_failed, 'in order', 'failed')],
        ['Mode', status.shadow ? el('span', { class: 'tag shadow' }, 'shadow: nothing is refused') : 'enforces'],
    ]);
}

function memoryFacts({ status, metrics }) {
    const { memory } = status;
    const pause = metrics.value('ration_pause_rest_seconds');
    return facts([
        [
            'Live keys',
            el(
                'span',
                { title: exact(memory.live_keys) },
                `${count(memory.live_keys)} of ${count(memory.capacity)} (${percent(memory.live_keys / memory.capacity)})`,
            ),
        ],
        ['Table', bytes(memory.bytes)],
        ['Large states', `${bytes(memory.block_bytes_used)} of ${bytes(memory.block_bytes)}`],
        [
            'Forgotten keys',
            el('span', { title: 'live keys that were forgotten because the table was full' }, exact(memory.evictions)),
        ],
        ['Overrides', exact(metrics.value('ration_overrides') ?? 0)],
        [
            'Bans',
            `${exact(metrics.value('ration_bans') ?? 0)} by operators, ${exact(metrics.value('ration_reputation_banned') ?? 0)} by rules`,
        ],
        ['Last pause ends in', pause ? duration(pause) : 'no pause now'],
        ['Usage', `${exact(metrics.value('ration_usage_entries') ?? 0)} clients and periods`],
    ]);
}

function lineFacts({ status, metrics }) {
    const result = (name) => metrics.value('ration_waited_total', { result: name }) ?? 0;
    const refused = (reason) => metrics.value('ration_wait_refused_total', { reason }) ?? 0;
    return facts([
        [
            'Waiting now',
            `${plural(status.waiting.requests, 'request')} in ${plural(status.waiting.lines, 'line')}, ${exact(status.waiting.most)} at most`,
        ],
        ['Admitted after waiting', exact(result('admitted'))],
        ['Gave up', exact(result('left'))],
        ['Waited in vain', exact(result('timed_out'))],
        ['Refused on arrival', `${exact(refused('full'))} full, ${exact(refused('late'))} too late`],
    ]);
}

function listenerTable({ status, metrics }) {
    return table(
        'Listeners',
        [
            { label: 'Listener', cell: ([name]) => el('strong', {}, name) },
            { label: 'Address', whole: true, cell: ([, address]) => el('code', {}, given(address)) },
            { label: 'Open', number: true, cell: ([name]) => exact(status.connections[name]?.open) },
            { label: 'Accepted', number: true, cell: ([name]) => number(status.connections[name]?.accepted) },
            { label: 'Refused', number: true, cell: ([name]) => number(status.connections[name]?.refused) },
            {
                label: 'Requests',
                number: true,
                cell: ([name]) => number(metrics.value('ration_requests_total', { protocol: name })),
            },
            {
                label: 'Errors',
                number: true,
                cell: ([name]) => number(metrics.value('ration_bad_requests_total', { protocol: name })),
            },
            {
                label: 'Wrong tokens',
                number: true,
                cell: ([name]) => number(metrics.value('ration_wrong_tokens_total', { protocol: name })),
            },
        ],
        Object.entries(status.listeners).filter(([, address]) => address),
    );
}

function signalValue({ value, unit }) {
    if (value === null) return '–';
    if (unit === 'share') return percent(value);
    if (unit === 'duration' || unit === 'seconds') return latency(value);
    return count(value);
}

function signalPart({ signals }) {
    if (!signals.signals.length && !signals.factors.length) return empty('The rules follow no signals.');
    return el(
        'div',
        { class: 'pair' },
        table(
            'Signals',
            [
                { label: 'Signal', cell: (one) => given(one.name, 'name') },
                { label: 'Source', cell: (one) => given(one.source) },
                {
                    label: 'Value',
                    number: true,
                    cell: (one) => el('span', { title: exact(one.value) }, signalValue(one)),
                },
                { label: 'Age', number: true, cell: (one) => (one.age === null ? 'never had one' : duration(one.age)) },
                { label: 'Counts', cell: (one) => upTag(!one.stale, 'yes', 'stale') },
            ],
            signals.signals,
        ),
        signals.factors.length
            ? table(
                  'Factors',
                  [
                      {
                          label: 'Rule',
                          cell: (one) => el('a', { href: `#/rules/${encodeURIComponent(one.rule)}` }, given(one.rule)),
                      },
                      {
                          label: 'Factor',
                          number: true,
                          cell: (one) =>
                              el(
                                  'span',
                                  { class: one.factor < 1 ? 'more-refused' : null, title: exact(one.factor) },
                                  percent(one.factor),
                              ),
                      },
                      {
                          label: 'Of the fleet',
                          number: true,
                          cell: (one) =>
                              one.fleet
                                  ? el(
                                        'span',
                                        {},
                                        percent(one.fleet.factor),
                                        one.fleet.node ? [' by ', given(one.fleet.node)] : null,
                                    )
                                  : '–',
                      },
                  ],
                  signals.factors,
              )
            : empty('No rule follows them.'),
    );
}

/** 503 is an answer here: rationd does not take requests, and says why. */
async function readReady(signal) {
    try {
        return await get('/readyz', { signal });
    } catch (error) {
        if (error.status === 503) return error.body;
        throw error;
    }
}

export async function open(root) {
    const stop = new AbortController();
    const { signal } = stop;
    const parts = {
        node: nodeFacts,
        listeners: listenerTable,
        memory: memoryFacts,
        lines: lineFacts,
        store: storePart,
        fleet: fleetFacts,
        signals: signalPart,
    };
    const places = Object.fromEntries(Object.keys(parts).map((key) => [key, el('div')]));
    const trouble = el('div');
    const part = (key, title) => panel(`part-${key}`, title, null, places[key]);

    async function load() {
        try {
            const [status, ready, text, signals] = await Promise.all([
                get('/v1/status', { signal }),
                readReady(signal),
                getText('/metrics?rules=none', { signal }),
                get('/v1/signals', { signal }),
            ]);
            const read = { status, ready, signals, metrics: parseMetrics(text) };
            // What has the focus stays, and is not read to its end again.
            for (const [key, make] of Object.entries(parts))
                if (!places[key].contains(document.activeElement)) replace(places[key], make(read));
            replace(
                trouble,
                ready.ready ? null : notice('warning', 'This rationd takes no requests: ', given(ready.reason), '.'),
            );
        } catch (error) {
            if (!signal.aborted && error.status !== 0) replace(trouble, failure(error));
        }
    }

    replace(
        root,
        el('h1', {}, 'Nodes and store'),
        trouble,
        el('div', { class: 'pair' }, part('node', 'This node'), part('store', 'Store')),
        el('div', { class: 'pair' }, part('memory', 'Memory'), part('lines', 'Lines')),
        part('listeners', 'Listeners and connections'),
        part('signals', 'Signals and factors'),
        part('fleet', 'Fleet'),
    );
    await load();
    const timer = setInterval(() => live.state === 'live' && load(), REFRESH);
    const unlisten = listen('state', (state) => state === 'live' && load());
    return () => {
        clearInterval(timer);
        unlisten();
        stop.abort();
    };
}
