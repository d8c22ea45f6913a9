// SPDX-License-Identifier: Apache-2.0
// The difference of two texts by lines: Myers' greedy algorithm, with a bound on its work.

const MOST_STEPS = 4000; // edits; beyond that what differs is shown as one block
const AROUND = 3; // equal lines to show around a change

/** The lines both begin with, and end with, need no search. */
function trim(a, b) {
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
    let end = 0;
    while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end])
        end += 1;
    return { start, end };
}

/** Myers, "An O(ND) difference algorithm" (1986): the furthest reach on each diagonal after d edits. */
function search(a, b) {
    const most = Math.min(a.length + b.length, MOST_STEPS);
    const offset = most + 1;
    const reach = new Int32Array(2 * most + 3);
    const trace = [];
    for (let d = 0; d <= most; d += 1) {
        trace.push(reach.slice(offset - d - 1, offset + d + 2));
        for (let k = -d; k <= d; k += 2) {
            const down = k === -d || (k !== d && reach[offset + k - 1] < reach[offset + k + 1]);
            let x = down ? reach[offset + k + 1] : reach[offset + k - 1] + 1;
            while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
            reach[offset + k] = x;
            if (x >= a.length && x - k >= b.length) return trace;
        }
        if (d * d > 4e6) return null; // the trace would need too much memory
    }
    return null;
}

/** The way back through the trace, as edits from the first to the last. */
function wayBack(a, b, trace) {
    const edits = [];
    let x = a.length;
    let y = b.length;
    for (let d = trace.length - 1; d >= 0; d -= 1) {
        const reach = trace[d];
        const at = (k) => reach[k + d + 1];
        const k = x - y;
        const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
        const fromK = down ? k + 1 : k - 1;
        const fromX = d === 0 ? 0 : at(fromK);
        const fromY = d === 0 ? 0 : fromX - fromK;
        const startX = d === 0 ? 0 : down ? fromX : fromX + 1;
        while (x > startX && x > 0 && y > 0 && a[x - 1] === b[y - 1]) {
            x -= 1;
            y -= 1;
            edits.push({ kind: 'same', text: a[x] });
        }
        if (d === 0) break;
        if (down) edits.push({ kind: 'added', text: b[fromY] });
        else edits.push({ kind: 'removed', text: a[fromX] });
        x = fromX;
        y = fromY;
    }
    return edits.reverse();
}

/**
 * Lines of both texts in order: { kind: 'same' | 'removed' | 'added', text, before, after }, where `before` and
 * `after` are numbers of lines, and how many were added and removed.
 */
export function diffLines(beforeText, afterText) {
    const a = beforeText.split('\n');
    const b = afterText.split('\n');
    const { start, end } = trim(a, b);
    const middleA = a.slice(start, a.length - end);
    const middleB = b.slice(start, b.length - end);
    const trace = search(middleA, middleB);
    const middle = trace
        ? wayBack(middleA, middleB, trace)
        : [...middleA.map((text) => ({ kind: 'removed', text })), ...middleB.map((text) => ({ kind: 'added', text }))];
    const lines = [
        ...a.slice(0, start).map((text) => ({ kind: 'same', text })),
        ...middle,
        ...a.slice(a.length - end).map((text) => ({ kind: 'same', text })),
    ];
    let before = 0;
    let after = 0;
    let added = 0;
    let removed = 0;
    for (const line of lines) {
        if (line.kind !== 'added') line.before = before += 1;
        if (line.kind !== 'removed') line.after = after += 1;
        added += line.kind === 'added';
        removed += line.kind === 'removed';
    }
    return { lines, added, removed };
}

/** Stretches with changes and a few lines around them: { lines, skipped } with the number of equal lines before. */
export function hunksOf(lines) {
    const near = new Uint8Array(lines.length);
    lines.forEach((line, i) => {
        if (line.kind !== 'same') near.fill(1, Math.max(0, i - AROUND), Math.min(lines.length, i + AROUND + 1));
    });
    const hunks = [];
    let skipped = 0;
    for (let i = 0; i < lines.length; i += 1) {
        if (!near[i]) skipped += 1;
        else if (i > 0 && near[i - 1]) hunks.at(-1).lines.push(lines[i]);
        else {
            hunks.push({ skipped, lines: [lines[i]] });
            skipped = 0;
        }
    }
    return { hunks, rest: skipped };
}
