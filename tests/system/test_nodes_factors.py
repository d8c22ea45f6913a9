# SPDX-License-Identifier: Apache-2.0
"""Factors of limits that nodes share: signals change on all nodes at random under load, while Redis
is frozen, cut off or killed. Whatever happens, together the nodes admit no more than the largest
factor in force does.

The limits need a day to refill, so what the store's clock adds meanwhile is at most a few units:
admissions are counted, and no interval is measured."""

import contextlib
import random
import signal
import threading
import time

import pytest

from daemon import wait_for
from nodes import Load, Nodes
from redis_server import SEED

NODES = 3
AMOUNT = 3000
PATHS = ("/bucket", "/sliding")
CHANGED = "event=factor.changed"
ADAPT = "{ when: load above 10, to: 40%, restore: { for: 1s, by: 30%, every: 1s }SCOPE }"


def rules(mode, scope="node", elastic=False):
    text = "signals: { load: { source: push, expires: 1h } }\nlimits:\n"
    for path, algorithm in zip(PATHS, ("token-bucket", "sliding-window")):
        text += f"""
  - name: {path[1:]}
    when: {{ path: {path} }}
    key: user
    limit: {AMOUNT} per 24h
    algorithm: {algorithm}
    consistency: {mode}
    on_store_failure: refuse
    adapt: {ADAPT.replace("SCOPE", f", scope: {scope}")}
"""
        if elastic:
            text += "    elastic: { up_to: 150%, while: load below 5, for: 1s, by: 50%, every: 1s }\n"
    return text


def bound(mode, percent, elapsed_s, losses=0):
    """Units that all nodes may admit of one limit: async nodes hold 5 % of it as written."""
    most = AMOUNT * percent // 100 * (1 + losses)
    if mode == "async":
        most += AMOUNT // 20 * (1 + losses)
    return most + AMOUNT * percent / 100 * elapsed_s / 86400 + 2


def push(node, value):
    with contextlib.suppress(OSError, ConnectionError):
        node.admin("PUT", "/v1/signals/load", {"value": value})


def factors(nodes):
    return {row["factor"] for node in nodes.all
            for row in node.admin("GET", "/v1/signals").json["factors"]}


def all_pushed(nodes, value, factor):
    for node in nodes.all:
        push(node, value)
    wait_for(lambda: factors(nodes) == {factor}, f"a factor of {factor} everywhere")


class Weather:
    """Pushes another value to a node chosen at random, all the time."""

    def __init__(self, nodes, values):
        self.nodes, self.values, self.pushes = nodes, values, 0
        self.source, self.ending = random.Random(SEED), threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.ending.is_set():
            push(self.source.choice(self.nodes.all), self.source.choice(self.values))
            self.pushes += 1
            self.ending.wait(0.3 * self.source.random())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()


def counted(load, path):
    return sum(d.allowed for d in list(load.decisions) if d.path == path)


def until_spent(load, least):
    """Until clients have got most of both limits, and another thousand answers."""
    wait_for(lambda: all(counted(load, path) >= least for path in PATHS), f"{least} admissions")
    asked = len(load.decisions)
    wait_for(lambda: len(load.decisions) > asked + 1000, "more answers")


def judge(load, mode, percent, begun, losses=0):
    for path in PATHS:
        got = counted(load, path)
        assert got <= bound(mode, percent, time.monotonic() - begun, losses), (path, got)


