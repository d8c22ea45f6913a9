// SPDX-License-Identifier: Apache-2.0
// A plugin for Fastify 5: fastify.register(rationPlugin, { limiter }).
"use strict";

const { Gate } = require("./gate.js");

async function rationPlugin(fastify, { limiter, attributes, skip, wait }) {
    const gate = new Gate(limiter, { attributes, skip, wait });
    fastify.decorateRequest("ration", null);
    fastify.addHook("onRequest", async (request, reply) => {
        if (await gate.skip(request)) {
            return undefined;
        }
        const visit = await gate.enter(request, request.raw, reply.raw, request.ip, request.originalUrl);
        if (visit === null) {
            return reply.hijack(); // there is nobody to answer
        }
        if (visit.decision.allowed) {
            reply.headers(visit.decision.headers());
            return undefined;
        }
        const { status, headers, body } = visit.refusal(request.raw);
        return reply.code(status).headers(headers).send(Buffer.from(body)); // of a text Fastify would change the type
    });
}

// For all routes, not only those that are registered in the plugin itself.
rationPlugin[Symbol.for("skip-override")] = true;
rationPlugin[Symbol.for("fastify.display-name")] = "ration-client";

module.exports = { rationPlugin };
