# SPDX-License-Identifier: Apache-2.0
"""Lines of two nodes for a limit that they share by a real Redis, which is frozen and killed meanwhile.

Calls come over one gRPC connection to each node: they arrive in their order, and the headers of the answers leave
in the order of the decisions.
"""

import contextlib
import re
import select
import threading
import time

import pytest

import http2
import rls
from daemon import PATIENCE, Daemon, wait_for
from redis_server import RedisServer, silence
from stillclock import StillClock

OPTIONS = ["--grpc", "127.0.0.1:0", "--resp", "none", "--memory", "4M", "--redis-nodes", 2]
RULES = """
apply_to_envoy: true
limits:
  - {{name: line, key: user, limit: {limit}, consistency: {consistency}, on_store_failure: {failure},
     queue: {{size: 200, max_wait: 55s}}}}
  - {{name: shop, key: [user, shop], when: {{shop: {{present: true}}}}, limit: 1000 per second}}
"""
STEP = 4  # seconds after which a window has ended


class Calls:
    """`turns`: the numbers of the calls in the order of their answers; `answers`: by number."""

    def __init__(self, node):
        self.peer = http2.Peer(node.socket("grpc"))
        self.asked, self.turns, self.answers = 0, [], {}

    def ask(self, user, count, **more):
        call = http2.message(rls.request("shop", {"user": user, **more}).SerializeToString())
        for _ in range(count):
            stream = 2 * self.asked + 1
            self.peer.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.block(http2.CALL)),
                           http2.frame(http2.DATA, http2.END_STREAM, stream, call))
            self.asked += 1

    def read(self):
        """One frame."""
        kind, _, stream, payload = self.peer.read()
        number = stream // 2
        if kind == http2.HEADERS and number not in self.turns:
            self.turns.append(number)
        elif kind == http2.DATA:
            self.answers[number] = rls.RateLimitResponse.FromString(payload[5:])

    def admitted(self):
        return [i for i in self.turns if self.answers[i].overall_code == rls.OK]


def collect(callers, count):
    """Reads until all of them together have so many answers."""
    until = time.monotonic() + PATIENCE
    while sum(len(c.answers) for c in callers) < count:
        assert time.monotonic() < until, [len(c.answers) for c in callers]
        ready = [c for c in callers if c.peer.buffer] or [
            c for c in callers if c.peer.socket in select.select([c.peer.socket for c in callers], [], [], 0.1)[0]]
        for c in ready:
            c.read()


def metric(node, name):
    return float(re.search("^" + re.escape(name) + r" (\S+)", node.admin("GET", "/metrics").text, re.M)[1])


def wait_until(nodes, waiting):
    for node in nodes:
        wait_for(lambda: metric(node, "ration_waiting") == waiting, f"{waiting} in line")


@contextlib.contextmanager
def two_nodes(folder, clock=None, deadline="10s", limit="20 per 2 seconds, algorithm: fixed-window",
              consistency="strict", failure="refuse", workers=2):
    """Redis and the nodes have one clock."""
    rules = RULES.format(limit=limit, consistency=consistency, failure=failure)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder, clock))
        server.flush_and_vouch()
        nodes = []
        for name in ("one", "other"):
            (folder / name).mkdir()
            nodes.append(stack.enter_context(Daemon(
                folder / name, rules,
                [*OPTIONS, "--workers", workers, "--redis", server.url, "--redis-deadline", deadline],
                env=clock.env() if clock else None)))
        wait_for(lambda: all(node.admin("GET", "/readyz").json["store"] == "up" for node in nodes))
        yield server, nodes


class CountedCalls:
    """How often Redis is asked about the states of limits, as its MONITOR reports."""

    def __init__(self, server):
        self.client = server.client()
        self.lines, self.count = self.client.monitor(), 0
        self.lines.__enter__()
        self.marks = set()
        self.server = server
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        with contextlib.suppress(Exception):  # the connection is closed at the end
            for line in self.lines.listen():
                text = line["command"]
                if text.startswith("ECHO mark-"):
                    self.marks.add(text)
                elif text.upper().startswith("EVALSHA") and re.search(r"ration:\{[^}]*\}:\w:", text):
                    self.count += 1

    def so_far(self):
        """All calls before this one are counted then."""
        mark = f"mark-{len(self.marks)}"
        with self.server.client() as client:
            client.echo(mark)
        wait_for(lambda: f"ECHO {mark}" in self.marks, "the mark in MONITOR")
        return self.count


@pytest.fixture
def clock(tmp_path):
    return StillClock(tmp_path / "clock")


def use_up(node, units=20):
    first = Calls(node)
    first.ask("ann", units)
    collect([first], units)
    assert len(first.admitted()) == units
    first.peer.socket.close()


def ask_in_order(node, caller, count):
    """Each when the one before is answered or stands in line: what is being decided has no place yet."""
    answered = metric(node, 'ration_requests_total{protocol="grpc"}')
    for i in range(count):
        caller.ask("ann", 1)
        wait_for(lambda: metric(node, 'ration_requests_total{protocol="grpc"}') + metric(node, "ration_waiting")
                 > answered + i)


