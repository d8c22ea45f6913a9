// SPDX-License-Identifier: Apache-2.0
// Clients: looked up, and every action on them; a request tried; names that are hostile.

import assert from 'node:assert/strict';
import { openPage, until, untilLive } from './browser.js';
import { RULES } from './rules.js';

const dialog = (page) => page.getByRole('dialog');
const card = (page, rule) => page.getByRole('region', { name: `Rule ${rule}` });

async function lookUp(page, attributes) {
    for (const [i, [name, value]] of Object.entries(attributes).entries()) {
        if (i >= (await page.getByLabel('Attribute', { exact: true }).count()))
            await page.getByRole('button', { name: 'Add attribute' }).click();
        await page.getByLabel('Attribute', { exact: true }).nth(i).fill(name);
        await page.getByLabel('Value').nth(i).fill(value);
    }
    await page.getByLabel('Value').last().press('Enter');
}

/** Opens the dialog of an action, fills it in, and says yes. */
async function act(page, button, fields, doIt) {
    await button.click();
    for (const [label, value] of Object.entries(fields))
        await dialog(page).getByLabel(label, { exact: true }).fill(value);
    await dialog(page).getByRole('button', { name: doIt, exact: true }).click();
    await dialog(page).waitFor({ state: 'detached' });
}

const LOGIN = { ip: '192.0.2.7', method: 'POST', path: '/login' };

