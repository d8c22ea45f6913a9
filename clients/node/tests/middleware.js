// SPDX-License-Identifier: Apache-2.0
// What the table of scenarios cannot say of middleware: streams, WebSockets, HEAD, clients that go away, failures.
"use strict";

const assert = require("node:assert/strict");
const http = require("node:http");
const http2 = require("node:http2");
const net = require("node:net");
const { Client } = require("ration-client");
const { rationMiddleware } = require("ration-client/express");
const { rationPlugin } = require("ration-client/fastify");
const { rationHandler, rationUpgrade } = require("ration-client/http");
const { WebSocket, WebSocketServer } = require("ws");
const { Daemon } = require("./daemon.js");
const { sleep, test, waitFor, warnings } = require("./harness.js");
const { ask, listening, stop } = require("./sites.js");

const RULES = `
limits:
  - {name: places, key: ip, limit: 1 concurrent, when: {path: "/stream/**"}}
  - {name: api, key: ip, limit: 1 per hour, when: {path: /api}}
  - {name: errors, key: ip, limit: 1 per hour, charge_on: "status 500, 499", when: {path: "/fail/**"}}
  - {name: line, key: ip, limit: 1 per 50 seconds, when: {path: /line}}
  - {name: queue, key: ip, limit: 1 per minute queue 5, when: {path: /stream/queue}}
`;

/** The application: what it does by path, the same for all frameworks. `held` are responses that it has begun. */
function application(held, request, response) {
    const [path] = request.url.split("?");
    if (path === "/stream/queue") {
        held.push(response);
        response.end("after the delay");
    } else if (path === "/stream/held") {
        response.write("begun");
        held.push(response);
    } else if (path === "/stream/silent" || path === "/fail/silent") {
        held.push(response);
    } else if (path === "/fail/thrown") {
        throw new Error("as the test wants it");
    } else if (path === "/fail/destroyed") {
        response.destroy(new Error("as the test wants it"));
    } else if (path === "/raw") {
        response.setHeader("X-RateLimit-Limit", "mine");
        response.writeHead(201, ["Content-Type", "text/plain", "X-Other", "1"]);
        response.end("raw");
    } else {
        response.end(`${request.ration?.by} ${request.ration?.rule}`);
    }
}

async function plain(limiter, options, held) {
    const app = rationHandler(limiter, async (request, response) => application(held, request, response), options);
    return listening(http.createServer((request, response) => app(request, response).catch((error) => {
        response.statusCode = 500;
        response.end(error.message);
    })));
}

const express = (name, mount = "/") => async (limiter, options, held) => {
    const app = require(name)();
    app.use(mount, rationMiddleware(limiter, options));
    app.use((request, response) => application(held, request, response));
    app.use((error, request, response, next) => {
        response.headersSent ? next(error) : response.status(500).send(error.message);
    });
    return listening(http.createServer(app));
};

async function fastify(limiter, options, held) {
    const app = require("fastify")();
    await app.register(rationPlugin, { limiter, ...options });
    app.addHook("onRequest", async (request, reply) => { // hooks come after ours
        reply.header("X-Seen", String(request.ration?.by));
    });
    app.all("/stream/*", (request, reply) => {
        reply.hijack();
        application(held, request.raw, reply.raw);
    });
    app.all("*", async (request, reply) => {
        const [path] = request.url.split("?");
        if (path === "/raw") {
            reply.header("X-RateLimit-Limit", "mine").code(201).type("text/plain").header("X-Other", "1");
            return "raw";
        }
        if (path === "/fail/destroyed") {
            reply.hijack();
            return application(held, request.raw, reply.raw);
        }
        if (path === "/fail/silent") {
            held.push(reply);
            return new Promise(() => {});
        }
        if (path === "/fail/thrown") {
            throw new Error("as the test wants it");
        }
        return `${request.ration?.by} ${request.ration?.rule}`;
    });
    await app.listen({ port: 0, host: "127.0.0.1" });
    return app.server;
}

