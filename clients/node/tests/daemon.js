// SPDX-License-Identifier: Apache-2.0
// A rationd of one's own, the program in RATION_BUILD or build/, on a free port of 127.0.0.1 or a unix socket.
"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const { waitFor } = require("./harness.js");

const ROOT = process.env.RATION_ROOT ?? path.resolve(__dirname, "../../..");
const RATIOND = path.join(path.resolve(ROOT, process.env.RATION_BUILD ?? "build"), "rationd");
const claims = new Map(); // by port
const HAS_ABSTRACT = Number(process.versions.node.split(".")[0]) >= 20; // names of sockets: Node 18 takes all of them for one

function listen(...where) {
    return new Promise((resolve) => {
        const server = net.createServer();
        server.once("error", () => resolve(null));
        server.listen(...where, () => resolve(server));
    });
}

/**
 * Not one of those that the kernel gives to clients: a server that is started again would find it taken. Nor one that was
 * given out before, here or by a run beside this one: abstract unix sockets are as wide as ports are, and end with their process.
 */
async function freePort() {
    for (;;) {
        const port = 10_240 + Math.floor(Math.random() * 22_000);
        if (claims.has(port)) {
            continue;
        }
        const claim = HAS_ABSTRACT ? await listen(`\0ration test port ${port}`) : undefined;
        const probe = claim === null ? null : await listen(port);
        if (probe !== null) {
            claims.set(port, claim?.unref());
            await new Promise((resolve) => probe.close(resolve));
            return port;
        }
        claim?.close();
    }
}

class Daemon {
    constructor(folder, rules, { place, options = [] } = {}) {
        this.place = place;
        this.log = "";
        this.process = null;
        const file = path.join(folder, "rules.yaml");
        fs.writeFileSync(file, rules);
        this.options = ["--config", file, "--http", "none", "--admin", "none", "--grpc", "none", "--state", "none",
            "--workers", "1", "--memory", "2M", "--resp", place, ...options];
    }

    static async start(folder, rules, { place, options } = {}) {
        const daemon = new Daemon(folder, rules, { place: place ?? `127.0.0.1:${await freePort()}`, options });
        await daemon.start();
        return daemon;
    }

    get url() {
        return this.place.startsWith("unix:") ? this.place : `ration://${this.place}`;
    }

    async start() {
        const child = this.process = spawn(RATIOND, this.options, { stdio: ["ignore", "ignore", "pipe"] });
        this.ended = new Promise((resolve) => child.once("close", resolve));
        child.on("error", (error) => { this.log += error; });
        child.stderr.setEncoding("utf8").on("data", (text) => { this.log += text; });
        this.log = "";
        await waitFor(() => this.log.includes("rationd: ready") || child.exitCode !== null, () => `rationd: ${this.log}`);
        if (child.exitCode !== null) {
            throw new Error(`rationd did not start: ${this.log}`);
        }
    }

    /** By SIGKILL, as a crash would end it. */
    async kill() {
        const { process } = this;
        this.process = null;
        process?.kill("SIGKILL");
        await this.ended;
    }

    /** By SIGTERM; the end must be a clean one. */
    async stop() {
        const { process } = this;
        this.process = null;
        if (process !== null) {
            process.kill("SIGCONT");
            process.kill("SIGTERM");
            const status = await this.ended;
            if (status !== 0) {
                throw new Error(`rationd ended with ${status}: ${this.log}`);
            }
        }
    }

    /** Until no thread of it runs any more. */
    async freeze() {
        const { pid } = this.process;
        this.process.kill("SIGSTOP");
        await waitFor(() => fs.readdirSync(`/proc/${pid}/task`).every((task) =>
            /^State:\s+T/m.test(fs.readFileSync(`/proc/${pid}/task/${task}/status`, "utf8"))), "a stop of rationd");
    }

    thaw() {
        this.process.kill("SIGCONT");
    }
}

module.exports = { Daemon, ROOT, freePort };
