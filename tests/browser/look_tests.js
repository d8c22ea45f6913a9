// SPDX-License-Identifier: Apache-2.0
// Every page in both themes, on a phone and on a desk: axe finds nothing serious, nothing scrolls sideways; and by
// keyboard alone.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { openPage, until, untilLive } from './browser.js';
import { replayOf } from './replay.js';
import { RULES } from './rules.js';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Pages, each with what must be there before it is looked at. */
const PAGES = {
    '#/overview': (page) => page.locator('[aria-labelledby="limited"] table').waitFor(),
    '#/rules': (page) => page.getByRole('link', { name: 'api', exact: true }).waitFor(),
    '#/rules/login': (page) => page.getByText('sliding-log').waitFor(),
    '#/edit': (page) => page.getByText('In order').waitFor(),
    '#/versions': (page) => page.getByText('read at the start').waitFor(),
    '#/clients': async (page) => {
        await page.locator('[aria-labelledby="most"]').getByRole('link', { name: '192.0.2.7' }).click();
        await page.getByText('of 5 left').waitFor();
    },
    '#/try': async (page) => {
        await page.getByLabel('Value').nth(1).fill('/api/x');
        await page.getByRole('button', { name: 'Explain' }).click();
        await page.getByText('Rules that do not apply, and why').waitFor();
    },
    '#/nodes': (page) => page.getByText('Listeners and connections').waitFor(),
    '#/report': async (page, daemon) => {
        await page.locator('[data-kind="never_hit"]').waitFor();
        await page.getByText('The limits are not published').waitFor();
        await page.getByLabel('A file of ration replay --json').setInputFiles(replayOf(daemon.folder, ['ada', 'bob']));
        await page.locator('[aria-labelledby="replayed"] .plot .area').first().waitFor();
    },
};

/** Something to see: refusals, a ban, an override. */
async function busy(rationd) {
    const daemon = await rationd(RULES);
    await daemon.check({ ip: '192.0.2.7', method: 'POST', path: '/login' }, 20);
    await daemon.check({ ip: '192.0.2.7', path: '/search' }, 6);
    await daemon.admin('PUT', '/v1/overrides', {
        rule: 'api',
        attributes: { api_key: 'k1' },
        limit: '1000 per minute',
        note: 'launch day',
    });
    await daemon.admin('PUT', '/v1/bans', { attributes: { ip: '198.51.100.0/24' }, for: 600, reason: 'scraping' });
    await daemon.admin('PUT', '/v1/shadow', { shadow: true });
    return daemon;
}

/** What axe finds: serious and critical. The page's policy lets nothing in but by the driver. */
async function audit(page, what) {
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    const grave = violations.filter((one) => ['serious', 'critical'].includes(one.impact));
    assert.deepEqual(
        grave.map(
            (one) =>
                `${what}: ${one.id}: ${one.nodes
                    .map((node) => `${node.target} ${node.failureSummary}`)
                    .slice(0, 3)
                    .join('; ')}`,
        ),
        [],
    );
}

async function fits(page, what) {
    const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(content <= window, `${what} is ${content} pixels wide in a window of ${window}`);
}

/** Headings go down by one level at a time. */
async function headingsInOrder(page, what) {
    const levels = await page
        .locator('h1, h2, h3, h4')
        .evaluateAll((all) => all.filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1])));
    assert.equal(levels[0], 1, what);
    levels.reduce((before, level) => {
        assert.ok(level <= before + 1, `${what}: h${before}, then h${level}`);
        return level;
    });
}

const looks = Object.fromEntries(
    [
        ['light', 1440],
        ['dark', 1440],
        ['light', 390],
        ['dark', 390],
    ].map(([theme, width]) => [
        `every page at ${width} pixels in the ${theme} theme: axe finds nothing serious, nothing scrolls sideways`,
        async ({ browser, rationd, keep }) => {
            const daemon = await busy(rationd);
            const page = keep(await openPage(browser, daemon, { width, height: width === 390 ? 844 : 900, theme }));
            await untilLive(page);
            await page.getByText('Shadow mode:').waitFor();
            for (const [path, ready] of Object.entries(PAGES)) {
                await page.goto(`${daemon.url}/${path}`);
                await ready(page, daemon);
                await audit(page, path);
                await fits(page, path);
                await headingsInOrder(page, path);
            }
            await page.keyboard.press('Tab');
            await page.getByRole('button', { name: '?' }).click();
            await audit(page, 'shortcuts');
            assert.equal(
                await page.evaluate(() => getComputedStyle(document.body).backgroundColor),
                theme === 'dark' ? 'rgb(17, 22, 26)' : 'rgb(245, 246, 247)',
            );
        },
    ]),
);

/** Presses Tab until the focus is where it should be. Each stop must be visible. */
async function tabTo(page, isThere, what) {
    for (let i = 0; i < 120; i += 1) {
        await page.keyboard.press('Tab');
        const stop = await page.evaluate(() => {
            const element = document.activeElement;
            const style = getComputedStyle(element);
            const around = element.closest('.editor');
            return {
                text: (element.getAttribute('aria-label') ?? element.textContent).trim(),
                id: element.id,
                seen:
                    style.outlineStyle !== 'none' ||
                    (around !== null && getComputedStyle(around).outlineStyle !== 'none'),
                body: element === document.body,
            };
        });
        if (!stop.body) assert.ok(stop.seen, `the focus on "${stop.text}" cannot be seen`);
        if (isThere(stop)) return;
    }
    assert.fail(`Tab never comes to ${what}`);
}

