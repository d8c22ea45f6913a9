// SPDX-License-Identifier: Apache-2.0
// An application on its way from express-rate-limit to ration: both are asked about each request, and one decides.
// docs/migrating.md explains the steps.
//
//     PORT=3000 DECIDES=old node express.js
//
// DECIDES=old: express-rate-limit refuses, rationd only counts. DECIDES=ration: the reverse.
'use strict';
const express = require('express');
const { rateLimit } = require('express-rate-limit');

const RATIOND = process.env.RATIOND || 'http://127.0.0.1:8080';
const DEADLINE_MS = Number(process.env.DEADLINE_MS || 50);
const DECIDES = process.env.DECIDES || 'old';
if (!['old', 'ration'].includes(DECIDES)) {
  console.error(`DECIDES is ${JSON.stringify(DECIDES)}: it must be old or ration`);
  process.exit(2);
}

const counts = { same: 0, onlyOldRefused: 0, onlyRationRefused: 0, withoutRationd: 0 };

// Asks express-rate-limit, and notes what it says instead of answering.
const old = rateLimit({
  windowMs: 15 * 60 * 1000,
  limit: 5,
  legacyHeaders: false,
  handler: (request, response, next) => { request.oldRefuses = true; next(); },
});

// rationd's answer, or null if there is none in time: a limiter that hangs must not hold up the site.
async function askRation(attributes) {
  try {
    const answer = await fetch(`${RATIOND}/v1/check`, {
      method: 'POST', body: JSON.stringify({ attributes }), signal: AbortSignal.timeout(DEADLINE_MS),
    });
    const decision = await answer.json();
    return typeof decision.allowed === 'boolean' ? { decision, headers: answer.headers } : null;
  } catch {
    return null;
  }
}

function count(oldRefuses, answer) {
  if (!answer) counts.withoutRationd++;
  else if (oldRefuses === !answer.decision.allowed) counts.same++;
  else if (oldRefuses) counts.onlyOldRefused++;
  else counts.onlyRationRefused++;
}

async function compare(request, response, next) {
  const oldRefuses = request.oldRefuses === true;
  const answer = await askRation({ ip: request.ip, method: request.method, path: request.path });
  count(oldRefuses, answer);
  if (DECIDES === 'ration' && answer) {
    for (const [name, value] of answer.headers)
      if (/ratelimit|^retry-after$/.test(name)) response.set(name, value);
    if (!answer.decision.allowed) return response.status(429).json(answer.decision);
    return next();
  }
  // The old one decides; also while rationd does not answer, since it still counts.
  if (oldRefuses) return response.status(429).send('Too many requests, please try again later.');
  next();
}

const app = express();
app.get('/compare', (request, response) => response.json(counts));
app.use(old, compare);
app.get('/', (request, response) => response.send('hello\n'));
app.listen(Number(process.env.PORT || 3000), '127.0.0.1');
