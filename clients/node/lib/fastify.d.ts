// SPDX-License-Identifier: Apache-2.0
import type { FastifyPluginAsync, FastifyRequest } from "fastify";
import type { MiddlewareOptions } from "./gate.js";
import type { Decision, Limiter } from "./index.js";

declare module "fastify" {
    interface FastifyRequest {
        /** The decision about this request; null if it is not limited. */
        ration: Decision | null;
    }
}

export interface RationPluginOptions extends MiddlewareOptions<FastifyRequest> {
    limiter: Limiter;
}

/** `fastify.register(rationPlugin, { limiter: new Client() })`. Failures of `attributes` and `skip` go to the error handler. */
export const rationPlugin: FastifyPluginAsync<RationPluginOptions>;

export type { MiddlewareOptions };
