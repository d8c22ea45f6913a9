#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// A polite client of an API with limits: waits as long as it is asked to, backs off with full jitter, and gives up in time.
//
//     ./retry.js URL [COUNT]
//
// docs/retrying.md explains each line. Only calls that may be repeated are repeated: this one gets.
'use strict';

const ATTEMPTS = 6, DEADLINE_MS = 30_000, CALL_MS = 10_000;
const FIRST_MS = 200, MOST_MS = 10_000;

// What the server asks for, and a random part on top, so that clients do not come back together.
function msToWait(retryAfter, attempt) {
  const jitter = Math.random() * Math.min(MOST_MS, FIRST_MS * 2 ** attempt);
  if (retryAfter === null) return jitter;
  if (/^\d+$/.test(retryAfter)) return Number(retryAfter) * 1000 + jitter;
  const at = Date.parse(retryAfter);
  return (Number.isNaN(at) ? 0 : Math.max(0, at - Date.now())) + jitter;
}

// The response if it is one to go on with. Throws when it gives up.
async function get(url) {
  const ends = Date.now() + DEADLINE_MS;
  let last = 'no answer';
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    let retryAfter = null;
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(Math.max(100, Math.min(CALL_MS, ends - Date.now()))) });
      retryAfter = response.headers.get('retry-after');
      if (![429, 502, 503, 504].includes(response.status)) return response;
      await response.arrayBuffer(); // so that the connection can be used again
      last = `status ${response.status}`;
      if (response.status === 429 && retryAfter === null) break; // it can never be admitted
    } catch (error) {
      last = error.cause?.message ?? error.name; // such as connect ECONNREFUSED 127.0.0.1:8080
    }
    const wait = msToWait(retryAfter, attempt);
    if (Date.now() + wait > ends) break;
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  throw new Error(`gave up: ${last}`);
}

async function main(url, count) {
  for (let i = 0; i < count; i++)
    await get(url).then((response) => console.log(response.ok ? 'ok' : `status ${response.status}`),
      (error) => console.log(error.message));
}

if (process.argv.length < 3) {
  console.error('usage: retry.js URL [COUNT]');
  process.exit(2);
}
main(process.argv[2], Number(process.argv[3] || 1));
