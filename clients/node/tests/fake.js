// SPDX-License-Identifier: Apache-2.0
// A server whose bytes are given: `fake` of clients/scenarios.yaml.
"use strict";

const net = require("node:net");

class Fake {
    constructor(fake, names) {
        const expand = (text) => text.replace(/<([a-z-]+)>/g, (_, name) => names[name]);
        this.answers = fake.answers.map((item) => typeof item === "string" ? { send: item } : item)
            .map((item) => ({ ...item, send: expand(item.send) }));
        this.greeting = expand(fake.greeting ?? "<hello>");
        this.then = { send: expand(fake.then ?? "") };
        this.heard = []; // commands, HELLO left out
        this.open = new Set();
        this.server = net.createServer((socket) => this.serve(socket).catch(() => socket.destroy())); // the client has closed it
    }

    static async start(fake, names) {
        const it = new Fake(fake, names);
        await new Promise((resolve) => it.server.listen(0, "127.0.0.1", resolve));
        return it;
    }

    get url() {
        return `ration://127.0.0.1:${this.server.address().port}`;
    }

    async serve(socket) {
        this.open.add(socket);
        socket.setNoDelay(true);
        let rest = "";
        for await (const data of socket.setEncoding("latin1")) {
            rest += data;
            for (let command = readCommand(rest); command !== null; command = readCommand(rest)) {
                rest = rest.slice(command.end);
                if (!await this.reply(socket, command.words)) {
                    socket.destroy();
                    return;
                }
            }
        }
    }

    /** False: the connection is closed. */
    async reply(socket, words) {
        if (words[0] === "HELLO") {
            socket.write(this.greeting, "latin1");
            return true;
        }
        this.heard.push(words.join(" "));
        const answer = this.answers.shift() ?? this.then;
        for (const piece of answer.torn ? answer.send : [answer.send]) {
            if (piece !== "") {
                await new Promise((resolve) => socket.write(piece, "latin1", resolve));
            }
        }
        return !answer.close;
    }

    stop() {
        this.open.forEach((socket) => socket.destroy());
        return new Promise((resolve) => this.server.close(resolve));
    }
}

/** The first command, and where it ends; null if there is no whole one. */
function readCommand(bytes) {
    const head = /^\*(\d+)\r\n/.exec(bytes);
    if (head === null) {
        return null;
    }
    const words = [];
    let at = head[0].length;
    for (let i = 0; i < Number(head[1]); i++) {
        const end = bytes.indexOf("\r\n", at);
        const next = end + 2 + Number(bytes.slice(at + 1, end)) + 2;
        if (end < 0 || next > bytes.length) {
            return null;
        }
        words.push(bytes.slice(end + 2, next - 2));
        at = next;
    }
    return { words, end: at };
}

module.exports = { Fake };
