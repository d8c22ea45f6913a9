# SPDX-License-Identifier: Apache-2.0
"""Tickets of nodes that share a Redis: only these nodes can sign one, every node honours them,
and the keys that sign them survive what a Redis may go through."""

import contextlib

import pytest
import redis.crc

from concurrent_clients import resp_allowed
from daemon import RespError, wait_for
from forged_ticket import DUE, LEASE, PUBLISHED, TURN, Ticket, forge_refund, is_signed, key_of, secret_of
from nodes import Nodes
from redis_cluster import RedisCluster
from redis_server import RedisServer

LIMITS = {"bucket": "100 per day",
          "window": "{algorithm: fixed-window, limit: 100 per day}",
          "quota": "100 per calendar month"}
HEAD = "ration:{fleet}:head"
SLOT_OF_FLEET = redis.crc.key_slot(HEAD.encode())
SECRET = {"RATION_REDIS_KEY_SECRET": "correct horse"}


def rules(limit):
    line = limit if limit.startswith("{") else "{limit: %s}" % limit
    return "limits: [{name: api, key: user, on_store_failure: refuse, %s]\n" % line[1:]


def fleet(folder, url, text=rules(LIMITS["window"]), count=2, env=None, options=()):
    return Nodes(folder, text, [url] * count, ["--redis-deadline", "5s", *options],
                 envs=[env or {}] * count)


def reserve(node, cost):
    answer = node.http("POST", "/v1/reserve", {"attributes": {"user": "ann"}, "cost": cost, "for": 600}).json
    return answer["lease"] if answer["allowed"] else None


def http_refund(node, lease):
    return node.http("POST", "/v1/refund", {"lease": lease}).status


def resp_refund(node, lease):
    with node.resp() as resp:
        try:
            return resp("RATION.REFUND", lease)
        except RespError as refused:
            return str(refused)


def admit(node, most=200):
    """How many requests are admitted until one is not."""
    with node.resp() as resp:
        for count in range(most):
            if not resp_allowed(resp("RATION.CHECK", "user", "ann")):
                return count
    return most


def is_refused(refund, node, text):
    answer = refund(node, text)
    return answer == 400 if refund is http_refund else isinstance(answer, str) and "lease" in answer


@pytest.mark.parametrize("refund", [http_refund, resp_refund], ids=["http", "resp"])
@pytest.mark.parametrize("limit", LIMITS)
def test_an_attacker_who_knows_the_source_cannot_sign_a_refund(tmp_path, limit, refund):
    with RedisServer(tmp_path) as server, fleet(tmp_path, server.url,
                                                rules(LIMITS[limit])) as nodes:
        lease = reserve(nodes[0], 100)
        admitted = 100
        for turn in range(6):
            refund(nodes[turn % 2], forge_refund(lease, key_of(PUBLISHED)))
            admitted += admit(nodes[(turn + 1) % 2])
        assert admitted == 100
        assert is_refused(refund, nodes[0], forge_refund(lease, key_of(PUBLISHED)))
        assert refund(nodes[1], lease) in (200, 1), "a real one is honoured"
        assert admit(nodes[1]) >= 99, "a bucket keeps what it was paid meanwhile"


def test_an_attacker_who_also_knows_the_secret_or_the_data_in_redis_cannot_sign_one(tmp_path):
    """Of the two, one is not enough: the key of tickets is made of both."""
    with RedisServer(tmp_path) as server, fleet(tmp_path, server.url,
                                                env=SECRET) as nodes:
        lease = reserve(nodes[0], 100)
        written = server.client().hget(HEAD, "tickets").decode()
        raw = tuple(int(written[i:i + 16], 16) for i in (0, 16))
        for key in (key_of(secret_of(b"correct horse")), raw, key_of(raw), key_of(PUBLISHED)):
            assert is_refused(http_refund, nodes[0], forge_refund(lease, key))
            assert is_refused(resp_refund, nodes[1], forge_refund(lease, key))
        assert admit(nodes[1]) == 0
        assert http_refund(nodes[1], lease) == 200


def test_no_field_of_a_ticket_can_be_altered(tmp_path):
    with RedisServer(tmp_path) as server, fleet(tmp_path, server.url) as nodes:
        lease = reserve(nodes[0], 60)
        original = Ticket(lease)
        assert original.with_mac(original.mac) == lease, "it is understood whole"

        def altered(**fields):
            ticket = Ticket(lease)
            for name, value in fields.items():
                if name in ("hash", "salt", "mark", "cap", "taken"):
                    ticket.receipts[0][("hash", "salt", "mark", "cap", "taken").index(name)] = value
                else:
                    setattr(ticket, name, value)
            return ticket.with_mac(ticket.mac)

        receipt = original.receipts[0]
        forged = [altered(kind=TURN), altered(kind=DUE), altered(kind=LEASE), altered(id=original.id ^ 1),
                  altered(at_ns=original.at_ns + 1), altered(timeout=original.timeout * 2),
                  altered(reserved=100), altered(hash=receipt[0] ^ 1), altered(salt=receipt[1] ^ 1),
                  altered(mark=receipt[2] + 1), altered(cap=receipt[3] + 1), altered(taken=100),
                  altered(receipts=original.receipts * 2), altered(receipts=[])]
        for text in forged:
            assert is_refused(http_refund, nodes[0], text) and is_refused(resp_refund, nodes[1], text)
            assert nodes[0].http("POST", "/v1/commit", {"lease": text, "cost": 0}).status == 400
            assert nodes[0].http("POST", "/v1/release", {"lease": text}).status == 400
            assert nodes[0].http("POST", "/v1/charge", {"charge": text, "status": 401}).status == 400
        assert admit(nodes[1]) == 40, "nothing was given back"


