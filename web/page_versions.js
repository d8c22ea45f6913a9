// SPDX-License-Identifier: Apache-2.0
// Versions of the rules: who put them in force, when and how; their text, their difference to the rules in force, and
// the way back.

import { ask, get, query } from './api.js';
import { button, changeButton, confirm, empty, failure, notice, readOnlyNote, table } from './controls.js';
import { diffSummary, diffView } from './diff_view.js';
import { el, given, replace, replaceKeepingFocus } from './dom.js';
import { bytes, exact, plural, when } from './format.js';
import { rulesTabs } from './rules_tabs.js';

const PAGE = 25;
const HOW = {
    start: 'read at the start',
    files: 'files read again',
    put: 'applied',
    delete: 'back to the files',
    rollback: 'rolled back',
    trial: 'trial',
    'other node': 'from another node',
};

export async function open(root) {
    const stop = new AbortController();
    const { signal } = stop;
    const messages = el('div');
    const list = el('div');
    const viewer = el('div', { class: 'stack' });
    const around = el('div', { class: 'row' });
    let offset = 0;

    const textOf = async (id) => (await get(`/v1/rules/versions/${id}`, { signal })).text;
    const guarded = (run) => () => run().catch((error) => signal.aborted || replace(messages, failure(error)));

    async function view(version) {
        const text = await textOf(version.id);
        replace(
            viewer,
            el(
                'section',
                { class: 'panel stack' },
                el(
                    'div',
                    { class: 'head' },
                    el('h2', {}, `Version ${version.id}`),
                    button('Close', () => replace(viewer)),
                ),
                el('pre', { class: 'mono source', tabindex: 0 }, text),
            ),
        );
        viewer.scrollIntoView({ block: 'nearest' });
    }

    async function compare(version) {
        const [old, now] = await Promise.all([textOf(version.id), get('/v1/rules', { signal })]);
        const shown = diffView(old, now.text, `Version ${version.id} against the rules in force`);
        replace(
            viewer,
            el(
                'section',
                { class: 'panel stack' },
                el(
                    'div',
                    { class: 'head' },
                    el('h2', {}, `From version ${version.id} to the rules in force`),
                    el('span', { class: 'sub' }, diffSummary(shown)),
                    button('Close', () => replace(viewer)),
                ),
                shown.element,
            ),
        );
        viewer.scrollIntoView({ block: 'nearest' });
    }

    async function rollBack(version) {
        const [old, now] = await Promise.all([textOf(version.id), get('/v1/rules', { signal })]);
        const shown = diffView(now.text, old, 'What will change');
        const answer = await confirm({
            title: `Roll back to version ${version.id}`,
            doIt: 'Roll back',
            danger: true,
            wide: true,
            say: [
                el('p', {}, `The rules of ${when(version.time)} replace those in force: ${diffSummary(shown)}.`),
                shown.element,
            ],
            act: () =>
                ask('POST', '/v1/rules/rollback', {
                    body: { version: version.id },
                    headers: { 'If-Match': `"${now.version}"` },
                }),
        });
        if (!answer) return;
        replace(
            messages,
            notice(
                'done',
                `Version ${version.id} is in force again, as version ${answer.version}.`,
                answer.note ? [' ', given(answer.note)] : null,
            ),
        );
        await load();
    }

    async function act(question, request, done) {
        const answer = await confirm({ ...question, act: request });
        if (!answer) return;
        replace(messages, notice('done', done, answer.note ? [' ', given(answer.note)] : null));
        await load();
    }

    const columns = [
        {
            label: 'Version',
            cell: (one) =>
                el(
                    'span',
                    {},
                    el('strong', {}, exact(one.id)),
                    one.in_force ? [' ', el('span', { class: 'tag good' }, 'in force')] : null,
                ),
        },
        { label: 'When', cell: (one) => el('time', { datetime: one.time }, when(one.time)) },
        { label: 'Who', cell: (one) => given(one.token ?? one.by) },
        {
            label: 'How',
            cell: (one) =>
                `${HOW[one.how] ?? one.how}${one.of === null || one.of === undefined ? '' : ` to ${one.of}`}`,
        },
        { label: 'Rules', number: true, cell: (one) => exact(one.rules) },
        { label: 'Size', number: true, cell: (one) => bytes(one.bytes) },
        {
            label: 'Text',
            whole: true,
            cell: (one) =>
                one.text_kept
                    ? el(
                          'div',
                          { class: 'row' },
                          button(
                              'View',
                              guarded(() => view(one)),
                              { 'aria-label': `View version ${one.id}` },
                          ),
                          one.in_force
                              ? null
                              : button(
                                    'Compare',
                                    guarded(() => compare(one)),
                                    { 'aria-label': `Compare version ${one.id} with the rules in force` },
                                ),
                          one.in_force
                              ? null
                              : changeButton(
                                    'Roll back…',
                                    guarded(() => rollBack(one)),
                                    { 'aria-label': `Roll back to version ${one.id}` },
                                ),
                      )
                    : el('span', { class: 'sub' }, 'not kept'),
        },
    ];

    async function load() {
        const [{ kept, versions }, now] = await Promise.all([
            get(`/v1/rules/versions${query({ offset, count: PAGE })}`, { signal }),
            get('/v1/status', { signal }),
        ]);
        const step = (by) =>
            guarded(() => {
                offset = Math.max(0, offset + by);
                return load();
            });
        replaceKeepingFocus(
            list,
            versions.length
                ? table('Versions of the rules, newest first', columns, versions)
                : empty('No version is kept yet.'),
            kept > PAGE
                ? el(
                      'div',
                      { class: 'pager' },
                      `${plural(kept, 'version')}`,
                      button('Newer', step(-PAGE), { disabled: offset === 0 }),
                      button('Older', step(PAGE), { disabled: offset + PAGE >= kept }),
                  )
                : null,
        );
        replaceKeepingFocus(
            around,
            changeButton(
                'Read the files again…',
                guarded(() =>
                    act(
                        {
                            title: 'Read the files again',
                            doIt: 'Read them',
                            say: el(
                                'p',
                                {},
                                now.rules.source === 'api'
                                    ? 'Rules that were applied here stay in force if they are kept beside a state file; else those of the files take their place.'
                                    : 'The rules of the files take the place of those in force. If they have errors, nothing changes.',
                            ),
                        },
                        () => ask('POST', '/v1/rules/reload'),
                        'The files were read.',
                    ),
                ),
            ),
            now.rules.source === 'api'
                ? changeButton(
                      'Go back to the files…',
                      guarded(() =>
                          act(
                              {
                                  title: 'Go back to the files',
                                  doIt: 'Go back',
                                  danger: true,
                                  say: el(
                                      'p',
                                      {},
                                      'The rules that were applied here end, and those of the files are in force.',
                                  ),
                              },
                              () => ask('DELETE', '/v1/rules'),
                              'The rules of the files are in force.',
                          ),
                      ),
                  )
                : null,
        );
    }

    replace(
        root,
        el('div', { class: 'head' }, el('h1', {}, 'Versions'), rulesTabs('versions'), around),
        readOnlyNote(),
        messages,
        el('section', { class: 'panel', 'aria-label': 'Versions' }, list),
        viewer,
    );
    await load();
    return () => stop.abort();
}
