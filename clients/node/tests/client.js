// SPDX-License-Identifier: Apache-2.0
// What the table of scenarios cannot say: callers that go away, a program that is busy, TLS, the end of a process.
"use strict";

const assert = require("node:assert/strict");
const { execFile, execFileSync, spawnSync } = require("node:child_process");
const { getEventListeners } = require("node:events");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const { promisify } = require("node:util");
const { AsyncLocalStorage } = require("node:async_hooks");
const { Client } = require("ration-client");
const { Daemon, freePort } = require("./daemon.js");
const { Fake } = require("./fake.js");
const { TABLE } = require("./scenarios.js");
const { sleep, test, waitFor, warnings } = require("./harness.js");

const RULES = "limits:\n  - {name: api, key: ip, limit: 100 per hour}\n";
const SETTINGS = { deadline: 5000, connections: 1, failures: 1000 };

/** A test with a rationd and a client. */
function testWithRationd(name, body, settings = {}) {
    test(name, async (folder) => {
        const daemon = await Daemon.start(folder, RULES);
        const client = new Client({ ...SETTINGS, url: daemon.url, ...settings });
        try {
            await body(client, daemon, folder);
        } catch (error) {
            await daemon.kill();
            throw error;
        } finally {
            client.close();
            await daemon.stop();
        }
    });
}

/** A test with a server whose replies are given. */
function testWithFake(name, answers, body, settings = {}) {
    test(name, async () => {
        const fake = await Fake.start({ answers }, TABLE.bytes);
        const client = new Client({ ...SETTINGS, url: fake.url, ...settings });
        try {
            await body(client, fake);
        } finally {
            client.close();
            await fake.stop();
        }
    });
}

const turn = () => new Promise(setImmediate);

/** As a program that computes. */
function block(milliseconds) {
    for (const until = performance.now() + milliseconds; performance.now() < until;) {
        // nothing
    }
}

// --- callers that go away -----------------------------------------------------------------------------

testWithRationd("a caller that has gone gives its place back", async (client, daemon) => {
    await client.take("warm", "9 per hour");
    await daemon.freeze();
    const controller = new AbortController();
    const asked = client.acquire("job", "1 concurrent", { signal: controller.signal });
    await turn();
    await turn();
    controller.abort();
    const { allowed, by, why, lease } = await asked;
    assert.deepEqual([allowed, by, why, lease], [true, "policy", "the caller has gone: This operation was aborted", null]);
    daemon.thaw();
    await waitFor(async () => (await client.acquire("job", "1 concurrent")).allowed, "a free place");
});

testWithRationd("a caller that has gone before its command was sent asks nothing", async (client) => {
    assert.equal((await client.take("ann", "9 per hour")).remaining, 8);
    const controller = new AbortController();
    const asked = client.take("ann", "9 per hour", { signal: controller.signal });
    controller.abort(new Error("no time"));
    assert.equal((await asked).why, "the caller has gone: no time");
    assert.equal((await client.take("ann", "9 per hour", { signal: controller.signal })).by, "policy");
    assert.equal((await client.take("ann", "9 per hour")).remaining, 7);
});

testWithRationd("a caller that goes away in line leaves it", async (client) => {
    await client.check({ ip: "192.0.2.7" }, { cost: 100 });
    const controller = new AbortController();
    const asked = client.check({ ip: "192.0.2.7" }, { wait: 59_000, signal: controller.signal });
    await waitFor(async () => (await client.check({ ip: "192.0.2.7" }, { wait: 1 })).by === "rationd", "an answer beside it");
    controller.abort();
    assert.equal((await asked).by, "policy");
    const { limit } = await client.check({ ip: "192.0.2.8" });
    assert.equal(limit, 100); // the connection is as good as before
});

const WAIT = "*3\r\n$4\r\nWAIT\r\n:1\r\n:60000\r\n";
const turnOf = (member) => `>3\r\n$11\r\nration.turn\r\n:1\r\n${TABLE.bytes.six.replace("%8", "%9")}$${member.length}\r\n${member}\r\n$4\r\nit-1\r\n`;

