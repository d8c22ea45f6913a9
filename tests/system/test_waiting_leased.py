# SPDX-License-Identifier: Apache-2.0
"""Lines of two nodes for leased limits of every algorithm that can be leased, while the Redis that they share is
frozen, or killed and started without its data. 200 wait for each key at each node; RATION_SOAK=1 has 10,000 on
1,000 keys, for one algorithm at a time.

Clocks go on. Requests come as those of a gateway, over one connection of each node, which tells each its turn in
the order of the decisions, and how long it has waited: so it is known when it was decided, however late it is read."""

import collections
import contextlib
import os
import re
import threading
import time

import pytest

from concurrent_clients import command
from daemon import PATIENCE, Daemon, wait_for
from in_line import decision
from redis_server import RedisServer, silence
from test_leased_store import excess, log_excess, window_excess

SOAK = bool(os.environ.get("RATION_SOAK"))
MAX_WAIT = 55
DEADLINE = 0.2
SLACK = 0.02  # s by which the clock of a decision may be coarse
SECOND = 10**9
LIMITS = {  # of n units a second
    "bucket": "{n} per second burst {half}",
    "steps": "{n} per second in steps of 1s",
    "window": "{n} per second, algorithm: fixed-window",
    "counter": "{n} per second, algorithm: sliding-window",
    "subs": "{twice} per 2 seconds, algorithm: sliding-window, sub_windows: 10",
    "log": "{n} per second, algorithm: sliding-log",
}