const SITES = { "node:http": plain, "express 4": express("express4"), "express 5": express("express"), fastify };

/** What the middleware tells rationd, besides. */
class Counting {
    constructor(client) {
        this.client = client;
        this.told = [];
        this.asked = 0;
        this.reasons = []; // of decisions
        this.addresses = [];
    }

    async check(...given) {
        this.asked += 1;
        this.addresses.push(given[0].ip);
        const decision = await this.client.check(...given);
        this.reasons.push(decision.why);
        return decision;
    }

    report(charge, status) {
        this.told.push(`report ${status}`);
        return this.client.report(charge, status);
    }

    release(lease) {
        this.told.push("release");
        return this.client.release(lease);
    }
}

/** A rationd, a client, and a server that `make` makes of them. */
async function withSite(folder, make, options, body) {
    const daemon = await Daemon.start(folder, RULES);
    const client = new Client({ url: daemon.url, deadline: 5000, failures: 1000 });
    const limiter = new Counting(client);
    const held = [];
    const server = await make(limiter, options, held);
    try {
        await body({ server, client, limiter, held, daemon });
    } catch (error) {
        await daemon.kill();
        throw error;
    } finally {
        await stop(server);
        client.close();
        await daemon.stop();
    }
}

function testSites(name, body, options = {}, sites = SITES) {
    for (const [site, make] of Object.entries(sites)) {
        test(`${name}: ${site}`, (folder) => withSite(folder, make, options, (given) => body(given, site)));
    }
}

/** A request whose response is read by nobody. */
function begin(server, path, method = "GET") {
    const socket = net.connect(server.address().port, "127.0.0.1");
    socket.on("error", () => {}).write(`${method} ${path} HTTP/1.1\r\nHost: test\r\n\r\n`);
    return socket;
}

const place = (client) => client.acquire({ ip: "127.0.0.1", path: "/stream/x" });

async function placeIsFree(client) {
    const { allowed, lease } = await place(client);
    await client.release(lease);
    return allowed;
}

testSites("places are free when a stream has been sent, and no earlier", async ({ server, client, limiter, held }) => {
    const response = ask(server, "GET", "/stream/held");
    await waitFor(() => held.length > 0, "the request");
    assert.ok(!await placeIsFree(client));
    held[0].end("ended");
    const { body, status } = await response;
    assert.deepEqual([status, body], [200, "begunended"]);
    await waitFor(() => placeIsFree(client), "a free place");
    assert.deepEqual(limiter.told, ["release"]);
});

testSites("places are free when the client has gone", async ({ server, client, limiter, held }) => {
    for (const path of ["/stream/held", "/stream/silent"]) {
        const count = held.length;
        const socket = begin(server, path);
        await waitFor(() => held.length > count, "the request");
        assert.ok(!await placeIsFree(client));
        socket.destroy();
        await waitFor(() => placeIsFree(client), "a free place");
        held.at(-1).end("late");
    }
    await sleep(20);
    assert.deepEqual(limiter.told, ["release", "release"]);
});

testSites("places of responses that have not come to their turn are free when the client has gone", async ({ server, client, limiter, held }) => {
    const socket = begin(server, "/fail/silent");
    socket.write("GET /stream/held HTTP/1.1\r\nHost: test\r\n\r\n".concat("GET /stream/held HTTP/1.1\r\nHost: test\r\n\r\n".repeat(20)));
    await waitFor(() => limiter.reasons.length === 22 && held.length === 2, "the requests");
    assert.ok(!await placeIsFree(client));
    socket.destroy();
    await waitFor(() => placeIsFree(client), "a free place");
    assert.deepEqual(limiter.told.sort(), ["release", "report 499"]);
});

