// SPDX-License-Identifier: Apache-2.0
// Pictures of the dashboard for the documents: node tests/browser/screenshots.js [SECONDS]. A real rationd decides
// about the traffic of a made-up shop for so long (330 unless given: the chart of five minutes is full then).

import { Agent, request } from 'node:http';
import { mkdirSync } from 'node:fs';
import { startBrowser, untilLive } from './browser.js';
import { startRationd } from './rationd.js';

const SECONDS = Number(process.argv[2] ?? 330);
const FOLDER = 'docs/images';

const RULES = `limits:
  - name: login
    when: { method: POST, path: /login }
    key: ip
    limit: 5 per minute
    algorithm: sliding-log
    escalate: { after: 40 refusals within 1m, ban: 10m, grow: 4x, up_to: 24h, forget: 7d }
  - name: api
    when: { path: /api/** }
    key: api_key
    limit:
      by: tier
      free: 120 per minute
      pro: 6000 per minute burst 500
      enterprise: unlimited
      default: free
  - name: search
    when: { path: /api/search }
    key: api_key
    limit: 600 per minute
    cost: 10
  - name: checkout
    when: { method: POST, path: /checkout }
    key: user
    limit: 10 per minute
  - name: uploads
    when: { path: /upload, method: [PUT, POST] }
    key: user
    limit: 2 per second queue 10
  - name: webhooks
    when: { path: /hooks/** }
    key: partner
    limit: 20 per second burst 40
  - name: exports
    when: { path: /exports }
    key: user
    limit: 3 per hour
    algorithm: fixed-window
  - name: graphql
    when: { path: /graphql }
    key: api_key
    limit: 90 per minute
    mode: shadow
  - name: password-reset
    when: { method: POST, path: /password }
    key: ip
    limit: 3 per 15 minutes
    algorithm: sliding-log
  - name: reports
    when: { path: /reports }
    key: user
    limit: 4 concurrent
  - name: everything
    key: ip
    limit: 100 per second
`;

const agent = new Agent({ keepAlive: true, maxSockets: 8 });

/** A number below `n`, small ones more often: few clients make most of the traffic. */
const often = (n) => Math.floor(n * Math.random() ** 3);
const TIERS = ['free', 'free', 'free', 'pro', 'pro', 'enterprise'];

/** Kinds of requests, with how many of them there are among a hundred. */
const TRAFFIC = [
    [46, () => ({ path: `/api/items/${often(90)}`, api_key: `key-${often(60)}`, tier: TIERS[often(60) % 6] })],
    [8, () => ({ path: '/api/search', api_key: `key-${often(40)}`, tier: 'pro' })],
    [12, () => ({ path: '/graphql', api_key: `key-${often(30)}` })],
    [12, () => ({ path: '/hooks/orders', partner: ['acme', 'globex', 'initech', 'umbrella'][often(4)] })],
    [5, () => ({ path: '/checkout', method: 'POST', user: `user-${often(400)}` })],
    [4, () => ({ path: '/upload', method: 'PUT', user: `user-${often(12)}` })],
    [3, () => ({ path: '/exports', user: `user-${often(50)}` })],
    [8, () => ({ path: '/', method: 'GET' })],
];

const address = () => `203.0.113.${often(200)}`;

function pick() {
    let left = Math.random() * 98;
    for (const [share, make] of TRAFFIC) {
        left -= share;
        if (left < 0) return { ip: address(), method: 'GET', ...make() };
    }
    return { ip: address(), method: 'GET', path: '/' };
}

function ask(daemon, attributes) {
    const sent = request(`http://127.0.0.1:${daemon.ports.http}/v1/check`, { method: 'POST', agent }, (answer) =>
        answer.resume(),
    );
    sent.on('error', () => {});
    sent.end(JSON.stringify({ attributes }));
}

/** Traffic that swells and falls, with somebody who guesses passwords now and then. */
function startTraffic(daemon) {
    let tick = 0;
    return setInterval(() => {
        tick += 1;
        const seconds = tick / 20;
        const rate = 260 + 90 * Math.sin(seconds / 41) + 40 * Math.sin(seconds / 9) + 20 * Math.random();
        for (let i = 0; i < rate / 20; i += 1) ask(daemon, pick());
        const guesses = seconds % 95 > 50 && seconds % 95 < 74 ? 2 : 0;
        for (let i = 0; i < guesses; i += 1)
            ask(daemon, { ip: `198.51.100.${7 + (tick % 5)}`, method: 'POST', path: '/login' });
        if (tick % 7 === 0) ask(daemon, { ip: address(), method: 'POST', path: '/login' });
    }, 50);
}

async function picture(
    browser,
    daemon,
    name,
    { path, theme = 'light', width = 1440, height = 900, scale = 1, prepare },
) {
    const context = await browser.newContext({
        viewport: { width, height },
        colorScheme: theme,
        deviceScaleFactor: scale,
        reducedMotion: 'reduce',
    });
    const page = await context.newPage();
    await page.goto(`${daemon.url}/${path}`);
    await untilLive(page);
    await prepare?.(page);
    await page.waitForTimeout(7000); // a few lines of the stream
    await page.screenshot({ path: `${FOLDER}/${name}.png` });
    await context.close();
}

async function editWithMistake(page) {
    const area = page.getByRole('textbox', { name: 'Rules as YAML' });
    await page.getByText('In order').waitFor();
    const text = await area.inputValue();
    await area.fill(text.replace('5 per minute', '10 per fortnight').replace('10 per minute]', '6 per minute]'));
    await page
        .getByRole('button', { name: /^line \d/u })
        .first()
        .click();
}

mkdirSync(FOLDER, { recursive: true });
const daemon = await startRationd(RULES);
const browser = await startBrowser();
const traffic = startTraffic(daemon);
try {
    await daemon.admin('PUT', '/v1/overrides', {
        rule: 'api',
        attributes: { api_key: 'key-3' },
        limit: '20000 per minute',
        note: 'launch day',
    });
    await new Promise((resolve) => setTimeout(resolve, SECONDS * 1000));
    await picture(browser, daemon, 'dashboard-overview', { path: '#/overview', height: 930 });
    await picture(browser, daemon, 'dashboard-overview-dark', { path: '#/overview', height: 930, theme: 'dark' });
    await picture(browser, daemon, 'dashboard-editor', { path: '#/edit', height: 920, prepare: editWithMistake });
    await picture(browser, daemon, 'dashboard-phone', { path: '#/overview', width: 390, height: 844, scale: 1.5 });
    await picture(browser, daemon, 'dashboard-client', {
        path: '#/clients',
        height: 900,
        prepare: async (page) => {
            await page.locator('[aria-labelledby="most"] tbody a').first().click();
            await page.locator('.client').first().waitFor();
            await page.evaluate(() => scrollTo(0, 0));
        },
    });
} finally {
    clearInterval(traffic);
    agent.destroy();
    await browser.close();
    await daemon.stop();
}
