// SPDX-License-Identifier: Apache-2.0
// Rules: all of them, or one.

import { get } from './api.js';
import { el, replace } from './dom.js';
import { showRule } from './rule_detail.js';
import { rulesTable } from './rules_table.js';
import { rulesTabs } from './rules_tabs.js';
import { when } from './format.js';

export async function open(root, name) {
    if (name) return showRule(root, name);
    const rules = rulesTable({ pageSize: 50, source: true, sort: 'name', order: 'asc' });
    const origin = el('span', { class: 'sub' });
    replace(
        root,
        el('div', { class: 'head' }, el('h1', {}, 'Rules'), rulesTabs('rules'), origin),
        el('section', { class: 'panel', 'aria-label': 'Rules in force' }, rules.element),
    );
    get('/v1/status').then(
        ({ rules: now }) =>
            origin.append(
                `version ${now.version}, from ${now.source === 'api' ? 'this API' : 'files'}, since ${when(now.loaded_at)}`,
            ),
        () => {},
    );
    return () => rules.close();
}
