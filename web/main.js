// SPDX-License-Identifier: Apache-2.0
// The frame of the page: sections by the part of the address behind #, the connection, the theme, signing in.

import { access } from './api.js';
import { el, given, replace, setText } from './dom.js';
import { duration, clock, zone } from './format.js';
import { failure, notice } from './controls.js';
import { listen, live, startLive, stopLive } from './live.js';
import { hasToken, identify, session, signOut } from './session.js';
import { showSignIn } from './sign_in.js';
import { listenForKeys, showKeys } from './keys.js';
import { setUpTheme } from './theme_switch.js';

const main = document.getElementById('main');
const connection = document.getElementById('connection');
const connectionText = document.getElementById('connection-text');
const signOutButton = document.getElementById('sign-out');
const banners = document.getElementById('banners');
const foot = document.getElementById('foot');
const ageText = el('span', { class: 'small' });

/** Pages: open(root, argument) fills the element, and may return a function that is called when the page is left. */
const PAGES = {
    overview: ['Overview', () => import('./page_overview.js')],
    rules: ['Rules', () => import('./page_rules.js')],
    edit: ['Edit rules', () => import('./page_edit.js')],
    versions: ['Versions of the rules', () => import('./page_versions.js')],
    clients: ['Clients', () => import('./page_clients.js')],
    try: ['Try a request', () => import('./page_try.js')],
    nodes: ['Nodes and store', () => import('./page_nodes.js')],
    report: ['Report', () => import('./page_report.js')],
};

const RETRY = 1500; // milliseconds, and up to twice as many: until the first answer

let leave = null; // of the page that is open
let opened = 0;
let missed = false; // the page could not be opened, because rationd was away

function readAddress() {
    const [name, ...rest] = location.hash.replace(/^#\/?/, '').split('/');
    let argument = rest.join('/');
    try {
        argument = decodeURIComponent(argument);
    } catch {
        // Not percent-encoded as it should be: taken as it is.
    }
    return { name: name in PAGES ? name : 'overview', argument };
}

function markSection(name) {
    const section = name === 'edit' || name === 'versions' ? 'rules' : name;
    for (const link of document.querySelectorAll('#sections a')) {
        if (link.hash === `#/${section}`) link.setAttribute('aria-current', 'page');
        else link.removeAttribute('aria-current');
    }
}

/** Opens the page that the address names. Pages that come late after another was opened are dropped. */
async function openPage({ focus }) {
    const { name, argument } = readAddress();
    const [title, load] = PAGES[name];
    opened += 1;
    const turn = opened;
    leave?.();
    leave = null;
    missed = false;
    markSection(name);
    document.title = `${argument || title} · ration`;
    const root = el('div', { class: 'page' }, el('p', { class: 'empty' }, 'Loading…'));
    try {
        const page = await load();
        if (turn !== opened) return;
        replace(main, root);
        const left = await page.open(root, argument);
        if (turn === opened) leave = left ?? null;
        else left?.();
    } catch (error) {
        if (turn !== opened || error.status === 401) return;
        missed = error.status === 0;
        replace(main, root);
        replace(
            root,
            el('h1', {}, title),
            error.status === undefined ? notice('error', String(error)) : failure(error),
        );
        if (error.status === undefined) throw error;
    }
    if (focus) {
        main.focus({ preventScroll: true });
        window.scrollTo(0, 0);
    }
}

function showConnection() {
    const texts = {
        live: 'live',
        connecting: 'connecting',
        hidden: 'paused',
        off: 'not signed in',
        refused: 'not signed in',
        lost: 'connection lost, trying again',
    };
    connection.dataset.state = live.state;
    setText(connectionText, texts[live.state]);
    if (live.state === 'lost') main.dataset.stale = '';
    else if (live.state === 'live') delete main.dataset.stale;
    showAge();
}

/** Beside the live region, not in it: nobody wants to hear it each second. */
function showAge() {
    const age = (Date.now() - live.heard) / 1000;
    connection.title = live.heard ? `last heard at ${clock(live.heard / 1000)}` : '';
    setText(ageText, live.state === 'lost' && live.heard ? `${duration(Math.round(age))} ago` : '');
}

/** Said on all pages. */
function showBanners() {
    const shadow = live.line?.shadow ?? false;
    if (shadow === banners.childElementCount > 0) return;
    replace(
        banners,
        shadow
            ? notice('warning', el('strong', {}, 'Shadow mode: '), 'everything is counted and nothing is refused.')
            : null,
    );
}

function showSession() {
    signOutButton.hidden = !hasToken();
    replace(
        foot,
        'rationd ',
        session.version ?? '',
        session.node ? [' on ', given(session.node)] : null,
        session.token
            ? [' · signed in as ', given(session.token), ` (${session.scope})`]
            : session.scope
              ? [` · ${session.scope} access without a token, from this machine`]
              : null,
        ` · times are in ${zone()}`,
    );
}

async function begin({ focus = false } = {}) {
    try {
        await identify();
    } catch (error) {
        if (error.status === 401) return;
        replace(
            main,
            el(
                'div',
                { class: 'page' },
                el('h1', {}, 'ration'),
                failure(error),
                el('p', { class: 'sub' }, 'This page tries again by itself.'),
            ),
        );
        setTimeout(begin, RETRY * (1 + Math.random()), { focus });
        return;
    }
    showSession();
    if (session.scope === 'metrics') {
        replace(
            main,
            el(
                'div',
                { class: 'page' },
                el('h1', {}, 'ration'),
                notice(
                    'warning',
                    'This token has the scope ',
                    el('code', {}, 'metrics'),
                    ' and may only read /metrics. Sign out, and sign in with a token of scope ',
                    el('code', {}, 'read'),
                    ' or ',
                    el('code', {}, 'admin'),
                    '.',
                ),
            ),
        );
        return;
    }
    startLive();
    await openPage({ focus });
}

access.refused = (why) => {
    opened += 1;
    leave?.();
    leave = null;
    stopLive();
    showConnection();
    for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close(); // the sign-in is under them
    showSignIn(main, why, () => begin({ focus: true }));
    showSession();
};

connection.append(ageText);
setUpTheme(document.getElementById('theme'));
document.getElementById('help').addEventListener('click', showKeys);
document.getElementById('skip').addEventListener('click', (event) => {
    event.preventDefault();
    main.focus();
});
signOutButton.addEventListener('click', () => {
    signOut();
    stopLive();
    begin();
});
window.addEventListener('hashchange', () => session.scope && session.scope !== 'metrics' && openPage({ focus: true }));
listenForKeys();
listen('state', showConnection);
listen('state', (state) => state === 'live' && missed && openPage({ focus: false }));
listen('line', showBanners);
setInterval(showAge, 1000);
begin();
