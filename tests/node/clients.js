// SPDX-License-Identifier: Apache-2.0
// Asks a rationd on the given port with real clients; prints what they answered as JSON.
"use strict";

const Redis = require("ioredis");
const { createClient } = require("redis");

const port = Number(process.argv[2]);

async function withIoredis(protocol) {
    const client = new Redis({ port, host: "127.0.0.1", protocol, maxRetriesPerRequest: 1,
                               retryStrategy: null });
    const key = `ioredis-${protocol}`;
    const pipeline = await client.pipeline().call("RATION.TAKE", key, "5 per hour")
        .ping().call("CL.THROTTLE", key, "15", "30", "60").call("NONSENSE").exec();
    const answer = {
        ping: await client.ping(),
        decision: await client.call("RATION.CHECK", "user", key),
        throttle: await client.call("CL.THROTTLE", key, "15", "30", "60"),
        pipeline: pipeline.map(([error, value]) => error ? String(error.message) : value),
        multi: await client.multi().ping().exec().catch((error) => error.message),
    };
    await client.quit();
    return answer;
}

async function withNodeRedis(RESP) {
    const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP,
                                  socket: { reconnectStrategy: false } });
    const key = `node-redis-${RESP}`;
    client.on("error", () => {});
    await client.connect();
    const answer = {
        ping: await client.ping(),
        decision: await client.sendCommand(["RATION.CHECK", "user", key]),
        throttle: await client.sendCommand(["CL.THROTTLE", key, "15", "30", "60"]),
        error: await client.sendCommand(["NONSENSE"]).catch((error) => error.message),
        multi: await client.multi().ping().exec().catch((error) => error.message),
        many: await Promise.all(Array.from({ length: 1000 }, (_, i) => client.echo(String(i)))),
    };
    await client.close();
    return answer;
}

async function main() {
    const answers = {};
    for (const version of [2, 3]) {
        answers[`ioredis${version}`] = await withIoredis(version);
        answers[`redis${version}`] = await withNodeRedis(version);
    }
    console.log(JSON.stringify(answers));
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
