# SPDX-License-Identifier: Apache-2.0
"""A call that Redis has not run is sent again only for charges that still wait. The servers are fakes
that say what a test wants, before or after a charge's deadline."""

import concurrent.futures
import contextlib
import re
import struct
import threading

import pytest
from redis.crc import key_slot

import rls
from daemon import PATIENCE, Daemon, wait_for
from fake_redis import NAMES, REFUSING, TRYAGAIN, FakeRedis
from redis_cluster import RedisCluster
from redis_node import LeasedNode, no_node_is_left  # noqa: F401 (a fixture)

REDIRECTING = [b"MOVED %d 127.0.0.1:%d", b"ASK %d 127.0.0.1:%d"]
every_error = pytest.mark.parametrize("error", REFUSING + REDIRECTING, ids=[*NAMES, "MOVED", "ASK"])
LEASE = 7  # an operation: scripts/leases.lua
SHORT = 100  # ms: less than the second for which a node waits for a reply before it reconnects


def error_of(server, text):
    return b"-%s\r\n" % (text % (server.slot, server.port) if b"%d" in text else text)


def is_for_a_lease(server):
    """The last call: by the operation of its first argument."""
    return struct.unpack("<d", server.words[5 + len(server.keys())][:8])[0] == LEASE


KINDS = {"cold": lambda server: True, "leased": is_for_a_lease}


class LateError:
    """A node of a cluster that gives the first call of a node of this mode an error when the take
    that it is for has been given up."""

    def __init__(self, folder, mode, error):
        self.log, self.mode, self.error = folder / "log", mode, error
        self.server, self.nonces = FakeRedis(self.answers), []  # of all such calls

    def answers(self, number, nonce):
        if KINDS[self.mode](self.server):
            self.nonces.append(nonce)
            if len(self.nonces) == 1:
                return self.refuse(error_of(self.server, self.error))
        return self.server.admit(nonce)

    def refuse(self, error):
        before = len(self.takes())
        wait_for(lambda: False in self.takes()[before:])
        return error

    def takes(self):
        """Whether they were admitted, one after the other: tests/programs/redis_node.c."""
        whole = self.log.stat().st_size // 16 * 16
        return [ended > 0 for _, ended in struct.iter_unpack("=qq", self.log.read_bytes()[:whole])]

    def node(self):
        return LeasedNode(self.server.cluster, self.log, "1000 per 24h", depth=1, pace=1, deadline_ms=SHORT,
                          mode=self.mode)

    def play(self):
        """Until a few calls have followed. What came of it."""
        with self.server:
            node = self.node()
            wait_for(lambda: len(self.nonces) > 3)
            return node.stop()

    def has_repeated(self, result):
        """The same call, or one that no take has led to."""
        if self.mode == "leased":
            return len(set(self.nonces)) < len(self.nonces)
        return len(self.nonces) > result["calls"]


class LateGreeting(LateError):
    """Sends the error at once, and answers no greeting until the take has been given up."""

    def refuse(self, error):
        self.server.welcome.clear()
        threading.Thread(target=self.come_back, args=(len(self.takes()),)).start()
        return error

    def come_back(self, before):
        try:
            wait_for(lambda: False in self.takes()[before:])
        finally:
            self.server.welcome.set()


@pytest.mark.parametrize("mode", KINDS)
@every_error
def test_a_call_without_waiting_charges_is_not_sent_again(error, mode, tmp_path):
    late = LateError(tmp_path, mode, error)
    result = late.play()
    assert result["resent"] == 0 and not late.has_repeated(result)


@pytest.mark.parametrize("mode", KINDS)
def test_a_call_is_not_sent_again_when_the_server_comes_back_too_late(mode, tmp_path):
    away = LateGreeting(tmp_path, mode, b"LOADING Redis is loading the dataset in memory")
    result = away.play()
    assert result["resent"] == 1, "it was to be sent"
    assert not away.has_repeated(result)


RULES = """
domain: shop
descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1000}}]
"""


