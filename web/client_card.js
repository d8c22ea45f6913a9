// SPDX-License-Identifier: Apache-2.0
// What one client has under one rule, with what can be done to it.

import { get, query } from './api.js';
import { attributeList } from './attributes.js';
import { adjust, ban, deleteOverride, endPause, lift, override, pauseClient, reset } from './client_actions.js';
import { changeButton, facts } from './controls.js';
import { el, given, replace } from './dom.js';
import { listWords, unusedWords } from './explain_words.js';
import { count, duration, exact, moment, percent, plural } from './format.js';

/** Who it is, and what is done to the client as a whole. */
export function clientHead({ attributes, explained }, refresh) {
    const then = (action) => () => action().then((done) => done && refresh());
    return el(
        'section',
        { class: 'panel stack', 'aria-label': 'The client' },
        el(
            'div',
            { class: 'head' },
            el('h2', {}, attributeList(attributes)),
            el(
                'div',
                { class: 'row' },
                changeButton('Ban…', then(() => ban(attributes, explained))),
                changeButton('Pause…', then(() => pauseClient(attributes))),
            ),
        ),
        explained.decision.banned
            ? el(
                  'p',
                  {},
                  el('span', { class: 'tag bad' }, 'banned'),
                  explained.decision.rule
                      ? [' by the rule ', given(explained.decision.rule, 'name')]
                      : ' by an operator',
                  explained.decision.retry_after ? `, for ${duration(explained.decision.retry_after)} more` : '',
              )
            : null,
        unusedWords(explained.request),
        explained.list ? el('p', {}, listWords(explained.list)) : null,
    );
}

function limitFacts(limit) {
    const spent = limit.limit === null ? 0 : limit.limit - limit.remaining;
    const fill = el('span');
    fill.style.width = `${limit.limit ? Math.max(0, Math.min(100, (100 * limit.remaining) / limit.limit)) : 100}%`;
    return el(
        'div',
        { class: 'limit' },
        el(
            'p',
            { class: 'figure' },
            el(
                'span',
                { class: 'big', title: exact(limit.remaining) },
                limit.limit === null ? 'unlimited' : count(limit.remaining),
            ),
            limit.limit === null ? null : el('span', { class: 'sub' }, ` of ${count(limit.limit)} left`),
        ),
        limit.limit === null ? null : el('span', { class: 'bar', 'aria-hidden': 'true' }, fill),
        facts([
            [
                'Limit',
                el(
                    'span',
                    {},
                    given(limit.text),
                    limit.override ? [' ', el('span', { class: 'tag warn' }, 'override')] : null,
                    limit.shadow ? [' ', el('span', { class: 'tag shadow' }, 'shadow')] : null,
                ),
            ],
            limit.algorithm !== limit.text && ['Algorithm', given(limit.algorithm)],
            limit.factor !== undefined &&
                limit.factor !== 1 && ['Factor', `${percent(limit.factor)} of the limit as written`],
            limit.limit !== null && ['Spent', exact(spent)],
            limit.reset_after > 0 && ['All back in', duration(limit.reset_after)],
            limit.retry_after > 0 && ['Next one in', duration(limit.retry_after)],
            limit.line && [
                'In line',
                `${plural(limit.line.waiting, 'request')}, ${exact(limit.line.ahead)} ahead, opens in ${duration(limit.line.opens_after)}`,
            ],
            limit.best_latency > 0 && ['Best latency', duration(limit.best_latency)],
        ]),
    );
}

function reputationFacts({ escalate, earn }) {
    return [
        escalate && [
            'Bans by the rule',
            el(
                'span',
                {},
                escalate.banned
                    ? [
                          el('span', { class: 'tag bad' }, 'banned'),
                          ` for ${duration(escalate.ends_after)}, level ${escalate.level}`,
                      ]
                    : 'not banned',
                el(
                    'span',
                    { class: 'sub-line' },
                    `${plural(escalate.refusals, 'refusal')} of ${escalate.after} within ${duration(escalate.within)}; the next ban is ${duration(escalate.next_ban)}`,
                ),
            ),
        ],
        earn && ['Earned', `${percent(earn.earned ?? 1)} of the limit as written`],
    ];
}

/** Usage of the client in this period under the rule, if the rule counts any. */
async function usageOf(rule, key, signal) {
    const { usage } = await get(`/v1/usage${query({ client: key, period: 'current' })}`, { signal });
    return usage
        .filter((row) => row.rule === rule)
        .map((row) => [
            `Usage in ${row.period}`,
            `${exact(row.units)} units: ${exact(row.admitted)} admitted, ${exact(row.refused)} refused${row.corrected ? `, ${exact(row.corrected)} corrected` : ''}`,
        ]);
}

export function clientCard(rule, { attributes, state, explained }, refresh, signal) {
    const limits = state.limits.filter((limit) => limit.rule === rule);
    const reputation = state.reputation?.find((one) => one.rule === rule);
    const paused = state.paused?.find((one) => one.rule === rule);
    const seen = explained.rules.find((one) => one.rule === rule);
    const refusals = state.refusals?.find((one) => one.rule === rule)?.last ?? [];
    const client = { rule, attributes, key: seen?.key ?? {}, limits };
    const more = el('div');
    const then = (action) => () => action(client).then((result) => result && refresh());
    const hasOverride = limits.some((limit) => limit.override);
    usageOf(rule, Object.values(client.key).join(' '), signal).then(
        (rows) => rows.length && replace(more, facts(rows)),
        () => {},
    );

    return el(
        'section',
        { class: 'panel stack client', 'aria-label': `Rule ${rule}` },
        el(
            'div',
            { class: 'head' },
            el('h3', {}, el('a', { href: `#/rules/${encodeURIComponent(rule)}` }, given(rule, 'name'))),
            el(
                'span',
                { class: 'sub' },
                'key ',
                Object.keys(client.key).length ? attributeList(client.key) : 'none: one counter for all',
                seen?.tier ? [' · tier ', given(seen.tier)] : null,
            ),
        ),
        el('div', { class: 'limits' }, limits.map(limitFacts)),
        paused || reputation || refusals.length
            ? facts([
                  paused && ['Paused', `for ${duration(paused.rest)} more`],
                  ...(reputation ? reputationFacts(reputation) : []),
                  refusals.length > 0 && ['Last refusals', refusals.map((at) => moment(at)).join(', ')],
              ])
            : null,
        more,
        el(
            'div',
            { class: 'row' },
            changeButton('Reset…', then(reset)),
            changeButton('Adjust…', then(adjust)),
            changeButton(hasOverride ? 'Change override…' : 'Override…', then(override), {
                disabled: !Object.keys(client.key).length,
            }),
            hasOverride ? changeButton('Delete override…', then(deleteOverride)) : null,
            reputation?.escalate ? changeButton('Lift ban…', then(lift)) : null,
            paused ? changeButton('End pause…', then(endPause)) : null,
        ),
    );
}
