// SPDX-License-Identifier: Apache-2.0
// Executes clients/scenarios.yaml, whose head explains the grammar.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { isDeepStrictEqual } = require("node:util");
const { Client } = require("ration-client");
const yaml = require("yaml");
const { Daemon, ROOT, freePort } = require("./daemon.js");
const { Fake } = require("./fake.js");
const { sleep, test, waitFor } = require("./harness.js");
const { SITES, ask, stop } = require("./sites.js");

const TABLE = yaml.parse(fs.readFileSync(path.join(ROOT, "clients/scenarios.yaml"), "utf8"));
const PATIENCE = 30_000;
const VERBS = ["check", "take", "acquire", "reserve", "release", "renew", "commit", "refund", "report", "pause", "request"];

// --- names of the contract to those of JavaScript ---------------------------------------------

const camelCase = (name) => name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
const MILLISECONDS = ["deadline", "probe_first", "probe_most"];

function settingsOf(scenario, url, events) {
    const given = { deadline: 5, connections: 1, failures: 1000, url, ...scenario.client };
    const named = Object.entries(given).map(([name, value]) => [camelCase(name), MILLISECONDS.includes(name) ? 1000 * value : value]);
    return { ...Object.fromEntries(named), onEvent: (name) => events.push(name) };
}

/** The arguments of a verb. */
function argumentsOf(verb, step, remembered) {
    const what = step[verb];
    const options = {};
    for (const name of ["cost", "seconds", "lease"]) {
        if (name in step) {
            options[name] = step[name];
        }
    }
    if ("wait" in step) {
        options.wait = 1000 * step.wait;
    }
    if (verb === "report") {
        return [remembered[what].charge, step.status];
    }
    if (["release", "renew", "commit", "refund"].includes(verb)) {
        return [remembered[what].lease, options];
    }
    if (Array.isArray(what)) {
        return [...what, options];
    }
    const attributes = Object.entries(what).map(([name, value]) => [name, value !== null && typeof value === "object" ? value.repeat.repeat(value.count) : value]);
    return [Object.fromEntries(attributes), options];
}

// --- what is expected ---------------------------------------------------------------------------

function matches(expected, found) {
    if (Array.isArray(expected)) {
        return isDeepStrictEqual(expected, found);
    }
    if (expected !== null && typeof expected === "object") {
        if ("has" in expected) {
            return String(found).includes(expected.has);
        }
        const number = found === null || found === undefined ? NaN : Number(found);
        return number >= (expected.at_least ?? -Infinity) && number <= (expected.at_most ?? Infinity);
    }
    return expected === (found ?? null);
}

function differences(expected, found, where = "") {
    return Object.entries(expected).filter(([name, value]) => !matches(value, found[name]))
        .map(([name, value]) => `${where}${name} is ${JSON.stringify(found[name])}, not ${JSON.stringify(value)}`);
}

const lowerCase = (headers) => Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** What does not match, as a list of texts. */
function faultsOf(expected, found) {
    if (expected === null || typeof expected !== "object" || "at_least" in expected) {
        return matches(expected, found) ? [] : [`${found} is not ${JSON.stringify(expected)}`];
    }
    const { headers = {}, json = {}, why, ...members } = expected;
    const isDecision = typeof found.headers === "function";
    const seen = { ...found };
    if (isDecision) {
        seen.message = found.message();
        seen.lease = found.lease !== null;
        seen.charge = found.charge !== null;
        for (const name of Object.keys(members)) {
            seen[name] = seen[camelCase(name)];
        }
    }
    const faults = [...differences(members, seen), ...differences(lowerCase(headers), lowerCase(isDecision ? found.headers() : found.headers)),
        ...differences(json, "json" in expected ? JSON.parse(found.body) : {})];
    if (why !== undefined && !found.why.includes(why)) {
        faults.push(`why is ${JSON.stringify(found.why)}, not ${JSON.stringify(why)}`);
    }
    return faults.length > 0 && isDecision ? [...faults, `by ${found.by}: ${found.why}`] : faults;
}

async function wrong(make, text) {
    await assert.rejects(make, (error) => {
        assert.ok((error instanceof TypeError || error instanceof RangeError) && error.message.includes(text), error);
        return true;
    });
}

// --- steps ----------------------------------------------------------------------------------------