def test_expired_charges_are_left_out_of_a_call_that_is_sent_again(tmp_path):
    go_on, sent, hasty = threading.Event(), [], []

    def answers(number, nonce):
        sent.append(server.keys())
        if len(sent) == 1:
            go_on.wait(PATIENCE)
        elif len(sent) == 2 and len(sent[1]) == 2:
            hasty[0].exception(PATIENCE)  # its time is up
            return b"-NOSCRIPT No matching script.\r\n"
        return server.admit(nonce)

    def ask(user, seconds):
        """Returns when it waits for the store."""
        before = charges(node)
        client = stack.enter_context(rls.Client(node.addresses["grpc"]))
        asked = client.should.future(rls.request("shop", {"user": user}), timeout=seconds)
        wait_for(lambda: charges(node) > before)
        return asked

    def attempt():
        """One is under way, two wait to go together. Whether they did, on one connection."""
        connections = server.connections
        go_on.clear()
        sent.clear()
        ask("first", PATIENCE)
        hasty[:] = [ask("hasty", 0.5)]
        patient = ask("patient", PATIENCE)
        go_on.set()
        assert patient.result(PATIENCE).overall_code == rls.OK
        return len(sent) > 2 and len(sent[1]) == 2 and server.connections == connections

    options = ["--workers", 1, "--redis-deadline", "10s", "--grpc", "127.0.0.1:0"]
    with FakeRedis(answers) as server, contextlib.ExitStack() as stack, \
            Daemon(tmp_path, RULES, [*options, "--redis", server.url]) as node:
        wait_for(attempt)
    assert sent[2:] == [sent[1][1:]]


def charges(node):
    return int(re.search(r"^ration_store_charges_total (\d+)", node.admin("GET", "/metrics").text, re.M)[1])


API = "limits: [{name: api, key: user, algorithm: token-bucket, limit: 10 per hour, consistency: %s}]\n"


class MigratingSlot:
    """A node of a cluster with a migrating slot: it has the states, and for `calls` calls it lacks the reset
    log."""

    def __init__(self, calls):
        self.left, self.calls, self.tags = calls, [], []  # which keys each has; its tag
        self.server = FakeRedis(self.answers)

    def answers(self, number, nonce):
        self.calls.append([key.split(b":")[2] for key in self.server.keys()])
        self.tags.append(self.server.slot)
        if b"f" in self.calls[-1] and self.left > 0:
            self.left -= 1
            return error_of(self.server, TRYAGAIN)
        return self.server.admit(nonce)

    def refund(self, folder, consistency, deadline):
        options = ["--workers", 1, "--redis-deadline", deadline, "--redis", self.server.cluster]
        with self.server, Daemon(folder, API % consistency, options) as node:
            body = {"attributes": {"user": "ann"}, "cost": 8, "for": 60}
            lease = node.http("POST", "/v1/reserve", body).json["lease"]
            self.calls.clear()
            return node.http("POST", "/v1/refund", {"lease": lease})


@pytest.mark.parametrize("consistency", ["strict", "leased"])
def test_a_refund_is_made_when_its_slot_has_arrived(tmp_path, consistency):
    moving = MigratingSlot(5)
    answer = moving.refund(tmp_path, consistency, "10s")
    assert (answer.status, answer.json) == (200, {"refunded": True})
    assert sum(b"f" in call for call in moving.calls) == 6, "no more often than it takes"


@pytest.mark.parametrize("consistency", ["strict", "leased"])
def test_a_refund_whose_slot_does_not_arrive_fails_in_time(tmp_path, consistency):
    moving = MigratingSlot(10**9)
    answer = moving.refund(tmp_path, consistency, "1s")
    assert answer.status == 503 and answer.json["error"] == "store"
    assert sum(b"f" in call for call in moving.calls) > 3


