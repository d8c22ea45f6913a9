// SPDX-License-Identifier: Apache-2.0
// Runs the tests of the dashboard and prints TAP: node tests/browser/all.js [PATTERN]. Two at a time, each with its
// own rationd and its own browser context.

import { readdirSync } from 'node:fs';
import { cpus } from 'node:os';
import { startBrowser } from './browser.js';
import { startRationd } from './rationd.js';

const LIMIT_MS = 90000; // of one test
const folder = new URL('.', import.meta.url);
const pattern = new RegExp(process.argv[2] ?? '', 'u');

const tests = [];
for (const file of readdirSync(folder)
    .filter((name) => name.endsWith('_tests.js'))
    .sort()) {
    const { default: found } = await import(new URL(file, folder));
    for (const [name, run] of Object.entries(found))
        if (pattern.test(`${file} ${name}`)) tests.push({ name: `dashboard: ${name}`, run });
}

const browser = await startBrowser();
let failed = 0;
let number = 0;

/** What a test may use: what it opens is closed after it, and its pages are asked for errors. */
async function runOne({ name, run }) {
    const daemons = [];
    const pages = [];
    const kit = {
        browser,
        rationd: async (...given) => {
            const daemon = await startRationd(...given);
            daemons.push(daemon);
            return daemon;
        },
        keep: (page) => {
            pages.push(page);
            return page;
        },
    };
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not over after ${LIMIT_MS / 1000} s`)), LIMIT_MS);
    });
    const begun = Date.now();
    let problem = null;
    try {
        await Promise.race([run(kit), late]);
        pages.forEach((page) => page.check());
    } catch (error) {
        problem = error;
    }
    clearTimeout(timer);
    for (const page of pages)
        await page
            .context()
            .close()
            .catch(() => {});
    for (const daemon of daemons) await daemon.stop();
    number += 1;
    if (problem) failed += 1;
    console.log(`${problem ? 'not ok' : 'ok'} ${number} - ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
    if (problem) console.log(String(problem.stack ?? problem).replace(/^/gmu, '# '));
}

console.log(`1..${tests.length}`);
const queue = [...tests];
await Promise.all(
    Array.from({ length: Math.max(1, Math.min(2, cpus().length)) }, async () => {
        while (queue.length) await runOne(queue.shift());
    }),
);
await browser.close();
process.exitCode = failed || !tests.length ? 1 : 0;
