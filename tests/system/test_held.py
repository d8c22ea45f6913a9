# SPDX-License-Identifier: Apache-2.0
"""Replies that are held until their turn has come: they never leave early, however long the
loop was busy with other things before it decided."""

import time

import pytest

import rls
from daemon import BUILD, Daemon

SLOW, EACH = 0.3, 1.0  # seconds: between what is heard and its decision; from turn to turn
NATIVE = "limits: [{name: queue, key: user, limit: 1 per second queue 5, wait: hold}]\n"
ENVOY = "domain: shop\ndescriptors: [{key: user, rate_limit: {limit: 1 per second queue 5}}]\n"


def by_http(daemon):
    def ask(user):
        return daemon.http("POST", "/v1/check", {"attributes": {"user": user}}).json["allowed"]

    yield ask


def by_resp(daemon):
    with daemon.resp() as redis:
        yield lambda user: redis("RATION.CHECK", "user", user)[1] == 1


def by_grpc(daemon):
    with rls.Client(daemon.addresses["grpc"]) as client:
        yield lambda user: client.code("shop", {"user": user}) == rls.OK


@pytest.mark.parametrize("rules, protocol", [(NATIVE, by_http), (NATIVE, by_resp), (ENVOY, by_grpc)],
                         ids=["HTTP", "RESP", "gRPC"])
def test_a_reply_does_not_leave_early_although_it_was_decided_late(tmp_path, rules, protocol):
    env = {"LD_PRELOAD": str(BUILD / "tests" / "libslowrecv.so"), "SLOWRECV": str(int(SLOW * 1000))}
    with Daemon(tmp_path, rules, ["--grpc", "127.0.0.1:0"], env=env) as daemon:
        for ask in protocol(daemon):
            assert ask("bob")  # greetings are over
            began = time.monotonic()
            assert ask("ann") and ask("ann")
            assert time.monotonic() - began >= SLOW + EACH, "a turn after the first was decided"