testSites("a client that has reset its connection gets round no limit", async ({ server, limiter }) => {
    let nameless = 0;
    server.prependListener("request", ({ socket }) => { nameless += socket.remoteAddress === undefined ? 1 : 0; });
    await waitFor(async () => {
        const socket = begin(server, "/stream/silent");
        await new Promise((resolve) => socket.once("connect", resolve));
        socket.resetAndDestroy();
        await sleep(1);
        return nameless > 2;
    }, "requests without an address");
    await ask(server, "GET", "/api");
    assert.ok(limiter.addresses.every((ip) => ip === "127.0.0.1"), String(limiter.addresses));
});

testSites("a request that nobody has answered when its client goes counts as a 499, once", async ({ server, client, limiter, held }) => {
    const socket = begin(server, "/fail/silent");
    await waitFor(() => held.length > 0, "the request");
    socket.destroy();
    await waitFor(async () => !(await client.check({ ip: "127.0.0.1", path: "/fail/x" })).allowed, "a charge");
    assert.deepEqual(limiter.told, ["report 499"]);
});

testSites("a failure that is answered has headers, and is charged once", async ({ server, limiter }) => {
    const { status, headers, body } = await ask(server, "GET", "/fail/thrown");
    assert.deepEqual([status, headers["x-ratelimit-limit"], body.includes("as the test wants it")], [500, "1", true]);
    await waitFor(async () => (await ask(server, "GET", "/fail/thrown")).status === 429, "a charge");
    assert.equal(limiter.told[0], "report 500");
});

testSites("a response that fails before it has begun counts as a 500", async ({ server, limiter }) => {
    await assert.rejects(ask(server, "GET", "/fail/destroyed"));
    await waitFor(() => limiter.told.length > 0, "a report");
    assert.deepEqual(limiter.told, ["report 500"]);
});

testSites("HEAD is refused without a body", async ({ server }) => {
    assert.equal((await ask(server, "HEAD", "/api")).status, 200);
    const { status, headers, body } = await ask(server, "HEAD", "/api");
    assert.deepEqual([status, body, Number(headers["content-length"]) > 0, headers["content-type"]], [429, "", true, "application/json"]);
    assert.ok(headers["retry-after"]);
});

testSites("the application sees the decision, and its own headers count", async ({ server }, site) => {
    const { headers, body } = await ask(server, "GET", "/api");
    assert.deepEqual([body, headers["x-ratelimit-limit"]], ["rationd api", "1"]);
    assert.equal((await ask(server, "GET", "/elsewhere")).body, "rationd null");
    const raw = await ask(server, "GET", "/raw");
    assert.deepEqual([raw.status, raw.headers["x-ratelimit-limit"], raw.headers["x-other"]], [201, "mine", "1"]);
    if (site === "fastify") {
        assert.equal(headers["x-seen"], "rationd");
        assert.equal((await ask(server, "GET", "/api")).headers["x-seen"], undefined); // refused: no later hook
    }
});

testSites("a raw list of headers does not take those of the decision away", async ({ server }) => {
    const { status, headers } = await ask(server, "GET", "/api");
    assert.deepEqual([status, headers["x-other"], headers["x-ratelimit-limit"]], [201, "1", "1"]);
}, {}, {
    "node:http": (limiter) => listening(http.createServer(rationHandler(limiter, (request, response) => {
        response.writeHead(201, ["X-Other", "1"]).end();
    }))),
});

testSites("requests whose attributes cannot be had are answered with a 500, and others go on", async ({ server }, site) => {
    for (const path of ["/thrown", "/wrong"]) {
        const { status } = await ask(server, "GET", path);
        assert.equal(status, 500);
    }
    assert.equal((await ask(server, "GET", "/elsewhere")).status, 200);
    if (site === "node:http") {
        assert.ok(warnings.some((text) => text.includes("attribute user must be a text")));
    }
}, {
    attributes: (request) => {
        if (request.url === "/thrown") {
            throw new Error("no session");
        }
        return { user: request.url === "/wrong" ? ["a", "b"] : null };
    },
});

