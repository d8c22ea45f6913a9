# SPDX-License-Identifier: Apache-2.0
"""A daemon for the tests of its admin port, and what they all ask of it."""

import re

import pytest

from daemon import Daemon

RULES = """
limits:
  - name: login
    when: { method: POST, path: /login }
    key: ip
    limit: 5 per minute
    algorithm: sliding-log
  - name: api
    when: { path: /api/** }
    key: [api_key, ip]
    limit:
      by: tier
      free: 100 per day
      pro: 10000 per minute burst 500
      enterprise: unlimited
      default: free
  - name: seats
    when: { path: /seats }
    key: user
    limit: 3 concurrent
deny:
  - { ip: 203.0.113.0/24 }
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("admin"), RULES) as d:
        yield d


@pytest.fixture
def own(tmp_path):
    """A daemon that the test may change as it likes."""
    with Daemon(tmp_path, RULES) as d:
        yield d


def log_line(d, event):
    """The line of that event, once it is there: a dict of its pairs."""
    line = d.logged(f" event={event} ")
    return {name: re.sub(r"\\(.)", r"\1", quoted) or plain
            for name, quoted, plain in re.findall(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\S+))', line)}


def login(ip, **more):
    return {"ip": ip, "method": "POST", "path": "/login", **more}


def state(d, rule, **attributes):
    query = "&".join(f"{k}={v}" for k, v in attributes.items())
    answer = d.admin("GET", f"/v1/state?rule={rule}&{query}")
    assert answer.status == 200, answer
    return answer.json["limits"]


def spend(d, n, attributes):
    for _ in range(n):
        d.http("POST", "/v1/check", {"attributes": attributes})


def refused(answer, status, error, *words):
    """That it is this error and its message has all of the words."""
    assert (answer.status, answer.json["error"]) == (status, error), answer
    for word in words:
        assert word in answer.json["message"], answer
    return True


def pages(d, path, name, **parameters):
    """Every page of a list, following `next`."""
    while True:
        query = "&".join(f"{k}={v}" for k, v in parameters.items())
        answer = d.admin("GET", f"{path}?{query}")
        assert answer.status == 200, answer
        yield answer.json[name]
        if "next" not in answer.json:
            return
        assert answer.json["next"] == answer.json[name][-1]["id"]
        parameters["after"] = answer.json["next"]
