// SPDX-License-Identifier: Apache-2.0
// A real rationd for a test, on ports that are free, with what it needs in a folder of its own.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve as absolute } from 'node:path';

const PROGRAM = absolute(process.env.RATION_BUILD ?? 'build', 'rationd');
const START_MS = 20000;

/** Answers of HTTP, with headers as they are given: fetch of Node sends some of its own. */
export function http(method, url, { body, headers = {} } = {}) {
    return new Promise((resolve, reject) => {
        const sent = request(url, { method, headers, agent: false }, (answer) => {
            const parts = [];
            answer.on('data', (part) => parts.push(part));
            answer.on('end', () =>
                resolve({
                    status: answer.statusCode,
                    headers: answer.headers,
                    bytes: Buffer.concat(parts),
                    text: Buffer.concat(parts).toString(),
                }),
            );
        });
        sent.on('error', reject);
        sent.end(body);
    });
}

/**
 * Starts rationd with these rules: text of YAML, or what makes it from the folder of the test. `files` are written
 * there, too; `args` are more options, or make them from the folder. start() after kill() takes the same ports.
 */
export async function startRationd(rules, { args = [], files = {} } = {}) {
    const folder = mkdtempSync(join(tmpdir(), 'ration-browser-'));
    const file = join(folder, 'rules.yaml');
    writeFileSync(file, typeof rules === 'function' ? rules(folder) : rules);
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 });
    const daemon = { folder, file, ports: {}, log: '' };

    daemon.start = () =>
        new Promise((resolve, reject) => {
            const at = (name) => `127.0.0.1:${daemon.ports[name] ?? 0}`;
            const options = [
                '--config',
                'rules.yaml',
                '--http',
                at('http'),
                '--admin',
                at('admin'),
                '--resp',
                'none',
                '--grpc',
                'none',
                '--workers',
                '1',
                '--memory',
                '16M',
                '--usage-memory',
                '1M',
                '--state',
                join(folder, 'state'),
                ...(typeof args === 'function' ? args(folder) : args),
            ];
            const child = spawn(PROGRAM, options, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
            daemon.child = child;
            const late = setTimeout(() => reject(new Error(`rationd did not start: ${daemon.log}`)), START_MS);
            let begun = '';
            child.stderr.on('data', (part) => {
                daemon.log += part;
                begun += part;
                const ready = /rationd: ready (.*)\n/u.exec(begun);
                if (!ready) return;
                clearTimeout(late);
                for (const [, name, port] of ready[1].matchAll(/(\w+)=127\.0\.0\.1:(\d+)/gu))
                    daemon.ports[name] = Number(port);
                daemon.url = `http://127.0.0.1:${daemon.ports.admin}`;
                resolve(daemon);
            });
            child.on('error', reject);
            child.on('exit', (code) => {
                clearTimeout(late);
                if (!begun.includes('rationd: ready')) reject(new Error(`rationd ended with ${code}: ${daemon.log}`));
            });
        });
    daemon.kill = (signal = 'SIGKILL') =>
        new Promise((resolve) => {
            if (daemon.child.exitCode !== null || daemon.child.signalCode !== null) {
                resolve();
                return;
            }
            daemon.child.once('exit', resolve);
            daemon.child.kill(signal);
        });
    daemon.signal = (signal) => daemon.child.kill(signal);
    daemon.stop = async () => {
        await daemon.kill();
        rmSync(folder, { recursive: true, force: true });
    };
    /** A request to the admin port as an operator on this machine makes it. */
    daemon.admin = async (method, path, body, headers) => {
        const answer = await http(method, daemon.url + path, {
            body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
            headers,
        });
        if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
        return answer.headers['content-type']?.includes('json') ? JSON.parse(answer.text) : answer.text;
    };
    /** Asks for decisions: `times` requests with these attributes. */
    daemon.check = async (attributes, times = 1) => {
        const url = `http://127.0.0.1:${daemon.ports.http}/v1/check`;
        let last;
        for (let i = 0; i < times; i += 1) last = await http('POST', url, { body: JSON.stringify({ attributes }) });
        return JSON.parse(last.text);
    };
    return daemon.start();
}
