// SPDX-License-Identifier: Apache-2.0
// Reads the page of /metrics: as much of the text format as rationd writes.

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/u;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/gu;
const ESCAPES = { n: '\n', '\\': '\\', '"': '"' };

/** Samples by name: [{ labels, value }]. */
export function parseMetrics(text) {
    const samples = new Map();
    for (const line of text.split('\n')) {
        const parts = line.startsWith('#') ? null : SAMPLE.exec(line);
        if (!parts) continue;
        const labels = {};
        for (const [, name, value] of (parts[2] ?? '').matchAll(LABEL))
            labels[name] = value.replace(/\\(.)/gu, (all, one) => ESCAPES[one] ?? all);
        if (!samples.has(parts[1])) samples.set(parts[1], []);
        samples.get(parts[1]).push({ labels, value: Number(parts[3]) });
    }
    return {
        /** All samples of a metric. */
        all: (name) => samples.get(name) ?? [],
        /** The value of the first that has these labels; null: there is none. */
        value: (name, labels = {}) =>
            (samples.get(name) ?? []).find((one) =>
                Object.entries(labels).every(([key, value]) => one.labels[key] === value),
            )?.value ?? null,
    };
}
