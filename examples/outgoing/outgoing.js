#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// Calls to a partner that allows 20 a second, and answers 429 or 503 with Retry-After when it has had enough.
//
//     rationd --config ration.yaml &
//     node outgoing.js stripe http://127.0.0.1:3000/charges 10
//
// The same as outgoing.py, which says what it does and why; no packages are needed.
"use strict";

const http = require("node:http");
const { setTimeout: sleep } = require("node:timers/promises");

const RATIOND = "http://" + (process.env.RATIOND || "127.0.0.1:8080");
const TOKEN = process.env.RATION_TOKEN; // to pause from another machine: a token of scope admin
const WITHOUT_RATIOND = process.env.WITHOUT_RATIOND || "refuse"; // or allow
const ANSWER_MS = 1000 * (process.env.ANSWER_SECONDS || 1); // for rationd, beyond the time in line
const WAIT_MS = 1000 * (process.env.WAIT_SECONDS || 30), CALL_MS = 10000;
const ATTEMPTS = 5, BACKOFF_FIRST_MS = 200, BACKOFF_MOST_MS = 10000;

// The call was not made, or the partner did not take it. `retryAfter`: seconds, if known.
class NotCalled extends Error {
  constructor(why, retryAfter = null) {
    super(why);
    this.retryAfter = retryAfter;
  }
}

// Resolves to {status, headers, text}; rejects if the whole answer is not there after `ms`.
function post(url, headers, body, ms) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: "POST", headers, agent: false, signal: AbortSignal.timeout(ms) },
      (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (piece) => { text += piece; });
        response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
        response.on("error", reject);
      });
    request.on("error", reject);
    request.end(body);
  });
}

// Resolves to the answer, or null if there is none in time.
async function askRationd(path, body, ms) {
  try {
    const headers = TOKEN ? { authorization: `Bearer ${TOKEN}` } : {};
    return JSON.parse((await post(RATIOND + path, headers, JSON.stringify(body), ms)).text);
  } catch (error) {
    console.error(`outgoing: rationd is away: ${error.message}`);
    return null;
  }
}

// Resolves when the call may leave; rejects with NotCalled.
async function waitForTurn(partner) {
  const answer = await askRationd("/v1/check", { attributes: { partner }, wait: WAIT_MS / 1000 }, WAIT_MS + ANSWER_MS);
  if (!answer || !("allowed" in answer)) { // no answer, or rationd could make no decision
    if (WITHOUT_RATIOND !== "allow") throw new NotCalled("rationd is away");
  } else if (!answer.allowed) {
    throw new NotCalled("too many calls wait, or the partner is paused for longer", answer.retry_after);
  }
}

// Stops the calls of all programs. False if Retry-After makes no sense.
async function pause(partner, retryAfter) {
  const answer = await askRationd("/v1/pause", { attributes: { partner }, rule: "partners", for: retryAfter }, ANSWER_MS);
  if (!answer) { // then at least our own
    const ms = /^\d+$/.test(retryAfter) ? 1000 * retryAfter : Date.parse(retryAfter) - Date.now();
    await sleep(Math.max(0, ms || 0));
    return true;
  }
  if (answer.error) console.error(`outgoing: ${answer.message}`);
  return !answer.error;
}

// Resolves to the status; rejects with NotCalled. A call without an answer is repeated, too: the partner must know
// repetitions by their Idempotency-Key.
async function call(partner, url, body, key) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    await waitForTurn(partner);
    const { status, headers } =
      await post(url, { "idempotency-key": key }, body, CALL_MS).catch(() => ({ status: 0, headers: {} }));
    if (![0, 429, 503].includes(status)) return status;
    const retryAfter = headers["retry-after"];
    if (retryAfter === undefined || !await pause(partner, retryAfter)) {
      await sleep(Math.random() * Math.min(BACKOFF_MOST_MS, BACKOFF_FIRST_MS * 2 ** attempt)); // full jitter
    }
  }
  throw new NotCalled(`the partner refused ${ATTEMPTS} attempts`);
}

async function main([partner, url, count]) {
  for (let n = 0; n < Number(count); n++) {
    try {
      console.log(`call ${n}: ${await call(partner, url, "{}", `${process.pid}-${n}`)}`);
    } catch (error) {
      if (!(error instanceof NotCalled)) throw error;
      console.log(`call ${n}: not made: ${error.message}`);
    }
  }
}

if (process.argv.length !== 5) {
  console.error("usage: node outgoing.js PARTNER URL COUNT");
  process.exit(2);
}
main(process.argv.slice(2));