export default {
    'a client is read, adjusted, reset, overridden, paused, lifted and banned': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        await daemon.check(LOGIN, 3);
        const page = keep(await openPage(browser, daemon, { path: '#/clients', expect: [400] }));
        await lookUp(page, LOGIN);
        const login = card(page, 'login');
        const left = (text) => login.locator('.figure').getByText(text).waitFor();
        const press = (name) => login.getByRole('button', { name, exact: true });
        await login.getByText('2', { exact: true }).waitFor();
        await left('of 5 left');

        await act(page, press('Adjust…'), { Remaining: '1' }, 'Adjust');
        await login.locator('.big').getByText('1', { exact: true }).waitFor();
        await press('Reset…').click();
        assert.match(await dialog(page).innerText(), /login.*ip=192\.0\.2\.7.*has spent 4/su);
        await dialog(page).getByRole('button', { name: 'Reset', exact: true }).click();
        await login.locator('.big').getByText('5', { exact: true }).waitFor();

        await press('Override…').click();
        await dialog(page).getByLabel('Limit', { exact: true }).fill('50 per fortnight');
        await dialog(page).getByRole('button', { name: 'Set override' }).click();
        await dialog(page).getByText('unknown period "fortnight"').waitFor(); // as the server says it, and the dialog stays
        await dialog(page).getByLabel('Limit', { exact: true }).fill('50 per minute');
        await dialog(page).getByLabel('For', { exact: true }).fill('1h');
        await dialog(page).getByRole('button', { name: 'Set override' }).click();
        await left('of 50 left');
        await login.getByText('override', { exact: true }).waitFor();
        await page.getByRole('region', { name: 'Overrides' }).last().getByText('50 per minute').waitFor();
        await act(page, press('Delete override…'), {}, 'Delete override');
        await left('of 5 left');

        await act(page, page.getByRole('button', { name: 'Pause…' }), { For: '10m' }, 'Pause');
        await login.getByText('Paused', { exact: true }).waitFor();
        await act(page, press('End pause…'), {}, 'End pause');
        await press('End pause…').waitFor({ state: 'detached' });

        await daemon.check(LOGIN, 20);
        await page.getByRole('button', { name: 'Look up' }).click();
        await login.getByText('banned', { exact: true }).waitFor();
        await act(page, press('Lift ban…'), {}, 'Lift');
        await login.getByText('not banned').waitFor();

        await act(
            page,
            page.getByRole('button', { name: 'Ban…', exact: true }),
            { For: '10m', Reason: 'scraping' },
            'Ban',
        );
        await page.getByText('by an operator').waitFor();
        assert.equal((await daemon.check(LOGIN)).banned, true);
        await act(page, page.getByRole('button', { name: /^Lift ban \d/u }), {}, 'Lift');
        await page.getByText('No operator has banned anybody.').waitFor();
        assert.equal((await daemon.check(LOGIN)).banned, undefined);
    },
    'usage and last refusals of a client are shown, and bans of rules are lifted from the list': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(RULES);
        await daemon.check({ api_key: 'k1', path: '/api/x' }, 4);
        await daemon.check(LOGIN, 20);
        const page = keep(await openPage(browser, daemon, { path: '#/clients' }));
        await lookUp(page, { api_key: 'k1', path: '/api/x' });
        await card(page, 'api').getByText('4 units: 4 admitted').waitFor();
        await card(page, 'api').getByText('tier free').waitFor();
        await act(page, page.getByRole('button', { name: 'Lift the ban of 192.0.2.7' }), {}, 'Lift');
        await page.getByText('No rule bans anybody now.').waitFor();
        await page.locator('[aria-labelledby="most"]').getByRole('link', { name: '192.0.2.7' }).click();
        await card(page, 'login').getByText('Last refusals').waitFor();
        assert.match(await card(page, 'login').innerText(), /Last refusals\s+\d\d:\d\d:\d\d, /u);
    },
    'attributes that no rule applies to are answered with the reasons of the nearest': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { path: '#/clients' }));
        await lookUp(page, { ip: '192.0.2.7', path: '/login' });
        await page.getByText('No rule applies to these attributes.').waitFor();
        await page.getByText('method is absent; it must be POST').waitFor();
    },
    'a request is tried: what applies and why, and nothing is counted': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { path: '#/try' }));
        await page.getByLabel('Value').nth(0).fill('POST');
        await page.getByLabel('Value').nth(1).fill('/login');
        await page.getByLabel('Value').nth(2).fill('192.0.2.7');
        await page.getByLabel('Cost').fill('2');
        await page.getByRole('button', { name: 'Explain' }).click();
        await page.getByRole('heading', { name: 'Allowed' }).waitFor();
        await card(page, 'login').getByText('Would charge 2 units: 3 of 5 would be left').waitFor();
        await page.getByText('Rules that do not apply, and why').click();
        await page.getByText('path "/login" does not match /api/**').waitFor();
        await page.getByLabel('Cost').fill('6');
        await page.getByRole('button', { name: 'Explain' }).click();
        await page.getByRole('heading', { name: 'Refused' }).waitFor();
        await page.getByText('It never will have.').waitFor();
        const { decisions } = await daemon.admin('GET', '/v1/status');
        assert.deepEqual([decisions.allowed, decisions.refused], [0, 0]);
    },
    'the focus stays where it was after a dialog, and a lifted ban is gone from the client, too': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { path: '#/clients' }));
        const focused = () => page.evaluate(() => document.activeElement.textContent);
        await lookUp(page, LOGIN);
        const ban = page.getByRole('region', { name: 'The client' }).getByRole('button', { name: 'Ban…' });
        await ban.focus();
        await page.keyboard.press('Enter');
        assert.equal(await dialog(page).getByLabel('Attributes').inputValue(), 'ip=192.0.2.7');
        await page.keyboard.press('Escape');
        await dialog(page).waitFor({ state: 'detached' });
        assert.equal(await focused(), 'Ban…', 'after Escape');
        await act(page, ban, { For: '1 hour' }, 'Ban');
        const tag = page.getByRole('region', { name: 'The client' }).getByText('banned', { exact: true });
        await tag.waitFor();
        assert.equal(await focused(), 'Ban…', 'after the client was shown again');
        const bans = page.getByRole('region', { name: 'Bans by operators' }).first();
        await bans.getByRole('button', { name: /^Lift ban/u }).click();
        await dialog(page).getByRole('button', { name: 'Lift', exact: true }).click();
        await tag.waitFor({ state: 'detached' });
        await bans.getByText('No operator has banned anybody.').waitFor();
        assert.notEqual(await focused(), await page.evaluate(() => document.body.textContent), 'the list has the focus');
        const { bans: left } = await daemon.admin('GET', '/v1/bans');
        assert.deepEqual(left, []);
    },
    'a list that decides in the place of the rules is named, and so are attributes that no rule looks at': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(`${RULES}deny:\n  - { ip: 198.51.100.0/24 }\n`);
        const page = keep(await openPage(browser, daemon, { path: '#/try' }));
        await page.getByLabel('Value').nth(2).fill('198.51.100.7');
        await page.getByRole('button', { name: 'Add attribute' }).click();
        await page.getByLabel('Attribute', { exact: true }).nth(3).fill('apikey');
        await page.getByLabel('Value').nth(3).fill('k1');
        await page.getByRole('button', { name: 'Explain' }).click();
        await page.getByRole('heading', { name: 'Refused' }).waitFor();
        await page.getByText('An entry of the list deny decides').waitFor();
        await page.getByText('Not used:').waitFor();
        assert.match(await page.locator('main').innerText(), /apikey \(did you mean api_key\?\)/u);
    },
    'hostile names are text, wherever they stand': async ({ browser, rationd, keep }) => {
        const hostile = [
            '<script>alert(1)</script>',
            '<img src=x onerror=alert(2)>',
            '\u202egnp.exe\u202c',
            'שלום עולם',
            '👩\u200d💻 🎛',
            'a"\'`&lt;b',
            'very/../long?#&=%2F',
            'x'.repeat(300),
        ];
        const levels = hostile.map(
            (value) =>
                `  - { key: user, value: ${JSON.stringify(value).replaceAll('\u202e', '\\u202E').replaceAll('\u202c', '\\u202C')}, rate_limit: { unit: hour, requests_per_unit: 2 } }`,
        );
        const daemon = await rationd('limits: [{ name: each, key: user, limit: 2 per hour }]', {
            args: (folder) => ['--config', `${folder}/envoy.yaml`],
            files: { 'envoy.yaml': `domain: d\ndescriptors:\n${levels.join('\n')}\n` },
        });
        for (const user of hostile) await daemon.check({ user }, 4);
        await daemon.admin('PUT', '/v1/bans', { attributes: { user: hostile[0] }, reason: hostile[1] });
        await daemon.admin('PUT', '/v1/overrides', {
            rule: 'each',
            attributes: { user: hostile[2] },
            limit: '9 per hour',
            note: hostile[0],
        });
        const page = keep(await openPage(browser, daemon, { path: '#/overview' }));
        page.on('dialog', () => page.evaluate(() => console.error('a dialog was opened')));
        await untilLive(page);
        await page.getByText(hostile[0]).first().waitFor();
        const text = await page.locator('main').innerText();
        for (const name of [hostile[0], hostile[1], hostile[3], hostile[4], hostile[5]])
            assert.ok(text.includes(name), name);
        assert.ok(!text.includes('\u202e') && text.includes('U+202E'), 'what turns text is shown as its code');
        assert.equal(await page.locator('main img, main script').count(), 0);
        const { rules } = await daemon.admin('GET', '/v1/activity?search=d.user'); // names of rules are ASCII, with %E2 for other bytes
        assert.equal(rules.length, hostile.length);
        for (const { name } of rules) {
            await page.goto(`${daemon.url}/#/rules/${encodeURIComponent(name)}`);
            await until(async () => (await page.getByRole('heading', { level: 1 }).textContent()) === name, name);
            await page.getByText('2 per hour').first().waitFor();
        }
        await page.goto(`${daemon.url}/#/clients`);
        await page.locator('[aria-labelledby="most"]').getByRole('link', { name: hostile[1] }).first().waitFor();
        await page.locator('[aria-labelledby="bans"]').getByText(hostile[1]).waitFor();
        const cut = page.locator('[aria-labelledby="most"]').getByText(/^x{63}…$/u).first();
        assert.equal(await cut.getByRole('link').count(), 0, 'a key that was cut would find another client');
        await lookUp(page, { user: hostile[1] });
        await page.getByRole('heading', { name: `user=${hostile[1]}` }).waitFor();
        assert.equal(await page.locator('main img, main script').count(), 0);
        for (const path of ['edit', 'versions', 'try', 'nodes']) {
            await page.goto(`${daemon.url}/#/${path}`);
            await page.getByRole('heading', { level: 1 }).waitFor();
            assert.equal(await page.locator('main img, main script').count(), 0, path);
        }
    },
};
