// SPDX-License-Identifier: Apache-2.0
// A client of rationd: see index.d.ts. An import finds these names, too.
"use strict";

const { backoff, retryAfterSeconds } = require("./backoff.js");
const { Client } = require("./client.js");
const { Decision } = require("./decision.js");

module.exports = { Client, Decision, backoff, retryAfterSeconds };
