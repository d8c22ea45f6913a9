// SPDX-License-Identifier: Apache-2.0
import type { MiddlewareOptions } from "./gate.js";
import type { Decision, Limiter } from "./index.js";

declare global {
    namespace Express {
        interface Request {
            /** The decision about this request, if it is limited. */
            ration?: Decision;
        }
    }
}

/** `app.use(rationMiddleware(new Client()))`. Failures of `attributes` and `skip` go to the error handler. */
export function rationMiddleware<Request = any>(
    limiter: Limiter,
    options?: MiddlewareOptions<Request>,
): (request: any, response: any, next: (error?: any) => void) => void;

export type { MiddlewareOptions };
