// SPDX-License-Identifier: Apache-2.0
// The pages of the section Rules.

import { el } from './dom.js';

export function rulesTabs(current) {
    return el(
        'nav',
        { class: 'tabs', 'aria-label': 'Rules' },
        [
            ['rules', 'In force'],
            ['edit', 'Edit'],
            ['versions', 'Versions'],
        ].map(([name, text]) => el('a', { href: `#/${name}`, 'aria-current': name === current ? 'page' : null }, text)),
    );
}
