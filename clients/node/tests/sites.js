// SPDX-License-Identifier: Apache-2.0
// The application of clients/scenarios.yaml, once for each framework, behind a real server on a free port.
"use strict";

const http = require("node:http");
const { rationMiddleware } = require("ration-client/express");
const { rationPlugin } = require("ration-client/fastify");
const { rationHandler } = require("ration-client/http");

/** The status of the application's answer. /raise fails. */
function statusOf(target) {
    const [path] = target.split("?");
    if (path === "/raise") {
        throw new Error("as the scenario wants it");
    }
    return path.startsWith("/status/") ? Number(path.slice(8)) : 200;
}

function listening(server) {
    return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

async function plain(limiter, options) {
    const app = rationHandler(limiter, (request, response) => {
        response.statusCode = statusOf(request.url);
        response.end("ok");
    }, options);
    return listening(http.createServer((request, response) => {
        app(request, response).catch(() => {
            response.statusCode = 500;
            response.end("failed");
        });
    }));
}

function express(name) {
    return async (limiter, options) => {
        const app = require(name)();
        app.set("env", "test"); // no stack traces on stderr
        app.use(rationMiddleware(limiter, options));
        app.use((request, response) => {
            response.status(statusOf(request.originalUrl)).send("ok");
        });
        return listening(http.createServer(app));
    };
}

async function fastify(limiter, options) {
    const app = require("fastify")();
    app.register(rationPlugin, { limiter, ...options });
    app.all("*", async (request, reply) => {
        reply.code(statusOf(request.originalUrl));
        return "ok";
    });
    await app.listen({ port: 0, host: "127.0.0.1" });
    return app.server;
}

/** name: async (limiter, options of the middleware) => http.Server. */
const SITES = { "node:http": plain, "express 4": express("express4"), "express 5": express("express"), fastify };

/** One request; status, headers and body. */
function ask(server, method, target, headers = {}) {
    return new Promise((resolve, reject) => {
        const { port } = server.address();
        const request = http.request({ host: "127.0.0.1", port, method, path: target, headers, agent: false }, (response) => {
            let body = "";
            response.setEncoding("utf8").on("data", (text) => { body += text; }).on("error", reject)
                .on("end", () => resolve({ status: response.statusCode, headers: response.headers, body }));
        });
        request.on("error", reject).end();
    });
}

function stop(server) {
    server.closeAllConnections?.();
    return new Promise((resolve) => server.close(resolve));
}

module.exports = { SITES, ask, listening, stop };
