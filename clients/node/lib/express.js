// SPDX-License-Identifier: Apache-2.0
// Middleware for Express 4 and 5, and for what else takes functions (request, response, next).
"use strict";

const { Gate, answer } = require("./gate.js");

function rationMiddleware(limiter, options) {
    const gate = new Gate(limiter, options);

    async function enter(request, response) {
        const target = request.originalUrl ?? request.url;
        return await gate.skip(request) ? undefined : gate.enter(request, request, response, request.ip ?? request.socket.remoteAddress, target);
    }

    return function ration(request, response, next) {
        enter(request, response).then((visit) => {
            if (visit === undefined || (visit !== null && answer(visit, request, response))) {
                next();
            }
        }, next);
    };
}

module.exports = { rationMiddleware };
