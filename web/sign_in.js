// SPDX-License-Identifier: Apache-2.0
// The sign-in, where rationd wants a token.

import { ApiError, keepToken } from './api.js';
import { failure, field } from './controls.js';
import { el, replace } from './dom.js';
import { identify } from './session.js';

/** Shows the sign-in in `main`. `why` is what rationd said; `done` is called when a token was accepted. */
export function showSignIn(main, why, done) {
    const trouble = el('div');
    const input = el('input', {
        type: 'password',
        autocomplete: 'current-password',
        required: true,
        id: 'token',
        spellcheck: false,
    });
    const go = el('button', { type: 'submit', class: 'main' }, 'Sign in');
    const form = el(
        'form',
        {
            class: 'stack',
            on: {
                submit: async (event) => {
                    event.preventDefault();
                    go.disabled = true;
                    replace(trouble);
                    keepToken(input.value.trim());
                    try {
                        await identify({ quietly: true });
                        done();
                    } catch (error) {
                        keepToken(null);
                        replace(
                            trouble,
                            failure(
                                error.status === 401
                                    ? new ApiError(401, `rationd did not accept this token: ${error.message}`)
                                    : error,
                            ),
                        );
                        go.disabled = false;
                        input.select();
                    }
                },
            },
        },
        field('Token', input),
        trouble,
        el('div', { class: 'row' }, go),
    );
    replace(
        main,
        el(
            'section',
            { class: 'panel stack sign-in' },
            el('h1', {}, 'Sign in'),
            el('p', {}, 'rationd asks for a token: ', why, '.'),
            form,
            el(
                'p',
                { class: 'hint' },
                'Tokens are in the section ',
                el('code', {}, 'server:'),
                ' of the rules, as ',
                el('code', {}, 'tokens'),
                '. Scope ',
                el('code', {}, 'read'),
                ' is enough to look, ',
                el('code', {}, 'admin'),
                ' is needed to change something. The token stays in this tab and is forgotten when you close it.',
            ),
        ),
    );
    input.focus();
}
