// SPDX-License-Identifier: Apache-2.0
// What a decision costs the program that asks: the client beside a bare socket loop.
//
// usage: bench_node.js ADDRESS [--quick]
//
// A rationd must listen for RESP at ADDRESS, host:port. Processor time is that of this process, the best of some rounds;
// rationd's own is not in it. Rates are those of this machine at this moment. The bare loop sends a command that is made
// once, and reads until the reply has all its bytes.
"use strict";

const net = require("node:net");
const { Client } = require("..");

const [address, option] = process.argv.slice(2);
const [ROUNDS, CALLS] = option === "--quick" ? [3, 1000] : [7, 20_000];
const MANY = 50;
const LIMIT = "1000000000 per hour";
const ASKED = { ip: "192.0.2.7", path: "/api" };
const COMMAND = "*8\r\n$12\r\nRATION.CHECK\r\n$2\r\nip\r\n$9\r\n192.0.2.7\r\n$4\r\npath\r\n$4\r\n/api\r\n$4\r\nFULL\r\n$4\r\nWAIT\r\n$6\r\nreturn\r\n";

/** Prints the best processor time of a call, and the best rate. */
async function show(name, run) {
    let cpu = Infinity, wall = Infinity;
    for (let round = 0; round < ROUNDS; round++) {
        const began = performance.now();
        const used = process.cpuUsage();
        await run();
        const { user, system } = process.cpuUsage(used);
        wall = Math.min(wall, performance.now() - began);
        cpu = Math.min(cpu, user + system);
    }
    const rate = Math.round((1000 * CALLS) / wall).toLocaleString("en-US");
    console.log(`${name.padEnd(44)} ${(cpu / CALLS).toFixed(2).padStart(8)} us ${rate.padStart(12)}/s`);
}

async function repeat(count, call) {
    for (let i = 0; i < count; i++) {
        await call();
    }
}

const together = (call) => Promise.all(Array.from({ length: MANY }, () => repeat(CALLS / MANY, call)));

/** Sends and receives, and does nothing else. */
async function bare(host, port) {
    const socket = net.connect({ host, port, noDelay: true });
    let size = 0, received = null;
    socket.on("data", (data) => {
        size += data.length;
        if (data.at(-1) === 10 && data.at(-2) === 13) {
            received?.();
        }
    });
    const exchange = (bytes) => new Promise((resolve) => {
        received = resolve;
        socket.write(bytes, "latin1");
    });
    await exchange("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n");
    await show("node bare socket, replies not read", () => repeat(CALLS, () => exchange(COMMAND)));
    socket.destroy();
    return size;
}

async function main() {
    const [host, port] = address.split(":");
    await bare(host, Number(port));
    const client = new Client({ url: `ration://${address}`, deadline: 5000 });
    const check = () => client.check(ASKED);
    const take = () => client.take("ann", LIMIT);
    await show("node Client.check(), one at a time", () => repeat(CALLS, check));
    await show(`node Client.check(), ${MANY} at a time`, () => together(check));
    await show("node Client.take(), one at a time", () => repeat(CALLS, take));
    await show(`node Client.take(), ${MANY} at a time`, () => together(take));
    client.close();
}

main();