def rules(kinds, n):
    text = "limits:\n"
    for kind in kinds:
        limit = LIMITS[kind].format(n=n, half=max(1, n // 2), twice=2 * n)
        text += (f"  - {{name: {kind}, when: {{kind: {kind}}}, key: user, consistency: leased, limit: {limit},\n"
                 f"     on_store_failure: refuse, queue: {{size: 500, max_wait: {MAX_WAIT}s}}}}\n")
    return text


def too_many(kind, made, n):
    """By how many units a limit was exceeded; `made`: between which times each was decided, in ns."""
    if kind == "bucket":
        return excess(made, max(1, n // 2), n)
    if kind == "steps":  # a step may lie at the start
        return excess(made, 2 * n, n)
    if kind == "window":
        offset_ns = time.time_ns() - time.monotonic_ns()
        sure = [one for one in made if len({(at + offset_ns) // SECOND for at in one}) == 1]
        return max(excess(made, 2 * n, n), window_excess(sure, n, 1, offset_ns) if sure else 0)
    if kind == "log":
        return log_excess(made, n, 1)
    if kind == "subs":  # a part of a sub-window counts whole
        return log_excess(made, 2 * n, 1.8)
    return excess(made, 2 * n, n)  # weighted windows: see core/envelope.c


class Request:
    __slots__ = ("key", "sent", "stood", "allowed", "waited", "leaves")

    def __init__(self, key):
        self.key, self.sent, self.stood = key, time.monotonic(), None
        self.allowed = self.waited = None
        self.leaves = False

    def decided(self):
        """Between which times, in ns."""
        return (int((self.sent + self.waited - SLACK) * SECOND),
                int((self.stood + self.waited + SLACK + DEADLINE) * SECOND))


class Gateway:
    """Asks for many at one node, and leaves the reading to a thread. `turns`: in order of the decisions."""

    def __init__(self, node):
        self.resp, self.requests, self.turns, self.errors = node.resp(), [], [], []
        self.asked, self.left = collections.deque(), 0
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def ask(self, keys):
        data = []
        for kind, user in keys:
            self.asked.append(len(self.requests))
            data.append(command("RATION.CHECK", "kind", kind, "user", user, "FULL", "LINE", len(self.requests)))
            self.requests.append(Request((kind, user)))
        self.resp.socket.sendall(b"".join(data))

    def leave(self, numbers):
        self.asked.extend([None] * len(numbers))
        self.resp.socket.sendall(b"".join(command("RATION.LEAVE", number) for number in numbers))

    def _read(self):
        try:
            while True:
                if self.resp.file.peek(1)[:1] == b">":
                    self.resp.file.readline()
                    _, number, reply = (self.resp.read() for _ in range(3))
                    self._decided(self.requests[number], number, reply)
                else:
                    self._replied(self.resp.read())
        except (OSError, ValueError):
            pass  # closed
        except Exception as error:
            self.errors.append(repr(error))

    def _replied(self, reply):
        number = self.asked.popleft()
        if number is None:
            self.left += reply
            return
        self.requests[number].stood = time.monotonic()
        if reply[0] != b"WAIT":
            self._decided(self.requests[number], number, reply)

    def _decided(self, request, number, reply):
        told = decision(reply)
        request.waited = told.get("waited") or 0.0
        request.allowed = told["allowed"]
        self.turns.append(number)

    def close(self):
        self.resp.socket.shutdown(2)
        self.thread.join()
        self.resp.close()


def metric(node, name):
    found = re.findall("^" + re.escape(name) + r"(?:\{[^}]*\})? (\S+)", node.admin("GET", "/metrics").text, re.M)
    return sum(map(float, found))


@contextlib.contextmanager
def two_nodes(folder, text):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder))
        server.flush_and_vouch()
        nodes = []
        for name in ("one", "other"):
            (folder / name).mkdir()
            nodes.append(stack.enter_context(Daemon(
                folder / name, text, ["--workers", 2, "--memory", "32M", "--redis", server.url, "--redis-nodes", 2,
                                      "--redis-deadline", f"{int(DEADLINE * 1000)}ms"])))
        stores_are(nodes, "up")
        yield server, nodes


def stores_are(nodes, state):
    wait_for(lambda: all(node.admin("GET", "/readyz").json["store"] == state for node in nodes), f"store {state}")


@contextlib.contextmanager
def without(server, how):
    if how == "frozen":
        with silence(server):
            yield
    else:
        server.stop()
        yield
        server.start()


def run(folder, how, kinds, users, each, n):
    """`each` requests of all users at both nodes. Redis is away after an eighth of them had their turn; a tenth of
    the others leaves meanwhile."""
    keys = [(kind, user) for kind in kinds for user in users(kind)]
    leased = 0
    with two_nodes(folder, rules(kinds, n)) as (server, nodes):
        gateways = [Gateway(node) for node in nodes]
        for _ in range(each):  # what is being decided has no place in line yet
            for gateway in gateways:
                gateway.ask(keys)
            wait_for(lambda: not any(gateway.asked for gateway in gateways), "answers", 2 * PATIENCE)
        count = len(keys) * each

        def answered():
            assert not any(gateway.errors for gateway in gateways), [g.errors for g in gateways]
            return sum(len(gateway.turns) for gateway in gateways)

        wait_for(lambda: answered() > count // 4, "an eighth of both")
        leased = [metric(node, "ration_leased_keys") for node in nodes]
        with without(server, how):
            stores_are(nodes, "down")
            for gateway in gateways:
                numbers = [i for i, r in enumerate(gateway.requests) if r.waited is None and i % 10 == 7]
                gateway.leave(numbers)
            wait_for(lambda: all(not gateway.asked for gateway in gateways), "those that leave are answered")
        stores_are(nodes, "up")
        wait_for(lambda: answered() + sum(g.left for g in gateways) == 2 * count,
                 "all are answered", MAX_WAIT + 10)
        wait_for(lambda: all(metric(node, "ration_waiting") == 0 for node in nodes))
        admitted = sum(metric(node, "ration_rule_decisions_total") for node in nodes)
        for gateway in gateways:
            gateway.close()
    judge(gateways, keys, n)
    assert sum(gateway.left for gateway in gateways) > 0
    return leased, admitted


def judge(gateways, keys, n):
    made = collections.defaultdict(list)
    for gateway in gateways:
        turns = collections.defaultdict(list)
        for number in gateway.turns:
            request = gateway.requests[number]
            assert request.waited <= MAX_WAIT + DEADLINE + 1, request.waited
            assert request.allowed, (request.key, request.waited)
            turns[request.key].append(number)
            made[request.key].append(request.decided())
        for key, numbers in turns.items():
            assert numbers == sorted(numbers), key
    for key in keys:
        assert too_many(key[0], made[key], n) <= 1, key


@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_200_at_each_node_go_in_order_while_redis_fails(tmp_path, how):
    leased, _ = run(tmp_path, how, list(LIMITS), lambda kind: ["ann"], 200, 100)
    assert all(leased), leased


if SOAK:
    @pytest.mark.parametrize("kind", list(LIMITS))
    @pytest.mark.parametrize("how", ["frozen", "killed"])
    def test_10_000_on_1_000_keys_go_in_order_while_redis_fails(tmp_path, how, kind):
        run(tmp_path, how, [kind], lambda kind: [f"user-{i}" for i in range(1000)], 5, 1)