class Batch:
    """A check, a refund and another check of one key, which a new node sends together: the refund and the
    second check wait while the first is under way. `calls` of the server tells what the node sent."""

    def __init__(self, folder):
        self.slot, self.folder, self.permits = MigratingSlot(10**9), folder, threading.Semaphore(0)
        self.slot.server.answers = self.answers

    def answers(self, number, nonce):
        assert self.permits.acquire(timeout=PATIENCE)
        return self.slot.answers(number, nonce)

    def ask(self, what, **body):
        return self.threads.submit(self.node.http, "POST", f"/v1/{what}", body)

    def check(self):
        return self.ask("check", attributes={"user": "ann"})

    def counted(self, act):
        """Returns what it does when another charge waits for the store."""
        before = charges(self.node)
        done = act()
        wait_for(lambda: charges(self.node) > before or self.slot.server.connections > self.connections)
        return done

    def statuses(self):
        self.connections = self.slot.server.connections
        self.permits.release(2)
        lease = self.ask("reserve", attributes={"user": "ann"}, **{"for": 60}).result(PATIENCE).json["lease"]
        self.slot.calls.clear()
        self.slot.tags.clear()
        refund = self.counted(lambda: self.ask("refund", lease=lease))  # which ends the reservation first
        checks = [self.counted(self.check)]
        self.counted(self.permits.release)  # and gives back when it has
        checks.append(self.counted(self.check))
        self.permits.release(10**4)
        statuses = [check.result(PATIENCE).status for check in checks]
        statuses.append(self.check().result(PATIENCE).status)
        self.slot.left = 0
        return [*statuses, refund.result(PATIENCE).status]

    def play(self):
        """The statuses; None: the reservation happens to be where the key is, or the node gave up its
        connection as it had no reply within a second."""
        options = ["--workers", 1, "--redis-deadline", "10s", "--redis", self.slot.server.cluster]
        with self.slot.server, concurrent.futures.ThreadPoolExecutor(4) as self.threads, \
                Daemon(self.folder, API % "strict", options) as self.node:
            statuses = self.statuses()
        apart = len(set(self.slot.tags[:2])) == 2
        return statuses if apart and self.slot.server.connections == self.connections else None


def test_other_charges_of_a_key_do_not_wait_for_a_migrating_slot(tmp_path):
    """Although the node sent them together. Each attempt has a new node: one that has met a migrating slot
    sends the keys of that slot one by one from then on."""
    batches = []

    def attempt():
        batches.append(Batch(tmp_path))
        return batches[-1].play()

    assert wait_for(attempt) == [200] * 4
    calls = batches[-1].slot.calls
    alone, together, after = calls[:2], calls[2], calls[3:]
    assert alone == [[b"b"]] * 2 and together == [b"b", b"b", b"f"]
    assert after.count([b"b"]) == 2 and after.count([b"b", b"f"]) == len(after) - 2


def test_in_a_real_cluster_a_refund_waits_for_its_slot_too(tmp_path):
    (tmp_path / "cluster").mkdir()
    ann = {"attributes": {"user": "ann"}}

    def refusals():
        return int(source.client().info("errorstats").get("errorstat_TRYAGAIN", "count=0").split("=")[1])

    with RedisCluster(tmp_path / "cluster") as cluster, concurrent.futures.ThreadPoolExecutor(1) as threads, Daemon(
            tmp_path, API % "strict", ["--workers", 1, "--redis", cluster.url(), "--redis-deadline", "10s"]) as node:
        wait_for(lambda: node.admin("GET", "/readyz").json["store"] == "up")
        assert node.http("POST", "/v1/check", {**ann, "cost": 1}).json["remaining"] == 9
        source, key = next((m, key) for m in cluster.masters() for key in m.client().keys("ration:{*}:b:*"))
        lease = node.http("POST", "/v1/reserve", {**ann, "cost": 8, "for": 60}).json["lease"]
        slot, target = key_slot(key), next(m for m in cluster.masters() if m is not source)
        target.ask("SETSLOT", slot, "IMPORTING", source.id)
        source.ask("SETSLOT", slot, "MIGRATING", target.id)
        refund = threads.submit(node.http, "POST", "/v1/refund", {"lease": lease})
        wait_for(lambda: refusals() > 1)
        assert node.http("POST", "/v1/check", {**ann, "cost": 1}).json["remaining"] == 0, "others go on"
        cluster.move_slot(slot, source, target)
        assert refund.result(PATIENCE).json == {"refunded": True}
        assert node.http("POST", "/v1/check", {**ann, "peek": True}).json["remaining"] == 8
