// SPDX-License-Identifier: Apache-2.0
// Who may look and change: tokens, scopes, pages of other sites.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createServer } from 'node:http';
import { openPage, until, untilLive } from './browser.js';
import { RULES, TOKENS } from './rules.js';

const SECRETS = { admin: 'a'.repeat(32), read: 'r'.repeat(32), metrics: 'm'.repeat(32) };

/** A rationd that asks everybody for a token, as it asks callers from other machines. */
async function guarded(rationd) {
    const daemon = await rationd((folder) => TOKENS(folder) + RULES, {
        args: ['--trust-local', 'false'],
        files: SECRETS,
    });
    daemon.as = (scope, method, path, body) =>
        daemon.admin(method, path, body, { Authorization: `Bearer ${SECRETS[scope]}` });
    return daemon;
}

async function signIn(page, token) {
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Sign in' }).click();
}

export default {
    'without a token there is a sign-in and no data; with one, everything': async ({ browser, rationd, keep }) => {
        const daemon = await guarded(rationd);
        const page = keep(await openPage(browser, daemon, { expect: [401] }));
        await page.getByRole('heading', { name: 'Sign in' }).waitFor();
        assert.match(await page.locator('main').innerText(), /trust_local is false/u);
        assert.equal(await page.getByLabel('Token').getAttribute('type'), 'password');
        assert.equal(await page.getByText('login').count(), 0);
        await signIn(page, 'not the right one');
        await page.getByText('rationd did not accept this token').waitFor();
        await signIn(page, SECRETS.admin);
        await page.getByRole('link', { name: 'login', exact: true }).waitFor();
        await untilLive(page);
        await page.getByText('signed in as ops-anna (admin)').waitFor();
        assert.deepEqual(
            await page.evaluate(() => [
                sessionStorage.length,
                JSON.stringify(localStorage).includes('aaaa'),
                document.cookie,
            ]),
            [1, false, ''],
        );
        await page.reload();
        await untilLive(page);
        await page.getByRole('button', { name: 'Sign out' }).click();
        await page.getByRole('heading', { name: 'Sign in' }).waitFor();
        assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    },
    'too many wrong tokens are named in plain words': async ({ browser, rationd, keep }) => {
        const daemon = await guarded(rationd);
        const page = keep(await openPage(browser, daemon, { expect: [401, 429] }));
        await page.getByLabel('Token').waitFor();
        await until(
            async () => {
                await signIn(page, 'wrong');
                await page.getByRole('alert').waitFor();
                return (await page.getByRole('alert').innerText()).includes('Too many wrong tokens');
            },
            'the message of 429',
            30000,
        );
    },
    'scope read sees everything and changes nothing': async ({ browser, rationd, keep }) => {
        const daemon = await guarded(rationd);
        await daemon.as('admin', 'PUT', '/v1/bans', { attributes: { ip: '198.51.100.1' } });
        const page = keep(await openPage(browser, daemon, { token: SECRETS.read, path: '#/edit' }));
        await page.getByRole('heading', { name: 'Edit rules' }).waitFor();
        await page.getByText('your token has the scope read').waitFor();
        for (const name of ['Apply…', 'Try in shadow…'])
            assert.ok(await page.getByRole('button', { name }).isDisabled(), name);
        await page.goto(`${daemon.url}/#/versions`);
        assert.ok(await page.getByRole('button', { name: 'Read the files again…' }).isDisabled());
        await page.goto(`${daemon.url}/#/clients`);
        await page.getByLabel('Attribute', { exact: true }).fill('ip');
        await page.getByLabel('Value').fill('192.0.2.1');
        await page.getByRole('button', { name: 'Add attribute' }).click();
        await page.getByLabel('Attribute', { exact: true }).nth(1).fill('path');
        await page.getByLabel('Value').nth(1).fill('/search');
        await page.getByRole('button', { name: 'Look up' }).click();
        for (const name of ['Reset…', 'Adjust…', 'Override…', 'Ban…', 'Pause…', 'Lift ban 1'])
            assert.ok(await page.getByRole('button', { name }).isDisabled(), name);
        // What the buttons do not do, a request by hand does not either.
        page.expectMore(403);
        const status = await page.evaluate(
            async (token) =>
                (
                    await fetch('/v1/shadow', {
                        method: 'PUT',
                        body: '{"shadow": true}',
                        headers: { Authorization: `Bearer ${token}`, 'X-Ration': '1' },
                    })
                ).status,
            SECRETS.read,
        );
        assert.equal(status, 403);
        assert.deepEqual(await daemon.as('read', 'GET', '/v1/shadow'), { shadow: false });
    },
    'a token of scope metrics learns that its scope is too small': async ({ browser, rationd, keep }) => {
        const daemon = await guarded(rationd);
        const page = keep(await openPage(browser, daemon, { token: SECRETS.metrics }));
        await page.getByText('may only read /metrics').waitFor();
        await page.getByRole('button', { name: 'Sign out' }).waitFor();
        await until(async () => (await page.getByText('login').count()) === 0, 'no data');
    },
    'a token that is gone ends the page at its next request': async ({ browser, rationd, keep }) => {
        const daemon = await guarded(rationd);
        const page = keep(await openPage(browser, daemon, { token: SECRETS.read, expect: [401] }));
        await untilLive(page);
        await page.evaluate(() => sessionStorage.setItem('ration.token', 'gone'));
        await page.getByRole('link', { name: 'Nodes', exact: true }).first().click();
        await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    },
    'a token that is gone while a dialog is open leaves the sign-in, and no dialog over it': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await guarded(rationd);
        const page = keep(
            await openPage(browser, daemon, { path: '#/versions', token: SECRETS.admin, expect: [401] }),
        );
        await page.getByRole('button', { name: 'Read the files again…' }).click();
        await page.evaluate(() => sessionStorage.setItem('ration.token', 'gone'));
        await page.getByRole('button', { name: 'Read them' }).click();
        await page.getByLabel('Token').fill(SECRETS.admin);
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('button', { name: 'Read the files again…' }).waitFor();
        assert.equal(await page.getByRole('dialog').count(), 0);
    },
    'requests of another site are refused and change nothing, also of localhost against 127.0.0.1': async ({
        browser,
        rationd,
        keep,
    }) => {
        const daemon = await rationd(RULES);
        const site = createServer((_, response) =>
            response
                .setHeader('Content-Type', 'text/html')
                .end('<!doctype html><title>other</title><form method="post" enctype="text/plain"></form>'),
        );
        await new Promise((resolve) => site.listen(0, '127.0.0.1', resolve));
        try {
            const { port } = site.address();
            for (const [origin, target] of [
                [`http://127.0.0.1:${port}`, daemon.url],
                [`http://localhost:${port}`, daemon.url],
                [`http://127.0.0.1:${port}`, `http://localhost:${daemon.ports.admin}`],
            ]) {
                const page = keep(
                    await openPage(browser, daemon, {
                        url: origin,
                        path: '',
                        expect: [401, 403, 404, /CORS policy/u, /net::ERR_FAILED/u],
                    }),
                );
                const results = await page.evaluate(async (url) => {
                    const send = async (path, options) => {
                        try {
                            return (await fetch(url + path, options)).type;
                        } catch {
                            return 'refused';
                        }
                    };
                    return Promise.all([
                        send('/v1/shadow', { method: 'PUT', body: '{"shadow": true}', headers: { 'X-Ration': '1' } }),
                        send('/v1/rules/reload', { method: 'POST', mode: 'no-cors', body: '' }),
                        send('/v1/bans', {
                            method: 'POST',
                            mode: 'no-cors',
                            headers: { 'Content-Type': 'text/plain' },
                            body: '{"attributes": {"ip": "192.0.2.1"}}',
                        }),
                        send('/v1/status', {}),
                        send('/v1/live', {}),
                    ]);
                }, target);
                assert.deepEqual(results, ['refused', 'opaque', 'opaque', 'refused', 'refused'], origin);
                // A form sends what scripts may not; the answer replaces the page.
                const answered = page.waitForResponse(
                    (response) =>
                        response.url().endsWith('/v1/rules/reload') && response.request().isNavigationRequest(),
                );
                await page.evaluate((action) => {
                    document.forms[0].action = action;
                    document.forms[0].submit();
                }, `${target}/v1/rules/reload`);
                assert.ok((await answered).status() >= 400, origin);
            }
            assert.deepEqual(await daemon.admin('GET', '/v1/shadow'), { shadow: false });
            assert.equal((await daemon.admin('GET', '/v1/status')).rules.version, 1);
        } finally {
            site.close();
        }
    },
    'over TLS the page changes rules as it does without': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(
            (folder) => {
                const made = [
                    'req',
                    '-x509',
                    '-newkey',
                    'ec',
                    '-pkeyopt',
                    'ec_paramgen_curve:P-256',
                    '-nodes',
                    '-days',
                    '2',
                ];
                const files = ['-subj', '/CN=localhost', '-keyout', `${folder}/key.pem`, '-out', `${folder}/cert.pem`];
                execFileSync('openssl', [...made, ...files], { stdio: 'ignore' });
                return RULES;
            },
            {
                args: (folder) => [
                    '--tls-cert',
                    `${folder}/cert.pem`,
                    '--tls-key',
                    `${folder}/key.pem`,
                    '--tls',
                    'admin',
                ],
            },
        );
        const url = daemon.url.replace('http:', 'https:');
        const page = keep(await openPage(browser, daemon, { url, path: '#/versions' }));
        await untilLive(page);
        await page.getByRole('button', { name: 'Read the files again…' }).click();
        await page.getByRole('dialog').getByRole('button', { name: 'Read them' }).click();
        await page.getByText('The files were read.').waitFor();
    },
    'the page cannot be framed, and runs nothing that stands in it': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const page = keep(await openPage(browser, daemon, { expect: [/Content Security Policy|policy:/u] }));
        await untilLive(page);
        await page.evaluate(() => {
            const script = document.createElement('script');
            script.textContent = 'window.injected = true';
            document.body.append(script);
        });
        assert.equal(await page.evaluate(() => window.injected), undefined);
    },
};