class Run {
    constructor(scenario, folder, site) {
        this.scenario = scenario;
        this.folder = folder;
        this.site = site;
        this.events = [];
        this.remembered = {};
        this.server = null;
        this.web = null;
    }

    async start() {
        const { scenario, folder } = this;
        const place = scenario.server === "unix" ? `unix:${folder}/resp.sock` : `127.0.0.1:${await freePort()}`;
        let url = place.startsWith("unix:") ? place : `ration://${place}`;
        if (scenario.fake) {
            this.server = await Fake.start(scenario.fake, TABLE.bytes);
            url = this.server.url;
        } else if (scenario.server !== "none" && !("wrong" in scenario)) {
            const token = scenario.token ? `server: {admin_token: ${scenario.token}, trust_local: false}\n` : "";
            this.server = await Daemon.start(folder, (scenario.rules ?? TABLE.rules) + token, { place });
        }
        this.client = new Client(settingsOf(scenario, url, this.events));
        if (this.site !== undefined) {
            const { skip, wait } = scenario.app ?? {};
            this.web = await SITES[this.site](this.client, {
                attributes: (request) => ({ user: request.headers["x-user"] }),
                skip: (request) => request.url === skip, wait: wait && 1000 * wait,
            });
        }
    }

    async end() {
        this.client?.close();
        if (this.web !== null) {
            await stop(this.web);
        }
        await this.server?.stop();
    }

    call(verb, step) {
        if (verb !== "request") {
            return this.client[verb](...argumentsOf(verb, step, this.remembered));
        }
        return ask(this.web, ...step.request, step.headers);
    }

    async take(step) {
        for (const verb of ["freeze", "thaw", "kill", "start"]) {
            if (verb in step) {
                await this.server[verb]();
                return;
            }
        }
        if ("events" in step) {
            await waitFor(() => isSubsequence(step.events, this.events), () => `events ${step.events}, not ${this.events},`, PATIENCE);
            return;
        }
        const verb = VERBS.find((name) => name in step);
        if ("wrong" in step) {
            await wrong(() => this.call(verb, step), step.wrong);
            return;
        }
        const answers = await this.ask(verb, step);
        const faults = "expect" in step ? answers.flatMap((answer) => faultsOf(step.expect, answer)) : [];
        assert.deepEqual(faults, [], `${JSON.stringify(step)}: ${faults}; events ${this.events}`);
        if ("allowed" in step) {
            assert.equal(answers.filter(({ allowed }) => allowed).length, step.allowed, JSON.stringify(step));
        }
        if ("as" in step) {
            this.remembered[step.as] = answers.at(-1);
        }
    }

    /** All answers; of `until` the last one. */
    async ask(verb, step) {
        const timed = async () => {
            const began = performance.now();
            const answer = await this.call(verb, step);
            const took = (performance.now() - began) / 1000;
            assert.ok(took <= (step.within ?? Infinity), `${JSON.stringify(step)} took ${took} s`);
            return answer;
        };
        if ("together" in step) {
            return Promise.all(Array.from({ length: step.together }, timed));
        }
        const answers = [];
        if (!step.until) {
            for (let i = 0; i < (step.times ?? 1); i++) {
                answers.push(await timed());
            }
            return answers;
        }
        const until = performance.now() + PATIENCE;
        for (;;) {
            const answer = await timed();
            if (faultsOf(step.expect, answer).length === 0 || performance.now() > until) {
                return [answer];
            }
            await sleep(20);
        }
    }
}

function isSubsequence(wanted, found) {
    let at = 0;
    return wanted.every((name) => (at = found.indexOf(name, at) + 1) > 0);
}

async function execute(scenario, folder, site) {
    const run = new Run(scenario, folder, site);
    if ("wrong" in scenario) {
        await wrong(() => run.start(), scenario.wrong);
        return;
    }
    try {
        await run.start();
        for (const step of scenario.steps) {
            await run.take(step);
        }
    } catch (error) {
        await run.server?.kill?.();
        throw error;
    } finally {
        await run.end();
    }
}

for (const scenario of TABLE.scenarios) {
    const asks = scenario.steps?.some((step) => "request" in step);
    for (const site of asks ? Object.keys(SITES) : [undefined]) {
        test(scenario.name + (site ? `: ${site}` : ""), (folder) => execute(scenario, folder, site));
    }
}

module.exports = { TABLE };
