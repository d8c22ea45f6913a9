# SPDX-License-Identifier: Apache-2.0
"""Nodes that share nothing behind real balancers, as examples/sticky/ sets them up: a key is
counted by one node, and a node that goes or comes moves only the keys that it must."""

import contextlib

import pytest

from concurrent_clients import in_threads, pair
from daemon import ROOT, Daemon, free_port, wait_for
from proxies import Envoy as AuthEnvoy
from proxies import Nginx as AuthNginx
from proxies import Proxy, installed

EXAMPLES = ROOT / "examples/sticky"
LIMIT = 5
# Nothing grows back while a test runs.
RULES = (EXAMPLES / "ration.yaml").read_text().replace("100 per minute burst 20", f"{LIMIT} per day")
KEYS = [f"key-{n}" for n in range(90)]
PLACES = ("8081", "8082", "8083")


class Nginx(AuthNginx):
    examples, listens = EXAMPLES, "8080"


class Haproxy(Proxy):
    examples, listens = EXAMPLES, "8080"

    def command(self):
        return ["haproxy", "-db", "-f", self.copy("haproxy.cfg")]


class Envoy(AuthEnvoy):
    examples, listens = EXAMPLES, "8080"


BALANCERS = {"nginx": Nginx, "haproxy": Haproxy, "envoy": Envoy}


# Envoy has no health checks here, and a ring of one size: docs/sticky.md.
WITH_CHECKS = pytest.mark.parametrize("kind", ["nginx", "haproxy"], indirect=True)


@pytest.fixture(params=BALANCERS)
def kind(request):
    return installed(BALANCERS, request.param)


class BalancedNodes:
    """Three nodes; balancers are started in front of them."""

    def __init__(self, folder):
        self.folder, self.stack = folder, contextlib.ExitStack()
        self.ports = dict(zip(PLACES, (str(free_port()) for _ in PLACES)))
        self.nodes = []
        for place, port in self.ports.items():
            (folder / place).mkdir()
            self.nodes.append(Daemon(folder / place, RULES, ["--http", f"127.0.0.1:{port}",
                                                             "--memory", "2M", "--workers", "1"]))
            self.stack.push(self.nodes[-1])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self.stack.__exit__(*error)

    def balancer(self, kind, without=()):
        """`without`: nodes that its list does not have."""
        class Shorter(kind):
            def copy(self, name, edit=lambda text: text):
                return super().copy(name, lambda text: edit("".join(
                    line for line in text.splitlines(True)
                    if not any(self.ports[place] in line for place in without))))

        folder = self.folder / f"balancer{without}"
        folder.mkdir(exist_ok=True)
        balancer = Shorter(folder, self.ports, "allow") # its timeouts as shipped
        self.stack.callback(balancer.close)
        return balancer

    def spent(self, key):
        """By node; those that are away have None."""
        spent = []
        for node in self.nodes:
            if node.process is None:
                spent.append(None)
                continue
            with node.resp() as resp:
                reply = resp("RATION.CHECK", "header.x-ration-key", key, "PEEK")
                spent.append(LIMIT - pair(reply, "remaining"))
        return spent

    def places(self, keys=KEYS):
        """The one node that has counted each key."""
        found = {}
        for key in keys:
            counted = [index for index, spent in enumerate(self.spent(key)) if spent]
            assert len(counted) == 1, f"{key} was counted by {counted}"
            found[key] = counted[0]
        return found


@pytest.fixture
def balanced(tmp_path):
    with BalancedNodes(tmp_path) as running:
        yield running


def ask(balancer, key):
    return balancer.ask(path="/v1/auth", headers={"X-Ration-Key": key}).status


def ask_all(balancer, keys=KEYS):
    assert {ask(balancer, key) for key in keys} == {200}


def test_each_key_is_counted_by_one_node_and_exactly(balanced, kind):
    balancer = balanced.balancer(kind)
    answers = in_threads(8, lambda _: [ask(balancer, key) for key in KEYS])
    for of_key in zip(*answers):
        assert sorted(of_key) == [200] * LIMIT + [429] * (8 - LIMIT)
    places = list(balanced.places().values())
    assert all(places.count(index) > len(KEYS) / 9 for index in range(3)), "all have work"


def test_a_client_without_a_key_is_counted_by_address(balanced, kind):
    balancer = balanced.balancer(kind)
    statuses = [balancer.ask(path="/v1/auth", client="127.0.0.9").status for _ in range(LIMIT + 2)]
    assert statuses == [200] * LIMIT + [429] * 2


def test_two_balancers_agree(balanced, kind):
    first, second = balanced.balancer(kind), balanced.balancer(kind)
    ask_all(first)
    ask_all(second)
    assert {sum(balanced.spent(key)) for key in KEYS} == {2}
    balanced.places()


def test_a_node_that_is_gone_moves_its_keys_alone_and_has_them_back(balanced, kind):
    balancer = balanced.balancer(kind)
    ask_all(balancer)
    before = balanced.places()
    balanced.nodes[1].kill()
    ask_all(balancer)
    for key, place in before.items():
        spent = balanced.spent(key)
        if place == 1:
            assert sorted(spent[::2]) == [0, 1], "starts full on one of the others"
        else:
            assert spent[place] == 2 and spent[2 - place] == 0, "stays where it was"
    balanced.nodes[1].start()
    moved = [key for key, place in before.items() if place == 1]
    wait_for(lambda: (ask(balancer, moved[0]), balanced.spent(moved[0])[1])[1], "the first is back")
    ask_all(balancer, moved[1:])
    assert all(balanced.spent(key)[1] == 1 for key in moved[1:])
    print(f"{len(moved)} of {len(KEYS)} keys moved")


def test_a_key_that_moves_gets_one_burst_more_for_each_time(balanced, kind):
    """docs/sticky.md, When a node goes or comes."""
    balancer = balanced.balancer(kind)
    ask_all(balancer)
    key = next(key for key, place in balanced.places().items() if place == 0)

    def spend():
        return sum(ask(balancer, key) == 200 for _ in range(LIMIT + 3))

    assert spend() == LIMIT - 1
    balanced.nodes[0].kill()
    assert spend() == LIMIT
    balanced.nodes[0].start()
    wait_for(lambda: (ask(balancer, key), balanced.spent(key)[0])[1], "it is back")
    assert spend() == LIMIT - 1


@WITH_CHECKS
def test_a_node_that_comes_takes_its_share_from_all_others(balanced, kind):
    ask_all(balanced.balancer(kind, without=("8083",)))
    before = balanced.places()
    ask_all(balanced.balancer(kind))
    moved = 0
    for key, place in before.items():
        spent = balanced.spent(key)
        moved += spent[2]
        assert spent[place] == (1 if spent[2] else 2) and sum(spent) == 2
    assert len(KEYS) / 9 < moved < len(KEYS) * 5 / 9, "about a third"
    print(f"{moved} of {len(KEYS)} keys moved")


@WITH_CHECKS
def test_a_frozen_node_costs_a_request_its_second_and_then_its_keys_are_counted_elsewhere(balanced, kind):
    balancer = balanced.balancer(kind)
    ask_all(balancer)
    moved = [key for key, place in balanced.places().items() if place == 1]
    balanced.nodes[1].freeze()
    try:
        assert ask(balancer, moved[0]) in (504, 200) # 200: its health check was quicker
        wait_for(lambda: ask(balancer, moved[1]) == 200, "another node answers for it")
    finally:
        balanced.nodes[1].thaw()
    wait_for(lambda: (ask(balancer, moved[2]), balanced.spent(moved[2])[1] > 1)[1], "it is asked again")
