# SPDX-License-Identifier: Apache-2.0
"""A site in Flask: two handlers that note what they were called with. Usage: app.py PORT"""

import logging
import sys

import flask

app = flask.Flask(__name__)
calls = []


@app.post("/login")
def login():
    calls.append("login " + flask.request.path)
    return "login"


@app.post("/items/<item>/buy")
def buy(item):
    calls.append("buy " + item)
    return "buy"


@app.get("/calls")
def tell():
    return flask.jsonify(calls)


logging.getLogger("werkzeug").setLevel(logging.ERROR)
app.run("127.0.0.1", int(sys.argv[1]), threaded=True)
