// SPDX-License-Identifier: Apache-2.0
// Attributes of a request as rows of name and value, with the names that the rules look at as suggestions.

import { get } from './api.js';
import { attributesOfKey } from './attributes.js';
import { button } from './controls.js';
import { el, replace } from './dom.js';

const ALWAYS = ['ip', 'method', 'path', 'host'];
let names = null; // asked for once
let forms = 0;

async function knownNames() {
    if (names) return names;
    const found = new Set(ALWAYS);
    try {
        const { rules } = await get('/v1/activity?count=200&sort=allowed');
        for (const rule of rules) attributesOfKey(rule.key).forEach((name) => found.add(name));
    } catch {
        // Suggestions are a help and no more: without them names are written.
    }
    names = [...found];
    return names;
}

/** A form; read() gives the attributes as an object, write(object) shows others. `more` stands before the button. */
export function attributeForm({ label, doIt, submit, more = [] }) {
    forms += 1;
    const listId = `names${forms}`;
    const list = el('datalist', { id: listId });
    const methods = el(
        'datalist',
        { id: `${listId}m` },
        ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].map((value) => el('option', { value })),
    );
    const rows = el('div', { class: 'stack tight', role: 'group', 'aria-label': 'Attributes' });

    function addRow(name = '', value = '') {
        const nameInput = el('input', {
            list: listId,
            value: name,
            'aria-label': 'Attribute',
            placeholder: 'attribute',
            autocomplete: 'off',
            autocapitalize: 'off',
            spellcheck: false,
            class: 'mono',
        });
        const valueInput = el('input', {
            value,
            'aria-label': 'Value',
            placeholder: 'value',
            autocomplete: 'off',
            autocapitalize: 'off',
            spellcheck: false,
            class: 'mono',
            dir: 'auto',
        });
        nameInput.addEventListener('change', () => {
            if (nameInput.value === 'method') valueInput.setAttribute('list', `${listId}m`);
            else valueInput.removeAttribute('list');
        });
        // name=value written or pasted into the first field goes where it belongs.
        nameInput.addEventListener('input', () => {
            const at = nameInput.value.indexOf('=');
            if (at < 1) return;
            valueInput.value = nameInput.value.slice(at + 1);
            nameInput.value = nameInput.value.slice(0, at);
            valueInput.focus();
        });
        const row = el(
            'div',
            { class: 'attribute' },
            nameInput,
            el('span', { 'aria-hidden': 'true' }, '='),
            valueInput,
            button(
                '\u00d7',
                () => {
                    const next = row.nextElementSibling ?? row.previousElementSibling;
                    row.remove();
                    if (!rows.childElementCount) addRow();
                    (next ?? rows.firstElementChild).querySelector('input').focus();
                },
                { class: 'quiet', 'aria-label': 'Remove this attribute', title: 'Remove this attribute' },
            ),
        );
        rows.append(row);
        return nameInput;
    }

    const read = () =>
        Object.fromEntries(
            [...rows.children]
                .map((row) => {
                    const [name, value] = row.querySelectorAll('input');
                    return [name.value.trim(), value.value];
                })
                .filter(([name]) => name !== ''),
        );

    const element = el(
        'form',
        {
            class: 'stack',
            'aria-label': label,
            on: {
                submit: (event) => {
                    event.preventDefault();
                    submit(read());
                },
            },
        },
        list,
        methods,
        rows,
        el(
            'div',
            { class: 'row' },
            button('Add attribute', () => addRow().focus()),
            more,
            el('button', { type: 'submit', class: 'main' }, doIt),
        ),
    );

    function write(attributes) {
        replace(rows);
        const entries = Object.entries(attributes);
        entries.forEach(([name, value]) => addRow(name, String(value)));
        if (!entries.length) addRow();
    }

    write({});
    knownNames().then((known) =>
        replace(
            list,
            known.map((value) => el('option', { value })),
        ),
    );
    return { element, read, write };
}
