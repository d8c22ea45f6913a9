// SPDX-License-Identifier: Apache-2.0
import type { Attributes } from "./index.js";

/** Which requests are limited, and by what. Requests are those of the framework. */
export interface MiddlewareOptions<Request> {
    /** Adds to `ip`, `method`, `host` and `path`. Null takes an attribute away. */
    attributes?: ((request: Request) => Attributes | null | undefined | Promise<Attributes | null | undefined>) | undefined;
    /** True for requests that are not limited, and get no headers. */
    skip?: ((request: Request) => boolean | Promise<boolean>) | undefined;
    /** Milliseconds that a request may stand in line: 1 to 60000. */
    wait?: number | undefined;
}
