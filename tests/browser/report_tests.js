// SPDX-License-Identifier: Apache-2.0
// The page Report: findings of a real rationd, against those of `ration report`; replays that `ration replay --json` has
// written, with hostile names; files that are none.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { openPage } from './browser.js';
import { ration, replayOf, REPLAYED } from './replay.js';
import { RULES } from './rules.js';

const HOSTILE = '<img src=x onerror=alert(1)>';
const TURNED = 'user\u202egnp.exe';
const REPORTED = `signals:
  backlog: { source: push, expires: 1h }
limits:
  - { name: api, when: { path: "/api/**" }, key: user, limit: 10 per hour }
  - { name: narrow, when: { path: /api/items }, key: user, limit: 200 per hour }
  - { name: spare, when: { path: /spare }, key: user, limit: 10000 per hour burst 4000 }
  - { name: never, when: { path: /never }, key: user, limit: 5 per hour }
  - { name: follows, when: { path: /follows }, key: user, limit: 100 per hour,
      adapt: { when: backlog above 1000, to: 50% } }
`;

const users = (count) => Array.from({ length: count }, (_, i) => `user-${i}`);

/** Requests of which each kind of finding follows. */
async function used(rationd, options) {
    const daemon = await rationd(REPORTED, options);
    for (const user of users(12)) await daemon.check({ path: '/api/items', method: 'GET', user }, 12);
    for (const user of users(12)) await daemon.check({ path: '/spare', method: 'GET', user }, 10);
    await daemon.check({ path: `/${HOSTILE}`, method: 'POST', user: HOSTILE }, 3);
    await daemon.check({ path: '/follows', method: 'GET', user: HOSTILE }, 85);
    await daemon.check({ path: '/follows', method: 'GET', user: 'ada' }, 85);
    return daemon;
}

/** The findings on the page as text, by kind. */
const findingsOn = (page, around) =>
    page
        .locator(`${around} [data-kind]`)
        .evaluateAll((all) =>
            all.flatMap((one) =>
                [...one.querySelectorAll('li')].map((item) => `${one.dataset.kind}: ${item.textContent}`),
            ),
        );

const findingsOf = (json) => JSON.parse(json).findings.map(({ kind, message }) => `${kind}: ${message}`);

const choose = (page, file) => page.getByLabel('A file of ration replay --json').setInputFiles(file);
const FOUND = '[aria-labelledby="found"]';
const REPLAY = '[aria-labelledby="replayed"]';

