// SPDX-License-Identifier: Apache-2.0
// Report: what the rules have done and what is worth a look, a replayed log, the limits that users read, and the
// commands behind all of these.

import { get } from './api.js';
import { button, empty, failure, field, notice } from './controls.js';
import { el, given, replace, setText } from './dom.js';
import { findingsView } from './findings_view.js';
import { exact, plural, when } from './format.js';
import { readReplay } from './replay_file.js';
import { replayView } from './replay_view.js';
import { commands, showPublished } from './report_commands.js';
import { findingsOf } from './report_findings.js';

const SHARE = '5'; // percent, as ration report has it

function section(id, title, ...children) {
    return el('section', { class: 'panel stack', 'aria-labelledby': id }, el('h2', { id }, title), children);
}

/** Thousandths of what the field says in percent; null: it says nothing of use. */
function permilleOf(input) {
    return input.value !== '' && input.validity.valid ? Math.round(Number(input.value) * 10) : null;
}

/* --- what the rules have done ----------------------------------------------------------------- */

/** `changed` is called when another share of clients is said to be many. */
function findingsPart(signal, changed) {
    const spoken = el('p', { class: 'sub', role: 'status' });
    const body = el('div', { class: 'stack' });
    const share = el('input', { type: 'number', min: 0, max: 99.9, step: 0.1, value: SHARE, class: 'short' });
    let known = null;

    function show() {
        const permille = permilleOf(share);
        if (!known) return;
        if (permille === null) {
            replace(body, notice('warning', 'The share of clients should be a number from 0 to 99.9, such as 5.'));
            return;
        }
        const findings = findingsOf(known, permille);
        setText(
            spoken,
            `${plural(known.requests, 'request')} since ${when(known.since)}, ${exact(known.refused)} refused, ` +
                `${exact(known.unmatched)} that no rule covers; ${plural(findings.length, 'finding')}`,
        );
        replace(
            body,
            known.rules.length
                ? null
                : empty(
                      'There are no rules, so nothing can be said of them. ',
                      el('a', { href: '#/edit' }, 'Edit the rules'),
                      ' to add some.',
                  ),
            known.rules.length && !known.requests
                ? empty(
                      'No request has come since rationd started: what is said of the rules will change with the first ones.',
                  )
                : null,
            findings.length
                ? findingsView(findings, { linked: true })
                : known.rules.length
                  ? empty('Nothing to change.')
                  : null,
        );
    }

    async function load() {
        try {
            known = await get('/v1/report', { signal });
            show();
        } catch (error) {
            if (!signal.aborted) replace(body, failure(error));
        }
    }
    share.addEventListener('input', () => {
        show();
        changed();
    });
    const element = section(
        'found',
        'What the rules have done',
        el(
            'p',
            { class: 'sub' },
            'Of this rationd, since its start. Clients are counted by an estimate with an error of about 5 %. What shadow mode would have refused counts as refused.',
        ),
        el('div', { class: 'row' }, field('Many clients: more than (%)', share), button('Read again', load)),
        spoken,
        body,
    );
    return { element, load, permille: () => permilleOf(share) ?? Number(SHARE) * 10 };
}

/* --- a replayed log ---------------------------------------------------------------------------- */

function replayPart(root, permille) {
    const result = el('div', { class: 'stack' });
    const spoken = el('p', { class: 'unseen', role: 'status' });
    const input = el('input', { type: 'file', accept: '.json,application/json' });
    let view = null;
    let turn = 0;

    /** Also forgets a file that is being read. */
    function clear() {
        turn += 1;
        view?.close();
        view = null;
        replace(result);
        setText(spoken, '');
    }

    function fail(...words) {
        clear();
        replace(result, notice('error', el('p', {}, words)));
    }

    async function look(file) {
        clear();
        const mine = turn;
        replace(result, empty('Reading…'));
        try {
            const replay = await readReplay(file);
            if (mine !== turn) return;
            view = replayView(replay);
            view.judge(permille());
            replace(
                result,
                el(
                    'div',
                    { class: 'head' },
                    el('h3', {}, given(file.name)),
                    button('Close', () => {
                        clear();
                        input.value = '';
                        input.focus();
                    }),
                ),
                view.element,
            );
            view.draw();
            setText(
                spoken,
                `${plural(replay.replayed.requests, 'request')} replayed, ${exact(replay.replayed.refused)} refused`,
            );
        } catch (error) {
            if (mine === turn) fail(given(file.name), ' cannot be shown. ', given(error.message));
        }
    }

    const zone = el(
        'div',
        { class: 'drop' },
        field(
            'A file of ration replay --json',
            input,
            'Choose it or drop it here. It stays in your browser: nothing is sent. At most 64 MiB.',
        ),
    );
    input.addEventListener('change', () => input.files[0] && look(input.files[0]));
    const over = (event) => {
        event.preventDefault();
        zone.classList.toggle('over', event.type === 'dragover');
    };
    // Anywhere on the page: what is dropped beside the field would make the browser leave the page.
    root.addEventListener('dragover', over);
    root.addEventListener('dragleave', over);
    root.addEventListener('drop', (event) => {
        over(event);
        input.value = '';
        const { files } = event.dataTransfer;
        if (files.length === 1) look(files[0]);
        else
            fail(
                `${files.length ? plural(files.length, 'file') : 'No file'} dropped; drop one file that ration replay --json has written.`,
            );
    });
    return {
        element: section('replayed', 'Look at a replayed log', zone, spoken, result),
        judge: () => view?.judge(permille()),
        close: clear,
    };
}

export async function open(root) {
    const stop = new AbortController();
    const found = findingsPart(stop.signal, () => replayed.judge());
    const replayed = replayPart(root, found.permille);
    const published = el('div', { class: 'stack tight' });
    replace(
        root,
        el('h1', {}, 'Report'),
        found.element,
        replayed.element,
        el(
            'div',
            { class: 'pair' },
            section('published', 'What your users read', published),
            section('commands', 'Commands', commands()),
        ),
    );
    found.load();
    showPublished(published, stop.signal);
    return () => {
        stop.abort();
        replayed.close();
    };
}