testSites("attributes and skip may be promises", async ({ server }) => {
    for (const [path, name, limit] of [["/healthz", "ann", undefined], ["/api", "ann", "1"], ["/api", "bob", "1"]]) {
        const { status, headers } = await ask(server, "GET", path, { "X-User": name });
        assert.deepEqual([status, headers["x-ratelimit-limit"]], [200, limit]);
    }
    assert.equal((await ask(server, "GET", "/api", { "X-User": "bob" })).status, 429);
}, {
    skip: async (request) => request.url === "/healthz",
    attributes: async (request) => ({ ip: request.headers["x-user"] }),
});

testSites("a client that goes away in line leaves it", async ({ server, limiter }) => {
    assert.equal((await ask(server, "GET", "/line")).status, 200);
    const socket = begin(server, "/line");
    await waitFor(() => limiter.asked === 2, "the second request");
    socket.destroy();
    await waitFor(() => limiter.reasons.includes("the caller has gone: the connection is closed"), () => `its end, after ${JSON.stringify(limiter.reasons)},`);
}, { wait: 60_000 });

testSites("a request that is delayed is not handled if its client goes away, and its place is free", async ({ server, held, limiter }) => {
    assert.equal((await ask(server, "GET", "/stream/queue")).status, 200);
    await waitFor(() => limiter.told.length === 1, "the first release");
    const socket = begin(server, "/stream/queue");
    await waitFor(() => limiter.reasons.length === 2, "the second decision");
    socket.destroy();
    await waitFor(() => limiter.told.length === 2, "the second release");
    assert.equal(held.length, 1);
});

testSites("bytes of the target reach rules as they came", async ({ server, limiter }) => {
    const seen = [];
    limiter.check = async (attributes, options) => {
        seen.push(Buffer.from(attributes.path).toString("latin1"), attributes.host, attributes.method, attributes.ip);
        return limiter.client.check(attributes, options);
    };
    const socket = begin(server, "/a%2Fb/%C3%BC?x=%20&y#", "OPTIONS");
    await waitFor(() => seen.length > 0, "the request");
    socket.destroy();
    assert.deepEqual(seen, ["/a%2Fb/%C3%BC?x=%20&y#", "test", "OPTIONS", "127.0.0.1"]);
});

test("middleware that is mounted tells rules the whole target", (folder) => withSite(folder, express("express", "/mounted"), {}, async ({ server, limiter }) => {
    const seen = [];
    limiter.check = async (attributes, options) => {
        seen.push(String(attributes.path));
        return limiter.client.check(attributes, options);
    };
    await ask(server, "GET", "/mounted/x?y=1");
    assert.deepEqual(seen, ["/mounted/x?y=1"]);
}));

test("wrong options of middleware say what would be right", () => {
    const client = new Client();
    assert.throws(() => rationMiddleware({}), /middleware needs a limiter: new Client/);
    assert.throws(() => rationMiddleware(client, { attribute: 5 }), /there is no option attribute of middleware; there are attributes, skip, wait/);
    assert.throws(() => rationHandler(client, () => {}, { skip: true }), /skip must be a function of the request, found boolean/);
    assert.throws(() => rationUpgrade(client, () => {}, { wait: 0.5 }), /wait must be milliseconds from 1 to 60000, or 0, found 0.5/);
});

test("fastify: plugins and routes that are not found are limited, too, and inject() frees places", async (folder) => {
    await withSite(folder, SITES["node:http"], {}, async ({ client, limiter }) => {
        const app = require("fastify")();
        app.register(rationPlugin, { limiter, attributes: () => ({ ip: "192.0.2.7" }) });
        app.register(async (inner) => inner.get("/api", async () => "ok"), { prefix: "" });
        app.get("/stream/x", async () => "ok");
        const statuses = [];
        for (let i = 0; i < 2; i++) {
            statuses.push((await app.inject("/api")).statusCode, (await app.inject("/stream/x")).statusCode, (await app.inject("/nowhere")).statusCode);
        }
        assert.deepEqual(statuses, [200, 200, 404, 429, 200, 404]);
        await waitFor(() => limiter.told.length === 2, "both releases");
        await app.close();
        assert.equal(client.url.slice(0, 9), "ration://");
    });
});

