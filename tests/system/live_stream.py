# SPDX-License-Identifier: Apache-2.0
"""A reader of GET /v1/live, and what its tests ask of a daemon.

    with Stream(daemon, ["api"]) as stream:
        line = stream.line()
        assert line["total"]["allowed"] == 0

The chunks must be right: http.client takes them apart, and `ended` is true only after the last one.
"""

import json
import re
import urllib.parse


def names(rules):
    """As the parameter `rules` has them: escaped within the list, and once more as a part of a query."""
    return urllib.parse.quote(",".join(urllib.parse.quote(name, safe="") for name in rules), safe="")


class Stream:
    def __init__(self, daemon, rules=None, headers=None):
        self.connection = daemon.connection("admin")
        self.connection.request("GET", "/v1/live" + ("" if rules is None else f"?rules={names(rules)}"), headers=headers or {})
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        assert self.status in (200, 401, 503), self.answer.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.close()
        self.answer.close()

    def line(self):
        """The next line; None: the stream has ended as it should."""
        text = self.answer.readline()
        assert text == b"" or text.endswith(b"\n"), text
        return json.loads(text) if text else None

    def until(self, condition):
        """All lines up to the first for which it holds."""
        lines = [self.line()]
        while not condition(lines[-1]):
            assert lines[-1] is not None, "the stream has ended"
            lines.append(self.line())
        return lines


def metric(daemon, name):
    """The value of a metric without labels."""
    page = daemon.admin("GET", "/metrics?rules=none").text
    return float(re.search(rf"^{name} (\S+)$", page, re.M)[1])


def history(daemon, rules=None, span="hour"):
    return daemon.admin("GET", f"/v1/history?span={span}" + ("" if rules is None else f"&rules={names(rules)}")).json


def sums(series):
    """What each kind of number adds up to."""
    return {kind: sum(n for n in numbers if n is not None) for kind, numbers in series.items() if kind not in ("name", "p50", "p99")}
