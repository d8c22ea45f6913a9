# SPDX-License-Identifier: Apache-2.0
"""Calls of ShouldRateLimit that wait in line, under Envoy's rules and native ones, on a clock that stands still
until it is moved."""

import os
import re
import signal

import pytest

import http2
import rls
from daemon import PATIENCE, Daemon, wait_for
from stillclock import StillClock

STEP = 4  # seconds after which a window has ended
ENVOY = """
domain: shop
descriptors:
  - key: user
    rate_limit: {{limit: 5 per 2 seconds, queue: {{size: 1000, max_wait: {max_wait}}}}}
  - key: plain
    rate_limit: {{limit: 1 per 2 seconds}}
"""
NATIVE = """
apply_to_envoy: true
limits:
  - {{name: by-user, key: user, limit: 5 per 2 seconds, algorithm: fixed-window,
     queue: {{size: 1000, max_wait: {max_wait}}}}}
  - {{name: by-plain, key: plain, limit: 1 per 2 seconds, algorithm: fixed-window}}
"""
OPTIONS = ["--grpc", "127.0.0.1:0", "--resp", "none", "--memory", "4M", "--workers", 2]


@pytest.fixture
def clock(tmp_path):
    return StillClock(tmp_path / "clock")


@pytest.fixture(params=[ENVOY, NATIVE], ids=["envoy", "native"])
def daemon(request, tmp_path, clock):
    text = request.param.format(max_wait="55s")
    with Daemon(tmp_path, text, OPTIONS, env=clock.env()) as running:
        yield running


@pytest.fixture
def client(daemon):
    with rls.Client(daemon.addresses["grpc"]) as connected:
        yield connected


def metric(daemon, name):
    page = daemon.admin("GET", "/metrics").text
    return float(re.search("^" + re.escape(name) + r" (\S+)", page, re.M)[1])


def wait_until(daemon, waiting):
    wait_for(lambda: metric(daemon, "ration_waiting") == waiting, f"{waiting} in line")


def ask(client, user, count, timeout=PATIENCE):
    """Calls of one connection arrive in this order, once it is there."""
    client.check(rls.HealthCheckRequest(), timeout=PATIENCE)
    return [client.should.future(rls.request("shop", {"user": user}), timeout=timeout) for _ in range(count)]


def left(calls):
    """What each left of the limit; all are admitted."""
    answers = [call.result() for call in calls]
    assert {answer.overall_code for answer in answers} == {rls.OK}
    return [answer.statuses[0].limit_remaining for answer in answers]


def test_calls_have_their_turns_in_the_order_of_arrival(daemon, clock, client):
    calls = ask(client, "ann", 20)
    wait_until(daemon, 15)
    for first in range(0, 20, 5):
        if first > 0:
            clock.advance(STEP)
        assert left(calls[first:first + 5]) == [4, 3, 2, 1, 0]
    assert metric(daemon, 'ration_waited_total{result="admitted"}') == 15


def test_calls_of_several_connections_share_a_line(daemon, clock):
    with rls.Client(daemon.addresses["grpc"]) as one, rls.Client(daemon.addresses["grpc"]) as other:
        calls = ask(one, "ann", 5)
        assert left(calls) == [4, 3, 2, 1, 0]
        waiting = []
        for i in range(10):
            waiting += ask((one, other)[i % 2], "ann", 1)
            wait_until(daemon, i + 1)
        for first in (0, 5):
            clock.advance(STEP)
            assert left(waiting[first:first + 5]) == [4, 3, 2, 1, 0]


def test_a_cancelled_call_leaves_the_line_and_is_charged_nothing(daemon, clock, client):
    calls = ask(client, "ann", 10)
    wait_until(daemon, 5)
    for i in (5, 7):
        calls[i].cancel()
    wait_until(daemon, 3)
    clock.advance(STEP)
    assert left([calls[6], calls[8], calls[9]]) == [4, 3, 2]
    assert left(ask(client, "ann", 2)) == [1, 0]
    assert metric(daemon, 'ration_waited_total{result="left"}') == 2


def test_calls_of_a_connection_that_ends_leave_the_line(daemon, clock, client):
    assert left(ask(client, "ann", 5)) == [4, 3, 2, 1, 0]
    call = http2.message(rls.request("shop", {"user": "ann"}).SerializeToString())
    with http2.Peer(daemon.socket("grpc")) as peer:
        for stream in range(1, 200, 2):
            peer.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.block(http2.CALL)),
                      http2.frame(http2.DATA, http2.END_STREAM, stream, call))
        wait_until(daemon, 100)
    wait_until(daemon, 0)
    clock.advance(STEP)
    assert left(ask(client, "ann", 5)) == [4, 3, 2, 1, 0]


