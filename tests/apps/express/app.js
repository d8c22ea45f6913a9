// SPDX-License-Identifier: Apache-2.0
// A site in Express: two handlers that note what they were called with. Usage: app.js PORT
'use strict';
const express = require('express');

const app = express();
const calls = [];

app.post('/login', (request, response) => {
  calls.push('login ' + request.path);
  response.send('login');
});
app.post('/items/:item/buy', (request, response) => {
  calls.push('buy ' + request.params.item);
  response.send('buy');
});
app.get('/calls', (request, response) => response.json(calls));
app.use((error, request, response, next) => response.status(error.status || 500).end());

app.listen(Number(process.argv[2]), '127.0.0.1');
