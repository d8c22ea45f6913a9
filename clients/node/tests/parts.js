// SPDX-License-Identifier: Apache-2.0
// The parts by themselves: bytes, decisions, the local limit, the breaker, deadlines, settings.
"use strict";

const assert = require("node:assert/strict");
const path = require("node:path");
const { Client, backoff, retryAfterSeconds } = require("ration-client");
const { sleep, test, waitFor } = require("./harness.js");

const part = (name) => require(path.join(path.dirname(require.resolve("ration-client")), name));
const { BadAnswer, ErrorReply, Push, Reader, encode, toBytes } = part("protocol.js");
const { Call, Deadlines } = part("call.js");
const { Decision } = part("decision.js");
const { Breaker, Events, Jitter, LocalLimit } = part("policy.js");
const { Address } = part("settings.js");

// --- bytes ----------------------------------------------------------------------------------------

const plainly = (reply) => reply instanceof Push ? { push: plainly(reply.items) } : reply instanceof ErrorReply ? { error: reply.text }
    : Array.isArray(reply) ? reply.map(plainly)
        : reply !== null && typeof reply === "object" ? Object.entries(reply).map(([name, value]) => [name, plainly(value)]) : reply;

/** All replies, or what is wrong. */
function read(pieces) {
    const reader = new Reader();
    try {
        return pieces.flatMap((piece) => reader.feed(piece)).map(plainly);
    } catch (error) {
        assert.ok(error instanceof BadAnswer, error);
        return "bad answer";
    }
}

function inPieces(bytes, size) {
    const pieces = [];
    for (let at = 0; at < bytes.length; at += pieces.at(-1).length) {
        pieces.push(bytes.slice(at, at + size()));
    }
    return pieces;
}

const MANY = `${encode(["a", "", "x\r\ny"])}%1\r\n+k\r\n,1.5\r\n>1\r\n:7\r\n#f\r\n_\r\n-ERR no\r\n$-1\r\n*-1\r\n:-12\r\n%2\r\n$9\r\n__proto__\r\n` +
    "%1\r\n+constructor\r\n#t\r\n+a\r\n*0\r\n,2e3\r\n:9223372036854775807\r\n";
const READ = [["a", "", "x\r\ny"], [["k", 1.5]], { push: [7] }, false, null, { error: "ERR no" }, null, null, -12,
    [["__proto__", [["constructor", true]]], ["a", []]], 2000, 9223372036854775807];

test("replies come in any pieces", () => {
    for (const size of [1, 2, 7, 1000]) {
        assert.deepEqual(read(inPieces(MANY, () => size)), READ);
    }
});

test("nonsense is a bad answer, at once and byte by byte", () => {
    for (const bytes of ["HTTP/1.1\r\n", "x", "$3\r\nabcd\r\n", "*5000\r\n", ":1_0\r\n", ":\r\n", ",inf\r\n", ",nan\r\n", "#x\r\n", "%1\r\n:1\r\n:2\r\n",
        "*1\r\n".repeat(20), "$2000000\r\n", "$-7\r\n", "*-2\r\n", "$ 3\r\n", "$\r\n", "$1:\r\n", "\r\n", "\0\0\0\0", ":99999999999999999999\r\n",
        ",1e999\r\n", ",0x1\r\n", "_x\r\n", "$1\r\na\r", "$1\r\nab", `+${"x".repeat(1_200_000)}`]) {
        const expected = bytes === "$1\r\na\r" ? [] : "bad answer";
        assert.deepEqual(read([bytes]), expected, bytes.slice(0, 40));
        if (bytes.length < 100) {
            assert.deepEqual(read([...bytes]), expected, bytes);
        }
    }
});

test("bytes that are changed at random are read alike in any pieces, and nothing but a bad answer is thrown", () => {
    let seed = 1;
    const random = (below) => {
        seed = (seed * 48271) % 2147483647;
        return seed % below;
    };
    const outcomes = { replies: 0, bad: 0 };
    for (let round = 0; round < 3000; round++) {
        let bytes = MANY;
        for (let n = random(4); n >= 0; n--) {
            const at = random(bytes.length);
            const other = random(3) === 0 ? String.fromCharCode(random(256)) : "$:*%>_#,-+0123456789\r\n"[random(22)];
            bytes = bytes.slice(0, at) + other + bytes.slice(at + random(3));
        }
        const whole = read([bytes]);
        assert.deepEqual(read(inPieces(bytes, () => 1 + random(30))), whole, JSON.stringify(bytes));
        outcomes[whole === "bad answer" ? "bad" : "replies"] += 1;
    }
    assert.ok(outcomes.replies > 100 && outcomes.bad > 100, JSON.stringify(outcomes));
});

