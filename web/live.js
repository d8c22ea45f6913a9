// SPDX-License-Identifier: Apache-2.0
// The stream of /v1/live: a line of JSON each second. It stops while the tab is hidden, and comes back by itself,
// with growing pauses, when rationd was away. Only rules that somebody looks at are streamed.

import { access, errorOf, headersOf, nameList } from './api.js';
import { afterPause } from './dom.js';

const SILENCE = 3500; // milliseconds without a line until the connection counts as lost
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15000;
const MOST_RULES = 200; // in one stream
const LONGEST_LINE = 4 << 20; // characters: more without an end is no stream of rationd

/** state: 'connecting', 'live', 'lost', 'hidden', 'refused' or 'off'. `heard`: when the last line came, in milliseconds. */
export const live = { state: 'off', line: null, heard: 0 };

const listeners = { line: new Set(), state: new Set() };
const wanted = new Map(); // names of rules by who wants them
let current = null; // the AbortController of the stream that is open, or of the pause before the next
let streamed = new Set();

/** Calls back for each line, or each change of state, until the function that is returned is called. */
export function listen(event, listener) {
    listeners[event].add(listener);
    return () => listeners[event].delete(listener);
}

function tell(event, value) {
    for (const listener of listeners[event]) listener(value);
}

function become(state) {
    if (live.state === state) return;
    live.state = state;
    tell('state', state);
}

/** A pause that an abort ends early. */
function pause(milliseconds, signal) {
    return new Promise((resolve) => {
        const timer = setTimeout(resolve, milliseconds);
        signal.addEventListener('abort', () => {
            clearTimeout(timer);
            resolve();
        });
    });
}

function namesWanted() {
    return [...new Set([...wanted.values()].flat())].slice(0, MOST_RULES);
}

function take(text) {
    live.line = JSON.parse(text);
    live.heard = Date.now();
    become('live');
    tell('line', live.line);
}

/** Reads one stream to its end. */
async function read(signal) {
    const names = namesWanted();
    streamed = new Set(names);
    const silence = new AbortController();
    const either = AbortSignal.any([signal, silence.signal]);
    const hush = afterPause(SILENCE, () => silence.abort());
    hush();
    try {
        const response = await fetch(`/v1/live?rules=${nameList(names)}`, {
            headers: headersOf('GET'),
            signal: either,
            cache: 'no-store',
        });
        if (!response.ok) throw await errorOf(response);
        const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
        let rest = '';
        for (;;) {
            const { value, done } = await reader.read();
            if (done) return;
            hush();
            const lines = (rest + value).split('\n');
            rest = lines.pop();
            if (rest.length > LONGEST_LINE) throw new Error('a line without an end');
            lines.filter(Boolean).forEach(take);
        }
    } finally {
        hush.cancel();
    }
}

async function run(controller) {
    const { signal } = controller;
    let failures = 0;
    while (!signal.aborted) {
        const before = live.heard;
        try {
            await read(signal);
        } catch (error) {
            if (error.status === 401 || error.status === 403) {
                become('refused');
                if (error.status === 401) access.refused(error.message);
                return;
            }
        }
        if (signal.aborted) return;
        failures = live.heard === before ? failures + 1 : 0;
        // Full jitter: pages that lost the same rationd do not all come back at once.
        const longest = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** failures);
        const rest = FIRST_PAUSE / 2 + Math.random() * longest;
        become('lost');
        await pause(rest, signal);
    }
}

function open() {
    current?.abort();
    current = new AbortController();
    run(current);
}

/** Opens the stream, or another with the token of now. */
export function startLive() {
    if (document.hidden) {
        become('hidden');
        return;
    }
    if (live.state !== 'live') become('connecting');
    open();
}

export function stopLive() {
    current?.abort();
    current = null;
    become('off');
}

const reopen = afterPause(400, () => {
    const names = namesWanted();
    const fits = names.length === streamed.size && names.every((name) => streamed.has(name));
    if (!fits && current && !document.hidden) open();
});

/** Says which rules `owner` shows now; none: it shows no rules any more. */
export function watchRules(owner, names) {
    if (names.length) wanted.set(owner, names);
    else wanted.delete(owner);
    reopen();
}

document.addEventListener('visibilitychange', () => {
    if (live.state === 'off' || live.state === 'refused') return;
    if (document.hidden) {
        current?.abort();
        become('hidden');
    } else {
        startLive();
    }
});
