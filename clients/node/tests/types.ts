// SPDX-License-Identifier: Apache-2.0
// Compiled, not run: what programs write with these types, and what the compiler must refuse.
import express from "express";
import fastify from "fastify";
import http from "node:http";
import { Client, Decision, backoff, retryAfterSeconds, type Attributes, type Settings } from "ration-client";
import { rationMiddleware } from "ration-client/express";
import { rationPlugin } from "ration-client/fastify";
import { rationHandler, rationUpgrade } from "ration-client/http";
import { WebSocketServer } from "ws";

const settings: Settings = {
    url: "rations://:token@localhost", policy: "100 per second", deadline: 20, tls: { ca: "..." },
    onEvent: (name, detail) => console.log(name === "connected", detail),
};
const limiter = new Client(settings);
const who: Attributes = { user: "ann", admin: true, age: 7, "header.x": undefined, key: new Uint8Array(2) };

export async function ask(signal: AbortSignal): Promise<number> {
    const decision: Decision = await limiter.check(who, { cost: 2, wait: 100, lease: true, signal });
    const held = [await limiter.acquire("job", "4 concurrent", { seconds: 60 }), await limiter.reserve(who, { cost: 9 })];
    const outcome: boolean | null = await limiter.release(held[0].lease);
    await limiter.commit(held[1].lease, { cost: 3 });
    const left: number | null = await limiter.pause("stripe", "120");
    const { body, contentType } = decision.body(null);
    new Response(body, { status: decision.status, headers: { ...decision.headers(), "content-type": contentType } });
    return backoff(2, "7") + (retryAfterSeconds(null) ?? 0) + (left ?? 0) + (decision.limits[0]?.limit ?? 0) + Number(outcome);
}

const app = express();
app.use(rationMiddleware(limiter, { attributes: (request: express.Request) => ({ user: request.get("x-user") }), wait: 5 }));
app.get("/", (request, response) => { response.json(request.ration?.remaining); });

const site = fastify();
site.register(rationPlugin, { limiter, skip: (request) => request.url === "/healthz" });
site.get("/", async (request) => request.ration?.remaining);

const plain = http.createServer(rationHandler(limiter, (request, response) => { response.end(request.ration?.by); }));
const sockets = new WebSocketServer({ noServer: true });
plain.on("upgrade", rationUpgrade(limiter, (request, socket, head) => sockets.handleUpgrade(request, socket, head, () => {})));

// @ts-expect-error: there is no such setting
new Client({ deadlines: 5 });
// @ts-expect-error: a limit is a text
limiter.take("ann", 5);
// @ts-expect-error: attributes are no lists
limiter.check({ user: ["ann"] });
// @ts-expect-error: a plugin needs a limiter
site.register(rationPlugin, {});
// @ts-expect-error: decisions are made by clients
new Decision();
