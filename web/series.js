// SPDX-License-Identifier: Apache-2.0
// Counts over time: what rationd has kept, and what the stream adds. Numbers per step; null: nothing is known.

import { get, nameList, query } from './api.js';

export const KINDS = ['allowed', 'refused', 'delayed', 'shadowed'];

/** Asks for the history of the total, and of rules: none unless named. */
export async function readHistory(span, rules = [], { steps, signal } = {}) {
    const more = query({ span, steps });
    return get(`/v1/history${more}&rules=${nameList(rules)}`, { signal });
}

/**
 * Appends what a line of the stream tells. Seconds that were missed between become gaps.
 * `counts` has the arrays, which all end at `end`; they keep their length.
 */
export function appendLine(history, counts, line, values) {
    const missed = Math.min(line.time - history.end, counts.allowed.length);
    for (const [name, column] of Object.entries(counts)) {
        if (!Array.isArray(column)) continue;
        for (let i = 0; i < missed; i += 1) {
            column.shift();
            column.push(i === missed - 1 ? (values[name] ?? null) : null);
        }
    }
}

/**
 * The history that was read now, with what an older one knows besides: rationd forgets the past when it ends, and a
 * page that was open meanwhile does not.
 */
export function keepKnown(older, fresh) {
    if (!older || older.step !== fresh.step) return fresh;
    const passed = (fresh.end - older.end) / fresh.step;
    for (const [name, column] of Object.entries(fresh.total)) {
        fresh.total[name] = column.map((value, i) => value ?? older.total[name][i + passed] ?? null);
    }
    return fresh;
}

/** Counts of no time at all, for a rule without a history. */
export function emptyCounts(length) {
    return Object.fromEntries(KINDS.map((kind) => [kind, new Array(length).fill(null)]));
}

/** The mean per second of each `size` steps, ending at the last one; null where nothing is known. */
export function perSecond(column, size, step) {
    const means = [];
    for (let end = column.length; end > 0; end -= size) {
        let sum = 0;
        let known = 0;
        for (let i = Math.max(0, end - size); i < end; i += 1) {
            if (column[i] === null) continue;
            sum += column[i];
            known += 1;
        }
        means.push(known ? sum / (known * step) : null);
    }
    return means.reverse();
}

/** The sum of the last `steps` that are known, per second; null: none is. */
export function recent(column, steps, step) {
    return perSecond(column.slice(-steps), steps, step).at(-1) ?? null;
}

/**
 * Parts that do not overlap, from counts that do: delayed and shadowed requests are among the allowed.
 * Each part lies on those before it.
 */
export function stackOf(means) {
    const plain = means.allowed.map((value, i) =>
        value === null ? null : Math.max(0, value - (means.delayed[i] ?? 0) - (means.shadowed[i] ?? 0)),
    );
    return { allowed: plain, delayed: means.delayed, shadowed: means.shadowed, refused: means.refused };
}

/**
 * What a chart draws of the last `steps`: means of `size` steps each. Columns begin at round times, so that they stay
 * what they were when another second comes; the last one may not be over.
 */
export function chartData(history, counts, steps, size) {
    const seconds = size * history.step;
    const end = Math.ceil(history.end / seconds) * seconds;
    const open = new Array((end - history.end) / history.step).fill(null);
    const means = Object.fromEntries(
        KINDS.map((kind) => [kind, perSecond([...counts[kind], ...open].slice(-steps), size, history.step)]),
    );
    return { stack: stackOf(means), end, seconds };
}
