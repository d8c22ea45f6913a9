// SPDX-License-Identifier: Apache-2.0
// The overview, and the rules with what they decide.

import assert from 'node:assert/strict';
import { openPage, until, untilLive } from './browser.js';
import { RULES, manyRules } from './rules.js';

const figure = (page, name) => page.locator(`[data-figure="${name}"] dd`);
const rowsOf = (page) => page.locator('table[role="table"] tbody tr');
const names = async (page) => await page.locator('tbody td:first-child a .name').allTextContents();

/** Keeps asking, so that there is something to see, until stop() is called. */
function load(daemon) {
    let going = true;
    const over = (async () => {
        for (let i = 0; going; i += 1) {
            await daemon.check({ ip: '192.0.2.7', method: 'POST', path: '/login' });
            await daemon.check({ ip: `192.0.2.${i % 5}`, path: '/search' });
            await daemon.check({ ip: '192.0.2.9', path: '/nothing' });
            await new Promise((resolve) => setTimeout(resolve, 40));
        }
    })();
    return {
        stop: () => {
            going = false;
            return over;
        },
    };
}

export default {
    'the overview shows what is decided, live: totals, rules, who is refused, memory': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(RULES);
        const work = load(daemon);
        const page = keep(await openPage(browser, daemon));
        await untilLive(page);
        for (const name of ['decided', 'allowed', 'refused', 'unmatched', 'shadowed'])
            await until(
                async () =>
                    /^[\d.]+\/s$/u.test(await figure(page, name).textContent()) &&
                    (await figure(page, name).textContent()) !== '0/s',
                name,
            );
        await until(async () => /%/u.test(await figure(page, 'share').textContent()), 'share refused');
        await until(async () => /s$/u.test(await figure(page, 'p99').textContent()), 'latency');
        await page.getByText('requests per second meet no rule').waitFor();
        await until(
            async () => (await page.locator('.plot path.refused').getAttribute('d'))?.length > 10,
            'refusals in the chart',
        );
        await until(
            async () => (await page.locator('.spark path.refused').first().getAttribute('d'))?.length > 10,
            'refusals in a sparkline',
        );
        await until(async () => (await names(page))[0] === 'login', 'the rule that refuses most is first');
        await page.getByText('local, no Redis').waitFor();
        await page
            .locator('[aria-labelledby="limited"]')
            .getByRole('link', { name: '192.0.2.7' })
            .click({ timeout: 20000 });
        await page.getByRole('heading', { name: 'Clients' }).waitFor();
        await page.getByText('of 5 left').waitFor();
        await work.stop();
        assert.deepEqual(await page.getByLabel('Value').evaluateAll((inputs) => inputs.map((input) => input.value)), [
            '192.0.2.7',
            'POST',
            '/login',
        ]);
        assert.ok(!page.url().includes('192.0.2.7'), 'addresses of the page have nothing of clients');
    },
    'the past is there at once, and the chart is read by keyboard and pointer': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        await daemon.check({ ip: '192.0.2.7', method: 'POST', path: '/login' }, 8);
        await until(
            async () => (await daemon.admin('GET', '/v1/history?span=hour&rules=')).total.refused.some((n) => n > 0),
            'history',
        );
        const page = keep(await openPage(browser, daemon));
        await until(
            async () => (await page.locator('.plot path.refused').getAttribute('d'))?.length > 10,
            'refusals of before in the chart',
        );
        const plot = page.getByRole('slider', { name: /Decisions per second/u });
        await plot.focus();
        await page.keyboard.press('End');
        const last = Number(await plot.getAttribute('aria-valuenow'));
        await page.keyboard.press('ArrowLeft');
        assert.equal(Number(await plot.getAttribute('aria-valuenow')), last - 1);
        assert.match(
            await plot.getAttribute('aria-valuetext'),
            /^\d\d:\d\d:\d\d: (no data|.* allowed, .* refused per second)/u,
        );
        await page.locator('.cross').waitFor({ state: 'attached' });
        await page.keyboard.press('Home');
        assert.match(await plot.getAttribute('aria-valuetext'), /no data/u);
        for (const span of ['Hour', 'Day', '5 min']) {
            await page.getByRole('button', { name: span, exact: true }).click();
            assert.equal(
                await page.getByRole('button', { name: span, exact: true }).getAttribute('aria-pressed'),
                'true',
            );
        }
        const box = await plot.boundingBox();
        await page.mouse.move(box.x + box.width / 2, box.y + 50);
        await until(
            async () => /\d – \d/u.test(await page.locator('.legend .time').textContent()),
            'the readout follows the pointer',
        );
    },
    'shadow mode is said on every page': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { path: '#/nodes' }));
        await untilLive(page);
        await daemon.admin('PUT', '/v1/shadow', { shadow: true });
        await page.getByText('everything is counted and nothing is refused').waitFor();
        await daemon.admin('PUT', '/v1/shadow', { shadow: false });
        await page.getByText('everything is counted and nothing is refused').waitFor({ state: 'detached' });
    },
    'ten thousand rules: searched, sorted and paged by rationd': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(manyRules(10000));
        await daemon.check({ ip: '192.0.2.7', path: '/p7777' }, 3);
        await daemon.check({ ip: '192.0.2.7', path: '/p0' }, 4);
        const page = keep(await openPage(browser, daemon, { path: '#/rules' }));
        await page.getByText('1–50 of 10,000 rules').waitFor();
        assert.equal(await rowsOf(page).count(), 50);
        await page.getByRole('button', { name: 'Next' }).click();
        await page.getByText('51–100 of 10,000 rules').waitFor();
        assert.equal((await names(page))[0], 'rule-00050');
        await page.getByRole('button', { name: 'Refused/s' }).click();
        await until(async () => (await names(page))[0] === 'rule-00000', 'sorted by refusals');
        assert.equal(
            await page.getByRole('columnheader', { name: 'Refused/s' }).getAttribute('aria-sort'),
            'descending',
        );
        assert.equal(await page.evaluate(() => document.activeElement.dataset.sort), 'refused', 'the focus stays');
        await page.getByRole('searchbox', { name: 'Search rules' }).fill('E-0777');
        await page.getByText('10 rules', { exact: true }).waitFor();
        await page.getByRole('button', { name: 'Shadow', exact: true }).click();
        await page.getByText('No rule matches this search.').waitFor();
        await page.goto(`${daemon.url}/#/rules/rule-07777`);
        await page.getByText('7778 per minute').waitFor();
        await page.getByRole('button', { name: 'Show the source' }).click();
        await page.locator('pre.source').getByText('rule-07777').waitFor();
        await page.goto(`${daemon.url}/#/try`);
        await page.getByLabel('Value').nth(1).fill('/p9999');
        await page.getByLabel('Value').nth(2).fill('192.0.2.7');
        await page.getByRole('button', { name: 'Explain' }).click();
        await page.getByText('Allowed', { exact: true }).waitFor();
        await page.getByText('Rules that do not apply, and why').click();
        await page.getByText('and 9,799 more').waitFor();
        await page.goto(`${daemon.url}/#/edit`);
        await page.getByText('In order: 10,000 rules').waitFor();
        assert.ok((await page.locator('.gutter span').count()) < 60, 'only lines in view are numbered');
    },
    'one rule: its limits, its past, its clients, its source': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        await daemon.check({ ip: '192.0.2.7', method: 'POST', path: '/login' }, 8);
        await daemon.admin('PUT', '/v1/overrides', {
            rule: 'login',
            attributes: { ip: '192.0.2.8' },
            limit: '50 per minute',
            note: 'launch',
        });
        await until(
            async () =>
                (await daemon.admin('GET', '/v1/history?span=hour&rules=login')).rules[0]?.refused.some((n) => n > 0),
            'history',
        );
        const page = keep(await openPage(browser, daemon, { path: '#/rules/login' }));
        await page.getByRole('heading', { name: 'login', level: 1 }).waitFor();
        for (const text of ['5 per minute', 'sliding-log', '50 per minute', 'launch'])
            await page.getByText(text, { exact: true }).first().waitFor();
        await page.getByRole('link', { name: '192.0.2.7' }).waitFor();
        await until(
            async () => (await page.locator('.plot path.refused').getAttribute('d'))?.length > 10,
            'refusals in its chart',
        );
        await page.getByRole('button', { name: 'Show the source' }).click();
        assert.match(await page.locator('pre.source').innerText(), /escalate/u);
        assert.doesNotMatch(await page.locator('pre.source').innerText(), /"api"/u);
        await page.goto(`${daemon.url}/#/rules/nobody`);
        await page.getByText('no rule of this name').waitFor();
    },
};
