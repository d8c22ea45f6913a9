// SPDX-License-Identifier: Apache-2.0
// The editor of the rules: write, validate as you pause, compare, try in shadow, apply. What was written is kept in
// this tab until it is applied or discarded.

import { ApiError, ask, get } from './api.js';
import { button, changeButton, confirm, empty, failure, notice, panel, readOnlyNote } from './controls.js';
import { diffSummary, diffView } from './diff_view.js';
import { keepDraft, readDraft } from './draft.js';
import { afterPause, el, given, replace, setText } from './dom.js';
import { answerNotice, conflictNotice, trialBegun, trialNotice } from './edit_notices.js';
import { textEditor } from './editor.js';
import { bytes, plural } from './format.js';
import { rulesTabs } from './rules_tabs.js';

const LONGEST_CHECKED = 4 << 20; // longer texts are validated when asked, not while somebody writes

export async function open(root) {
    const stop = new AbortController();
    const { signal } = stop;
    let base = await get('/v1/rules', { signal }); // the rules that the draft starts from
    const verdict = el('p', { role: 'status', class: 'verdict-line' });
    const problems = el('div', { class: 'problems' });
    const comparison = el('div');
    const messages = el('div', { class: 'stack' });
    const trialLine = el('div');
    const origin = el('span', { class: 'sub' });
    const hint = el('p', { class: 'hint' });
    const editor = textEditor({ label: 'Rules as YAML', changed: edited, run: compare });
    const revert = button('Discard my changes…', discard);
    let turn = 0;
    let valid = false;

    const isChanged = () => editor.text !== base.text;
    const validateSoon = afterPause(500, validate);
    const compareSoon = afterPause(700, compare);

    function edited() {
        showOrigin();
        keepDraft(isChanged() ? { text: editor.text, version: base.version } : null);
        revert.disabled = !isChanged();
        setText(verdict, '…');
        if (editor.text.length < LONGEST_CHECKED) validateSoon();
        compareSoon();
    }

    function showProblems(diagnostics) {
        editor.mark(diagnostics);
        replace(
            problems,
            diagnostics.length
                ? el(
                      'ol',
                      { class: 'diagnostics', 'aria-label': 'Diagnostics' },
                      diagnostics.slice(0, 100).map((one) =>
                          el(
                              'li',
                              {},
                              button(`line ${one.line}`, () => editor.goTo(one.line, one.column), { class: 'quiet' }),
                              el('span', { class: `tag ${one.severity === 'error' ? 'bad' : 'warn'}` }, one.severity),
                              ' ',
                              given(one.message),
                          ),
                      ),
                  )
                : null,
        );
    }

    async function validate() {
        turn += 1;
        const mine = turn;
        let answer;
        try {
            answer = await ask('POST', '/v1/rules/validate', { body: editor.text, signal });
            valid = true;
        } catch (error) {
            if (signal.aborted || mine !== turn) return;
            if (error.status !== 422) {
                replace(messages, failure(error));
                return;
            }
            answer = error.body;
            valid = false;
        }
        if (mine !== turn) return;
        const diagnostics = answer.diagnostics ?? [];
        const warnings = diagnostics.filter((one) => one.severity === 'warning').length;
        showProblems(diagnostics);
        setText(
            verdict,
            valid
                ? `In order: ${plural(answer.rules ?? 0, 'rule')}${warnings ? `, ${plural(warnings, 'warning')}` : ''}`
                : answer.message,
        );
        verdict.dataset.valid = String(valid);
    }

    function compare() {
        compareSoon.cancel();
        if (!isChanged()) {
            replace(comparison, empty('You have changed nothing yet.'));
            return null;
        }
        const view = diffView(base.text, editor.text, 'Your text against the rules in force');
        replace(comparison, el('p', { class: 'sub' }, diffSummary(view)), view.element);
        return view;
    }

    function discard() {
        confirm({
            title: 'Discard your changes',
            doIt: 'Discard',
            danger: true,
            say: el('p', {}, 'The editor shows the rules in force again. What you have written is lost.'),
            act: async () => {
                await start({ fresh: true });
                replace(messages);
            },
        });
    }

    /** Somebody else has changed the rules since: says what, and lets somebody choose. */
    async function showConflict() {
        const theirs = await get('/v1/rules', { signal });
        const keep = () => {
            base = theirs;
            replace(messages);
            edited();
            compare();
        };
        const take = async () => {
            await start({ fresh: true });
            replace(messages);
        };
        replace(messages, await conflictNotice(base, theirs, { keep, take }));
        messages.scrollIntoView({ block: 'nearest' });
    }

    async function change(path, method) {
        try {
            return await ask(method, path, { body: editor.text, headers: { 'If-Match': `"${base.version}"` } });
        } catch (error) {
            if (error.status !== 412) throw error;
            await showConflict();
            return { conflict: true };
        }
    }

    function showError(error) {
        replace(messages, error instanceof ApiError ? failure(error) : notice('error', String(error)));
    }

    async function mayGo() {
        validateSoon.cancel();
        await validate();
        if (!valid) {
            editor.area.focus();
            return null;
        }
        if (!isChanged()) replace(messages, notice('', 'You have changed nothing: these are the rules in force.'));
        return compare();
    }

    async function apply() {
        const view = await mayGo();
        if (!view) return;
        const answer = await confirm({
            title: 'Apply these rules',
            doIt: 'Apply',
            wide: true,
            say: [
                el(
                    'p',
                    {},
                    `They replace version ${base.version}, at once and for all requests: ${diffSummary(view)}. Counters of limits that stay are kept.`,
                ),
                diffView(base.text, editor.text, 'What will change').element,
            ],
            act: () => change('/v1/rules', 'PUT'),
        });
        if (!answer || answer.conflict) return;
        await start({ fresh: true });
        replace(messages, answerNotice(answer, `Applied: version ${answer.version} is in force.`));
    }

    async function tryInShadow() {
        const view = await mayGo();
        if (!view) return;
        const answer = await confirm({
            title: 'Try in shadow',
            doIt: 'Try in shadow',
            say: el(
                'p',
                {},
                'The rules in force stay. Rules that are new or differ are added under the name ',
                el('code', {}, 'NAME.trial'),
                ', count what they would refuse, and refuse nothing, until you end the trial or apply them.',
            ),
            act: () => change('/v1/rules/trial', 'POST'),
        });
        if (!answer || answer.conflict) return;
        base = await get('/v1/rules', { signal });
        edited();
        showTrial();
        replace(messages, trialBegun(answer));
    }

    function showTrial() {
        const ended = async () => {
            base = await get('/v1/rules', { signal });
            showTrial();
            edited();
        };
        replace(trialLine, base.trial ? trialNotice(base.trial, ended) : null);
    }

    /** Which rules the text is compared with, and where they came from. */
    function showOrigin() {
        const now = `version ${base.version}, ${bytes(base.text.length)}`;
        if (origin.textContent === now) return;
        setText(origin, now);
        hint.hidden = base.source === 'api';
        replace(
            hint,
            'This is the canonical text of the files',
            base.files.length
                ? [': ', base.files.map((file, i) => [i ? ', ' : null, el('code', {}, given(file))])]
                : null,
            '. Comments, and secrets of the section server:, are not in it. What you apply here goes before the files until you go back to them.',
        );
    }

    /** Shows the draft of this tab, or the rules in force. */
    async function start({ fresh = false } = {}) {
        if (fresh) base = await get('/v1/rules', { signal });
        const draft = fresh ? null : readDraft();
        editor.text = draft?.text ?? base.text;
        if (draft && draft.version !== base.version) {
            replace(
                messages,
                notice(
                    'warning',
                    `Your draft began with version ${draft.version} of the rules; version ${base.version} is in force now, and compared with.`,
                ),
            );
        }
        edited();
        showTrial();
        compare();
    }

    showOrigin();
    replace(
        root,
        el('div', { class: 'head' }, el('h1', {}, 'Edit rules'), rulesTabs('edit'), origin),
        readOnlyNote(),
        trialLine,
        messages,
    );
    if (base.text === '') {
        root.append(
            notice(
                'warning',
                'These rules came in files of Envoy’s format, of which there is no text here. Change the files; rationd reads them again by itself.',
            ),
        );
        return () => stop.abort();
    }
    root.append(
        hint,
        el(
            'section',
            { class: 'panel stack', 'aria-label': 'Editor' },
            editor.element,
            el(
                'div',
                { class: 'head' },
                verdict,
                el(
                    'div',
                    { class: 'row' },
                    button('Validate', validate),
                    revert,
                    changeButton('Try in shadow…', () => tryInShadow().catch(showError)),
                    changeButton('Apply…', () => apply().catch(showError), { class: 'main' }),
                ),
            ),
            problems,
        ),
        panel('compared', 'Your text against the rules in force', null, comparison),
    );
    await start();
    return () => {
        validateSoon.cancel();
        compareSoon.cancel();
        stop.abort();
    };
}
