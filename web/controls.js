// SPDX-License-Identifier: Apache-2.0
// What pages share: notices, buttons that change something, tables, facts, dialogs that confirm.

import { el, replace } from './dom.js';
import { session } from './session.js';

/** kind: 'error', 'warning', 'done' or ''. Errors interrupt a screen reader, the others wait. */
export function notice(kind, ...children) {
    return el('div', { class: `notice ${kind}`, role: kind === 'error' ? 'alert' : 'status' }, children);
}

export function empty(...children) {
    return el('p', { class: 'empty' }, children);
}

/** A part of a page with a heading, and what stands `beside` it or null. */
export function panel(id, title, beside, ...content) {
    return el(
        'section',
        { class: 'panel', 'aria-labelledby': id },
        el('div', { class: 'head' }, el('h2', { id }, title), beside),
        content,
    );
}

/** What rationd says about a request that failed. */
export function failure(error) {
    const report = error.body?.report;
    return notice(
        'error',
        el('p', {}, plainWords(error)),
        report ? el('pre', { class: 'mono report', tabindex: 0 }, report) : null,
    );
}

function plainWords(error) {
    if (error.status === 429)
        return `Too many wrong tokens came from this address. Wait a second and try again. (${error.message})`;
    if (error.status === 403) return `Not allowed: ${error.message}`;
    return error.message;
}

export function button(text, run, attributes = {}) {
    return el('button', { type: 'button', ...attributes, on: { click: run } }, text);
}

/** A button for something that changes rationd. Without the scope for it, it is disabled and says why. */
export function changeButton(text, run, attributes = {}) {
    const allowed = session.scope === 'admin';
    return button(text, run, {
        ...attributes,
        disabled: !allowed || Boolean(attributes.disabled),
        title: allowed ? attributes.title : 'This changes rationd, and your token may only read.',
    });
}

/** Said once on pages with such buttons. */
export function readOnlyNote() {
    if (session.scope === 'admin') return null;
    return el(
        'p',
        { class: 'hint' },
        'You can look, but change nothing: your token has the scope ',
        el('code', {}, session.scope),
        '. Changes need the scope ',
        el('code', {}, 'admin'),
        '.',
    );
}

let fields = 0;

/** An input with its label, and a hint that describes it. */
export function field(label, input, hint) {
    fields += 1;
    input.id ||= `field${fields}`;
    if (hint) input.setAttribute('aria-describedby', `${input.id}-hint`);
    return el(
        'div',
        { class: 'field' },
        el('label', { for: input.id }, label),
        input,
        hint ? el('span', { class: 'hint', id: `${input.id}-hint` }, hint) : null,
    );
}

export function facts(pairs) {
    return el(
        'dl',
        { class: 'facts' },
        pairs.filter(Boolean).map(([term, value]) => [el('dt', {}, term), el('dd', {}, value)]),
    );
}

const classOf = (column) => ['number', 'whole', 'spare'].filter((name) => column[name]).join(' ') || null;

/**
 * A table with its roles written out, because rows become cards on phones, and browsers forget the roles then.
 * Columns: { label, cell(row), number, sort, whole, spare }. Tablets leave out the spare ones.
 * `sorting`: { by, order, choose(by) }.
 */
export function table(caption, columns, rows, sorting) {
    const head = columns.map((column) => {
        const sorted = sorting && column.sort && sorting.by === column.sort;
        return el(
            'th',
            {
                scope: 'col',
                role: 'columnheader',
                class: classOf(column),
                'aria-sort': sorted ? (sorting.order === 'asc' ? 'ascending' : 'descending') : null,
            },
            column.sort
                ? el(
                      'button',
                      { type: 'button', 'data-sort': column.sort, on: { click: () => sorting.choose(column.sort) } },
                      column.label,
                  )
                : column.label,
        );
    });
    const body = rows.map((row) =>
        el(
            'tr',
            { role: 'row' },
            columns.map((column) =>
                el(
                    'td',
                    {
                        role: 'cell',
                        'data-label': column.label,
                        class: classOf(column),
                    },
                    column.cell(row),
                ),
            ),
        ),
    );
    return el(
        'div',
        { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0 },
        el(
            'table',
            { class: 'cards', role: 'table' },
            el('caption', { class: 'unseen' }, caption),
            el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' }, head)),
            el('tbody', { role: 'rowgroup' }, body),
        ),
    );
}

/** Buttons of which one is chosen: [value, text] each. */
export function choice(label, options, chosen, choose) {
    const group = el('div', { class: 'tabs', role: 'group', 'aria-label': label });
    const show = (value) =>
        replace(
            group,
            options.map(([key, text]) =>
                button(
                    text,
                    () => {
                        show(key);
                        group.querySelector('[aria-pressed="true"]').focus();
                        choose(key);
                    },
                    { 'aria-pressed': String(key === value) },
                ),
            ),
        );
    show(chosen);
    return group;
}

const holdEscape = (event) => event.key === 'Escape' && event.preventDefault();

/**
 * Asks before something is changed. `say` are sentences that name what will change, `inputs` are those of fields, by name.
 * `act(values)` does it; what it throws is shown, and the dialog stays. Resolves to what it returned, or null.
 */
export function confirm({ title, say, inputs = {}, doIt, danger = false, wide = false, act }) {
    return new Promise((resolve) => {
        let result = null;
        const trouble = el('div');
        const go = el('button', { type: 'submit', class: danger ? 'danger' : 'main' }, doIt);
        const cancel = button('Cancel', () => dialog.close());
        const form = el(
            'form',
            { method: 'dialog' },
            el('h2', {}, title),
            say,
            Object.values(inputs).map((input) => input.closest('.field')),
            trouble,
            el('div', { class: 'answer' }, cancel, go),
        );
        /** What was sent cannot be called back: until rationd answers, the dialog stays. */
        const wait = (waits) => {
            go.disabled = waits;
            cancel.disabled = waits;
            dialog.setAttribute('closedby', waits ? 'none' : 'closerequest');
            // The focus may be outside: a button that was disabled has lost it.
            if (waits) document.addEventListener('keydown', holdEscape, true);
            else document.removeEventListener('keydown', holdEscape, true);
        };
        const dialog = el(
            'dialog',
            {
                'aria-label': title,
                class: wide ? 'wide' : null,
                on: {
                    close: () => {
                        document.removeEventListener('keydown', holdEscape, true);
                        dialog.remove();
                        resolve(result);
                    },
                },
            },
            form,
        );
        form.addEventListener('submit', async (event) => {
            event.preventDefault();
            if (go.disabled) return;
            wait(true);
            replace(trouble);
            try {
                result =
                    (await act(
                        Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()])),
                    )) ?? true;
                dialog.close();
            } catch (error) {
                replace(trouble, failure(error));
                wait(false);
                if (!form.contains(document.activeElement)) go.focus();
            }
        });
        document.body.append(dialog);
        dialog.showModal();
    });
}
