// SPDX-License-Identifier: Apache-2.0
// Beside the report: where the published limits are, and commands to copy.

import { get } from './api.js';
import { button, failure } from './controls.js';
import { el, replace, setText } from './dom.js';

/** Where the HTTP port has /limits, seen from this browser; null: at no address that a browser can open. */
function limitsAddress(listener) {
    const found = /^(.*):(\d+)$/u.exec(listener ?? '');
    if (!found) return null;
    const url = new URL('/limits', location.href);
    if (!['0.0.0.0', '[::]', '*', ''].includes(found[1])) url.hostname = found[1];
    url.port = found[2];
    return url.href;
}

/** Says where the published limits are, or how to publish them. The page links there, and asks nothing of it. */
export async function showPublished(element, signal) {
    try {
        const status = await get('/v1/status', { signal });
        const address = limitsAddress(status.listeners.http);
        if (!status.limits_published) {
            replace(
                element,
                el(
                    'p',
                    {},
                    'The limits are not published. To publish them at ',
                    el('code', {}, 'GET /limits'),
                    ' of the HTTP port, write this into the configuration of rationd:',
                ),
                el(
                    'pre',
                    { class: 'mono source', tabindex: 0, 'aria-label': 'Setting that publishes the limits' },
                    'server:\n  publish: public',
                ),
            );
        } else if (address === null) {
            replace(
                element,
                el(
                    'p',
                    {},
                    'The limits are published at ',
                    el('code', {}, 'GET /limits'),
                    ' of the HTTP port, which has no address that a browser can open.',
                ),
            );
        } else {
            replace(
                element,
                el(
                    'p',
                    {},
                    'The limits are published: ',
                    el('a', { href: address, rel: 'noreferrer', target: '_blank' }, address),
                    '. Your users may know another address, behind your proxy.',
                ),
            );
        }
    } catch (error) {
        if (!signal.aborted) replace(element, failure(error));
    }
}

/** A command with a button that copies it. Browsers allow that on pages over TLS and of this machine alone. */
function command(what, text) {
    const code = el('code', {}, text);
    const told = el('span', { class: 'sub small', role: 'status' });
    const copy = button(
        'Copy',
        async () => {
            try {
                await navigator.clipboard.writeText(text);
                setText(told, 'copied');
            } catch {
                getSelection().selectAllChildren(code);
                setText(told, 'selected: copy it with Ctrl C');
            }
        },
        { 'aria-label': `Copy: ${what}` },
    );
    return el(
        'li',
        {},
        el('span', { class: 'sub' }, what),
        el('div', { class: 'row' }, el('span', { class: 'command mono' }, code), copy, told),
    );
}

export function commands() {
    const admin = location.protocol === 'https:' ? location.origin : location.host;
    return el(
        'ul',
        { class: 'plain stack' },
        command(
            'What rules would have done, for this page',
            'ration replay --rules rules.yaml --json access.log > replay.json',
        ),
        command(
            'The same as a file to mail or print',
            'ration replay --rules rules.yaml --html replay.html access.log',
        ),
        command('The smallest limit that touches few clients', 'ration suggest access.log'),
        command('The limits as users should read them', `ration publish --admin ${admin}`),
        command('This report', `ration report --admin ${admin}`),
    );
}
