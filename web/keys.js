// SPDX-License-Identifier: Apache-2.0
// Keyboard shortcuts. They do nothing while somebody writes, or with Ctrl, Alt or Meta.

import { el } from './dom.js';
import { button } from './controls.js';

const SECTIONS = {
    o: 'overview',
    r: 'rules',
    e: 'edit',
    v: 'versions',
    c: 'clients',
    t: 'try',
    n: 'nodes',
    p: 'report',
};
const LIST = [
    ['/', 'Search, or the first field of the page'],
    ['g o', 'Overview'],
    ['g r', 'Rules'],
    ['g e', 'Edit rules'],
    ['g v', 'Versions'],
    ['g c', 'Clients'],
    ['g t', 'Try a request'],
    ['g n', 'Nodes and store'],
    ['g p', 'Report'],
    ['← →', 'In a chart: through time. Home, End, Page Up and Page Down go further'],
    ['Ctrl Enter', 'In the editor: compare with the rules in force'],
    ['Tab', 'In the editor: two spaces. After Escape it leaves the editor'],
    ['?', 'This list'],
];

export function showKeys() {
    if (document.querySelector('dialog[open]')) return;
    const dialog = el(
        'dialog',
        { 'aria-label': 'Keyboard shortcuts', on: { close: () => dialog.remove() } },
        el(
            'form',
            { method: 'dialog' },
            el('h2', {}, 'Keyboard shortcuts'),
            el(
                'dl',
                { class: 'facts' },
                LIST.map(([keys, what]) => [
                    el(
                        'dt',
                        {},
                        keys.split(' ').map((key, i) => [i ? ' ' : null, el('kbd', {}, key)]),
                    ),
                    el('dd', {}, what),
                ]),
            ),
            el(
                'div',
                { class: 'answer' },
                button('Close', () => dialog.close()),
            ),
        ),
    );
    document.body.append(dialog);
    dialog.showModal();
}

export function listenForKeys() {
    let goes = false; // g was pressed: the next key names a section
    document.addEventListener('keydown', (event) => {
        const writes = event.target.closest?.('input, textarea, select, [contenteditable]');
        if (writes || event.ctrlKey || event.altKey || event.metaKey || document.querySelector('dialog[open]')) return;
        if (goes && SECTIONS[event.key]) location.hash = `#/${SECTIONS[event.key]}`;
        goes = event.key === 'g';
        if (event.key === '?') showKeys();
        if (event.key === '/') {
            event.preventDefault();
            (
                document.querySelector('main input[type="search"]') ??
                document.querySelector('main input, main textarea')
            )?.focus();
        }
    });
}