def test_newcomers_do_not_overtake_over_http_either(daemon, clock, client):
    calls = ask(client, "ann", 6)
    wait_until(daemon, 1)
    body = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ann"}]}]}
    assert daemon.http("POST", "/json", body).status == 429
    assert metric(daemon, "ration_waiting") == 1, "nobody waits over /json"
    clock.advance(STEP)
    assert left(calls[5:]) == [4]
    assert daemon.http("POST", "/json", body).status == 200


def test_a_wait_that_the_deadline_does_not_allow_is_refused_at_once(daemon, client):
    """The window lasts 2 seconds, and the clock stands still."""
    assert left(ask(client, "ann", 5)) == [4, 3, 2, 1, 0]
    assert client.code("shop", {"user": "ann"}, timeout=1) == rls.OVER_LIMIT
    assert metric(daemon, 'ration_wait_refused_total{reason="late"}') == 1


def test_limits_without_a_queue_refuse_as_ever(client):
    assert [client.code("shop", {"plain": "x"}) for _ in range(2)] == [rls.OK, rls.OVER_LIMIT]


def test_what_a_descriptor_looks_for_or_reports_does_not_wait(daemon, client):
    assert left(ask(client, "ann", 5)) == [4, 3, 2, 1, 0]
    for hits in (0, 1):
        request = rls.request("shop", {"user": "ann"})
        request.descriptors[0].hits_addend.value = hits
        assert client.should(request, timeout=PATIENCE).overall_code == rls.OVER_LIMIT


def test_a_large_message_is_refused_rather_than_kept(daemon, client):
    assert left(ask(client, "ann", 5)) == [4, 3, 2, 1, 0]
    request = rls.request("shop", {"user": "ann"}, *({f"other {i}": "x" * 4000} for i in range(5)))
    assert client.should(request, timeout=PATIENCE).overall_code == rls.OVER_LIMIT


@pytest.mark.parametrize("text", [ENVOY, NATIVE], ids=["envoy", "native"])
def test_a_reload_that_takes_the_room_away_refuses_those_in_line(tmp_path, clock, text):
    with Daemon(tmp_path, text.format(max_wait="5s"), OPTIONS, env=clock.env()) as daemon, \
            rls.Client(daemon.addresses["grpc"]) as client:
        calls = ask(client, "ann", 7)
        wait_until(daemon, 2)
        daemon.file.write_text(text.format(max_wait="5s").replace("5 per 2 seconds", "1 per hour"))
        daemon.reload()
        assert [call.result().overall_code for call in calls[5:]] == [rls.OVER_LIMIT] * 2


def test_a_stop_answers_all_that_wait(tmp_path):
    """On a clock that goes on, and long before their turn would come."""
    text = ENVOY.replace("5 per 2 seconds", "1 per 50 seconds burst 1").format(max_wait="55s")
    with Daemon(tmp_path, text, OPTIONS) as daemon, rls.Client(daemon.addresses["grpc"]) as client:
        assert ask(client, "ann", 1)[0].result().overall_code == rls.OK
        calls = ask(client, "ann", 1)
        wait_until(daemon, 1)
        os.kill(daemon.process.pid, signal.SIGTERM)
        assert [call.result().overall_code for call in calls] == [rls.OVER_LIMIT]
        assert daemon.process.wait(PATIENCE) == 0


def test_a_connection_that_is_old_stays_until_its_calls_are_answered(tmp_path, clock):
    with Daemon(tmp_path, ENVOY.format(max_wait="55s"), [*OPTIONS, "--grpc-max-age", "1"],
                env=clock.env()) as daemon, http2.Peer(daemon.socket("grpc")) as peer:
        call = http2.message(rls.request("shop", {"user": "ann"}).SerializeToString())
        for stream in range(1, 13, 2):
            peer.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.block(http2.CALL)),
                      http2.frame(http2.DATA, http2.END_STREAM, stream, call))
        assert peer.until(http2.GOAWAY) and peer.until(http2.GOAWAY)
        clock.advance(STEP)
        answer = rls.RateLimitResponse.FromString(peer.until(http2.DATA, 11)[3][5:])
        assert answer.overall_code == rls.OK
        assert peer.rest() is not None
