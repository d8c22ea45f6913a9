// SPDX-License-Identifier: Apache-2.0
// rationd goes and comes back under the open page; the stream follows what is looked at.

import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { openPage, until, untilLive } from './browser.js';
import { RULES, manyRules } from './rules.js';

const GONE = [
    /net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING|SOCKET_NOT_CONNECTED|CONNECTION_CLOSED|ABORTED)/u,
];

const figure = (page, name) => page.locator(`[data-figure="${name}"] dd`);

/** A proxy before rationd; `answer(request, response)` gives true if it has answered itself. */
async function startProxy(daemon, answer) {
    const server = createServer((asked, response) => {
        if (answer(asked, response)) return;
        const onward = request(daemon.url + asked.url, { method: asked.method, headers: asked.headers }, (given) => {
            response.writeHead(given.statusCode, given.headers);
            given.pipe(response);
        });
        onward.on('error', () => response.destroy());
        response.on('close', () => onward.destroy());
        asked.pipe(onward);
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    return {
        url: `http://127.0.0.1:${server.address().port}`,
        stop: () => {
            server.closeAllConnections();
            server.close();
        },
    };
}

export default {
    'a proxy answers with pages of its own: the page says so in words, and opens by itself afterwards': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(RULES);
        let own = null; // [status, text] of the proxy
        const proxy = await startProxy(daemon, (asked, response) => {
            if (!own || !asked.url.startsWith('/v1/')) return false;
            response.writeHead(own[0]).end(own[1]);
            return true;
        });
        try {
            const page = keep(await openPage(browser, daemon, { url: proxy.url, expect: [...GONE, 502] }));
            await untilLive(page);
            own = [200, '<html>Sign in to the wireless network</html>'];
            await page.goto(`${proxy.url}/#/edit`);
            await page.getByText('The answer is not from rationd').waitFor();
            own = [502, '<html><h1>Bad Gateway</h1></html>'];
            await page.goto(`${proxy.url}/#/rules/login`);
            await page.getByText('A page of HTML came with status 502').waitFor();
            own = [200, 'null'];
            await page.goto(`${proxy.url}/#/edit`);
            await page.getByText('The answer is not from rationd').waitFor();
            daemon.signal('SIGSTOP'); // ends the stream, which did not pass by the proxy's own answers
            await page.getByText('connection lost, trying again').waitFor();
            own = null;
            daemon.signal('SIGCONT');
            await page.getByRole('textbox', { name: 'Rules as YAML' }).waitFor();
            await page.getByText('In order: 3 rules').waitFor();
        } finally {
            proxy.stop();
        }
    },
    'a change that rationd has not answered keeps its dialog, and is not called off': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { path: '#/versions', expect: GONE }));
        const dialog = page.getByRole('dialog');
        await page.getByRole('button', { name: 'Read the files again…' }).click();
        daemon.signal('SIGSTOP');
        await dialog.getByRole('button', { name: 'Read them' }).click();
        for (let i = 0; i < 3; i += 1) await page.keyboard.press('Escape');
        assert.ok(await dialog.getByRole('button', { name: 'Cancel' }).isDisabled());
        daemon.signal('SIGCONT');
        await dialog.waitFor({ state: 'detached' });
        await page.getByText('The files were read.').waitFor();
    },
    'rationd is killed and comes back: the page says so, keeps what it shows, and goes on': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { expect: GONE }));
        await untilLive(page);
        await page.getByRole('link', { name: 'login', exact: true }).waitFor();
        await daemon.check({ ip: '192.0.2.1', method: 'POST', path: '/login' }, 8);
        const refusals = async () => ((await page.locator('.plot path.refused').getAttribute('d')) ?? '').length > 10;
        await until(refusals, 'refusals in the chart');
        await daemon.kill();
        await page.getByText('connection lost, trying again').waitFor();
        await page.getByText(/\d\ss ago/u).waitFor();
        assert.ok(await page.getByRole('link', { name: 'login', exact: true }).isVisible(), 'what was shown stays');
        assert.ok(
            Number(await page.locator('.page').evaluate((element) => getComputedStyle(element).opacity)) < 1,
            'greyed',
        );
        await daemon.start();
        await untilLive(page);
        await daemon.check({ ip: '192.0.2.1', path: '/search' }, 3);
        await until(
            async () => (await figure(page, 'decided').textContent()) !== '0/s',
            'decisions after the restart are shown',
        );
        assert.equal(await page.locator('main').getAttribute('data-stale'), null);
        assert.ok(await refusals(), 'the chart still has what was before');
    },
    'rationd hangs: the page notices the silence, and fills the gap afterwards': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { expect: GONE }));
        await untilLive(page);
        daemon.signal('SIGSTOP');
        await page.getByText('connection lost, trying again').waitFor();
        const asked = page.waitForRequest(/\/v1\/history/u, { timeout: 30000 });
        daemon.signal('SIGCONT');
        await untilLive(page);
        await asked;
    },
    'a page that opens while rationd is away comes to life with it': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { expect: GONE }));
        await untilLive(page);
        await page.route('**/v1/whoami', (route) => route.abort());
        page.expectMore(/net::ERR_FAILED/u);
        await page.reload();
        await page.getByText('rationd does not answer').waitFor();
        await page.unroute('**/v1/whoami');
        await page.getByRole('heading', { name: 'Decisions per second' }).waitFor();
    },
    'a hidden tab reads no stream, and goes on when it is shown again': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon));
        await untilLive(page);
        const streams = [];
        page.on('requestfailed', (request) => request.url().includes('/v1/live') && streams.push('ended'));
        page.on('request', (request) => request.url().includes('/v1/live') && streams.push('begun'));
        const hide = (hidden) =>
            page.evaluate((value) => {
                Object.defineProperty(document, 'hidden', { value, configurable: true });
                document.dispatchEvent(new Event('visibilitychange'));
            }, hidden);
        await hide(true);
        await page.locator('#connection[data-state="hidden"]').waitFor();
        await until(() => streams.at(-1) === 'ended', 'the stream ends');
        await until(
            async () => (await daemon.admin('GET', '/v1/status')).connections.admin.open <= 6,
            'rationd is rid of it',
        );
        await hide(false);
        await untilLive(page);
        assert.equal(streams.at(-1), 'begun');
    },
    'only rules in view are streamed': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(manyRules(300));
        const page = keep(await openPage(browser, daemon, { path: '#/rules', height: 500 }));
        const named = [];
        page.on('request', (request) => {
            const url = new URL(request.url());
            if (url.pathname === '/v1/live') named.push(url.searchParams.get('rules').split(',').filter(Boolean));
        });
        await page.getByText('rule-00049').waitFor({ state: 'attached' });
        await until(() => named.at(-1)?.includes('rule-00000'), 'the first rows are streamed');
        assert.ok(named.at(-1).length < 20, `${named.at(-1).length} of 50 rows`);
        await page.getByText('rule-00049').scrollIntoViewIfNeeded();
        await until(
            () => named.at(-1).includes('rule-00049') && !named.at(-1).includes('rule-00000'),
            'the last rows are streamed instead',
        );
    },
};
