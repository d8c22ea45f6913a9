# SPDX-License-Identifier: Apache-2.0
"""Usage of clients over several nodes that share a Redis: at least what clients were told, at most
that and what was not answered when nodes were killed; equal sums once all nodes are back."""

import collections
import contextlib
import os
import random
import signal
import threading
import time

from concurrent_clients import command
from daemon import PATIENCE, Daemon, wait_for
from nodes import metric
from ration_command import run
from redis_cluster import RedisCluster
from redis_server import RedisServer

SOAK = os.environ.get("RATION_SOAK") == "1"
USAGE, FILES = "ration:{fleet}:usage", "ration:{fleet}:usage:files"
RULES = """
limits:
  - name: api
    key: user
    limit: 400 per second
    usage: { per: year }
"""
WORDS = ("admitted", "refused", "corrected")


class Node(Daemon):
    def __init__(self, folder, name, url, rules=RULES, start=True):
        folder = folder / name
        folder.mkdir(exist_ok=True)
        super().__init__(folder, rules, ["--workers", 1, "--memory", "2M", "--redis", url,
                                         "--state", folder / "state"], start=start)

    def take(self, user, times=1):
        for _ in range(times):
            assert self.http("POST", "/v1/check", {"attributes": {"user": user}}).status == 200

    def usage(self, **query):
        """All pages: rows, and the nodes that are missing. A Redis that does not answer in time is a 503:
        then once more, since a busy machine may be slow."""
        rows, missing, cursor = [], [], None
        while True:
            words = {**query, **({"cursor": cursor} if cursor else {})}
            path = "/v1/usage?" + "&".join(f"{k}={v}" for k, v in words.items())
            answer = wait_for(lambda: (a := self.admin("GET", path)).status != 503 and a, "Redis answers")
            assert answer.status == 200, answer
            rows += answer.json["usage"]
            missing = answer.json.get("missing", [])
            cursor = answer.json.get("next")
            if not cursor:
                return rows, missing

    def sums(self, **query):
        """By client; each must come once."""
        rows = self.usage(**query)[0]
        assert len({(row["rule"], row["client"], row["period"]) for row in rows}) == len(rows)
        return {row["client"]: tuple(row[word] for word in WORDS) for row in rows}

    def count_logged(self, text):
        return sum(text in line for line in self.log)


@contextlib.contextmanager
def fleet(folder, count=3, **options):
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(folder))
        yield server, [stack.enter_context(Node(folder, f"node{i}", server.url, **options)) for i in range(count)]


def added_up(nodes):
    """What the nodes have counted, each in its own file."""
    sums = collections.defaultdict(lambda: (0, 0, 0))
    for node in nodes:
        for client, row in node.sums(scope="node").items():
            sums[client] = tuple(a + b for a, b in zip(sums[client], row))
    return dict(sums)


def agree(nodes):
    """Waits until every node tells the same sums, which are those of all files, and none is missing."""
    def do_they():
        if any(node.admin("GET", "/v1/usage").status == 503 for node in nodes):
            return None  # without Redis
        sums = added_up(nodes)
        return (sums,) if all(node.sums() == sums and not node.usage()[1] for node in nodes) else None
    return wait_for(do_they, "equal sums")[0]


def test_the_sums_of_all_nodes_are_told_by_each(tmp_path):
    with fleet(tmp_path) as (_, nodes):
        for i, node in enumerate(nodes):
            node.take("ann", i + 1)
            node.take(f"only{i}")
        sums = agree(nodes)
        assert sums == {"ann": (6, 0, 0), "only0": (1, 0, 0), "only1": (1, 0, 0), "only2": (1, 0, 0)}
        assert nodes[1].sums(scope="node") == {"ann": (2, 0, 0), "only1": (1, 0, 0)}
        assert nodes[0].sums(client="ann") == {"ann": (6, 0, 0)}
        assert nodes[0].sums(client="nobody") == {} and nodes[0].sums(rule="api") == sums
        assert nodes[0].sums(period="current") == sums and nodes[0].sums(period="last") == {}
        row = nodes[0].usage(client="ann")[0][0]
        local = nodes[0].usage(client="ann", scope="node")[0][0]
        assert {k: row[k] for k in ("rule", "period", "start", "end", "zone", "other")} == \
               {k: local[k] for k in ("rule", "period", "start", "end", "zone", "other")}
        period = row["period"]
        assert nodes[0].sums(period=period) == sums and nodes[0].sums(period="1999") == {}
        # A correction on one node.
        answer = nodes[2].admin("POST", "/v1/usage", {"rule": "api", "client": "ann", "period": period,
                                                      "units": -2, "note": "test"})
        assert answer.status == 200 and answer.json["scope"] == "node", answer
        assert agree(nodes)["ann"] == (6, 0, -2)
        done = run("usage", "correct", "--rule", "api", "--client", "ann", "--period", period, "--units", "1",
                   env={"RATION_ADMIN": nodes[2].addresses["admin"]})
        assert done.status == 0 and "so on this node; ration usage has the sum of all\n" in done.out, done
        assert agree(nodes)["ann"] == (6, 0, -1)
        for i in range(60):
            nodes[i % 3].take(f"user{i}")
        sums = agree(nodes)
        assert len(sums) == 64
        for limit in (1, 7, 63, 64, 1000):  # in pages, each client once
            assert nodes[0].sums(limit=limit) == sums


