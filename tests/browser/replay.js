// SPDX-License-Identifier: Apache-2.0
// The command `ration`, and replays that it has written.

import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const RATION = resolve(process.env.RATION_BUILD ?? 'build', 'ration');

/** Rules of replays. */
export const REPLAYED = `limits:
  - { name: api, when: { path: "/api/**" }, key: user, limit: 3 per minute }
  - { name: never, when: { path: /never }, key: user, limit: 5 per hour }
`;

/** What the command prints. */
export const ration = (folder, ...args) => execFileSync(RATION, args, { cwd: folder, encoding: 'utf8' });

/** A file that `ration replay --json` has written of a log with these clients, 30 requests each. */
export function replayOf(folder, clients, { seconds = 1, against = [] } = {}) {
    const start = Date.parse('2026-11-19T08:00:00Z') / 1000;
    const lines = clients.flatMap((user, c) =>
        Array.from({ length: 30 }, (_, i) =>
            JSON.stringify({
                time: start + (i * clients.length + c) * seconds,
                user,
                method: 'GET',
                path: '/api/x',
                status: 200,
            }),
        ),
    );
    lines.sort((a, b) => JSON.parse(a).time - JSON.parse(b).time);
    writeFileSync(join(folder, 'new.yaml'), REPLAYED);
    writeFileSync(join(folder, 'log.json'), `${lines.join('\n')}\n`);
    const file = join(folder, 'replay.json');
    const given = ['--rules', 'new.yaml', ...against, '--format', 'json', '--by', 'user', '--json', 'log.json'];
    writeFileSync(file, ration(folder, 'replay', ...given));
    return file;
}
