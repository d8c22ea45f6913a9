// SPDX-License-Identifier: Apache-2.0
// Reads the file that `ration replay --json` writes, in the browser alone. It may be any file: each part that the page
// shows is checked, and an error says what was found and what would be right.

import { bytes } from './format.js';

const MOST = 64 * 2 ** 20; // bytes
const MOST_COLUMNS = 1000; // of the timeline; ration writes 180
const LEAST_WIDTH = 0.001; // seconds of a column
const LAST_TIME = 8.64e15; // milliseconds since 1970: JavaScript has no dates beyond
const MAKE_ONE = 'Make one with: ration replay --rules rules.yaml --json access.log > replay.json';

/** What a value is, in a few words. */
function described(value) {
    if (value === undefined) return 'missing';
    if (value === null) return 'null';
    if (Array.isArray(value)) return 'a list';
    if (typeof value === 'string') return value.length > 40 ? 'a long text' : JSON.stringify(value);
    return typeof value === 'object' ? 'an object' : String(value);
}

function need(holds, path, value, right) {
    if (holds) return;
    throw new Error(`${path} is ${described(value)}, and should be ${right}. The file may be cut or changed.`);
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isCount = (value) => typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
const CHECKS = {
    number: [isCount, 'a number from 0 to 2^53'],
    numberOrNull: [(value) => value === null || isCount(value), 'a number from 0 to 2^53, or null'],
    text: [(value) => typeof value === 'string', 'a text'],
    time: [
        (value) => value === null || (typeof value === 'string' && !Number.isNaN(Date.parse(value))),
        'a time or null',
    ],
    flag: [(value) => typeof value === 'boolean', 'true or false'],
};

/** Checks `value` against a shape: the name of a check, [shape] for a list, or an object of shapes. */
function check(value, shape, path) {
    if (typeof shape === 'string') {
        need(CHECKS[shape][0](value), path, value, CHECKS[shape][1]);
    } else if (Array.isArray(shape)) {
        need(Array.isArray(value), path, value, 'a list');
        value.forEach((one, i) => check(one, shape[0], `${path}[${i}]`));
    } else {
        need(isObject(value), path, value, 'an object');
        for (const [name, inner] of Object.entries(shape)) check(value[name], inner, path ? `${path}.${name}` : name);
    }
}

const CLIENTS = { seen: 'number', refused: 'number', exact: 'flag' };
const SPAN = { first: 'time', last: 'time', limited_for: 'numberOrNull' };
const SIDE = {
    rules_file: 'text',
    requests: 'number',
    refused: 'number',
    delayed: 'number',
    shadowed: 'number',
    unmatched: 'number',
    clients: CLIENTS,
    rules: [
        {
            rule: 'text',
            requests: 'number',
            refused: 'number',
            delayed: 'number',
            shadowed: 'number',
            clients: CLIENTS,
            ...SPAN,
        },
    ],
    top: [{ client: 'text', rule: 'text', refused: 'number', requests: 'numberOrNull', ...SPAN }],
};
const REPLAY = {
    logs: [{ file: 'text', lines: 'number', requests: 'number' }],
    from: 'time',
    to: 'time',
    by: 'text',
    replayed: SIDE,
    timeline: { from: 'time', width: 'number', allowed: ['number'], delayed: ['number'], refused: ['number'] },
    notes: ['text'],
};
const CHANGES = {
    refused_by_both: 'number',
    newly_refused: 'number',
    no_longer_refused: 'number',
    clients_refused_by_both: 'number',
    clients_newly_refused: 'number',
    clients_no_longer_refused: 'number',
};

/** Whether the first line is an object, as those of logs in JSON are. */
function isLineOfJson(text) {
    try {
        return isObject(JSON.parse(text.split('\n', 1)[0]));
    } catch {
        return false;
    }
}

/** What a text that is no JSON looks like. */
function guessed(text) {
    const start = text.slice(0, 300).trimStart();
    if (start === '') return 'The file is empty.';
    if (text.startsWith('\u001f') || text.startsWith('(\ufffd/\ufffd'))
        return 'The file is compressed: unpack it first.';
    if (/^<(!doctype|html)/iu.test(start))
        return 'The file is a page of HTML, as --html writes it. This page reads what --json writes.';
    if (/"(GET|POST|PUT|HEAD|DELETE|PATCH|OPTIONS) /u.test(start))
        return 'The file looks like an access log, not like its replay.';
    if (/: [\d,]+ requests?, .* under /u.test(start))
        return 'The file looks like what ration replay prints for people, without --json.';
    if (isLineOfJson(text)) return 'The file looks like an access log in JSON, not like its replay.';
    if (/^[[{]/u.test(start)) return 'The file begins as JSON, and goes on as something else: it may be cut.';
    return 'The file is not JSON.';
}

/** What a JSON that is no replay is. */
function named(json) {
    if (!isObject(json)) return `The file has ${described(json)}.`;
    if (Array.isArray(json.findings)) return 'The file is what ration report --json prints.';
    if (Array.isArray(json.suggestions)) return 'The file looks like what ration suggest --json prints.';
    const members = Object.keys(json);
    const some = members.slice(0, 4).map((name) => (name.length > 30 ? `${name.slice(0, 30)}…` : name));
    return members.length
        ? `The file is JSON with the members ${some.join(', ')}${members.length > 4 ? ', …' : ''}.`
        : 'The file is JSON without members.';
}

/** The replay that a text has. Throws an Error with a sentence for people. */
export function parseReplay(text) {
    let json;
    try {
        json = JSON.parse(text);
    } catch {
        throw new Error(`${guessed(text)} ${MAKE_ONE}`);
    }
    if (!isObject(json) || !isObject(json.replayed)) throw new Error(`${named(json)} It is no replay. ${MAKE_ONE}`);
    check(json, REPLAY, '');
    const { timeline } = json;
    const columns = timeline.allowed.length;
    need(columns <= MOST_COLUMNS, 'timeline.allowed', timeline.allowed, `a list of at most ${MOST_COLUMNS} counts`);
    for (const kind of ['delayed', 'refused'])
        need(
            timeline[kind].length === columns,
            `timeline.${kind}`,
            timeline[kind],
            `a list of ${columns} counts, as timeline.allowed is`,
        );
    need(
        !columns || (timeline.from !== null && timeline.width >= LEAST_WIDTH),
        'timeline.width',
        timeline.width,
        `a number of seconds from ${LEAST_WIDTH}, with a time in timeline.from`,
    );
    need(
        !columns || Math.abs(Date.parse(timeline.from) + columns * timeline.width * 1000) <= LAST_TIME,
        'timeline.width',
        timeline.width,
        'a number of seconds with which the chart ends at a time that there is',
    );
    if (json.against !== undefined) {
        check(json.against, SIDE, 'against');
        check(json.changes, CHANGES, 'changes');
    }
    return json;
}

/** Reads a File. Nothing of it leaves the browser. */
export async function readReplay(file) {
    if (file.size > MOST)
        throw new Error(`The file has ${bytes(file.size)}, and at most ${bytes(MOST)} are read here. ${MAKE_ONE}`);
    let text;
    try {
        text = await file.text();
    } catch {
        throw new Error(
            'The browser cannot read the file: it may be a folder, or it has changed or gone since you chose it.',
        );
    }
    return parseReplay(text);
}
