// SPDX-License-Identifier: Apache-2.0
// Tests that run a few at a time, and print TAP.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const PATIENCE = 60_000; // milliseconds until something counts as hung, on a busy machine
const tests = [];
let word = "";
const strays = []; // errors that nobody has caught: none may happen

const warnings = []; // of the client: texts

process.removeAllListeners("warning"); // prints them
process.on("warning", (warning) => {
    warning.name === "RationWarning" ? warnings.push(warning.message) : strays.push(warning);
});
process.on("unhandledRejection", (error) => strays.push(error));
process.on("uncaughtException", (error) => strays.push(error));

/** body(folder, note): a folder of its own, and a function that prints a figure. */
function test(name, body) {
    if (name.includes(word)) {
        tests.push({ name, body });
    }
}

/** Only tests whose names have that. */
function only(part) {
    word = part;
}

async function runOne({ name, body }, number) {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), "ration-node-"));
    const notes = [];
    let failure = null;
    const began = performance.now();
    try {
        await body(folder, (text) => notes.push(text));
    } catch (error) {
        failure = error;
    }
    if (strays.length > 0) {
        failure = new Error(`${strays.length} errors that nobody has caught`, { cause: strays.shift() });
        strays.length = 0;
    }
    fs.rmSync(folder, { recursive: true, force: true });
    console.log(`${failure === null ? "ok" : "not ok"} ${number} - ${name.replaceAll("#", "")}`);
    notes.push(`${Math.round(performance.now() - began)} ms`);
    notes.forEach((text) => console.log(`# ${text}`));
    if (failure !== null) {
        console.log(require("node:util").inspect(failure).replace(/^/gm, "# "));
    }
    return failure === null;
}

/** All tests so far, `width` at a time; then they are forgotten. How many have failed. */
async function run(width) {
    const queue = tests.splice(0);
    let failed = 0;
    const work = async () => {
        for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
            run.number += 1;
            failed += await runOne(next, run.number) ? 0 : 1;
        }
    };
    await Promise.all(Array.from({ length: width }, work));
    return failed;
}
run.number = 0;

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Polls until the condition holds; returns its value. */
async function waitFor(condition, what, patience = PATIENCE) {
    const until = performance.now() + patience;
    for (;;) {
        const value = await condition();
        if (value) {
            return value;
        }
        if (performance.now() > until) {
            throw new Error(`${typeof what === "function" ? what() : what} did not come about in ${patience} ms`);
        }
        await sleep(2);
    }
}

module.exports = { PATIENCE, only, run, sleep, test, waitFor, warnings };