def test_a_ticket_serves_for_nothing_else_and_in_no_other_fleet(tmp_path):
    (tmp_path / "other").mkdir()
    with RedisServer(tmp_path) as server, \
            fleet(tmp_path, server.url, env=SECRET) as nodes, \
            fleet(tmp_path / "other", f"redis+unix://{server.path}?db=1", count=1, env=SECRET) as other:
        assert server.client().hget(HEAD, "id"), "they are in database 0"
        lease = reserve(nodes[0], 100)
        assert reserve(other[0], 100)
        assert is_refused(http_refund, other[0], lease) and admit(other[0]) == 0
        assert nodes[1].http("POST", "/v1/release", {"lease": lease}).status == 400
        assert nodes[1].http("POST", "/v1/renew", {"lease": lease}).status == 400
        assert nodes[1].http("POST", "/v1/charge", {"charge": lease, "status": 401}).status == 400
        assert http_refund(nodes[1], lease) == 200


# --- keys that come and go ---------------------------------------------------------------

OUTCOMES = "limits: [{name: logins, key: user, limit: 100 per day, charge_on: status 401}]\n"


def owed(node):
    """Nothing but the ticket is kept of it: it outlives what Redis holds."""
    return node.http("POST", "/v1/check", {"attributes": {"user": "ann"}}).json["charge"]


def is_honoured(node, ticket):
    answer = node.http("POST", "/v1/charge", {"charge": ticket, "status": 401})
    assert answer.status in (200, 400), answer
    return answer.status == 200 and answer.json["charged"]


@contextlib.contextmanager
def one_redis(folder):
    with RedisServer(folder) as server:
        yield server.client(), server.url


@contextlib.contextmanager
def a_cluster(folder):
    with RedisCluster(folder) as cluster:
        yield cluster.owner(SLOT_OF_FLEET).client(), cluster.url()


@pytest.mark.parametrize("place", [one_redis, a_cluster])
def test_tickets_outlive_what_redis_has_lost(tmp_path, place):
    with place(tmp_path) as (client, url), fleet(tmp_path, url, OUTCOMES, count=3) as nodes:
        before = [owed(nodes[i % 2]) for i in range(4)]
        nodes[2].kill()
        keys = client.hget(HEAD, "tickets")
        client.flushall()
        wait_for(lambda: client.hget(HEAD, "tickets") == keys)
        nodes[2].start()
        assert [is_honoured(nodes[i], before[i]) for i in (0, 1, 2)] == [True] * 3
        assert is_honoured(nodes[2], owed(nodes[0])) and is_honoured(nodes[0], owed(nodes[2]))


def test_keys_turn_and_tickets_of_the_one_before_are_honoured(tmp_path):
    week = 7 * 86400 * 10**6
    with RedisServer(tmp_path) as server, fleet(tmp_path, server.url, OUTCOMES) as nodes:
        client, seen = server.client(), []

        def age(us):
            client.hset(HEAD, "turned", int(client.hget(HEAD, "turned")) - us)

        for turn in range(1, 7):
            seen.append(owed(nodes[turn % 2]))
            age(week)
            wait_for(lambda: len(client.hget(HEAD, "tickets")) == min(turn + 1, 5) * 33 - 1)
            assert is_honoured(nodes[0], owed(nodes[1])) and is_honoured(nodes[1], owed(nodes[0])), \
                "while some know of the new key and some do not"
            newest = client.hget(HEAD, "tickets")[:32]
            age(11 * 10**6) # everybody has it, and signs with it
            wait_for(lambda: all(is_signed(owed(node), newest.decode()) for node in nodes.all))
            assert is_honoured(nodes[(turn + 1) % 2], seen[-1])
        assert client.hget(HEAD, "tickets").count(b" ") == 4


def test_a_node_that_has_not_reached_redis_honours_its_own(tmp_path):
    server = RedisServer(tmp_path)
    with fleet(tmp_path, server.url, OUTCOMES) as nodes:
        early = [owed(nodes[0]) for _ in range(2)]
        assert is_honoured(nodes[0], early[0])
        assert not is_honoured(nodes[1], early[1]), "its key is random, and the other's is another"
        with server:
            wait_for(lambda: all("store\":\"up" in node.admin("GET", "/readyz").text for node in nodes.all))
            wait_for(lambda: is_honoured(nodes[0], owed(nodes[1])))
            wait_for(lambda: is_honoured(nodes[1], owed(nodes[0])))
            assert is_honoured(nodes[0], early[1])
