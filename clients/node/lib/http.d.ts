// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { MiddlewareOptions } from "./gate.js";
import type { Decision, Limiter } from "./index.js";

declare module "node:http" {
    interface IncomingMessage {
        /** The decision about this request, if it is limited. */
        ration?: Decision;
    }
}

/**
 * A handler of requests that limits another one. Its promise rejects if that one fails, and then the request counts as a
 * 500: answer it. If `attributes` or `skip` fails, the request is answered with a 500, and the process gets a warning.
 */
export function rationHandler(
    limiter: Limiter,
    handler: (request: IncomingMessage, response: ServerResponse) => unknown,
    options?: MiddlewareOptions<IncomingMessage>,
): (request: IncomingMessage, response: ServerResponse) => Promise<void>;

/** A listener of "upgrade" that limits another one: handshakes of WebSockets, with any framework. */
export function rationUpgrade(
    limiter: Limiter,
    listener: (request: IncomingMessage, socket: Duplex, head: Buffer) => unknown,
    options?: MiddlewareOptions<IncomingMessage>,
): (request: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void>;

export type { MiddlewareOptions };