def test_nodes_that_are_away_are_named(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        for node in nodes:
            node.take("ann")
        agree(nodes)
        nodes[1].kill()
        # As if ten seconds had passed.
        client = server.client()
        files = client.hgetall(FILES)
        wait_for(lambda: any(client.hget(FILES, file) != text for file, text in files.items()), "the living reports")
        silent = next(file for file, text in files.items() if client.hget(FILES, file) == text)
        seen, *rest = files[silent].split()
        client.hset(FILES, silent, b" ".join([b"%d" % (int(seen) - 10), *rest]))
        rows, missing = nodes[0].usage()
        assert len(missing) == 1 and silent.decode() in str(missing[0])
        assert rows[0]["admitted"] == 2, "what it has published counts"
        nodes[1].start()
        agree(nodes)


def test_a_node_that_stops_leaves_nothing_behind(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        agree(nodes)
        for i in range(30):
            nodes[1].take(f"user{i}")
        nodes[1].stop()
        assert len(nodes[0].sums()) == 30
        assert server.client().hlen(FILES) == 1 and nodes[0].usage()[1] == []
        nodes[1].start()
        nodes[1].take("user0")
        assert agree(nodes)["user0"] == (2, 0, 0)


def test_without_redis_nodes_count_on_and_publish_all_when_it_is_back_empty(tmp_path):
    with fleet(tmp_path, 2) as (server, nodes):
        for node in nodes:
            node.take("ann", 3)
        agree(nodes)
        server.process.send_signal(signal.SIGSTOP)
        nodes[0].take("bob", 2)
        assert nodes[0].admin("GET", "/v1/usage").status == 503
        assert nodes[0].sums(scope="node") == {"ann": (3, 0, 0), "bob": (2, 0, 0)}
        server.process.kill()
        server.process.wait()
        nodes[0].take("ann")
        server.start()
        assert agree(nodes) == {"ann": (7, 0, 0), "bob": (2, 0, 0)}
        # A restart with the same file counts nothing twice.
        nodes[0].kill()
        nodes[0].start()
        nodes[0].take("bob")
        assert agree(nodes) == {"ann": (7, 0, 0), "bob": (3, 0, 0)}


def test_what_is_malformed_is_not_counted(tmp_path):
    with fleet(tmp_path, 1) as (server, nodes):
        nodes[0].take("ann", 2)
        agree(nodes)
        client = server.client()
        bucket = next(key for key in client.keys(USAGE + ":*:*"))
        file = client.hkeys(FILES)[0]
        client.hset(bucket, mapping={b"junk": b"1 2 3 4", file + b"cann2": b"9 100 0 0", file + b"xann": b"9 100 0 0",
                                     b"f" * 16 + b"cann": b"1 2 3"})
        client.hset(USAGE, mapping={b"junk": b"x", b"f" * 16: b"9 1900000000 1 1900000000 3 2026 UTC api"})
        client.hset(FILES, "junk", "x")
        assert nodes[0].sums() == {"ann": (2, 0, 0)}
        assert metric(nodes[0], "ration_fleet_usage_refused_total") == 7
        nodes[0].sums()
        nodes[0].logged(" event=fleet.usage_refused ")
        assert nodes[0].count_logged("event=fleet.usage_refused ") == 1
        client.delete(FILES)
        client.set(FILES, "a text")  # Redis refuses the call
        nodes[0].take("ann")
        assert "WRONGTYPE" in nodes[0].logged(" event=fleet.usage_failed ")
        assert nodes[0].sums(scope="node")["ann"] == (3, 0, 0)
        client.delete(FILES)
        assert agree(nodes)["ann"] == (3, 0, 0)


def test_usage_is_shared_through_a_cluster(tmp_path):
    with RedisCluster(tmp_path) as cluster, \
         Node(tmp_path, "one", cluster.url()) as one, Node(tmp_path, "two", cluster.url()) as two:
        for i in range(50):
            (one, two)[i % 2].take(f"user{i % 10}")
        assert agree([one, two]) == {f"user{i}": (5, 0, 0) for i in range(10)}


class Clients:
    """Clients of all nodes that note, for each user, what they asked for and what they were told."""

    USERS = [f"user{i}" for i in range(40)]
    DEPTH = 64  # requests under way: kills must find some that are counted and not answered

    def __init__(self, nodes):
        self.nodes, self.failures = nodes, []
        self.asked, self.told = collections.Counter(), collections.Counter()
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(len(nodes))]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join(PATIENCE)
        if kind is None:
            assert not self.failures, self.failures
            assert not any(thread.is_alive() for thread in self.threads), "an answer never came"

    def run(self, index):
        dice = random.Random(index)
        try:
            while not self.ending.is_set():
                with contextlib.suppress(ConnectionError, EOFError, LookupError, TimeoutError):
                    self.talk(index, dice)
                self.ending.wait(0.01)
        except Exception as failure:  # told by __exit__
            self.failures.append(repr(failure))

    def talk(self, index, dice):
        with self.nodes[index].resp() as resp:
            while not self.ending.is_set():
                run = [(dice.choice(self.USERS), dice.choice((1, 1, 1, 7))) for _ in range(dice.randint(1, self.DEPTH))]
                with self.lock:
                    for user, cost in run:
                        self.asked[user] += cost
                resp.socket.sendall(b"".join(command("RATION.CHECK", "user", user, "COST", cost) for user, cost in run))
                for user, cost in run:
                    reply = resp.read()
                    assert reply[0] == b"allowed", reply
                    with self.lock:
                        self.told[user, "admitted" if reply[1] == 1 else "refused"] += cost

    def compare(self, sums):
        """Told <= exported <= told and unanswered, of each client."""
        lost = 0
        for user in self.USERS:
            admitted, refused, _ = sums.get(user, (0, 0, 0))
            told = self.told[user, "admitted"], self.told[user, "refused"]
            open_ = self.asked[user] - sum(told)
            lost += open_
            assert told[0] <= admitted and told[1] <= refused, (user, told, sums[user], open_)
            assert admitted + refused <= sum(told) + open_, (user, told, sums[user], open_)
        return lost


def test_sums_are_exact_although_nodes_are_killed_and_redis_fails(tmp_path):
    """Under load: nodes killed at random moments, one of which stays away for a while; Redis frozen
    and killed meanwhile. RATION_SOAK=1: a hundred kills."""
    kills = 100 if SOAK else 6
    dice = random.Random(16)
    with fleet(tmp_path) as (server, nodes), Clients(nodes) as clients:
        away = None
        for kill in range(kills):
            time.sleep(dice.uniform(0.02, 0.3))
            index = dice.randrange(3)
            if index == away:
                index = (index + 1) % 3
            nodes[index].kill()
            if kill % 10 == 2:
                server.process.send_signal(signal.SIGSTOP)
                time.sleep(dice.uniform(0, 0.3))
                server.process.send_signal(signal.SIGCONT)
            elif kill % 10 == 4:
                server.process.kill()  # it comes back empty
                server.process.wait()
                time.sleep(dice.uniform(0, 0.2))
                server.start()
            if away is None and kill % 20 == 1:
                away = index
                continue
            nodes[index].start()
            if away is not None and kill % 20 >= (15 if SOAK else 3):
                nodes[away].start()
                away = None
        if away is not None:
            nodes[away].start()
        wait_for(lambda: sum(clients.told.values()) > 0, "answers")
        clients.__exit__(None)
        sums = agree(nodes)
        lost = clients.compare(sums)
        told = sum(clients.told.values())
        exported = sum(a + r for a, r, _ in sums.values())
        print(f"{kills} kills: {told} units told, {lost} unanswered, {exported} exported, "
              f"{exported - told} of them counted and not answered")
        assert sum(clients.told[user, "admitted"] for user in clients.USERS) > 0
