// SPDX-License-Identifier: Apache-2.0
// What follows from the facts of /v1/report, or of a replay, in the words of `ration report`: src/cli/report/findings.c
// draws the same conclusions, and a test compares the two.

/** Kinds with their headings, in the order in which they are shown. */
export const KINDS = {
    never_hit: 'Rules that no request has met',
    refuses_many: 'Rules that refuse many of their clients',
    shadowed: 'Rules that never get to refuse',
    near_limit: 'Clients near their limit',
    uncovered: 'Requests that no rule covers',
    signal_never_fired: 'Signals that never fired',
    suggestion: 'Suggested limits',
};

/** With less than this nothing is said about shares and unused room: it would be chance. */
const CLIENTS_LEAST = 10;
const REQUESTS_LEAST = 100;

/** A daemon and a replay tell these in other members. */
export const requestsOf = (rule) => rule.requests ?? (rule.allowed ?? 0) + (rule.refused ?? 0);
export const clientsOf = (rule) => rule.clients?.seen ?? rule.clients ?? 0;
export const clientsRefusedOf = (rule) => rule.clients?.refused ?? rule.clients_refused ?? 0;

/** A replay counts clients of its own, whatever the key of the rule is. */
const isKeyed = (rule) => rule.keyed ?? true;

/** 12 %, 0.4 % or 99.6 %. Only all of them are 100 %. */
function share(part, whole) {
    const rounded = whole === 0 ? 0 : Math.floor((part * 1000 + Math.floor(whole / 2)) / whole);
    const permille = whole === 0 ? 0 : part >= whole ? 1000 : Math.min(rounded, 999);
    return permille < 100 || (permille >= 990 && permille < 1000)
        ? `${Math.floor(permille / 10)}.${permille % 10} %`
        : `${Math.floor((permille + 5) / 10)} %`;
}

/** A quarter more than was used, and no odd figures. */
function roundUp(used) {
    const more = used + Math.floor(used / 4) + 1;
    let unit = 1;
    while (Math.floor(more / unit) >= 100) unit *= 10;
    return Math.ceil(more / unit) * unit;
}

/** The limit with `capacity` in the place of its own: that is its burst, if it has one. */
function smaller(limit, capacity) {
    const burst = limit.indexOf(' burst ');
    if (burst >= 0) return `${limit.slice(0, burst)} burst ${capacity}`;
    const space = limit.indexOf(' ');
    return space >= 0 ? `${capacity}${limit.slice(space)}` : String(capacity);
}

function ofMany(rule, name, permille) {
    const clients = clientsOf(rule);
    const refused = Math.min(clientsRefusedOf(rule), clients);
    if (!isKeyed(rule) || clients < CLIENTS_LEAST || refused * 1000 <= clients * permille) return [];
    const shadow = rule.refused === 0;
    return [
        {
            kind: 'refuses_many',
            parts: [
                name,
                ` ${shadow ? 'would have refused' : 'has refused'} about ${refused} of ${clients} clients (${share(refused, clients)}), ` +
                    `${shadow ? rule.shadowed : rule.refused} requests of ${requestsOf(rule)}; is that what it is for?`,
            ],
        },
        {
            kind: 'suggestion',
            parts: [
                'raise ',
                name,
                ', or charge expensive requests alone: ration suggest --rules RULES --rule ',
                name,
                ' LOG finds the smallest limit that touches few clients',
            ],
        },
    ];
}

function ofShadow(rule, name) {
    const { beside } = rule;
    if (!beside?.always || !beside.refused || rule.refused || rule.shadowed) return [];
    return [
        {
            kind: 'shadowed',
            parts: [
                name,
                ' has refused nothing: ',
                { rule: beside.rule },
                ` applies to all of its requests, and has refused ${beside.refused} of them while `,
                name,
                ' had room; lower ',
                name,
                ', or remove it',
            ],
        },
    ];
}

function ofNear(rule, name) {
    const near = rule.clients_near ?? 0;
    if (!near || !isKeyed(rule)) return [];
    const count = `: about ${near} client${near === 1 ? '' : 's'} (${share(near, clientsOf(rule))})`;
    const names = (rule.near ?? []).flatMap((key, i) => [i ? ', ' : ', such as ', { client: key, rule: rule.rule }]);
    return [{ kind: 'near_limit', parts: [name, `${count} had less than a fifth of the limit left`, ...names] }];
}

/** A limit of which nobody has used half protects less than it could. */
function ofRoom(rule, name) {
    if (rule.refused || rule.shadowed || (rule.allowed ?? 0) < REQUESTS_LEAST) return [];
    if (isKeyed(rule) && clientsOf(rule) < CLIENTS_LEAST) return [];
    return (rule.limits ?? []).flatMap(({ most_used: used, capacity, tier, limit }) => {
        const enough = roundUp(used);
        if (!used || capacity < 10 || enough > Math.floor(capacity / 2)) return [];
        return {
            kind: 'suggestion',
            parts: [
                name,
                ': ',
                tier ? ['tier ', { text: tier }, ': '] : [],
                `${smaller(limit, enough)} would have refused nothing: no client has used more than ${used} of ${capacity} at once`,
            ].flat(),
        };
    });
}

function ofRule(rule, permille) {
    const name = { rule: rule.rule };
    if (requestsOf(rule) + clientsRefusedOf(rule) === 0 && !rule.beside)
        return [
            {
                kind: 'never_hit',
                parts: [
                    name,
                    ': no request has met it; if there should be some, ration explain shows why one is not among them',
                ],
            },
        ];
    return [...ofMany(rule, name, permille), ...ofShadow(rule, name), ...ofNear(rule, name), ...ofRoom(rule, name)];
}

/** A replay tells how many there were, and not which. */
function ofUncovered(facts) {
    const words = (n) => `${n} request${n === 1 ? '' : 's'} (${share(n, facts.requests)} of all)`;
    if (!facts.uncovered) return facts.unmatched ? [{ kind: 'uncovered', parts: [words(facts.unmatched)] }] : [];
    return facts.uncovered.map(({ request, requests }) => ({
        kind: 'uncovered',
        parts: [
            request === '' ? '(neither method nor path)' : { text: request },
            `: about ${words(Math.min(requests, facts.requests))}`,
        ],
    }));
}

function ofSignal({ rule, signal, fired }) {
    if (fired) return [];
    const parts = [{ text: signal }, ' has never changed the limits of ', { rule }];
    return [{ kind: 'signal_never_fired', parts: [...parts, '; if there was load, look at its threshold'] }];
}

/**
 * Findings as { kind, parts }: parts are plain texts, and { rule }, { client, rule } or { text } with what somebody else
 * chose. A rule that refuses more than `permille` of its clients is a finding.
 */
export function findingsOf(facts, permille) {
    const found = [
        ...facts.rules.flatMap((rule) => ofRule(rule, permille)),
        ...ofUncovered(facts),
        ...(facts.signals ?? []).flatMap(ofSignal),
    ];
    const order = Object.keys(KINDS);
    return found.toSorted((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
}
