// SPDX-License-Identifier: Apache-2.0
// The files of the page: how much they weigh, what they may not do, that they are what is in the tree.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { openPage, untilLive } from './browser.js';
import { http } from './rationd.js';
import { RULES } from './rules.js';

const FIRST_PAINT = 50 * 1024; // bytes, compressed
const files = () => readdirSync('web');

export default {
    'what the address / loads is at most 50 KB, compressed': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(RULES);
        const loaded = new Set();
        const page = keep(await openPage(browser, daemon, { path: 'healthz', expect: [404] }));
        page.on('request', (request) => {
            const { pathname } = new URL(request.url());
            if (pathname === '/' || pathname.startsWith('/web/')) loaded.add(pathname);
        });
        await page.goto(`${daemon.url}/`);
        await untilLive(page);
        await page.getByRole('link', { name: 'login', exact: true }).waitFor();
        let sum = 0;
        for (const path of loaded) {
            const answer = await http('GET', daemon.url + path, { headers: { 'Accept-Encoding': 'gzip' } });
            assert.equal(answer.headers['content-encoding'], 'gzip', path);
            sum += answer.bytes.length;
        }
        assert.ok(loaded.size > 10 && !loaded.has('/web/page_edit.js'), [...loaded].join(' '));
        assert.ok(sum <= FIRST_PAINT, `${sum} bytes`);
        console.log(`# ${sum} bytes in ${loaded.size} files`);
    },
    'every file of web/ is served as it is, under a strict policy': async ({ rationd }) => {
        const daemon = await rationd(RULES);
        for (const name of files()) {
            const answer = await http('GET', `${daemon.url}/web/${name}`);
            assert.equal(answer.status, 200, name);
            assert.ok(answer.bytes.equals(readFileSync(`web/${name}`)), name);
            assert.match(
                answer.headers['content-security-policy'],
                /default-src 'none'; script-src 'self'; style-src 'self'/u,
            );
            assert.equal(answer.headers['x-content-type-options'], 'nosniff');
            const again = await http('GET', `${daemon.url}/web/${name}`, {
                headers: { 'If-None-Match': answer.headers.etag },
            });
            assert.equal(again.status, 304, name);
        }
        assert.equal((await http('GET', `${daemon.url}/web/nothing.js`)).status, 404);
    },
    'no module makes markup of text, or reaches beyond its origin': () => {
        for (const name of files()) {
            const text = readFileSync(`web/${name}`, 'utf8');
            assert.doesNotMatch(
                text,
                /innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|\beval\(|new Function|setAttribute\('style'/u,
                name,
            );
            if (!name.endsWith('.svg'))
                assert.doesNotMatch(text.replaceAll('http://www.w3.org/2000/svg', ''), /https?:\/\//u, name);
            if (name.endsWith('.html')) assert.doesNotMatch(text, /<style|<script>|\son\w+=|\sstyle=/u, name);
            assert.ok(text.split('\n').length <= 320, `${name} is long`);
        }
    },
};
