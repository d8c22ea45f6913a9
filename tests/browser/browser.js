// SPDX-License-Identifier: Apache-2.0
// Debian's Chromium over the dashboard. A page fails its test by any error on the console, a broken policy or an
// exception, unless the test has said that it expects it.

import { chromium } from 'playwright-core';

const PROGRAM = process.env.RATION_CHROMIUM ?? '/usr/bin/chromium';
const ARGS = [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
];

/** Chromium logs each answer of 4xx and 5xx, and each request that fails, as an error: those are rationd's answers. */
const ANSWERS = /^Failed to load resource: the server responded with a status of (\d+)/u;

/** Playwright gives each browser a profile of its own, which it removes. */
export function startBrowser() {
    return chromium.launch({ executablePath: PROGRAM, args: ARGS });
}

/**
 * A page at `path` of a daemon. `expect` has what may be on the console: numbers of statuses, and patterns.
 * page.check() fails if there was something else; the runner calls it.
 */
export async function openPage(
    browser,
    daemon,
    {
        path = '#/overview',
        width = 1440,
        height = 900,
        theme = 'light',
        expect = [],
        motion = 'reduce',
        token = null,
        url = daemon.url,
    } = {},
) {
    const context = await browser.newContext({
        viewport: { width, height },
        colorScheme: theme,
        reducedMotion: motion,
        ignoreHTTPSErrors: true, // certificates of tests are made by the tests
    });
    context.setDefaultTimeout(15000);
    if (token) await context.addInitScript((value) => sessionStorage.setItem('ration.token', value), token);
    const page = await context.newPage();
    const troubles = [];
    const expected = (text) =>
        expect.some((one) => (typeof one === 'number' ? ANSWERS.exec(text)?.[1] === String(one) : one.test(text)));
    page.on('console', (message) => {
        if (['error', 'warning'].includes(message.type()) && !expected(message.text()))
            troubles.push(`console: ${message.text()} ${message.location().url ?? ''}`);
    });
    page.on('pageerror', (error) => troubles.push(`exception: ${error.stack ?? error}`));
    await context.addInitScript(() =>
        addEventListener('securitypolicyviolation', (event) =>
            console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`),
        ),
    );
    page.check = () => {
        if (troubles.length) throw new Error(troubles.join('\n'));
    };
    page.expectMore = (...more) => expect.push(...more);
    await page.goto(`${url}/${path}`);
    return page;
}

/** Waits until `look` gives something true, and gives it. */
export async function until(look, what, milliseconds = 15000) {
    const end = Date.now() + milliseconds;
    for (;;) {
        const found = await look();
        if (found) return found;
        if (Date.now() > end) throw new Error(`never: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

/** Waits until the page says that it is live. */
export async function untilLive(page) {
    await page.locator('#connection[data-state="live"]').waitFor({ timeout: 20000 });
}
