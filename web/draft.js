// SPDX-License-Identifier: Apache-2.0
// What was written in the editor, kept in this tab until it is applied or discarded.

const DRAFT = 'ration.draft';
const LONGEST = 1 << 20; // bytes: no draft is kept of longer texts

/** { text, version } with the version of the rules it began with, or null. */
export function readDraft() {
    try {
        return JSON.parse(sessionStorage.getItem(DRAFT));
    } catch {
        return null;
    }
}

export function keepDraft(draft) {
    try {
        if (draft && draft.text.length < LONGEST) sessionStorage.setItem(DRAFT, JSON.stringify(draft));
        else sessionStorage.removeItem(DRAFT);
    } catch {
        // No room in this browser: the text lasts as long as the page.
    }
}