def stand(node, count, connections, two_limits=lambda i: False):
    """So many calls in line, over these connections in turn, which belong to all threads of the node."""
    callers = [Calls(node) for _ in range(connections)]
    for i in range(count):
        callers[i % connections].ask("ann", 1, **({"shop": "a"} if two_limits(i) else {}))
        wait_until([node], i + 1)
    return callers


def in_line(callers, numbers):
    """Of calls over these connections, by `numbers` of each: their places in line, sorted."""
    return sorted(i * len(callers) + n for n, caller in enumerate(callers) for i in numbers(caller))


@pytest.mark.parametrize("workers, connections", [(1, 1), (2, 8), (4, 16)])
def test_a_node_asks_redis_once_for_each_opening_and_in_order(tmp_path, clock, workers, connections):
    """The calls of a node come over so many connections in turn, which belong to all of its threads. Both nodes
    take a part of each opening."""
    with two_nodes(tmp_path, clock, workers=workers) as (server, nodes):
        use_up(nodes[0])
        callers = [stand(node, 60, connections) for node in nodes]
        calls = CountedCalls(server)
        admitted = [0, 0]
        for step in range(6):
            before = calls.so_far()
            clock.advance(STEP)
            collect(sum(callers, []), 20 * (step + 1))
            assert 1 <= calls.so_far() - before <= len(nodes)
            for node, mine in enumerate(callers):
                turns = in_line(mine, lambda caller: caller.turns)
                assert turns == list(range(len(turns))), "those that came first, and nobody else"
                admitted[node] = len(turns)
        assert admitted == [60, 60]
        for caller in sum(callers, []):
            assert caller.admitted() == caller.turns == sorted(caller.turns)
        wait_until(nodes, 0)


@pytest.mark.parametrize("limit, others, two_limits, most", [
    (20, 7, lambda i: False, 1 + 1), (20, 7, lambda i: i % 5 < 3, None), (20, 7, lambda i: i % 5 > 1, None),
    (150, 80, lambda i: False, 2 + 2), (150, 80, lambda i: True, None)],
    ids=["one limit", "two limits first", "one limit first", "many", "many of two limits"])
def test_a_node_that_finds_a_part_of_an_opening_gives_it_to_the_first_in_line(tmp_path, clock, limit, others,
                                                                             two_limits, most):
    """Another node was faster. Some requests look at two limits before they are charged, and a call has 64 charges at
    most, so that a node needs several calls. `most`: calls of both nodes for an opening."""
    text = f"{limit} per 2 seconds, algorithm: fixed-window"
    with two_nodes(tmp_path, clock, limit=text, workers=4) as (server, nodes):
        calls = CountedCalls(server)
        use_up(nodes[0], limit)
        mine, turns = stand(nodes[0], 2 * (limit - others), 8, two_limits), 0
        for _ in range(2):
            faster = stand(nodes[1], others, 4)
            nodes[0].freeze()
            before = calls.so_far()
            clock.advance(STEP)
            collect(faster, others)
            nodes[0].thaw()
            turns += limit - others
            collect(mine, turns)
            assert most is None or calls.so_far() - before <= most
            assert in_line(mine, Calls.admitted) == list(range(turns)), "those that came first, and nobody else"
        wait_until(nodes, 0)


@contextlib.contextmanager
def without(server, how):
    """Redis is frozen, or killed and started again without its data."""
    if how == "frozen":
        with silence(server):
            yield
    else:
        server.stop()
        yield
        server.start()


def stores_are(nodes, state):
    wait_for(lambda: all(node.admin("GET", "/readyz").json["store"] == state for node in nodes), f"store {state}")


@pytest.mark.parametrize("failure, alone", [("refuse", 0), ("local", 20), ("allow", 60)])
@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_a_strict_line_goes_on_although_redis_fails(tmp_path, clock, how, failure, alone):
    """`alone`: how many the two nodes admit by themselves, each its half of the limit. The others wait on."""
    with two_nodes(tmp_path, clock, deadline="200ms", failure=failure, workers=4) as (server, nodes):
        use_up(nodes[0])
        callers = [stand(node, 30, 8) for node in nodes]
        with without(server, how):
            clock.advance(STEP)
            stores_are(nodes, "down")
            collect(sum(callers, []), alone)
        stores_are(nodes, "up")
        for answered in range(alone, 60, 20):
            clock.advance(STEP)
            collect(sum(callers, []), answered + 20)
            for mine in callers:
                turns = in_line(mine, Calls.admitted)
                assert turns == list(range(len(turns))), "those that came first, and nobody else"
        for mine in callers:
            assert in_line(mine, Calls.admitted) == list(range(30)), "all"
        wait_until(nodes, 0)


@pytest.mark.parametrize("consistency", ["leased", "async"])
@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_all_have_their_turns_in_order_while_redis_fails(tmp_path, consistency, how):
    """On clocks that go on."""
    with two_nodes(tmp_path, None, "50ms", "20 per second burst 10", consistency, "local") as (server, nodes):
        callers = [Calls(node) for node in nodes]
        for node, caller in zip(nodes, callers):
            ask_in_order(node, caller, 40)
        collect(callers, 30)
        with without(server, how):
            collect(callers, 50)
        collect(callers, 80)
        for caller in callers:
            assert caller.admitted() == list(range(40)), "all, in the order of arrival"
