// SPDX-License-Identifier: Apache-2.0
// Rules over time: write, validate, compare, try in shadow, apply, versions, the way back.

import assert from 'node:assert/strict';
import { appendFileSync } from 'node:fs';
import { openPage, until, untilLive } from './browser.js';
import { RULES } from './rules.js';

const editor = (page) => page.getByRole('textbox', { name: 'Rules as YAML' });
const dialog = (page) => page.getByRole('dialog');

async function openEditor(kit, daemon, options = {}) {
    const page = kit.keep(await openPage(kit.browser, daemon, { path: '#/edit', ...options }));
    await editor(page).waitFor();
    await untilLive(page);
    return page;
}

async function change(page, from, to) {
    const text = await editor(page).inputValue();
    assert.ok(text.includes(from), from);
    await editor(page).fill(text.replace(from, to));
}

export default {
    'a mistake is marked at its line while you write, and cannot be applied': async (kit) => {
        const daemon = await kit.rationd(RULES);
        const page = await openEditor(kit, daemon, { expect: [422] });
        await change(page, '5 per minute', '5 per fortnight');
        await page.getByText('unknown period "fortnight"').waitFor();
        const line = (await editor(page).inputValue()).split('\n').findIndex((one) => one.includes('fortnight')) + 1;
        assert.match(await page.locator('.gutter .error').innerText(), new RegExp(`${line}$`, 'u'));
        assert.equal(await page.locator('.line-marks .error').count(), 1);
        await page.getByRole('button', { name: `line ${line}` }).click();
        assert.equal(
            await editor(page).evaluate((area) => area.value.slice(0, area.selectionStart).split('\n').length),
            line,
        );
        await page.getByRole('button', { name: 'Apply…' }).click();
        await until(
            async () => page.evaluate(() => document.activeElement.tagName === 'TEXTAREA'),
            'back in the editor',
        );
        assert.equal(await dialog(page).count(), 0);
        await change(page, '5 per fortnight', '6 per minute');
        await page.getByText('In order: 3 rules').waitFor();
        assert.equal(await page.locator('.gutter .error').count(), 0);
    },
    'apply shows what will change, does it, and the head names the new version': async (kit) => {
        const daemon = await kit.rationd(RULES);
        const page = await openEditor(kit, daemon);
        await change(page, '5 per minute', '7 per minute');
        await page.locator('.diff .added').getByText('7 per minute').waitFor();
        await page.getByRole('button', { name: 'Apply…' }).click();
        await dialog(page).getByText('They replace version 1').waitFor();
        await dialog(page).getByText('1 line added, 1 removed').waitFor();
        await dialog(page).getByRole('button', { name: 'Cancel' }).click();
        assert.equal((await daemon.admin('GET', '/v1/rules')).version, 1);
        await page.getByRole('button', { name: 'Apply…' }).click();
        await dialog(page).getByRole('button', { name: 'Apply', exact: true }).click();
        await page.getByText('version 2 is in force').waitFor();
        await page.locator('.head').getByText('version 2,').waitFor();
        await page.getByText('This is the canonical text of the files').waitFor({ state: 'hidden' });
        assert.deepEqual((await daemon.admin('GET', '/v1/rules')).rules[0].limits, ['7 per minute']);
        await page.reload();
        await page.getByText('You have changed nothing yet.').waitFor();
    },
    'what was written outlives leaving the page, and is discarded when asked': async (kit) => {
        const daemon = await kit.rationd(RULES);
        const page = await openEditor(kit, daemon);
        await change(page, '5 per minute', '8 per minute');
        await page.goto(`${daemon.url}/#/nodes`);
        await page.getByRole('heading', { name: 'Nodes and store' }).waitFor();
        await page.goto(`${daemon.url}/#/edit`);
        await until(async () => (await editor(page).inputValue()).includes('8 per minute'), 'the draft');
        await page.getByRole('button', { name: 'Discard my changes…' }).click();
        await dialog(page).getByRole('button', { name: 'Discard' }).click();
        await until(async () => (await editor(page).inputValue()).includes('5 per minute'), 'the rules in force');
    },
    'somebody else has changed the rules: what, and nothing of ours is applied': async (kit) => {
        const daemon = await kit.rationd(RULES);
        const page = await openEditor(kit, daemon, { expect: [412] });
        await change(page, '5 per minute', '9 per minute');
        const { text } = await daemon.admin('GET', '/v1/rules');
        await daemon.admin('PUT', '/v1/rules', text.replace('3 per hour', '4 per hour'));
        await page.getByRole('button', { name: 'Apply…' }).click();
        await dialog(page).getByRole('button', { name: 'Apply', exact: true }).click();
        await page.getByText('Somebody else has changed the rules meanwhile').waitFor();
        await page.locator('.notice .diff .added').getByText('4 per hour').waitFor();
        assert.equal((await daemon.admin('GET', '/v1/rules')).rules[0].limits[0], '5 per minute');
        await page.getByRole('button', { name: 'Keep my text' }).click();
        // Ours lacks their change: the comparison shows it before anything is applied.
        await page.locator('.diff .removed').getByText('4 per hour').waitFor();
        await change(page, '3 per hour', '4 per hour');
        await page.locator('.diff .removed').getByText('4 per hour').waitFor({ state: 'detached' });
        await page.getByRole('button', { name: 'Apply…' }).click();
        await dialog(page).getByRole('button', { name: 'Apply', exact: true }).click();
        await page.getByText('version 3 is in force').waitFor();
    },
    'a trial counts in shadow and ends': async (kit) => {
        const daemon = await kit.rationd(RULES);
        const page = await openEditor(kit, daemon);
        await change(page, '5 per minute', '2 per minute');
        await page.getByRole('button', { name: 'Try in shadow…' }).click();
        await dialog(page).getByRole('button', { name: 'Try in shadow' }).click();
        await page.getByText('On trial:').waitFor();
        const answer = await daemon.check({ ip: '192.0.2.7', method: 'POST', path: '/login' }, 4);
        assert.ok(answer.allowed && answer.shadow, JSON.stringify(answer));
        await page.goto(`${daemon.url}/#/rules/login.trial`);
        await page.getByText('shadow: counts, refuses nothing').waitFor();
        await page.goto(`${daemon.url}/#/edit`);
        await page.getByRole('button', { name: 'End the trial…' }).click();
        await dialog(page).getByRole('button', { name: 'End the trial' }).click();
        await page.getByRole('button', { name: 'End the trial…' }).waitFor({ state: 'detached' });
        assert.deepEqual(
            (await daemon.admin('GET', '/v1/rules')).rules.map((rule) => rule.name),
            ['login', 'api', 'search'],
        );
    },
    'versions: who, when and how; view, compare, roll back, back to the files': async (kit) => {
        const daemon = await kit.rationd(RULES);
        const { text } = await daemon.admin('GET', '/v1/rules');
        await daemon.admin('PUT', '/v1/rules', text.replace('5 per minute', '50 per minute'));
        const page = kit.keep(await openPage(kit.browser, daemon, { path: '#/versions' }));
        const row = (n) => page.locator('tbody tr').nth(n);
        await row(1).getByText('read at the start').waitFor();
        await row(0).getByText('in force').waitFor();
        assert.match(await row(0).innerText(), /applied/u);
        await row(1).getByRole('button', { name: /^View/u }).click();
        await page.locator('pre.source').getByText('5 per minute').waitFor();
        await row(1)
            .getByRole('button', { name: /^Compare/u })
            .click();
        await page.locator('.diff .added').getByText('50 per minute').waitFor();
        await row(1)
            .getByRole('button', { name: /^Roll back/u })
            .click();
        await dialog(page).locator('.diff .removed').getByText('50 per minute').waitFor();
        await dialog(page).getByRole('button', { name: 'Roll back' }).click();
        await page.getByText('is in force again').waitFor();
        await row(0)
            .getByText(/rolled back to \d/u)
            .waitFor();
        assert.deepEqual((await daemon.admin('GET', '/v1/rules')).rules[0].limits, ['5 per minute']);
        appendFileSync(daemon.file, '  - { name: new, key: ip, limit: 1 per day }\n');
        await page.getByRole('button', { name: 'Go back to the files…' }).click();
        await dialog(page).getByRole('button', { name: 'Go back' }).click();
        await page.getByText('The rules of the files are in force.').waitFor();
        await until(async () => (await daemon.admin('GET', '/v1/rules')).source === 'file', 'rules of files');
        await page.getByRole('button', { name: 'Read the files again…' }).click();
        await dialog(page).getByRole('button', { name: 'Read them' }).click();
        await page.getByText('The files were read.').waitFor();
        assert.ok((await daemon.admin('GET', '/v1/rules')).rules.some((rule) => rule.name === 'new'));
    },
};
