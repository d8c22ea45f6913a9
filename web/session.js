// SPDX-License-Identifier: Apache-2.0
// Who asks, and what they may do: GET /v1/whoami.

import { get, keepToken, readToken } from './api.js';

export const session = { scope: null, token: null, node: null, version: null };

/** Asks rationd who we are. Throws what it answers. */
export async function identify(options) {
    Object.assign(session, await get('/v1/whoami', options));
    return session;
}

export function signOut() {
    keepToken(null);
    Object.assign(session, { scope: null, token: null });
}

export const hasToken = () => readToken() !== null;