export default {
    ...looks,
    'on a tablet names of rules are not broken, and on a phone values have more room than names': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await busy(rationd);
        const page = keep(await openPage(browser, daemon, { width: 768 }));
        for (const title of ['Overview', 'Rules']) {
            await page.goto(`${daemon.url}/#/${title.toLowerCase()}`);
            await page.getByRole('heading', { name: title, level: 1 }).waitFor(); // else the table is that of the page before
            await page.getByRole('link', { name: 'search', exact: true }).waitFor();
            const [lines, content, room] = await page.evaluate(() => {
                const link = document.querySelector('a.rule-name[href="#/rules/search"]');
                const { scrollWidth, clientWidth } = link.closest('.scroll');
                return [link.firstElementChild.getClientRects().length, scrollWidth, clientWidth];
            });
            assert.equal(lines, 1, title);
            assert.ok(content <= room, `${title}: the table needs ${content} pixels of ${room}`);
        }
        await page.setViewportSize({ width: 390, height: 844 });
        await page.goto(`${daemon.url}/#/try`);
        await page.getByRole('heading', { name: 'Try a request', level: 1 }).waitFor();
        const wide = async (label) => (await page.getByLabel(label, { exact: true }).first().boundingBox()).width;
        assert.ok((await wide('Value')) > (await wide('Attribute')));
    },
    'by keyboard alone: skip link, sections, search, sort, a client, an action': async ({ browser, rationd, keep }) => {
        const daemon = await busy(rationd);
        const page = keep(await openPage(browser, daemon));
        await untilLive(page);
        await tabTo(page, (stop) => stop.id === 'skip', 'the skip link');
        await page.keyboard.press('Enter');
        assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
        await page.keyboard.press('?');
        await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
        await page.keyboard.press('Escape');
        await page.getByRole('dialog').waitFor({ state: 'detached' });
        await page.getByRole('searchbox').waitFor(); // the stream may be live before the page is there
        await page.keyboard.press('/');
        assert.equal(await page.evaluate(() => document.activeElement.type), 'search');
        await page.keyboard.type('log');
        await page.getByText('1 rule', { exact: true }).waitFor();
        await tabTo(page, (stop) => stop.text === 'Rule', 'the button that sorts by name');
        await page.keyboard.press('Enter');
        await page.locator('th[aria-sort="ascending"]').waitFor();
        await tabTo(page, (stop) => stop.text === 'login', 'the link of the rule');
        await page.keyboard.press('Enter');
        await page.getByRole('heading', { name: 'login', level: 1 }).waitFor();
        assert.equal(await page.evaluate(() => document.activeElement.id), 'main', 'the focus moves to the new page');
        for (const [key, heading] of [
            ['n', 'Nodes and store'],
            ['v', 'Versions'],
            ['e', 'Edit rules'],
            ['r', 'Rules'],
            ['t', 'Try a request'],
            ['p', 'Report'],
        ]) {
            await page.keyboard.press('g');
            await page.keyboard.press(key);
            await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
            await until(() => page.evaluate(() => document.activeElement.id === 'main'), 'the focus on the page');
        }
        await page.keyboard.press('g');
        await page.keyboard.press('c');
        await page.getByRole('heading', { name: 'Clients', level: 1 }).waitFor();
        await page.getByRole('link', { name: '192.0.2.7' }).first().waitFor();
        await tabTo(page, (stop) => stop.text === '192.0.2.7', 'a client that was refused');
        await page.keyboard.press('Enter');
        await page.getByText('of 5 left').waitFor();
        await page.keyboard.press('/');
        await tabTo(page, (stop) => stop.text === 'Reset…', 'the button Reset');
        await page.keyboard.press('Enter');
        await tabTo(page, (stop) => stop.text === 'Reset', 'the button of the dialog');
        await page.keyboard.press('Enter');
        await page.locator('.big').getByText('5', { exact: true }).waitFor();
    },
    'Tab in the editor writes spaces, and after Escape goes on': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { path: '#/edit' }));
        await page.getByText('In order').waitFor();
        await page.keyboard.press('/');
        await page.keyboard.press('Control+Home');
        await page.keyboard.press('Tab');
        assert.ok((await page.locator('textarea').inputValue()).startsWith('  '));
        await page.keyboard.press('Escape');
        await page.keyboard.press('Tab');
        assert.notEqual(await page.evaluate(() => document.activeElement.tagName), 'TEXTAREA');
    },
    'the theme is switched, and kept': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { theme: 'light' }));
        const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        await page.getByRole('button', { name: /^Theme: system/u }).click();
        await page.getByRole('button', { name: /^Theme: light/u }).click();
        assert.equal(await ground(), 'rgb(17, 22, 26)');
        await page.reload();
        await page.getByRole('button', { name: /^Theme: dark/u }).waitFor();
        assert.equal(await ground(), 'rgb(17, 22, 26)');
    },
    'motion is reduced where somebody asks for that': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        for (const [motion, moves] of [
            ['reduce', false],
            ['no-preference', true],
        ]) {
            const page = keep(await openPage(browser, daemon, { motion }));
            await untilLive(page);
            const animated = await page.evaluate(() => {
                document.getElementById('connection').dataset.state = 'lost';
                return getComputedStyle(document.querySelector('.dot')).animationName !== 'none';
            });
            assert.equal(animated, moves, motion);
        }
    },
};
