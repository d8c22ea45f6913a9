// SPDX-License-Identifier: Apache-2.0
// rationd is killed and frozen while requests come: nobody waits for longer than the deadline, the policy holds, the client
// comes back by itself, and nothing is left behind.
//
// Twice; with RATION_SOAK=1 ten times, and then a million requests. Figures are printed; the bounds asserted are generous,
// as machines that run tests are busy.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const http = require("node:http");
const v8 = require("node:v8");
const vm = require("node:vm");
const { Client } = require("ration-client");
const { Daemon } = require("./daemon.js");
const { sleep, test, waitFor } = require("./harness.js");
const { SITES, stop } = require("./sites.js");

const SOAK = Boolean(process.env.RATION_SOAK);
const ROUNDS = SOAK ? 10 : 2;
const REQUESTS = SOAK ? 1_000_000 : 20_000;
const DEADLINE = 50; // milliseconds
const GENEROUS = 1000;
const CALLERS = 8;
const MOST_GROWN = 4 << 20; // bytes
const RULES = "limits:\n  - {name: api, key: ip, limit: 1000000000 per hour}\n";

v8.setFlagsFromString("--expose-gc");
const collect = vm.runInNewContext("gc");

function percentile(values, share) {
    const ordered = Float64Array.from(values).sort();
    return ordered[Math.min(ordered.length - 1, Math.floor(ordered.length * share))] ?? 0;
}

const openFiles = () => fs.readdirSync("/proc/self/fd").length;

/** A limiter that notes how long each decision took, and who made it. */
class Seen {
    constructor(client) {
        this.client = client;
        this.by = { rationd: 0, policy: 0 };
        this.times = [];
        this.late = []; // of those that met the deadline
        this.requests = []; // with the HTTP around
        this.sleeps = []; // how long a mere timer of the deadline takes in this process meanwhile
        this.faults = [];
    }

    async check(attributes, options) {
        const began = performance.now();
        const decision = await this.client.check(attributes, options);
        const took = performance.now() - began;
        this.times.push(took);
        this.by[decision.by] += 1;
        if (decision.why.includes("deadline")) {
            this.late.push(took);
        }
        return decision;
    }

    async grows(by) {
        const goal = this.by[by] + 50;
        await waitFor(() => this.by[by] >= goal || this.faults.length > 0, () => `50 more decisions by ${by}, after ${JSON.stringify(this.by)},`);
    }

    figures() {
        const p99 = (values) => `${percentile(values, 0.99).toFixed(1)} ms`;
        const most = (values) => `${percentile(values, 1).toFixed(1)} ms`;
        return `${this.times.length} requests: p99 ${p99(this.times)}, most ${most(this.times)}, with HTTP p99 ${p99(this.requests)}; of ${this.late.length} ` +
            `that met the deadline p99 ${p99(this.late)}, most ${most(this.late)}; of ${this.sleeps.length} mere timers of the deadline ` +
            `p99 ${p99(this.sleeps)}, most ${most(this.sleeps)}`;
    }
}

function get(agent, port) {
    return new Promise((resolve, reject) => {
        http.get({ agent, host: "127.0.0.1", port, path: "/" }, (response) => {
            response.resume().on("end", () => resolve(response.statusCode)).on("error", reject);
        }).on("error", reject);
    });
}

/** Each round freezes and kills it, and waits until the policy decides, and until rationd does again. */
async function trouble(daemon, seen) {
    await seen.grows("rationd");
    for (let round = 0; round < ROUNDS; round++) {
        for (const [harm, cure] of [["freeze", "thaw"], ["kill", "start"]]) {
            await daemon[harm]();
            await seen.grows("policy");
            await daemon[cure]();
            await seen.grows("rationd");
        }
    }
}

for (const [site, make] of Object.entries(SITES)) {
    test(`outages under load: ${site}`, async (folder, note) => {
        const daemon = await Daemon.start(folder, RULES);
        const files = openFiles();
        const client = new Client({ url: daemon.url, deadline: DEADLINE, probeMost: 500 });
        const seen = new Seen(client);
        const server = await make(seen, {});
        const agent = new http.Agent({ keepAlive: true });
        let stopped = false;
        const caller = async () => {
            while (!stopped) {
                const began = performance.now();
                const status = await get(agent, server.address().port).catch(String);
                seen.requests.push(performance.now() - began);
                if (status !== 200) {
                    seen.faults.push(status);
                }
                await sleep(2);
            }
        };
        const timer = async () => {
            while (!stopped) {
                const began = performance.now();
                await sleep(DEADLINE);
                seen.sleeps.push(performance.now() - began);
            }
        };
        const work = [timer(), ...Array.from({ length: CALLERS }, caller)];
        try {
            await trouble(daemon, seen);
        } finally {
            stopped = true;
            await Promise.all(work);
            agent.destroy();
            await stop(server);
            client.close();
            await daemon.kill();
        }
        note(seen.figures());
        assert.deepEqual(seen.faults.slice(0, 5), []);
        assert.ok(percentile(seen.times, 0.99) < DEADLINE + GENEROUS);
        await waitFor(() => openFiles() <= files, () => `connections to be closed: ${openFiles()} files, ${files} before,`);
    });
}

async function ask(client, count) {
    let left = count;
    const caller = async () => {
        while (left > 0) {
            left -= 1;
            await client.check({ ip: `192.0.2.${left % 250}`, path: "/" });
        }
    };
    await Promise.all(Array.from({ length: 50 }, caller));
}

function heap() {
    collect();
    return process.memoryUsage().heapUsed;
}

test("many requests leave nothing behind", async (folder, note) => {
    const daemon = await Daemon.start(folder, RULES);
    const client = new Client({ url: daemon.url, deadline: 5000, policy: "5 per second" });
    await ask(client, 20_000);
    const files = openFiles();
    const before = heap();
    const resident = process.memoryUsage.rss();
    await ask(client, REQUESTS);
    const grown = heap() - before;
    note(`${REQUESTS} requests: the heap grew by ${grown >> 10} KB, resident memory by ${(process.memoryUsage.rss() - resident) >> 10} KB`);
    assert.equal(openFiles(), files);
    assert.ok(grown < MOST_GROWN, `the heap grew by ${grown} bytes`);
    await daemon.kill();
    for (let i = 0; i < 25_000; i++) { // by policy, with a key for each
        await client.check({ ip: String(i) });
    }
    const policy = heap() - before;
    note(`25,000 keys of the local limit: the heap grew by ${policy >> 10} KB`);
    assert.ok(policy < 2 * MOST_GROWN, `the heap grew by ${policy} bytes`);
    client.close();
});
