// SPDX-License-Identifier: Apache-2.0
// What nodes share: Redis with its servers, breaker, leases and clocks, and the other nodes. From /metrics.

import { empty, facts, table } from './controls.js';
import { el, given } from './dom.js';
import { exact, latency, plural } from './format.js';

const LARGE_SKEW = 0.01; // seconds: the alert of deploy/prometheus says so, too

export const upTag = (up, yes = 'up', no = 'down') =>
    el('span', { class: `tag ${up ? 'good' : 'bad'}` }, up ? yes : no);

export function storePart({ metrics }) {
    const up = metrics.value('ration_store_up');
    if (up === null)
        return empty(
            'This rationd keeps its limits for itself: there is no Redis. ',
            el('code', {}, '--redis URL'),
            ' shares them with other nodes.',
        );
    const skew = metrics.all('ration_store_clock_skew_seconds');
    const total = (name) => metrics.value(`ration_${name}_total`) ?? 0;
    const servers = metrics.all('ration_store_server_up');
    return el(
        'div',
        { class: 'stack' },
        facts([
            ['Redis', upTag(up === 1)],
            [
                'Breaker',
                `opened ${plural(total('store_breaker_opened'), 'time')}; ${exact(total('store_turned_away'))} charges were not sent`,
            ],
            [
                'Charges',
                `${exact(total('store_charges'))}, ${exact(total('store_answered'))} answered in time, ${exact(total('store_late'))} late, ${exact(total('store_failed'))} failed`,
            ],
            [
                'Decided without it',
                metrics
                    .all('ration_store_fallbacks_total')
                    .map(({ labels, value }) => `${labels.policy} ${exact(value)}`)
                    .join(', ') || 'none',
            ],
            [
                'Leases',
                `${plural(metrics.value('ration_leased_keys') ?? 0, 'key')} held, ${exact(total('leased_decided'))} decided here, ${exact(total('leased_passed_on'))} by Redis`,
            ],
            [
                'Leased units',
                `${exact(total('leased_granted_units'))} granted, ${exact(total('leased_returned_units'))} returned, ${exact(total('leased_burnt_units'))} burnt`,
            ],
        ]),
        table(
            'Servers of the store',
            [
                { label: 'Server', cell: ({ labels }) => el('code', {}, given(labels.server)) },
                { label: 'State', cell: ({ value }) => upTag(value === 1) },
                {
                    label: 'Clock skew',
                    number: true,
                    cell: ({ labels }) => {
                        const found = skew.find((one) => one.labels.server === labels.server)?.value ?? null;
                        return found === null
                            ? '–'
                            : el(
                                  'span',
                                  { class: Math.abs(found) > LARGE_SKEW ? 'more-refused' : null },
                                  `${found < 0 ? '\u2212' : '+'}${latency(Math.abs(found))}${Math.abs(found) > LARGE_SKEW ? ', too much' : ''}`,
                              );
                    },
                },
            ],
            servers,
        ),
    );
}

export function fleetFacts({ metrics }) {
    const nodes = metrics.value('ration_fleet_nodes');
    if (nodes === null) return empty('No other nodes: rules, overrides and bans set here hold here.');
    return facts([
        ['Nodes', nodes === 0 ? 'not known yet' : exact(nodes)],
        ['In step', upTag(metrics.value('ration_fleet_synced') === 1, 'yes', 'no')],
        [
            'Changes of others',
            `${exact(metrics.value('ration_fleet_taken_total') ?? 0)} taken, ${exact(metrics.value('ration_fleet_refused_total') ?? 0)} refused`,
        ],
        ['Changes of this node', `${exact(metrics.value('ration_fleet_published_total') ?? 0)} published`],
        ['Questions without an answer', exact(metrics.value('ration_fleet_failed_total') ?? 0)],
    ]);
}
