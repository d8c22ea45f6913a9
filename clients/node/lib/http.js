// SPDX-License-Identifier: Apache-2.0
// Middleware for node:http, and for the handshakes of WebSockets behind any framework.
"use strict";

const { STATUS_CODES } = require("node:http");
const { Gate, answer, warn } = require("./gate.js");

/** A handler of requests in front of another one. Its promise rejects as that of the other one does. */
function rationHandler(limiter, handler, options) {
    const gate = new Gate(limiter, options);
    checkFunction("handler", handler);
    return async function limited(request, response) {
        const visit = await enter(gate, request, response).catch((error) => {
            warn(error);
            response.statusCode = 500;
            response.end();
            return null;
        });
        if (visit === null) {
            return undefined;
        }
        if (visit !== undefined && !answer(visit, request, response)) {
            return undefined;
        }
        try {
            return await handler(request, response);
        } catch (error) {
            if (visit !== undefined) {
                visit.failed = true;
            }
            throw error;
        }
    };
}

/** A listener of "upgrade" in front of another one: a refused handshake gets status, headers and body. */
function rationUpgrade(limiter, listener, options) {
    const gate = new Gate(limiter, options);
    checkFunction("listener", listener);
    return async function limited(request, socket, head) {
        const ignore = () => {}; // until the listener has one of its own: it is closed then
        socket.on("error", ignore);
        const visit = await enter(gate, request, socket).catch((error) => {
            warn(error);
            refuse(socket, { status: 500, headers: { "Content-Length": "0" }, body: "" });
            return null;
        });
        if (visit === null) {
            return undefined;
        }
        if (visit !== undefined && !visit.decision.allowed) {
            refuse(socket, visit.refusal(request));
            return undefined;
        }
        if (socket.destroyed || socket.readableEnded) { // the listener would never learn that the client has gone
            socket.destroy();
            return undefined;
        }
        socket.removeListener("error", ignore);
        return listener(request, socket, head);
    };
}

function checkFunction(name, value) {
    if (typeof value !== "function") {
        throw new TypeError(`${name} must be a function of the request, found ${typeof value}`);
    }
}

/** Undefined for requests that are not limited. */
async function enter(gate, request, stream) {
    return await gate.skip(request) ? undefined : gate.enter(request, request, stream, request.socket.remoteAddress, request.url);
}

function refuse(socket, { status, headers, body }) {
    const lines = Object.entries({ ...headers, Connection: "close" }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.once("finish", () => socket.destroy()); // the client might keep its half open
    socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? "Refused"}\r\n${lines.join("")}\r\n${body}`);
}

module.exports = { rationHandler, rationUpgrade };