test("a long reply in many pieces is read once, not again for each piece", () => {
    const reader = new Reader();
    const looks = { count: 0 };
    reader.next = function next(depth) {
        looks.count += 1;
        return Reader.prototype.next.call(this, depth);
    };
    const replies = inPieces(`*2\r\n$1000000\r\n${"x".repeat(1_000_000)}\r\n:1\r\n`, () => 1000).flatMap((piece) => reader.feed(piece));
    assert.equal(replies[0][0].length, 1_000_000);
    assert.ok(looks.count < 12, `${looks.count} looks`);
});

test("texts are sent in UTF-8, and their length is that of bytes", () => {
    assert.equal(Buffer.from(encode(["é", "日"].map(toBytes)), "latin1").toString(), "*2\r\n$2\r\né\r\n$3\r\n日\r\n");
});

// --- decisions ------------------------------------------------------------------------------------

const LIMIT = "$5\r\nlimit\r\n:5\r\n$9\r\nremaining\r\n:4\r\n$11\r\nreset_after\r\n,1.2\r\n";
const told = (rule) => `%6\r\n${LIMIT}+rule\r\n$${rule.length}\r\n${rule}\r\n+amount\r\n:5\r\n+period\r\n:60\r\n`;

/** A decision with these limits and the bytes of more members. */
function decision(rules, more = "", allowed = "t") {
    const count = 8 + new Reader().feed(more).length / 2;
    const limits = `*${rules.length}\r\n${rules.map((rule) => told(toBytes(rule))).join("")}`;
    const bytes = `%${count}\r\n+allowed\r\n#${allowed}\r\n+rule\r\n+api\r\n${LIMIT}+retry_after\r\n,6.1\r\n+delay\r\n:0\r\n+limits\r\n${limits}${more}`;
    return Decision.read(new Reader().feed(bytes)[0]);
}

test("names in headers are unique and quoted", () => {
    const { RateLimit } = decision(["api", "api", "api-2", "a\"\\b", "ü日"]).headers();
    assert.deepEqual(RateLimit.split(", ").map((item) => item.split(";")[0]), ["\"api\"", "\"api-3\"", "\"api-2\"", "\"a\\\"\\\\b\"", "\"??\""]);
});

test("headers come in the order of the documentation, by family", () => {
    const names = (more) => Object.keys(decision(["api"], more, "f").headers());
    const x = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Retry-After"];
    assert.deepEqual(names(""), [...x, "RateLimit-Policy", "RateLimit", "Retry-After"]);
    assert.deepEqual(names("+headers\r\n+x\r\n+soft\r\n#t\r\n+level\r\n:2\r\n"), [...x, "Retry-After", "X-RateLimit-Soft", "X-RateLimit-Ban-Level"]);
    assert.deepEqual(names("+headers\r\n+ietf\r\n"), ["RateLimit-Policy", "RateLimit", "Retry-After"]);
    assert.deepEqual(names("+headers\r\n+none\r\n+soft\r\n#t\r\n"), ["Retry-After"]);
    assert.equal(decision(["api"], "", "f").headers()["Retry-After"], "7");
});

test("a refusal says what rationd says over HTTP", () => {
    const refused = decision(["api"], "+decided_by\r\n:0\r\n+message\r\n$7\r\nSl\xc3\xb6wly\r\n", "f");
    const { contentType, body } = refused.body("text/html, Application/Problem+JSON");
    const { detail, reset, ...rest } = JSON.parse(body);
    assert.deepEqual([contentType, detail, rest.window, rest.title], ["application/problem+json", "Slöwly", 60, "Too Many Requests"]);
    assert.ok(Math.abs(reset - Date.now() / 1000) < 60);
    assert.deepEqual(Object.keys(JSON.parse(refused.body().body)), ["allowed", "rule", "limit", "remaining", "reset_after", "retry_after", "delay",
        "limits", "error", "message", "window", "reset"]);
    assert.deepEqual(JSON.parse(refused.body().body).limits, [{ rule: "api", limit: 5, remaining: 4, reset_after: 1.2 }]);
    const banned = decision([], "+banned\r\n#t\r\n+level\r\n:1\r\n+status\r\n:403\r\n", "f");
    assert.deepEqual([banned.error, banned.status, JSON.parse(banned.body("application/problem+json").body).title], ["banned", 403, "Abnormal Usage Detected"]);
});

