# SPDX-License-Identifier: Apache-2.0
"""What waits until its turn has come never leaves early, however long the loop was busy with
other things before it decided."""

import contextlib
import shutil
import time

import pytest

import http2
import rls
from concurrent_clients import check, http_allowed, resp_allowed
from daemon import BUILD, Daemon
from gateway import MODULE, sanitizer

SLOW, EACH = 0.3, 1.0  # seconds: between what is heard and its decision; from turn to turn
NATIVE = "limits: [{name: queue, key: user, limit: 1 per second queue 5, wait: hold}]\n"
ENVOY = "domain: shop\ndescriptors: [{key: user, rate_limit: {limit: 1 per second queue 5}}]\n"


# Each asks whether a user is admitted, over one connection and by one write: it is heard once.

def by_http(daemon):
    with daemon.socket() as s, s.makefile("rb") as file:
        yield lambda user: s.sendall(check(user=user)) or http_allowed(file)


def by_resp(daemon):
    with daemon.resp() as redis:
        yield lambda user: resp_allowed(redis("RATION.CHECK", "user", user))


def by_grpc(daemon):
    streams = iter(range(1, 100, 2))

    def ask(user):
        stream, call = next(streams), rls.request("shop", {"user": user}).SerializeToString()
        peer.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.block(http2.CALL)),
                  http2.frame(http2.DATA, http2.END_STREAM, stream, http2.message(call)))
        return rls.RateLimitResponse.FromString(peer.until(http2.DATA, stream)[3][5:]).overall_code == rls.OK

    with http2.Peer(daemon.socket("grpc")) as peer:
        yield ask


def slow_to_hear(preloaded=""):
    library = str(BUILD / "tests" / "libslowrecv.so")
    return {"LD_PRELOAD": f"{preloaded}:{library}".lstrip(":"), "SLOWRECV": str(int(SLOW * 1000))}


def assert_in_turn(ask):
    assert ask("bob")  # greetings are over
    began = time.monotonic()
    assert ask("ann") and ask("ann")
    assert time.monotonic() - began >= SLOW + EACH, "a turn after the first was decided"


@pytest.mark.parametrize("rules, protocol", [(NATIVE, by_http), (NATIVE, by_resp), (ENVOY, by_grpc)],
                         ids=["HTTP", "RESP", "gRPC"])
def test_a_reply_does_not_leave_early_although_it_was_decided_late(tmp_path, rules, protocol):
    with Daemon(tmp_path, rules, ["--grpc", "127.0.0.1:0"], env=slow_to_hear()) as daemon:
        for ask in protocol(daemon):
            assert_in_turn(ask)


@pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"), reason="needs nginx and the module")
def test_a_request_does_not_go_on_early_in_nginx(gateway, tmp_path):
    g = gateway(NATIVE.replace("user", "header.user"), start=False)
    g.start(env=slow_to_hear(sanitizer(tmp_path).get("LD_PRELOAD", "")))
    with contextlib.closing(g.connection()) as connection:
        assert_in_turn(lambda user: g.ask_on(connection, user=user)[0] == 200)
