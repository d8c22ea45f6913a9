// SPDX-License-Identifier: Apache-2.0
// Requests to the admin port this page came from. The token is kept in sessionStorage only: it ends with the tab.

const TOKEN = 'ration.token';
const PATIENCE = 10000; // milliseconds until a request counts as lost

/** What a request failed with. `status` 0: rationd did not answer. */
export class ApiError extends Error {
    constructor(status, message, body = {}) {
        super(message);
        this.status = status;
        this.code = body.error ?? '';
        this.body = body;
    }
}

/** Called with the message of a 401. main.js shows the sign-in then. */
export const access = { refused: () => {} };

export function readToken() {
    return sessionStorage.getItem(TOKEN);
}

export function keepToken(token) {
    if (token) sessionStorage.setItem(TOKEN, token);
    else sessionStorage.removeItem(TOKEN);
}

/** The headers of a request: the token, and for changes what a form of another site cannot send. */
export function headersOf(method, more = {}) {
    const headers = { ...more };
    const token = readToken();
    if (token) headers.Authorization = `Bearer ${token}`;
    if (method !== 'GET') headers['X-Ration'] = '1';
    return headers;
}

/** The error that an answer tells. */
export async function errorOf(response) {
    const text = await response.text().catch(() => '');
    let body = {};
    try {
        body = JSON.parse(text);
    } catch {
        if (text.startsWith('<'))
            body.message = `A page of HTML came with status ${response.status}: it is from a proxy, not from rationd`;
        else body.message = text.slice(0, 500);
    }
    if (body === null || typeof body !== 'object') body = {};
    return new ApiError(response.status, body.message || `rationd answered ${response.status}`, body);
}

/** `quietly`: a 401 is an error as any other, and brings no sign-in. */
async function send(method, path, { body, headers, signal, quietly = false } = {}) {
    const limit = AbortSignal.timeout(PATIENCE);
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    let response;
    try {
        response = await fetch(path, {
            method,
            body: text,
            headers: headersOf(method, headers),
            signal: signal ? AbortSignal.any([signal, limit]) : limit,
            cache: 'no-store',
        });
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new ApiError(0, 'rationd does not answer');
    }
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status === 401 && !quietly) access.refused(error.message);
    throw error;
}

/** The JSON that rationd answers. A proxy on the way may cut it short, or answer with a page of its own. */
export async function ask(method, path, options) {
    const text = await textOf(await send(method, path, options), options);
    let answer = null;
    try {
        answer = JSON.parse(text);
    } catch {
        // As null: no answer of rationd.
    }
    if (answer !== null && typeof answer === 'object') return answer;
    throw new ApiError(0, 'The answer is not from rationd, or was cut short: it is no JSON object. Is there a proxy?');
}

async function textOf(response, { signal } = {}) {
    try {
        return await response.text();
    } catch (error) {
        if (signal?.aborted) throw error;
        throw new ApiError(0, 'The answer of rationd broke off');
    }
}

export const get = (path, options) => ask('GET', path, options);

export async function getText(path, options) {
    return textOf(await send('GET', path, options), options);
}

/** Parameters of an address: `of({ rule: 'a b', none: null })` is `?rule=a%20b`. */
export function query(parameters) {
    const parts = Object.entries(parameters)
        .filter(([, value]) => value !== null && value !== undefined && value !== '')
        .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
    return parts.length ? `?${parts.join('&')}` : '';
}

/** Names for a list in a parameter: each is escaped within the list, so that its commas do not part it. */
export function nameList(names) {
    return encodeURIComponent(names.map((name) => encodeURIComponent(name)).join(','));
}
