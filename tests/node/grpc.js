// SPDX-License-Identifier: Apache-2.0
// Calls of Envoy's rate limit service by grpc-js.
//
//   node grpc.js ADDRESS < calls     each line {"method", "request": base64, "times",
//                                    "timeout": seconds, "cancel": bool}
//
// Prints a line for each: a list of {"code", "message", "response": base64}. The calls
// of one line are on their way at the same time.
'use strict';

const grpc = require('@grpc/grpc-js');
const readline = require('readline');

const same = (bytes) => bytes;
const client = new grpc.Client(process.argv[2], grpc.credentials.createInsecure());

function ask({ method, request, timeout = 20, cancel = false }) {
  return new Promise((resolve) => {
    const options = { deadline: Date.now() + timeout * 1000 };
    const call = client.makeUnaryRequest(method, same, same, Buffer.from(request, 'base64'),
      new grpc.Metadata(), options, (error, response) => resolve(error
        ? { code: error.code, message: error.details }
        : { code: 0, response: response.toString('base64') }));
    if (cancel) call.cancel();
  });
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const answers = await Promise.all(Array.from({ length: asked.times || 1 }, () => ask(asked)));
    console.log(JSON.stringify(answers));
  }
  client.close();
}

main();