for (const [member, command] of [["lease", "RATION.RELEASE it-1"], ["turn", "RATION.REFUND it-1"]]) {
    testWithFake(`a ${member} that comes as its caller leaves the line is given back`, [WAIT, `:0\r\n${turnOf(member)}`, ":1\r\n", "<seven>"], async (client, fake) => {
        const controller = new AbortController();
        const asked = client.check({ ip: "192.0.2.7" }, { wait: 50_000, signal: controller.signal });
        await waitFor(() => fake.heard.length === 1, "the command");
        await sleep(50); // until its reply has been read: if it were not, the caller would leave later
        controller.abort();
        assert.equal((await asked).by, "policy");
        await waitFor(() => fake.heard.length === 3, () => `a third command after ${fake.heard}`);
        assert.deepEqual(fake.heard.slice(1), ["RATION.LEAVE 1", command]);
        assert.equal((await client.check({ ip: "192.0.2.7" })).remaining, 7);
    });
}

testWithFake("a caller that goes away before it stands in line leaves it then", ["", `${WAIT}<six>`, ":1\r\n", "<seven>"], async (client, fake) => {
    const controller = new AbortController();
    const asked = client.check({ ip: "192.0.2.7" }, { wait: 50_000, signal: controller.signal });
    await waitFor(() => fake.heard.length === 1, "the command");
    controller.abort();
    assert.equal((await asked).by, "policy");
    assert.equal((await client.check({ ip: "192.0.2.8" })).remaining, 6);
    await waitFor(() => fake.heard.at(-1) === "RATION.LEAVE 1", () => `leaving after ${fake.heard}`);
    assert.equal((await client.check({ ip: "192.0.2.9" })).remaining, 7);
});

testWithRationd("signals keep no listeners of calls that have ended", async (client) => {
    const { signal } = new AbortController();
    await Promise.all(Array.from({ length: 50 }, () => client.take("ann", "99 per hour", { signal })));
    assert.equal(getEventListeners(signal, "abort").length, 0);
});

// --- a program that is busy ---------------------------------------------------------------------------------

testWithRationd("a program that computes for longer than the deadline gets the decision that has arrived meanwhile", async (client) => {
    await waitFor(async () => {
        await waitFor(async () => (await client.take("ann", "1000 per hour")).by === "rationd", "a connection");
        const asked = client.take("ann", "1000 per hour");
        await turn();
        await turn();
        block(200);
        return (await asked).by === "rationd";
    }, "a decision");
}, { deadline: 50 });

testWithRationd("a rationd that was started again while the program was busy is asked at once", async (client, daemon, folder) => {
    await client.take("ann", "9 per hour");
    const script = "kill -9 $1; shift; while true; do \"$@\" >$LOG 2>&1 & for i in $(seq 3000); do grep -q ready $LOG && echo $! && exit; " +
        "kill -0 $! || break; sleep 0.01; done; done";
    const { spawnfile, pid } = daemon.process;
    const { stdout } = spawnSync("sh", ["-c", script, "sh", pid, spawnfile, ...daemon.options],
        { env: { ...process.env, LOG: path.join(folder, "log") }, stdio: ["ignore", "pipe", "ignore"], timeout: 60_000 });
    try {
        const { by, why, remaining } = await client.take("ann", "9 per hour");
        assert.deepEqual([by, why, remaining], ["rationd", "", 8]);
    } finally {
        process.kill(Number(stdout), "SIGKILL");
        await daemon.kill();
    }
});

testWithRationd("20,000 calls at once get their own answers", async (client) => {
    const decisions = await Promise.all(Array.from({ length: 20_000 }, () => client.take("crowd", "100000 per 365 days")));
    assert.deepEqual([...new Set(decisions.map(({ by, why }) => by + why))], ["rationd"]);
    assert.equal(new Set(decisions.map(({ remaining }) => remaining)).size, 20_000);
}, { deadline: 60_000, connections: 2 });