@pytest.mark.parametrize("mode", ["strict", "leased", "async"])
def test_a_lowered_limit_is_lower_for_all_nodes_together(tmp_path, server, mode):
    with Nodes(tmp_path, rules(mode, "fleet"), [server.url] * NODES) as nodes:
        push(nodes[0], 100)  # binds the others
        wait_for(lambda: factors(nodes) == {0.4}, "lowered everywhere")
        begun = time.monotonic()
        with Load(nodes, PATHS) as load:
            until_spent(load, AMOUNT * 30 // 100)
        judge(load, mode, 40, begun)
        # What was refused is not remembered when there is more. (A bucket stays spent: its units were
        # bought at the higher price.)
        with Load(nodes, PATHS) as more:
            push(nodes[0], 0)
            wait_for(lambda: counted(more, "/sliding") >= AMOUNT * 40 // 100, "the rest")
            asked = len(more.decisions)
            wait_for(lambda: len(more.decisions) > asked + 1000, "more answers")
        load.decisions += more.decisions
        judge(load, mode, 100, begun)


@pytest.mark.parametrize("mode", ["strict", "leased", "async"])
def test_flapping_factors_admit_no_more_than_the_largest(tmp_path, server, mode):
    """Redis is frozen and cut off meanwhile, which loses nothing."""
    source = random.Random(SEED)
    with Nodes(tmp_path, rules(mode), [server.url] * NODES) as nodes:
        begun = time.monotonic()
        with Load(nodes, PATHS, pause=0.02) as load, Weather(nodes, [0, 7, 100]):
            for _ in range(4):
                asked = len(load.decisions)
                wait_for(lambda: len(load.decisions) > asked + 100, "answers")
                server.process.send_signal(signal.SIGSTOP)
                time.sleep(0.1 * source.random())
                server.process.send_signal(signal.SIGCONT)
                server.client().execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            wait_for(lambda: nodes.count_logged(CHANGED) >= 4 * NODES, "changes of factors")
        all_pushed(nodes, 0, 1)
        with Load(nodes, PATHS) as rest:
            wait_for(lambda: len(rest.decisions) > 3000, "the rest")
        load.decisions += rest.decisions
        judge(load, mode, 100, begun)


@pytest.mark.parametrize("mode", ["strict", "leased", "async"])
def test_a_surplus_over_redis_is_what_it_says_and_a_lost_redis_gives_no_more_than_once(tmp_path, server, mode):
    with Nodes(tmp_path, rules(mode, elastic=True), [server.url] * NODES) as nodes:
        begun = time.monotonic()
        all_pushed(nodes, 0, 1.5)
        with Load(nodes, PATHS) as load:
            until_spent(load, AMOUNT * 120 // 100)
        judge(load, mode, 150, begun)
        with Load(nodes, PATHS, pause=0.02) as again, Weather(nodes, [0, 7, 100]):
            server.process.kill()
            server.process.wait()
            asked = len(again.decisions)
            wait_for(lambda: len(again.decisions) > asked + 50, "answers without Redis")
            server.start()
            until_spent(again, AMOUNT * 20 // 100)
        load.decisions += again.decisions
        judge(load, mode, 150, begun, losses=1)


@pytest.mark.parametrize("mode", ["strict", "leased", "async"])
def test_units_given_back_at_another_factor_mint_nothing(tmp_path, server, mode):
    """If Redis answers too late, units may have been given back all the same."""
    source = random.Random(SEED)
    with Nodes(tmp_path, rules(mode), [server.url] * NODES, ["--redis-deadline", "5s"]) as nodes:
        begun, kept = time.monotonic(), dict.fromkeys(PATHS, 0)
        held = []

        def ask(word, body):
            return source.choice(nodes.all).http("POST", f"/v1/{word}", body)

        def settle_one():
            path, cost, lease = held.pop(source.randrange(len(held)))
            if source.random() < 0.6:
                answer = ask("refund", {"lease": lease})
                gone = cost if answer.status != 200 or answer.json["refunded"] else 0
            else:
                left = source.randint(0, cost)
                answer = ask("commit", {"lease": lease, "cost": left})
                gone = cost - left if answer.status != 200 or answer.json["committed"] else 0
            kept[path] -= gone

        with Weather(nodes, [0, 100]) as weather:
            rounds = 0
            while rounds < 400 or nodes.count_logged(CHANGED) < 4 * NODES:
                rounds += 1
                path, cost = source.choice(PATHS), source.randint(1, AMOUNT // 20)
                answer = ask("reserve", {"attributes": {"user": "ann", "path": path}, "cost": cost, "for": 3600})
                if answer.status == 200:
                    kept[path] += cost
                    held.append((path, cost, answer.json["lease"]))
                while len(held) > 25:
                    settle_one()
                for units in kept.values():
                    assert units <= bound(mode, 100, time.monotonic() - begun), (kept, weather.pushes)
        all_pushed(nodes, 0, 1)
        while held:
            settle_one()
        # The rest of each limit, one by one.
        with Load(nodes, PATHS) as rest:
            wait_for(lambda: len(rest.decisions) > 3 * AMOUNT, "the rest")
        for path in PATHS:
            got = counted(rest, path) + kept[path]
            assert got <= bound(mode, 100, time.monotonic() - begun), (path, got, kept)
