// SPDX-License-Identifier: Apache-2.0
// The types are those of the package, and importing it works as well as requiring it.
"use strict";

const assert = require("node:assert/strict");
const { execFile } = require("node:child_process");
const path = require("node:path");
const { promisify } = require("node:util");
const { test } = require("./harness.js");

const execute = promisify(execFile);

test("programs in TypeScript find the types that they need", async () => {
    const compiler = require.resolve("typescript/bin/tsc");
    const options = ["--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--esModuleInterop", path.join(__dirname, "types.ts")];
    await execute(process.execPath, [compiler, ...options]).catch((error) => assert.fail(error.stdout));
});

test("modules import what scripts require", async () => {
    for (const name of ["ration-client", "ration-client/http", "ration-client/express", "ration-client/fastify"]) {
        const { default: all, ...names } = await import(name);
        delete names["module.exports"]; // Node 23 and later
        assert.deepEqual(names, require(name));
        assert.equal(all, require(name));
    }
});
