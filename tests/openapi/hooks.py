# SPDX-License-Identifier: Apache-2.0
"""What schemathesis cannot know from a description: texts with a grammar, names that must exist, leases that rationd
has signed (RATION_TICKETS), the rules (RATION_RULES), and which members exclude each other."""

import itertools
import json
import os
import re

import schemathesis
import urllib3
import yaml
from hypothesis import strategies as st

TEXTS = {
    "limit": ["100 per minute", "1000000 per second", "10 per second burst 50", "5 per 7 days"],
    "places": ["20 concurrent"],
    "rule-names": ["all", "all,completions,api", "nobody", "a%2Cb,api"],
    "rule-name": ["all", "completions", "api", "seats", "nobody"],
    "signal-name": ["backlog"],
    "period": ["current", "last", "2026", "2026-11", "2026-W47", "2026-11-18"],
    "pause-length": ["0s", "10ms", "Wed, 18 Nov 2020 08:30:00 GMT"],
    "network": ["192.0.2.7", "2001:db8::/32"],
    **json.loads(os.environ["RATION_TICKETS"]), # lease, place, charge: lists of texts
}
for name, texts in TEXTS.items():
    schemathesis.openapi.format(name, st.sampled_from(texts))

RULES = yaml.safe_load(os.environ["RATION_RULES"])

# Valid requests that are refused for what they mean under the rules of this daemon: no schema can say that.
MEANING = re.compile("|".join([
    '"error":"unmatched"',                        # the named rule does not apply to the attributes
    '"error":"bad_rules"',                        # rules have a schema of their own
    '"error":"nothing_to_try"',                   # they are those in force
    "its key (needs|has no room)",                # an override names the attributes of its rule's key
    "is not an IP address",                       # which may be addresses
    "there is no signal",                         # other rules have been put meanwhile
    "(keeps no usage|has no usage)",              # of this rule, client and period
    "of a concurrency limit are released",        # and not adjusted
    "cursor .* does not belong to this question", # cursors come from the page before
    "no other nodes share usage",                 # scope=fleet
    "did not sign it",                            # leases and charges are opaque
    "is no period|is not a length|in the limit",  # texts with a grammar
    "a log of more than",                         # of a limit and its algorithm together
    "a ban by [0-9]+ attr|the client to ban",     # null does not count
    "of [0-9]+ bytes",                            # schemas count characters
    "several limits apply to this request",       # drain works under one
]))


BOUNDS = (60, 86400, 315619200, 4611686018) # of seconds, in the descriptions


def plain(node):
    """Numbers as the descriptions say in words. Whole ones have no point: JSON Schema takes 1.0 for an integer as well.
    Seconds count to the nanosecond: what is out of bounds by less is so by more."""
    if isinstance(node, dict):
        return {key: plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, float):
        return node
    if 0.0009 < node < 0.001:
        return 0.0009
    return next((bound + 1 for bound in BOUNDS if bound < node < bound + 0.001), int(node) if node.is_integer() else node)


def is_number(value, low, high):
    return isinstance(value, (int, float)) and low <= value <= high


@schemathesis.hook
def before_call(context, case, kwargs):
    query, path = case.query, case.operation.path
    # A stream that goes on for long is no case: each that is in order has one line.
    if path == "/v1/live" and re.fullmatch("[1-9][0-9]*", str((query or {}).get("lines", 1))) and \
            int((query or {}).get("lines", 1)) <= 4294967295:
        query = case.query = {**(query or {}), "lines": 1}
    if isinstance(case.body, (dict, list)):
        case.body = plain(case.body)
    if query and path == "/v1/auth" and re.fullmatch(r"[0-9]+([.][0-9]+)?", str(query.get("wait", ""))):
        query["wait"] = plain(float(query["wait"]))
    # The caller chooses the status of refusals: two of those that are described, not all that there are.
    if query and path == "/v1/auth" and str(query.get("deny", "")).isdigit() and is_number(int(query["deny"]), 400, 599):
        query["deny"] = 403 if int(query["deny"]) % 2 else 429
    # A pause would end all that follows: none is longer than a moment.
    if path == "/v1/pause" and isinstance(case.body, dict) and is_number(case.body.get("for"), 0.01, 86400):
        case.body["for"] = 0.01
    if case.meta is not None and case.meta.generation.mode.is_positive:
        leave_out(case)


def leave_out(case):
    """Of members that exclude each other, as their descriptions say, all but one."""
    path, query, body = case.operation.path, case.query or {}, case.body if isinstance(case.body, dict) else {}
    if path == "/v1/pause" and "key" in query:
        case.query = {"key": query["key"]}
    elif path == "/v1/pause" and case.operation.method != "post":
        case.query = {**query, "path": "/"}
    elif path == "/v1/pause" and isinstance(body.get("for"), str):
        body["for"] = "10ms"
    elif path == "/v1/rules" and body: # others would end what follows under the rules that there are
        case.body = {**RULES, "mode": "enforce"}
    for each in body.get("checks", [body]):
        cost = each.get("cost", 1)
        for name in ("peek", "wait", "drain")[:3 if cost < 0 else 2 if each.get("drain") else 0]:
            each.pop(name, None)
        if "burst" in each.get("limit", ""):
            each.pop("algorithm", None)


def is_sound_as_sent(case):
    """A query has no types: numbers arrive as texts, and lists and objects as parameters with brackets in their names,
    which attributes may have."""
    query = case.query or {}
    return case.operation.path == "/v1/pause" and len(query) <= 128 and \
        any("[" in name or not isinstance(value, str) for name, value in query.items())


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Keeps all failures but those of MEANING, and of requests whose fault is lost on their way."""
    kind = type(failure).__name__
    return not (kind == "RejectedPositiveData" and MEANING.search(response.text) or
                kind == "AcceptedNegativeData" and is_sound_as_sent(case))


class Elsewhere(urllib3.connection.HTTPConnection):
    """A connection from an address of this machine that no other one has: after ten wrong tokens from one address
    rationd looks at no further one for a while."""
    opened = itertools.count(1)

    def __init__(self, *args, **more):
        number = next(self.opened)
        super().__init__(*args, **{**more, "source_address": (f"127.1.{number // 250}.{number % 250 + 1}", 0)})


urllib3.connectionpool.HTTPConnectionPool.ConnectionCls = Elsewhere
