// SPDX-License-Identifier: Apache-2.0
// What the middleware of all frameworks has in common: attributes of a request, the refusal, what follows the response.
"use strict";

const OPTIONS = ["attributes", "skip", "wait"];
const GONE = 499; // the client went away before the response began: nginx counts such requests so
const followers = new WeakMap(); // by socket: what waits for its end. One listener, however many requests a client pipelines

/**
 * A response behind another one of its connection has no socket yet, and does not learn that the client has gone.
 * Returns what ends this.
 */
function follow(stream, { socket }, call) {
    stream.once("close", call);
    if (stream.socket !== null || !socket) {
        return () => stream.removeListener("close", call);
    }
    let calls = followers.get(socket);
    if (calls === undefined) {
        followers.set(socket, calls = new Set());
        socket.once("close", () => calls.forEach((each) => each()));
    }
    calls.add(call);
    return () => {
        stream.removeListener("close", call);
        calls.delete(call);
    };
}

/** Which requests are limited, and by what. `stream` is the response, or the socket of an upgrade. */
class Gate {
    constructor(limiter, options = {}) {
        if (typeof limiter?.check !== "function") {
            throw new TypeError("middleware needs a limiter: new Client({ url: \"ration://127.0.0.1:6380\" })");
        }
        for (const name of Object.keys(options)) {
            if (!OPTIONS.includes(name)) {
                throw new TypeError(`there is no option ${name} of middleware; there are ${OPTIONS.join(", ")}`);
            }
        }
        for (const name of ["attributes", "skip"]) {
            if (options[name] !== undefined && typeof options[name] !== "function") {
                throw new TypeError(`${name} must be a function of the request, found ${typeof options[name]}`);
            }
        }
        const { wait = 0 } = options;
        if (typeof wait !== "number" || !(wait === 0 || (wait >= 1 && wait <= 60_000))) {
            throw new RangeError(`wait must be milliseconds from 1 to 60000, or 0, found ${String(wait)}`);
        }
        this.limiter = limiter;
        this.attributes = options.attributes ?? (() => null);
        this.skip = options.skip ?? (() => false);
        this.wait = wait;
    }

    /** A visit, once it may go ahead or is refused. Null: the client went away while it waited. */
    async enter(request, raw, stream, ip, target) {
        if (!ip && raw.socket && isGone(raw.socket)) {
            return null;
        }
        const attributes = {
            ip: ip?.replace(/^::ffff:(?=\d+\.)/i, ""), method: raw.method, host: raw.headers.host ?? raw.headers[":authority"],
            path: Buffer.from(target, "latin1"), // as Node has it: a character is a byte
            ...await this.attributes(request),
        };
        const gone = this.wait > 0 ? new AbortController() : null;
        const options = { lease: true, wait: this.wait, signal: gone?.signal };
        const leave = () => gone.abort(new Error("the connection is closed"));
        let stopFollowing = () => {};
        if (gone !== null) {
            stopFollowing = follow(stream, raw, leave);
        }
        const decision = request.ration = await this.limiter.check(attributes, options);
        stopFollowing();
        const visit = new Visit(this.limiter, decision, stream, raw);
        const waited = !gone?.signal.aborted && await sleep(decision.allowed ? decision.delay : 0, stream, raw);
        return waited ? visit : null;
    }
}

/** False if the client goes away meanwhile. */
function sleep(seconds, stream, raw) {
    if (seconds === 0) {
        return true;
    }
    return new Promise((resolve) => {
        const timer = setTimeout(end, 1000 * seconds);
        const stopFollowing = follow(stream, raw, end);
        function end() {
            clearTimeout(timer);
            stopFollowing();
            resolve(!hasEnded(stream, raw));
        }
        if (hasEnded(stream, raw)) {
            end();
        }
    });
}

function hasEnded(stream, raw) {
    return Boolean(stream.destroyed || stream.closed || stream.writableFinished || (stream.socket === null && raw.socket?.destroyed));
}

/** A connection by TCP that was reset before anybody asked for its address has none. By unix sockets none has. */
function isGone(socket) {
    return Boolean(socket.destroyed || (socket.localAddress && !socket.remoteAddress));
}

/** A request from its decision to the end of its response, when rationd learns the status, and that places are free. */
class Visit {
    constructor(limiter, decision, stream, raw) {
        this.limiter = limiter;
        this.decision = decision;
        this.stream = stream;
        this.failed = false;
        if (decision.lease === null && decision.charge === null) {
            return;
        }
        this.end = this.end.bind(this);
        stream.once("finish", this.end);
        this.stopFollowing = follow(stream, raw, this.end);
        if (hasEnded(stream, raw)) {
            this.end();
        }
    }

    get status() {
        if (this.stream.headersSent === undefined) {
            return 101; // an upgraded connection
        }
        if (this.stream.headersSent) {
            return Number(this.stream.statusCode);
        }
        return this.failed || this.stream.errored ? 500 : GONE; // errored: destroyed with an error, as by pipeline()
    }

    end() {
        const { decision, limiter, stream } = this;
        stream.removeListener("finish", this.end);
        this.stopFollowing();
        if (decision.charge !== null) {
            limiter.report(decision.charge, this.status).catch(warn);
        }
        if (decision.lease !== null) {
            limiter.release(decision.lease).catch(warn);
        }
    }

    /** Status, headers and body of the answer to a refused request. */
    refusal(raw) {
        const { contentType, body } = this.decision.body(raw.headers.accept);
        const headers = { ...this.decision.headers(), "Content-Type": contentType, "Content-Length": String(Buffer.byteLength(body)) };
        return { status: this.decision.status, headers, body: raw.method === "HEAD" ? "" : body };
    }
}

/** Sets the headers of an admission, or refuses. For responses of node:http and what is made of them. */
function answer(visit, request, response) {
    if (visit.decision.allowed) {
        setHeaders(response, visit.decision.headers());
        return true;
    }
    const { status, headers, body } = visit.refusal(request);
    response.statusCode = status;
    setHeaders(response, headers);
    response.end(body === "" ? undefined : body);
    return false;
}

function setHeaders(response, headers) {
    for (const name in headers) {
        response.setHeader(name, headers[name]);
    }
}

function warn(error) {
    process.emitWarning(`a request could not be limited: ${error?.stack ?? error}`, "RationWarning");
}

module.exports = { Gate, answer, warn };