test("members of the wrong type are bad answers, unknown ones are none", () => {
    for (const more of ["+soft\r\n:1\r\n", "+status\r\n:99999\r\n", "+status\r\n,429.5\r\n", "+lease\r\n:1\r\n", "+level\r\n+x\r\n", "+decided_by\r\n_\r\n", "+message\r\n_\r\n"]) {
        assert.throws(() => decision([], more), BadAnswer, more);
    }
    assert.equal(decision([], "+toString\r\n:1\r\n+valueOf\r\n*0\r\n").rule, "api");
});

// --- without rationd --------------------------------------------------------------------------------

test("a local limit refills and forgets", async () => {
    const limit = new LocalLimit("1000 per second burst 5");
    assert.deepEqual(Array.from({ length: 5 }, () => limit.take("a", 1, "").allowed), Array(5).fill(true));
    assert.equal(limit.take("a", 6, "").retryAfter, null);
    await sleep(10);
    assert.ok(limit.take("a", 1, "").allowed);
    for (let i = 0; i < 20_000; i++) {
        limit.take(String(i), 1, "");
    }
    assert.equal(limit.buckets.size, 10_000);
    assert.ok(!limit.buckets.has("a"));
});

test("a local limit must be one", () => {
    for (const policy of ["", "many", "0 per second", "5 per 0 seconds", "5 per fortnight", "-1 per second", "5 per second "]) {
        assert.throws(() => new LocalLimit(policy), /local limit such as '100 per second'.*found/, policy);
    }
    assert.deepEqual(new LocalLimit("5 per 10 minutes burst 20").take("a", 1, "").headers()["RateLimit-Policy"], "\"default\";q=20;w=2400");
});

test("the breaker lets one request through at a time, and closes by an answer", async () => {
    const names = [];
    const breaker = new Breaker(3, new Jitter(20, 40), new Events((name) => names.push(name)));
    for (const open of [false, false, true]) {
        assert.ok(breaker.admits());
        breaker.fail("it is off");
        assert.equal(breaker.open, open);
    }
    assert.ok(!breaker.admits());
    await sleep(45);
    assert.deepEqual([breaker.admits(), breaker.admits()], [true, false]);
    breaker.succeed();
    assert.ok(breaker.admits() && breaker.admits());
    breaker.fail("once");
    breaker.succeed();
    breaker.fail("twice, but not in a row");
    assert.ok(breaker.admits());
    await sleep(0);
    assert.deepEqual(names, ["breaker_open", "breaker_closed"]);
});

test("pauses between attempts are random and bounded", () => {
    const jitter = new Jitter(10, 100);
    const times = Array.from({ length: 1000 }, () => jitter.next());
    assert.ok(times.every((time) => time >= 10 && time <= 100) && new Set(times).size > 100);
    jitter.reset();
    assert.ok(jitter.next() <= 30);
});