export default {
    'report: the findings are those of ration report, in its words': async ({ browser, rationd, keep }) => {
        const daemon = await used(rationd);
        const admin = `127.0.0.1:${daemon.ports.admin}`;
        const page = keep(await openPage(browser, daemon, { path: '#/report' }));
        for (const [share, option] of [
            [null, '5%'],
            ['99.5', '99.5%'],
        ]) {
            await page.locator(`${FOUND} [data-kind="uncovered"]`).waitFor();
            if (share !== null) await page.getByLabel('Many clients: more than (%)').fill(share);
            const said = findingsOf(ration(daemon.folder, 'report', '--json', '--share', option, '--admin', admin));
            const kinds = new Set(said.map((one) => one.split(':')[0]));
            for (const kind of [
                'never_hit',
                'refuses_many',
                'shadowed',
                'near_limit',
                'uncovered',
                'signal_never_fired',
                'suggestion',
            ])
                assert.ok(kinds.has(kind), `${kind} is not in ${said.join('\n')}`);
            assert.deepEqual(await findingsOn(page, FOUND), said);
        }
        await page.getByLabel('Many clients: more than (%)').fill('700');
        await page.getByText('should be a number from 0 to 99.9').waitFor();
    },
    'report: a finding leads to its rule, and to its client': async ({ browser, rationd, keep }) => {
        const daemon = await used(rationd);
        const page = keep(await openPage(browser, daemon, { path: '#/report' }));
        await page.locator(`${FOUND} [data-kind="near_limit"]`).getByRole('link', { name: 'ada' }).click();
        await page.getByRole('heading', { name: 'Clients', level: 1 }).waitFor();
        await page.getByText('of 100 left').waitFor();
        assert.ok(!page.url().includes('ada'), 'no client stands in the address');
        await page.keyboard.press('g');
        await page.keyboard.press('p');
        await page.getByRole('heading', { name: 'Report', level: 1 }).waitFor();
        assert.equal(await page.locator('#sections [aria-current]').textContent(), 'Report');
        await page.locator(`${FOUND} [data-kind="never_hit"]`).getByRole('link', { name: 'never' }).click();
        await page.getByRole('heading', { name: 'never', level: 1 }).waitFor();
    },
    'report: before any request, and without rules, it says so': async ({ browser, rationd, keep }) => {
        const fresh = await rationd(RULES);
        const page = keep(await openPage(browser, fresh, { path: '#/report' }));
        await page.getByText('No request has come since rationd started').waitFor();
        await page.locator(`${FOUND} [data-kind="never_hit"] li`).nth(2).waitFor();
        const bare = await rationd('limits: []\n');
        const other = keep(await openPage(browser, bare, { path: '#/report' }));
        await other.getByText('There are no rules, so nothing can be said of them').waitFor();
        assert.equal(await other.locator(`${FOUND} [data-kind]`).count(), 0);
    },
    'report: a replayed log is shown, its names are text, and nothing leaves the browser': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(RULES);
        const file = replayOf(daemon.folder, [HOSTILE, TURNED, ...users(10)]);
        const replay = JSON.parse(readFileSync(file, 'utf8'));
        const { requests, refused } = replay.replayed;
        assert.ok(requests === 360 && refused > 0, JSON.stringify(replay.replayed).slice(0, 300));
        const page = keep(await openPage(browser, daemon, { path: '#/report' }));
        await page.locator(`${FOUND} [data-kind]`).first().waitFor();
        const sent = [];
        page.on('request', (request) => sent.push(`${request.method()} ${new URL(request.url()).pathname}`));
        page.on('dialog', () => assert.fail('a script of a name has run'));
        const chooser = page.waitForEvent('filechooser');
        await page.getByLabel('A file of ration replay --json').press('Enter');
        await (await chooser).setFiles(file);
        await page.locator(`${REPLAY} .plot .area`).first().waitFor();
        await page.locator(REPLAY).getByText(`${refused} of ${requests} (`).first().waitFor();
        const clients = page.getByRole('region', { name: 'Clients limited most' });
        await clients.getByText(HOSTILE, { exact: true }).waitFor();
        await clients.getByText('U+202E').waitFor();
        assert.equal(await page.locator('main img').count(), 0);
        assert.ok(!(await page.locator(REPLAY).textContent()).includes('\u202e'));
        const rows = await page.getByRole('region', { name: 'Rules of the replay' }).getByRole('row').allTextContents();
        assert.equal(rows.length, 3);
        assert.ok(rows[1].startsWith('api360'), rows[1]);
        const said = findingsOf(ration(daemon.folder, 'report', '--replay', file, '--json'));
        assert.ok(said.length >= 3, said.join('\n'));
        assert.deepEqual(await findingsOn(page, REPLAY), said);
        assert.equal(await page.locator(`${REPLAY} a`).count(), 0, 'rules of a replay are not those of this rationd');
        const plot = page.locator(`${REPLAY} .plot`);
        await plot.focus();
        await page.keyboard.press('Home');
        assert.match(await plot.getAttribute('aria-valuetext'), /^\d\d:\d\d:\d\d: .* allowed, .* refused per second$/u);
        assert.deepEqual(
            sent.filter((one) => !/^GET \/(v1|web)\//u.test(one)),
            [],
        );
        await page.getByRole('button', { name: 'Close' }).click();
        await plot.waitFor({ state: 'detached' });
        assert.ok(
            await page.getByLabel('A file of ration replay --json').evaluate((one) => one === document.activeElement),
        );
    },
    'report: a dropped file; names of rules that were changed; two sets of rules; a log of a month': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(RULES);
        writeFileSync(join(daemon.folder, 'old.yaml'), REPLAYED.replace('3 per minute', '1 per day'));
        const file = replayOf(daemon.folder, users(4), { seconds: 21600, against: ['--against', 'old.yaml'] });
        const replay = JSON.parse(readFileSync(file, 'utf8'));
        replay.replayed.rules[0].rule = HOSTILE;
        const [api, never] = replay.replayed.rules;
        replay.replayed.rules = [
            api,
            { ...api, rule: 'tenth', refused: 2, clients: { seen: 20, refused: 2, exact: true } },
            ...Array.from({ length: 120 }, (_, i) => ({ ...never, rule: `never-${i}` })),
        ];
        replay.logs[0].file = HOSTILE.repeat(1000);
        const page = keep(await openPage(browser, daemon, { path: '#/report', width: 390, height: 844 }));
        page.on('dialog', () => assert.fail('a script of a name has run'));
        const drop = async (texts) => {
            const data = await page.evaluateHandle((all) => {
                const transfer = new DataTransfer();
                all.forEach((text, i) => transfer.items.add(new File([text], `file${i}.json`)));
                return transfer;
            }, texts);
            await page.locator('.drop').dispatchEvent('drop', { dataTransfer: data });
        };
        await drop([JSON.stringify(replay)]);
        await page.locator(`${REPLAY} .plot .area`).first().waitFor();
        await page.getByText('What changes').waitFor();
        await page.getByRole('region', { name: 'Rules of the replay' }).getByText(HOSTILE, { exact: true }).waitFor();
        await page.getByText('The first 100 of 122 rules').waitFor();
        const unmet = page.locator(`${REPLAY} [data-kind="never_hit"] li`);
        assert.equal(await unmet.count(), 50);
        await page.getByRole('button', { name: 'Show more: 70 are left' }).press('Enter');
        assert.equal(await unmet.count(), 120);
        assert.ok(await unmet.nth(50).evaluate((one) => one === document.activeElement));
        const many = page.locator(`${REPLAY} [data-kind="refuses_many"] li`);
        assert.equal(await many.count(), 1);
        await page.getByLabel('Many clients: more than (%)').fill('10');
        await many.waitFor({ state: 'detached' });
        const marks = await page.locator(`${REPLAY} .plot text`).allTextContents();
        assert.ok(
            marks.some((mark) => /^\d+ Nov$/u.test(mark)),
            marks.join(' | '),
        );
        const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(content <= window, `${content} pixels wide in a window of ${window}`);
        await drop(['{}', '{}']);
        await page.getByText('2 files dropped; drop one file').waitFor();
    },
    'report: a file that is no replay gets an error that says what it is': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const good = JSON.parse(readFileSync(replayOf(daemon.folder, users(3)), 'utf8'));
        const changed = (change) => {
            const copy = structuredClone(good);
            change(copy);
            return JSON.stringify(copy);
        };
        const text = JSON.stringify(good);
        const page = keep(await openPage(browser, daemon, { path: '#/report' }));
        for (const [content, message] of [
            ['', 'The file is empty.'],
            ['nothing of use', 'The file is not JSON.'],
            [
                '203.0.113.9 - - [19/Nov/2026:08:10:01 +0000] "POST /login HTTP/1.1" 401 64\n',
                'looks like an access log',
            ],
            [Buffer.from([0x1f, 0x8b, 8, 0, 0, 0]), 'The file is compressed'],
            [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 4]), 'The file is compressed'],
            ['<!doctype html><title>x</title>', 'The file is a page of HTML'],
            [ration(daemon.folder, 'replay', '--rules', 'new.yaml', '--format', 'json', 'log.json'), 'without --json'],
            [
                ration(daemon.folder, 'suggest', '--by', 'user', '--format', 'json', '--json', 'log.json'),
                'ration suggest --json',
            ],
            [
                ration(daemon.folder, 'report', '--json', '--admin', `127.0.0.1:${daemon.ports.admin}`),
                'ration report --json',
            ],
            [text.slice(0, text.length / 2), 'it may be cut'],
            ['['.repeat(200000), 'it may be cut'],
            ['{"status":200,"ts":1795075200.5}\n'.repeat(3), 'looks like an access log in JSON, not like its replay'],
            ['[]', 'The file has a list. It is no replay.'],
            ['null', 'The file has null.'],
            [`{"${HOSTILE}":1}`, `JSON with the members ${HOSTILE}`],
            [
                changed((one) => (one.replayed.rules[1].refused = 'x')),
                'replayed.rules[1].refused is "x", and should be a number',
            ],
            [changed((one) => delete one.timeline.refused), 'timeline.refused is missing, and should be a list'],
            [changed((one) => one.timeline.delayed.push(1)), 'timeline.delayed is a list, and should be a list of'],
            [changed((one) => (one.timeline.width = 0)), 'timeline.width is 0'],
            [changed((one) => (one.timeline.width = 1e12)), 'timeline.width is 1000000000000'],
            [changed((one) => (one.from = 'soon')), 'from is "soon", and should be a time or null'],
            [changed((one) => (one.against = one.replayed)), 'changes is missing, and should be an object'],
        ]) {
            await choose(page, { name: 'given.json', mimeType: 'application/json', buffer: Buffer.from(content) });
            await page.locator(`${REPLAY} [role="alert"]`).getByText(message).waitFor();
            assert.equal(await page.locator('main img').count(), 0);
        }
        writeFileSync(join(daemon.folder, 'large.json'), Buffer.alloc(64 * 2 ** 20 + 1, 32));
        await choose(page, join(daemon.folder, 'large.json'));
        await page.getByText('at most 64 MiB are read here').waitFor();
        await choose(page, join(daemon.folder, 'replay.json'));
        await page.locator(`${REPLAY} .plot .area`).first().waitFor();
        assert.equal(await page.locator(`${REPLAY} [role="alert"]`).count(), 0);
    },
    'report: published limits are linked, others have a text how to publish them': async ({
        browser,
        rationd,
        keep,
    }) => {
        const quiet = await rationd(RULES);
        const page = keep(await openPage(browser, quiet, { path: '#/report' }));
        await page.getByText('The limits are not published').waitFor();
        const open = await rationd(`server:\n  publish: public\n${RULES}`);
        const other = keep(await openPage(browser, open, { path: '#/report' }));
        const link = other.locator('[aria-labelledby="published"]').getByRole('link');
        await link.waitFor();
        const href = await link.getAttribute('href');
        assert.equal(href, `http://127.0.0.1:${open.ports.http}/limits`);
        const answer = await other.request.get(href);
        assert.equal(answer.status(), 200);
    },
    'report: commands are copied': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { path: '#/report' }));
        await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
        await page.getByRole('button', { name: 'Copy: The smallest limit' }).press('Enter');
        await page.getByText('copied', { exact: true }).waitFor();
        assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'ration suggest access.log');
        for (const name of ['replay', 'suggest', 'publish', 'report'])
            await page.locator('.command').getByText(`ration ${name} `).first().waitFor();
    },
};
