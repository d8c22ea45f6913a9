// SPDX-License-Identifier: Apache-2.0
// All tests, as TAP. With the word "short": without outages under load. With another word: tests whose names have it.
"use strict";

const { only, run } = require("./harness.js");

const SHORT = process.argv.includes("short");
const [word] = process.argv.slice(2).filter((each) => each !== "short");
const FILES = ["parts", "types", "client", "middleware", "scenarios"];

async function main() {
    only(word ?? "");
    FILES.forEach((name) => require(`./${name}.js`));
    let failed = await run(4);
    if (!SHORT) {
        require("./failures.js");
        failed += await run(1);
    }
    console.log(`1..${run.number}`);
    process.exit(failed === 0 ? 0 : 1); // a test that failed may have left something open
}

main();