test("backoff honours Retry-After and grows", () => {
    for (let i = 0; i < 100; i++) {
        const wait = backoff(0, "7");
        assert.ok(wait >= 7000 && wait <= 7200);
    }
    const most = (attempt) => Math.max(...Array.from({ length: 200 }, () => backoff(attempt)));
    assert.ok(most(0) <= 200 && most(9) > 200 && most(9) <= 10_000 && most(5000) <= 10_000);
    const seconds = retryAfterSeconds(new Date(Date.now() + 60_000).toUTCString());
    assert.ok(seconds >= 55 && seconds <= 60);
    assert.equal(retryAfterSeconds("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
    assert.deepEqual([null, undefined, "soon", "", "-5", "Wed, 99 Nov", "1.5", "2030"].map(retryAfterSeconds), [...Array(7).fill(null), 2030]);
    assert.throws(() => backoff(-1), /attempt must be a whole number from 0, found -1/);
});

test("deadlines expire in their order, those that ended do not, and one timer serves all", async () => {
    const expired = [];
    const client = {};
    client.deadlines = new Deadlines(50, (call) => {
        call.end();
        expired.push(call.command);
    });
    const calls = ["a", "b", "c", "d", "e"].map((name) => new Call(client, name, {}));
    calls.forEach((call) => client.deadlines.add(call, performance.now()));
    const { timer } = client.deadlines;
    ["a", "c", "e", "c"].forEach((name) => calls.find(({ command }) => command === name).end());
    assert.ok(timer.hasRef());
    await waitFor(() => expired.length > 1, "the deadlines");
    assert.deepEqual(expired, ["b", "d"]);
    const { first, last, timer: next } = client.deadlines;
    assert.deepEqual([first, last, next], [null, null, null]);
    const late = new Call(client, "f", {});
    client.deadlines.add(late, performance.now());
    late.end();
    assert.ok(!client.deadlines.timer.hasRef(), "an idle client keeps the process alive");
    client.deadlines.add(new Call(client, "g", {}), performance.now());
    assert.ok(client.deadlines.timer.hasRef());
    await waitFor(() => expired.length > 2, "the last deadline");
    assert.deepEqual(expired, ["b", "d", "g"]);
});

// --- settings ---------------------------------------------------------------------------------------

test("wrong settings say what was found and what would be right", () => {
    for (const [settings, message] of [
        [{ deadlines: 5 }, /there is no setting deadlines; there are url, policy, deadline/], [{ deadline: 0.05 }, /milliseconds from 1 to 60000, found 0.05/],
        [{ connections: 0 }, /connections must be a whole number from 1, found 0/], [{ silence: "4" }, /silence .* found "4"/],
        [{ probeMost: 5 }, /probeMost .* from 100 to/], [{ policy: "maybe" }, /'allow', 'refuse' or .* found "maybe"/],
        [{ localKey: "ip" }, /localKey must be a list/], [{ onEvent: 5 }, /onEvent must be a function/], [{ token: 5 }, /token must be a text/],
        [{ url: "ration://:secret@" }, /the address must be ration:\/\/host:port.*found "ration:\/\/"$/], [{ url: "unix:" }, /unix:\/path/],
        [{ url: "ration://h:70000" }, /found "ration:\/\/h:70000"/], [{ url: "http://h" }, /ration:\/\//], [{ url: 5 }, /found "5"/],
        [{ url: "rations://h", tls: { ca: "none", cert: "no certificate" } }, /PEM|no start line/i], [{ url: "ration://h", tls: {} }, /tls .* rations:\/\/, found "ration:\/\/h:6380"/], ["ration://h", /settings must be an object such as/],
    ]) {
        assert.throws(() => new Client(settings), message, JSON.stringify(settings));
    }
    assert.equal(new Client({ deadline: null, url: undefined }).url, "ration://127.0.0.1:6380");
});

test("an address has a name, a token, a host and a port", () => {
    const read = (url, given = null) => {
        const { name, token, place, url: shown, tls } = new Address({ url, token: given, tls: null });
        return [name, token, place, shown, tls !== null];
    };
    assert.deepEqual(read("ration://h"), ["", "", { host: "h", port: 6380 }, "ration://h:6380", false]);
    assert.deepEqual(read("rations://ann:p%40ss:w%@[::1]:7/"), ["ann", "p%40ss:w%", { host: "::1", port: 7 }, "rations://[::1]:7", true]);
    assert.deepEqual(read("ration://:p%40ss@h:7"), ["", "p@ss", { host: "h", port: 7 }, "ration://h:7", false]);
    assert.deepEqual(read("ration://p@h", "pass"), ["p", "pass", { host: "h", port: 6380 }, "ration://h:6380", false]);
    assert.throws(() => read("ration://p@h"), /a token comes behind a colon: ration:\/\/:token@host/);
    assert.deepEqual(read("unix:/run/x.sock"), ["", "", { path: "/run/x.sock" }, "unix:/run/x.sock", false]);
});
