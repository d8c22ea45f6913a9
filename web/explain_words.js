// SPDX-License-Identifier: Apache-2.0
// What /v1/explain tells, as sentences.

import { attributeList } from './attributes.js';
import { empty, table } from './controls.js';
import { el, given } from './dom.js';
import { count, duration, exact, percent, plural } from './format.js';

/** An entry of a list decides in the place of the rules. */
export function listWords(list) {
    const why = list.conditions.map((condition, i) => [i ? '; ' : null, given(condition.text)]);
    const where = given(`${list.file.split('/').pop()}:${list.line}`);
    return [`An entry of the list ${list.list} decides, and no rule (`, where, '): ', why, '.'];
}

/** Why the whole request is allowed or refused. */
function reasonOf({ decision, list, rules }) {
    const name = decision.rule === null ? null : given(decision.rule, 'name');
    if (list) return listWords(list);
    if (decision.banned)
        return name
            ? [name, ` has banned the client, for ${duration(decision.retry_after)} more.`]
            : [
                  `An operator has banned it, ${decision.retry_after ? `for ${duration(decision.retry_after)} more` : 'until the ban is lifted'}.`,
              ];
    if (decision.paused)
        return [
            'The client is paused',
            name ? [' under ', name] : null,
            `, for ${duration(decision.retry_after)} more.`,
        ];
    if (!rules.some((rule) => rule.applies)) return ['No rule applies to it, so nothing limits it.'];
    if (!decision.allowed) {
        return [
            name ?? 'A rule',
            ' has no room for it. ',
            decision.retry_after === null
                ? 'It never will have.'
                : `It would be allowed in ${duration(decision.retry_after)}.`,
        ];
    }
    if (decision.limit === null) return [name ?? 'The rule', ' sets no limit for it.'];
    return [
        name,
        ` is nearest to its limit: ${exact(decision.remaining)} of ${exact(decision.limit)} are left before it.`,
    ];
}

/** Attributes that decide nothing as they are given; null: all do. */
export function unusedWords(request) {
    const unused = request.filter((one) => one.unused);
    if (!unused.length) return null;
    return el(
        'p',
        { class: 'sub' },
        'Not used: ',
        unused.map((one, i) => [
            i ? ', ' : null,
            el('code', {}, given(one.attribute)),
            one.meant ? [' (did you mean ', el('code', {}, given(one.meant)), '?)'] : null,
        ]),
        '. No rule looks at it, or the rules take it from another attribute, such as a header.',
    );
}

export function decisionWords(answer, attributes) {
    const { decision } = answer;
    return el(
        'section',
        { class: 'panel stack', 'aria-label': 'Decision' },
        el(
            'h2',
            { class: decision.allowed ? 'verdict' : 'verdict refused-text' },
            decision.allowed
                ? decision.delay > 0
                    ? `Allowed after ${duration(decision.delay)}`
                    : 'Allowed'
                : 'Refused',
        ),
        el('p', {}, attributeList(attributes)),
        el('p', {}, reasonOf(answer)),
        decision.shadow ? el('p', {}, 'A rule in shadow mode would have refused it.') : null,
        unusedWords(answer.request),
        answer.derived?.length
            ? el(
                  'p',
                  { class: 'sub' },
                  'Rules take from the request: ',
                  answer.derived.map((one, i) => [
                      i ? ', ' : null,
                      el('code', {}, given(one.attribute), '=', given(one.value)),
                  ]),
                  '.',
              )
            : null,
        answer.readings?.length > 1
            ? el(
                  'p',
                  { class: 'sub' },
                  'The path may be read in several ways: ',
                  answer.readings.map((one, i) => [i ? ', ' : null, el('code', {}, given(one))]),
                  '.',
              )
            : null,
    );
}

function chargeWords(rule, limit) {
    if (limit.limit === null) return 'No limit, nothing is charged.';
    const room = limit.retry_after === 0 && limit.remaining >= rule.cost;
    const left = room
        ? `${exact(limit.remaining - rule.cost)} of ${exact(limit.limit)} would be left`
        : `${exact(limit.remaining)} of ${exact(limit.limit)} are left, so it has no room`;
    return `Would charge ${plural(rule.cost, 'unit')}: ${left}${limit.reset_after > 0 ? `; all are back in ${duration(limit.reset_after)}` : ''}.`;
}

/** A rule that applies: why, by which key and tier, what would be charged. */
export function ruleWords(rule, decision) {
    const key = rule.key && Object.keys(rule.key).length;
    return el(
        'section',
        { class: 'panel stack tight', 'aria-label': `Rule ${rule.rule}` },
        el(
            'div',
            { class: 'head' },
            el('h3', {}, el('a', { href: `#/rules/${encodeURIComponent(rule.rule)}` }, given(rule.rule, 'name'))),
            el('span', { class: 'sub small' }, given(`${rule.file.split('/').pop()}:${rule.line}`)),
            rule.shadow ? el('span', { class: 'tag shadow' }, 'shadow') : null,
            decision.rule === rule.rule ? el('span', { class: 'tag' }, 'decides') : null,
        ),
        el('p', {}, 'Applies: ', given(rule.reason), '.'),
        el(
            'p',
            {},
            key ? ['Counts by ', attributeList(rule.key), '.'] : 'One counter for all requests.',
            rule.tier
                ? [
                      ' Tier ',
                      given(rule.tier, 'name'),
                      rule.tier_value === null
                          ? [' by default: ', given(rule.tier_attribute), ' is absent.']
                          : [', by ', given(rule.tier_attribute), '.'],
                  ]
                : null,
        ),
        rule.paused_for ? el('p', {}, `Paused for ${duration(rule.paused_for)} more.`) : null,
        rule.limits.map((limit) =>
            el(
                'p',
                {},
                el('strong', {}, given(limit.text)),
                limit.factor !== undefined && limit.factor !== 1 ? ` (${percent(limit.factor)} in force)` : '',
                '. ',
                chargeWords(rule, limit),
                limit.line
                    ? ` ${plural(limit.line.waiting, 'request')} in line, ${exact(limit.line.ahead)} ahead of it.`
                    : '',
            ),
        ),
        rule.charge_on ? el('p', { class: 'sub' }, 'It is charged when the outcome is known.') : null,
        rule.queue
            ? el(
                  'p',
                  { class: 'sub' },
                  `Without room it waits in line: ${count(rule.queue.size)} may wait, ${duration(rule.queue.max_wait)} at most.`,
              )
            : null,
    );
}

/** The others, with the first reason each. */
export function otherRules(rules, most) {
    if (!rules.length) return empty('All rules apply.');
    return el(
        'div',
        {},
        table(
            'Rules that do not apply',
            [
                {
                    label: 'Rule',
                    cell: (rule) =>
                        el('a', { href: `#/rules/${encodeURIComponent(rule.rule)}` }, given(rule.rule, 'name')),
                },
                { label: 'Why not', whole: true, cell: (rule) => given(rule.reason) },
            ],
            rules.slice(0, most),
        ),
        rules.length > most ? el('p', { class: 'sub' }, `and ${exact(rules.length - most)} more`) : null,
    );
}