test("a server that reads nothing costs the deadline, and its connection is closed", async () => {
    const server = net.createServer({ pauseOnConnect: false }, (socket) => {
        socket.on("error", () => {});
        socket.once("data", () => {
            socket.write(TABLE.bytes.hello);
            socket.pause();
        });
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const events = [];
    const client = new Client({ url: `ration://127.0.0.1:${server.address().port}`, deadline: 500, connections: 1, failures: 1e6, policy: "refuse",
        onEvent: (name, detail) => events.push(`${name}: ${detail}`) });
    const long = Object.fromEntries(Array.from({ length: 24 }, (_, i) => [`header.x-${i}`, "x".repeat(8000)]));
    await waitFor(async () => {
        const began = performance.now();
        const decisions = await Promise.all(Array.from({ length: 60 }, () => client.check(long)));
        assert.ok(performance.now() - began < 10_000);
        assert.ok(decisions.every(({ allowed, by }) => !allowed && by === "policy"));
        return events.includes("disconnected: it does not take commands any more");
    }, () => `the end of the connection, after ${events.join("; ")},`);
    client.close();
    server.close();
});

test("a rationd that is gone is connected to by probes and after pauses, not at each failure", async () => {
    const began = performance.now();
    let attempts = 0, probes = 0;
    const client = new Client({ url: `ration://127.0.0.1:${await freePort()}`, deadline: 5000, failures: 1, probeFirst: 20, probeMost: 40,
        onEvent: (name) => { attempts += name === "connect_failed"; } });
    await waitFor(async () => {
        probes += (await client.take("ann", "9 per hour")).why !== "the breaker is open";
        return probes === 5;
    }, "five probes");
    client.close();
    const pauses = (performance.now() - began) / 20;
    assert.ok(attempts <= 2 * (probes + pauses), `${attempts} attempts of ${probes} probes`);
});

testWithRationd("requests do not share their context with connections", async (client) => {
    const storage = new AsyncLocalStorage();
    await storage.run("first", async () => {
        await client.take("ann", "9 per hour");
        assert.equal(storage.getStore(), "first");
    });
    await storage.run("second", async () => {
        await client.take("ann", "9 per hour");
        assert.equal(storage.getStore(), "second");
    });
});

// --- events ---------------------------------------------------------------------------------------------------

testWithRationd("a callback that fails reaches nobody", async (client) => {
    assert.equal((await client.take("ann", "9 per hour")).by, "rationd");
    await waitFor(() => warnings.some((text) => text.includes("onEvent has failed: Error: it was connected")), "a warning");
}, { onEvent: async (name) => { throw new Error(`it was ${name}`); } });

testWithRationd("without a callback each trouble is a warning once", async (client) => {
    for (let i = 0; i < 3; i++) {
        assert.equal((await client.take("ann", "5 per fortnight")).by, "policy");
    }
    await waitFor(() => warnings.some((text) => text.startsWith("error_reply: ") && text.includes("fortnight")), "a warning");
    await sleep(0); // what a second one would need
    assert.equal(warnings.filter((text) => text.includes("fortnight")).length, 1);
});

test("a callback may ask", async (folder) => {
    const daemon = await Daemon.start(folder, RULES);
    const asked = [];
    const client = new Client({ ...SETTINGS, url: daemon.url, onEvent: async (name) => {
        const { by } = await client.take("from the callback", "9 per hour");
        asked.push(`${name} ${by}`);
    } });
    await client.take("ann", "9 per hour");
    await waitFor(() => asked.length > 0, "the event of the connection");
    await daemon.kill();
    await waitFor(() => asked.some((event) => event.startsWith("disconnected")), "the event of its end");
    assert.equal(asked[0], "connected rationd");
    client.close();
});

testWithRationd("a client that is closed answers by policy", async (client) => {
    await client.take("ann", "9 per hour");
    const asked = client.take("ann", "9 per hour");
    client.close();
    const later = await client.take("ann", "9 per hour");
    assert.deepEqual([(await asked).why, later.why, later.by], ["the client is closed", "the client is closed", "policy"]);
});

// --- mistakes -----------------------------------------------------------------------------------------------------

test("wrong arguments say what was found and what would be right", async () => {
    const client = new Client();
    const attributes = { ip: "192.0.2.7" };
    for (const [call, message] of [
        [() => client.check({ user: ["ann"] }), /attribute user must be a text, bytes, a number or a boolean, found a list/],
        [() => client.check("ann"), /attributes must be an object such as .*, found "ann"/], [() => client.check({ "": 1 }), /lower case, found ""/],
        [() => client.check(Object.fromEntries(Array.from({ length: 129 }, (_, i) => [`a${i}`, 1]))), /1 to 128 attributes, found 129/],
        [() => client.check(attributes, { costs: 2 }), /there is no option costs here; there are cost, wait, lease, signal/],
        [() => client.check(attributes, 2), /options must be an object such as \{ cost: ... \}, found number/],
        [() => client.renew("it", null), /options must be .* found null/],
        [() => client.check(attributes, { cost: 1.5 }), /cost must be a whole number from 0, found 1.5/],
        [() => client.check(attributes, { wait: 0.5 }), /wait must be milliseconds from 1 to 60000, found 0.5/],
        [() => client.take(5, "1 per hour"), /key must be a text, found number/], [() => client.take("ann"), /limit must be a text .* found undefined/],
        [() => client.acquire("job"), /limit must be a text/], [() => client.acquire(attributes, "1 concurrent"), /found attributes and a limit/],
        [() => client.renew("it", { seconds: 1e9 }), /seconds must be a time from 0.001 to 86400, found 1000000000/],
        [() => client.report("it", "200"), /status must be a whole number from 0, found "200"/], [() => client.pause("stripe", {}), /length must be a text/],
    ]) {
        await assert.rejects(call, (error) => (error instanceof TypeError || error instanceof RangeError) && message.test(error.message), String(call));
    }
});

// --- TLS, and the end of a process -------------------------------------------------------------------------------------

function certificate(folder) {
    const openssl = (...words) => execFileSync("openssl", words, { cwd: folder, stdio: "ignore" });
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    openssl("req", "-x509", ...key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/CN=authority");
    openssl("req", ...key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=server", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1");
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "30", "-copy_extensions", "copy", "-out", "server.pem");
}

test("TLS", async (folder) => {
    certificate(folder);
    const place = `127.0.0.1:${await freePort()}`;
    const daemon = await Daemon.start(folder, RULES, { place, options: ["--tls-cert", `${folder}/server.pem`, "--tls-key", `${folder}/server.key`] });
    const tls = { ca: fs.readFileSync(`${folder}/ca.pem`) };
    for (const url of [`rations://${place}`, `rations://localhost:${place.split(":")[1]}`]) {
        const client = new Client({ ...SETTINGS, url, tls });
        const decisions = await Promise.all(Array.from({ length: 20 }, () => client.take(url, "99 per hour")));
        assert.deepEqual(decisions.map(({ remaining }) => remaining).sort((a, b) => a - b), Array.from({ length: 20 }, (_, i) => 79 + i), decisions[0].why);
        client.close();
    }
    const stranger = new Client({ ...SETTINGS, url: `rations://${place}` });
    assert.match((await stranger.take("ann", "9 per hour")).why, /cannot connect to rations:.*certificate/);
    const naive = new Client({ ...SETTINGS, url: `ration://${place}` });
    assert.equal((await naive.take("ann", "9 per hour")).by, "policy");
    stranger.close();
    naive.close();
    await daemon.stop();
});

testWithRationd("a process ends when nothing is under way, and not before", async (client, daemon) => {
    const program = `const { Client } = require(${JSON.stringify(require.resolve("ration-client"))});
        const client = new Client({ url: ${JSON.stringify(daemon.url)}, deadline: Number(process.argv[1]), failures: 1000 });
        client.take("ann", "9 per hour").then(async ({ by }) => console.log(by, (await client.take("ann", "9 per hour")).by));`;
    const run = async (deadline) => (await promisify(execFile)(process.execPath, ["-e", program, deadline], { timeout: 60_000 })).stdout.trim();
    assert.equal(await run("50000"), "rationd rationd");
    await daemon.freeze();
    assert.equal(await run("100"), "policy policy");
    daemon.thaw();
});
