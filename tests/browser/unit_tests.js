// SPDX-License-Identifier: Apache-2.0
// Modules of the page that need no page.

import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
// In a folder that says to Node that these are modules: web/ has only what is served.
const folder = mkdtempSync(join(tmpdir(), 'ration-web-'));
cpSync('web', folder, { recursive: true });
writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
const load = (name) => import(pathToFileURL(join(folder, name)));
const { secondsOf } = await load('client_actions.js');
const { attributesOfKey, parseAttributes } = await load('attributes.js');
const { diffLines, hunksOf } = await load('diff.js');
const { bytes, count, duration, latency, percent } = await load('format.js');
const { parseMetrics } = await load('metrics.js');
const { chartData, keepKnown, perSecond, stackOf } = await load('series.js');
rmSync(folder, { recursive: true });

/** A generator of numbers that is the same in each run. */
function random(seed) {
    let state = seed;
    return (below) => {
        state = (state * 1103515245 + 12345) % 2147483648;
        return Math.floor((state / 2147483648) * below);
    };
}

/** The text before and after, from a difference. */
const rebuilt = (lines) => [
    lines
        .filter((line) => line.kind !== 'added')
        .map((line) => line.text)
        .join('\n'),
    lines
        .filter((line) => line.kind !== 'removed')
        .map((line) => line.text)
        .join('\n'),
];

export default {
    'numbers are short and right': () => {
        assert.deepEqual([0, 0.001, 0.04, 3, 3.21, 99.6, 999, 999.9, 12345, 999600, 4.56e6].map(count), [
            '0',
            '<0.01',
            '0.04',
            '3',
            '3.2',
            '100',
            '999',
            '1.00\u202fk',
            '12.3\u202fk',
            '1.00\u202fM',
            '4.56\u202fM',
        ]);
        assert.deepEqual([null, 0, 0.0004, 0.05, 0.5, 0.997, 0.9999, 1].map(percent), [
            '–',
            '0\u202f%',
            '<0.1\u202f%',
            '5.0\u202f%',
            '50\u202f%',
            '99.7\u202f%',
            '99.9\u202f%',
            '100\u202f%',
        ]);
        assert.deepEqual([null, 0.3, 59.6, 200, 7500, 100000].map(duration), [
            'never',
            '0.3\u202fs',
            '1\u202fmin',
            '3\u202fmin 20\u202fs',
            '2\u202fh 5\u202fmin',
            '1\u202fd 3\u202fh',
        ]);
        assert.deepEqual([0.000008, 0.0021, 2].map(latency), ['8\u202fµs', '2.1\u202fms', '2.0\u202fs']);
        assert.equal(bytes(16 * 2 ** 20), '16\u202fMiB');
    },
    'a difference rebuilds both texts, and is the shortest': () => {
        const next = random(7);
        for (let round = 0; round < 400; round += 1) {
            const line = () => 'abcd'[next(4)];
            const before = Array.from({ length: next(14) }, line);
            const after = before.flatMap((text) => (next(4) === 0 ? [] : next(4) === 0 ? [text, line()] : [text]));
            const result = diffLines(before.join('\n'), after.join('\n'));
            assert.deepEqual(rebuilt(result.lines), [before.join('\n'), after.join('\n')]);
            assert.equal(
                result.added + result.removed,
                shortest(before.join('\n').split('\n'), after.join('\n').split('\n')),
            );
        }
    },
    'a difference of long texts ends soon, and is right': () => {
        const before = Array.from({ length: 60000 }, (_, i) => `before ${i}`).join('\n');
        const after = Array.from({ length: 60000 }, (_, i) => `after ${i}`).join('\n');
        const begun = process.cpuUsage().user;
        const result = diffLines(before, after);
        assert.deepEqual([result.added, result.removed], [60000, 60000]);
        assert.deepEqual(rebuilt(result.lines), [before, after]);
        assert.ok(process.cpuUsage(undefined).user - begun < 10e6);
        assert.equal(hunksOf(diffLines(before, `${before}\nmore`).lines).hunks[0].skipped, 59997);
    },
    'lengths of time are read as people write them': () => {
        assert.deepEqual(
            ['', '90', '10m', '2 min', '1 hour', '3 hours', '1.5d', '2 days'].map(secondsOf),
            [null, 90, 600, 120, 3600, 10800, 129600, 172800],
        );
        for (const wrong of ['1 fortnight', 'h', '-1h', '1 mh']) assert.throws(() => secondsOf(wrong), /length of time/u);
    },
    'metrics are read with their labels': () => {
        const metrics = parseMetrics('# HELP a b\na 1\nb{x="1 } \\" \\\\ \\n",y="z"} 2.5\nb{x="other"} +Inf\n');
        assert.equal(metrics.value('a'), 1);
        assert.equal(metrics.value('b', { y: 'z' }), 2.5);
        assert.equal(metrics.all('b')[0].labels.x, '1 } " \\ \n');
        assert.equal(metrics.value('c'), null);
    },
    'attributes are read from text and from keys': () => {
        assert.deepEqual(parseAttributes('ip=192.0.2.1 user=ann bee path=/a=b'), {
            ip: '192.0.2.1',
            user: 'ann bee',
            path: '/a=b',
        });
        assert.throws(() => parseAttributes('ip'), /name=value/u);
        assert.deepEqual(attributesOfKey('api_key or ip'), ['api_key', 'ip']);
        assert.deepEqual(attributesOfKey('ip, header.x-user'), ['ip', 'header.x-user']);
    },
    'what rationd has forgotten since a restart is kept, at its time': () => {
        const older = { end: 103, step: 1, total: { allowed: [1, 2, 3, 4] } };
        assert.deepEqual(
            keepKnown(older, { end: 105, step: 1, total: { allowed: [null, null, null, 9] } }).total.allowed,
            [3, 4, null, 9],
        );
        assert.deepEqual(keepKnown(null, older), older);
    },
    'means leave out what is not known, and columns stand still': () => {
        assert.deepEqual(perSecond([null, 2, 4, null, null], 2, 1), [null, 3, null]);
        assert.deepEqual(
            stackOf({ allowed: [10, null], delayed: [2, null], shadowed: [3, null], refused: [1, null] }).allowed,
            [5, null],
        );
        const counts = (n) => ({ allowed: n, refused: n, delayed: n.map(() => 0), shadowed: n.map(() => 0) });
        const first = chartData({ end: 101, step: 1 }, counts([1, 2, 3, 4]), 8, 2);
        const second = chartData({ end: 102, step: 1 }, counts([2, 3, 4, 5]), 8, 2);
        assert.deepEqual(
            [first.end, first.stack.allowed, second.end, second.stack.allowed],
            [102, [1, 2.5, 4], 102, [2.5, 4.5]],
        );
    },
};

/** The fewest lines to add and remove, by the table that needs no idea. */
function shortest(a, b) {
    const same = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
    for (let i = 1; i <= a.length; i += 1) {
        for (let j = 1; j <= b.length; j += 1)
            same[i][j] = a[i - 1] === b[j - 1] ? same[i - 1][j - 1] + 1 : Math.max(same[i - 1][j], same[i][j - 1]);
    }
    return a.length + b.length - 2 * same[a.length][b.length];
}
