// SPDX-License-Identifier: Apache-2.0
// Nodes and store: alone, and with a real Redis that goes away.

import { spawn } from 'node:child_process';
import { createServer, connect } from 'node:net';
import { openPage, until, untilLive } from './browser.js';
import { RULES } from './rules.js';

const SIGNALS = `signals:
  backlog: { source: push, expires: 30s }
${RULES}    adapt: { when: backlog above 1000, to: 50% }
`;

function freePort() {
    return new Promise((resolve) => {
        const server = createServer().listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

/** A Redis of its own, which answers when this resolves. */
async function startRedis() {
    const port = await freePort();
    const child = spawn(
        'redis-server',
        ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', '/tmp'],
        { stdio: 'ignore' },
    );
    const answers = () =>
        new Promise((resolve) => {
            const socket = connect(port, '127.0.0.1', () => resolve(true) || socket.end()).on('error', () =>
                resolve(false),
            );
        });
    await until(answers, 'Redis answers');
    return {
        url: `redis://127.0.0.1:${port}`,
        stop: () =>
            new Promise((resolve) => {
                if (child.exitCode !== null || child.signalCode !== null) resolve();
                child.once('exit', resolve);
                child.kill('SIGKILL');
            }),
    };
}

export default {
    'one node: listeners, memory, lines, signals and factors': async ({ browser, rationd, keep }) => {
        const daemon = await rationd(SIGNALS);
        const page = keep(await openPage(browser, daemon, { path: '#/nodes' }));
        await page.getByText('there is no Redis').waitFor();
        await page.getByText(`127.0.0.1:${daemon.ports.http}`).waitFor();
        await page.getByText('stale', { exact: true }).waitFor();
        await untilLive(page);
        await daemon.admin('PUT', '/v1/signals/backlog', { value: 1200 });
        await page.getByRole('cell', { name: '1.20\u202fk' }).waitFor();
        await page.locator('[aria-labelledby="part-signals"]').getByText('50\u202f%').waitFor();
        for (const heading of ['This node', 'Store', 'Memory', 'Lines', 'Listeners and connections', 'Fleet'])
            await page.getByRole('heading', { name: heading, exact: true }).waitFor();
    },
    'with Redis: servers, breaker, leases, skew and fleet; and Redis is killed': async ({ browser, rationd, keep }) => {
        const redis = await startRedis();
        try {
            const daemon = await rationd(RULES, { args: ['--redis', redis.url] });
            const page = keep(await openPage(browser, daemon, { path: '#/nodes' }));
            const store = page.locator('[aria-labelledby="part-store"]');
            await store.getByText('up', { exact: true }).first().waitFor();
            for (const text of ['Breaker', 'Leases', 'Clock skew']) await store.getByText(text).waitFor();
            await page.locator('[aria-labelledby="part-fleet"]').getByText('In step').waitFor();
            await page.goto(`${daemon.url}/#/overview`);
            await page.getByText('Redis is up').waitFor();
            await redis.stop();
            await daemon.check({ ip: '192.0.2.1', method: 'POST', path: '/login' }, 5);
            await page.getByText('Redis is down').waitFor({ timeout: 30000 });
            await page.goto(`${daemon.url}/#/nodes`);
            await store.getByText('down', { exact: true }).first().waitFor({ timeout: 30000 });
        } finally {
            await redis.stop();
        }
    },
};
