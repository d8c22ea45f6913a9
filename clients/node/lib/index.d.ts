// SPDX-License-Identifier: Apache-2.0
// A client of rationd. What each operation does is in clients/README.md.
//
// Times that you give are milliseconds, and called `seconds` where they are not. Times of a decision are seconds, as in its headers.

import type { SecureContextOptions, ConnectionOptions } from "node:tls";

export type Value = string | Uint8Array | number | bigint | boolean | null | undefined;

/** What rules see, by names in lower case. Null and undefined leave an attribute out. */
export type Attributes = Readonly<Record<string, Value>>;

export type EventName =
    "connected" | "connect_failed" | "disconnected" | "bad_answer" | "error_reply" | "breaker_open" | "breaker_closed";

export interface Settings {
    /** `ration://[[name]:token@]host[:port]`, `rations://` by TLS, `unix:/path`. `ration://127.0.0.1:6380` */
    url?: string;
    /** What decides without rationd: `allow`, `refuse`, or a local limit such as `100 per second`. `allow` */
    policy?: "allow" | "refuse" | (string & {});
    /** Milliseconds of each call, connecting and queueing included: 1 to 60000. 50 */
    deadline?: number;
    /** At most, each shared by many requests. 2 */
    connections?: number;
    /** For operations that need rights. */
    token?: string | null;
    /** For `rations://`, as `tls.connect()` takes them. Without: the authorities that Node trusts. */
    tls?: (SecureContextOptions & ConnectionOptions) | null;
    /** Failures in a row that open the breaker. 5 */
    failures?: number;
    /** Deadlines of silence after which a connection that owes replies is closed. 4 */
    silence?: number;
    /** Milliseconds: bounds of the time between probes, and between attempts to connect. 100 and 2000 */
    probeFirst?: number;
    probeMost?: number;
    /** The first of these attributes that is there is the key of the local limit. `user`, `api_key`, `ip` */
    localKey?: readonly string[];
    /**
     * Is told what happens, one after the other. It must be quick; what it throws becomes a warning of the process. Without it
     * troubles are warnings of the process (`RationWarning`), each once until rationd answers again.
     */
    onEvent?: ((name: EventName, detail: string) => void) | null;
}

export interface Signal {
    /** The caller goes away: the policy answers at once, and what comes too late is given back. */
    signal?: AbortSignal | undefined;
}

export interface Cost extends Signal {
    /** Units or places, 1 unless given. With 0 a check only looks. */
    cost?: number | undefined;
}

export interface CheckOptions extends Cost {
    /** Milliseconds that the request may stand in line: 1 to 60000. */
    wait?: number | undefined;
    /** Takes places, too, where rules limit them: release the lease of the decision. */
    lease?: boolean | undefined;
}

export interface Lasting extends Signal {
    /** How long places or a reservation last: 0.001 to 86400. */
    seconds?: number | undefined;
}

export interface HoldOptions extends Cost, Lasting {}

export interface Limit {
    readonly rule: string | null;
    readonly limit: number | null;
    readonly remaining: number | null;
    readonly resetAfter: number | null;
    readonly allowed: boolean;
    readonly shadow: boolean;
    /** So many units in so many seconds; null where the reply does not say. The period is 0 for places. */
    readonly amount: number | null;
    readonly period: number | null;
}

/** docs/headers.md explains the members. Times are seconds. */
export class Decision {
    private constructor();
    readonly allowed: boolean;
    readonly rule: string | null;
    readonly limit: number | null;
    readonly remaining: number | null;
    readonly resetAfter: number | null;
    /** 0 of an admission; null: never. */
    readonly retryAfter: number | null;
    /** Wait so long before you go ahead. Middleware does. */
    readonly delay: number;
    readonly limits: readonly Limit[];
    readonly soft: boolean;
    readonly shadow: boolean;
    readonly banned: boolean;
    readonly paused: boolean;
    readonly level: number | null;
    readonly waited: number;
    readonly lease: string | null;
    readonly charge: string | null;
    readonly status: number;
    readonly error: "rate_limited" | "denied" | "banned" | "paused" | "unavailable" | null;
    readonly by: "rationd" | "policy";
    /** Why the policy has decided: a sentence for logs. */
    readonly why: string;
    /** For the response, of an admission as well as of a refusal. */
    headers(): Record<string, string>;
    /** Of a refusal: JSON, or a problem document if the request's `Accept` has `application/problem+json`. */
    body(accept?: string | null): { contentType: "application/json" | "application/problem+json"; body: string };
    /** Of a refusal: for people. */
    message(): string;
}

/** True, false (it had ended), or null: nobody knows. */
export type Outcome = boolean | null;

/** What middleware needs. */
export interface Limiter {
    check(attributes: Attributes, options?: CheckOptions): Promise<Decision>;
    report(charge: string | null, status: number, options?: Signal): Promise<Outcome>;
    release(lease: string | null, options?: Signal): Promise<Outcome>;
}

/**
 * Asks one rationd. No call takes longer than the deadline; if rationd has not answered, the policy decides. A promise
 * rejects (TypeError, RangeError) for wrong arguments and nothing else.
 */
export class Client implements Limiter {
    /** Connects to nothing: the first call does. Throws for wrong settings. */
    constructor(settings?: Settings);
    readonly url: string;
    /** By the rules. */
    check(attributes: Attributes, options?: CheckOptions): Promise<Decision>;
    /** By a limit that comes along, such as `100 per minute`. */
    take(key: string | Uint8Array, limit: string, options?: Cost): Promise<Decision>;
    /** Places: of a key and a limit such as `20 concurrent`, or by the rules. */
    acquire(key: string | Uint8Array, limit: string, options?: HoldOptions): Promise<Decision>;
    acquire(attributes: Attributes, options?: HoldOptions): Promise<Decision>;
    /** Charges now; the lease of the decision is for commit and refund. */
    reserve(key: string | Uint8Array, limit: string, options?: HoldOptions): Promise<Decision>;
    reserve(attributes: Attributes, options?: HoldOptions): Promise<Decision>;
    /** Frees places. */
    release(lease: string | null, options?: Signal): Promise<Outcome>;
    /** Keeps places for so many `seconds` from now on. */
    renew(lease: string | null, options?: Lasting): Promise<Outcome>;
    /** Keeps all of a reservation, or the cost if that is given. */
    commit(lease: string | null, options?: Cost): Promise<Outcome>;
    /** Gives back all of a reservation. */
    refund(lease: string | null, options?: Signal): Promise<Outcome>;
    /** How the request of a decision with a `charge` has ended: its HTTP status. */
    report(charge: string | null, status: number, options?: Signal): Promise<Outcome>;
    /**
     * Refuses a key for so many seconds, or for a Retry-After as it was received; null, as of a response without one, does
     * nothing. The seconds that are left; null: nobody knows.
     */
    pause(key: string | Uint8Array, length: number | string | null | undefined, options?: Signal): Promise<number | null>;
    /** Ends all connections. The policy answers what is under way, and every later call. */
    close(): void;
}

/** Milliseconds to wait after attempt 0, 1, ...: what a Retry-After asks for, and a random part that grows (full jitter). */
export function backoff(attempt: number, retryAfter?: string | null): number;

/** Seconds, of a Retry-After header: seconds or a date. Null without one, and for what is neither. */
export function retryAfterSeconds(header: string | null | undefined): number | null;