test("node:http: a handler of HTTP/2 is limited as well", (folder) => withSite(folder, async (limiter) => {
    const app = rationHandler(limiter, (request, response) => response.end("ok"));
    const server = await listening(http2.createServer(app));
    server.closeAllConnections = undefined;
    return server;
}, {}, async ({ server, limiter }) => {
    const session = http2.connect(`http://127.0.0.1:${server.address().port}`);
    const statuses = [];
    for (const path of ["/api", "/api", "/stream/x", "/stream/x"]) {
        const stream = session.request({ ":path": path });
        stream.on("response", (headers) => statuses.push(headers[":status"])).resume();
        await new Promise((resolve) => stream.on("close", resolve));
        await waitFor(() => limiter.told.length >= Math.max(0, statuses.length - 2), "a release");
    }
    session.close();
    assert.deepEqual(statuses, [200, 429, 200, 200]);
}));

// --- WebSockets ---------------------------------------------------------------------------------------

for (const [site, make] of Object.entries(SITES)) {
    test(`the handshake of a WebSocket is limited: ${site}`, (folder) => withSite(folder, make, {}, async ({ server, limiter, client }) => {
        const sockets = new WebSocketServer({ noServer: true });
        const seen = [];
        server.on("upgrade", rationUpgrade(limiter, (request, socket, head) => sockets.handleUpgrade(request, socket, head, (connection) => {
            seen.push(request.ration.rule);
            connection.on("message", (text) => connection.send(`${text}!`));
        })));
        const dial = (path) => new Promise((resolve) => {
            const socket = new WebSocket(`ws://127.0.0.1:${server.address().port}${path}`);
            socket.on("open", () => socket.send("hello")).on("error", () => {});
            socket.on("message", (text) => resolve([socket, String(text)]));
            socket.on("unexpected-response", (_, response) => resolve([socket, response.statusCode, response.headers["retry-after"] > 0, response.headers["content-type"]]));
        });
        const [first, echo] = await dial("/api");
        first.terminate();
        assert.equal(echo, "hello!");
        assert.deepEqual((await dial("/api")).slice(1), [429, true, "application/json"]);
        const [socket] = await dial("/stream/x");
        assert.ok(!await placeIsFree(client));
        socket.terminate();
        await waitFor(() => placeIsFree(client), "a free place");
        assert.deepEqual([seen, limiter.told], [["api", "places"], ["release"]]);
    }));
}

test("a handshake whose attributes cannot be had gets a 500", (folder) => withSite(folder, SITES["node:http"], {}, async ({ server, limiter }) => {
    server.on("upgrade", rationUpgrade(limiter, () => assert.fail("it is not admitted"), { attributes: () => { throw new Error("no session"); } }));
    const socket = net.connect(server.address().port, "127.0.0.1");
    socket.write("GET / HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let text = "";
    for await (const data of socket) {
        text += data;
    }
    assert.match(text, /^HTTP\/1.1 500 Internal Server Error\r\n/);
}));

test("a client that ends its side before its handshake is admitted keeps no place", (folder) => withSite(folder, SITES["node:http"], {}, async ({ server, client, limiter }) => {
    const ended = async ({ socket }) => { await (socket.readableEnded || new Promise((resolve) => socket.once("end", resolve))); };
    server.on("upgrade", rationUpgrade(limiter, () => assert.fail("there is nobody"), { attributes: ended }));
    const socket = net.connect({ port: server.address().port, host: "127.0.0.1", allowHalfOpen: true });
    socket.on("error", () => {}).resume().end("GET /stream/x HTTP/1.1\r\nHost: test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    await waitFor(() => limiter.told.includes("release"), "the release");
    assert.ok(await placeIsFree(client));
    socket.destroy();
}));
