# SPDX-License-Identifier: Apache-2.0
"""The gRPC port: grpcio as a real client, and frames that no client would send."""

import base64
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import grpc
import pytest

import http2
import rls
from daemon import PATIENCE, Daemon, wait_for

RULES = """
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 3, name: by-user}
  - key: many
    rate_limit: {unit: year, requests_per_unit: 100000}
  - key: tokens
    rate_limit: {unit: year, requests_per_unit: 1000}
  - key: queue
    rate_limit: {limit: 20 per second queue 100}
  - key: crowd
    rate_limit: {limit: 1 per second queue 50}
  - key: slow
    rate_limit: {limit: 1 per 50 seconds queue 1}
  - key: hour
    rate_limit: {limit: 1 per hour queue 5}
"""
GRPC = ["--grpc", "127.0.0.1:0", "--resp", "none", "--memory", "4M"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("grpc"), RULES, GRPC) as running:
        yield running


@pytest.fixture
def client(daemon):
    with rls.Client(daemon.addresses["grpc"]) as connected:
        yield connected


def status_of(call, *args, **options):
    with pytest.raises(grpc.RpcError) as caught:
        call(*args, timeout=PATIENCE, **options)
    return caught.value.code(), caught.value.details()


def metric(daemon, line):
    found = re.search("^" + re.escape(line) + r" (\S+)", daemon.admin("GET", "/metrics").text,
                      re.M)
    return float(found[1])


# --- calls -------------------------------------------------------------------------

def test_three_are_admitted_and_the_fourth_is_not(client):
    assert [client.code("shop", {"user": "three"}) for _ in range(4)] == [
        rls.OK, rls.OK, rls.OK, rls.OVER_LIMIT]


def test_ten_thousand_calls_on_one_connection(daemon, client):
    before = metric(daemon, 'ration_requests_total{protocol="grpc"}')
    request = rls.request("shop", {"many": "ten thousand"})
    answers = [f.result() for f in [client.should.future(request, timeout=60)
                                    for _ in range(10000)]]
    assert all(a.overall_code == rls.OK for a in answers)
    left = {a.statuses[0].limit_remaining for a in answers}
    assert left == set(range(90000, 100000)), "each unit is admitted once"
    assert metric(daemon, 'ration_requests_total{protocol="grpc"}') - before == 10000


def test_concurrent_connections_never_admit_more_than_the_limit(daemon):
    def spend(_):
        with rls.Client(daemon.addresses["grpc"]) as mine:
            return sum(mine.code("shop", {"user": "contended"}) == rls.OK for _ in range(50))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(8))) == 3


def test_a_message_over_many_frames_is_one_message(daemon):
    payload = rls.request("shop", {"user": "sliced"}).SerializeToString()
    with http2.Peer(daemon.socket("grpc")) as peer:
        peer.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.block(http2.CALL)))
        for byte in http2.message(payload):
            peer.send(http2.frame(http2.DATA, 0, 1, bytes([byte])))
        peer.send(http2.frame(http2.DATA, http2.END_STREAM, 1))
        answer = peer.until(http2.DATA, 1)[3]
    assert rls.RateLimitResponse.FromString(answer[5:]).overall_code == rls.OK


# --- errors ------------------------------------------------------------------------

def test_an_unknown_method_is_unimplemented(client):
    call = client.channel.unary_unary("/envoy.service.ratelimit.v3.RateLimitService/Nothing")
    assert status_of(call, b"")[0] == grpc.StatusCode.UNIMPLEMENTED


def test_a_compressed_message_is_unimplemented(daemon):
    with rls.Client(daemon.addresses["grpc"]) as client:
        code, text = status_of(client.should, rls.request("shop", {"user": "a" * 2000}),
                               compression=grpc.Compression.Gzip)
    assert code == grpc.StatusCode.UNIMPLEMENTED
    assert "compressed" in text


def test_an_oversize_message_is_resource_exhausted(client):
    code, text = status_of(client.raw, b"x" * (64 * 1024 + 1))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "64 KiB" in text
    assert client.code("shop", {"many": "after"}) == rls.OK


def test_bytes_that_are_no_request_are_an_error(client):
    assert status_of(client.raw, b"\x0a\xff\xff\xff")[0] == grpc.StatusCode.INTERNAL


def test_a_message_of_too_many_parts_is_resource_exhausted(client):
    entries = b"\x12\x04\x0a\x02\x0a\x00" * 9000
    assert status_of(client.raw, b"\x0a\x04shop" + entries)[0] == (
        grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_text_that_is_not_utf8_is_refused(client):
    request = b"\x0a\x04shop\x12\x0d\x0a\x0b\x0a\x04user\x12\x03a\xffb"
    code, text = status_of(client.raw, request)
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert text == "a value is not UTF-8"


def test_an_empty_domain_and_an_empty_list_are_errors(client):
    assert status_of(client.should, rls.request("", {"user": "x"})) == (
        grpc.StatusCode.INVALID_ARGUMENT, "rate limit domain must not be empty")
    assert status_of(client.should, rls.request("shop")) == (
        grpc.StatusCode.INVALID_ARGUMENT, "rate limit descriptor list must not be empty")


def test_a_call_without_a_message_is_an_error(daemon):
    with http2.Peer(daemon.socket("grpc")) as peer:
        peer.send(http2.frame(http2.HEADERS, http2.END_HEADERS | http2.END_STREAM, 1,
                              http2.block(http2.CALL)))
        assert peer.until(http2.HEADERS, 1)[1] & http2.END_STREAM, "a status alone"


@pytest.mark.parametrize("headers, status", [
    ({"content-type": "application/json"}, 415),
    ({"content-type": "application/grpc-web"}, 415),
    ({":method": "GET"}, 405),
], ids=["json", "grpc-web", "GET"])
def test_a_request_that_is_not_grpc_gets_an_http_status(daemon, headers, status):
    extra = [f"-H{name}: {value}" for name, value in headers.items()]
    url = "http://" + daemon.addresses["grpc"] + http2.CALL[":path"]
    found = subprocess.run(["nghttp", "-v", "-n", url, "-H:method: POST",
                            "-Hcontent-type: application/grpc", *extra],
                           capture_output=True, text=True, timeout=PATIENCE, check=False).stdout
    assert f":status: {status}" in found, found


def test_an_http1_client_learns_what_this_port_speaks(daemon):
    answer = daemon.http("GET", "/", port="grpc")
    assert answer.status == 400
    assert "HTTP/2" in answer.text


# --- deadlines, cancellation -----------------------------------------------------------

def test_a_deadline_that_has_passed_charges_nothing(daemon):
    payload = http2.message(rls.request("shop", {"user": "late"}).SerializeToString())
    with http2.Peer(daemon.socket("grpc")) as peer:
        peer.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1,
                              http2.block({**http2.CALL, "grpc-timeout": "1m"})))
        peer.send(http2.frame(http2.PING, 0, 0, b"12345678"))
        peer.until(http2.PING)
        time.sleep(0.02) # the deadline itself
        peer.send(http2.frame(http2.DATA, http2.END_STREAM, 1, payload))
        assert peer.until(http2.HEADERS, 1)[1] & http2.END_STREAM, "a status alone"
    with rls.Client(daemon.addresses["grpc"]) as client:
        assert client.ask("shop", {"user": "late"}).statuses[0].limit_remaining == 2


def test_a_queue_holds_the_reply(daemon, client):
    held = metric(daemon, "ration_held_replies_total")
    calls = [client.should.future(rls.request("shop", {"queue": "held"}), timeout=PATIENCE)
             for _ in range(10)]
    assert [call.result().overall_code for call in calls] == [rls.OK] * 10
    assert metric(daemon, "ration_held_replies_total") > held


def test_a_wait_beyond_the_deadline_is_a_refusal(client):
    assert client.code("shop", {"hour": "x"}) == rls.OK
    assert client.code("shop", {"hour": "x"}, timeout=5) == rls.OVER_LIMIT


def test_a_cancelled_wait_gives_its_place_back(daemon, client):
    def left():
        look = rls.request("shop", {"slow": "left"})
        look.descriptors[0].hits_addend.value = 0
        return client.should(look, timeout=PATIENCE).statuses[0].limit_remaining

    held = metric(daemon, "ration_held_replies_total")
    assert client.code("shop", {"slow": "left"}) == rls.OK
    waiting = client.should.future(rls.request("shop", {"slow": "left"}))
    wait_for(lambda: metric(daemon, "ration_held_replies_total") > held)
    assert left() == 0
    waiting.cancel()
    wait_for(lambda: left() == 1) # by itself it would take longer


def test_cancelled_calls_leave_the_connection_in_order(daemon, client):
    """Once they are known to have come: what is cancelled before, grpcio 1.51 may reset
    without having opened it, and for that any server must end the connection."""
    for turn in range(5):
        held = metric(daemon, "ration_held_replies_total")
        calls = [client.should.future(rls.request("shop", {"crowd": f"cancelled {turn}"}),
                                      timeout=60) for _ in range(31)]
        wait_for(lambda: metric(daemon, "ration_held_replies_total") >= held + 25)
        for call in calls:
            call.cancel()
    assert client.code("shop", {"many": "after cancelling"}) == rls.OK


# --- health ------------------------------------------------------------------------

def test_health_is_reported(client):
    for service in ("", "envoy.service.ratelimit.v3.RateLimitService"):
        answer = client.check(rls.HealthCheckRequest(service=service), timeout=PATIENCE)
        assert answer.status == 1
    assert status_of(client.check, rls.HealthCheckRequest(service="x"))[0] == (
        grpc.StatusCode.NOT_FOUND)


def test_a_watch_of_an_unknown_service_says_so_and_stays(client):
    watch = client.watch(rls.HealthCheckRequest(service="x"), timeout=PATIENCE)
    assert next(watch).status == 3
    watch.cancel()


def test_a_drain_is_reported_to_watchers_and_answers_calls_in_progress(tmp_path):
    with Daemon(tmp_path, RULES, GRPC) as daemon, rls.Client(daemon.addresses["grpc"]) as client:
        watch = client.watch(rls.HealthCheckRequest(), timeout=PATIENCE)
        assert next(watch).status == 1
        client.code("shop", {"queue": "x"})
        waiting = [client.should.future(rls.request("shop", {"queue": "x"}), timeout=PATIENCE)
                   for _ in range(20)]
        wait_for(lambda: metric(daemon, "ration_held_replies_total") >= 10)
        os.kill(daemon.process.pid, signal.SIGTERM)
        assert next(watch).status == 2
        assert [call.result().overall_code for call in waiting] == [rls.OK] * 20
        assert daemon.process.wait(PATIENCE) == 0


def test_a_goaway_says_that_a_connection_is_old(tmp_path):
    with Daemon(tmp_path, RULES, [*GRPC, "--grpc-max-age", "1"]) as daemon:
        with http2.Peer(daemon.socket("grpc")) as peer:
            notice = peer.until(http2.GOAWAY)[3]
            last = peer.until(http2.GOAWAY)[3]
            assert int.from_bytes(notice[:4], "big") == 2**31 - 1
            assert int.from_bytes(last[:4], "big") == 0
            assert notice[4:8] == last[4:8] == b"\0\0\0\0"
            assert peer.rest() == []


def test_calls_go_on_while_connections_age(tmp_path):
    with Daemon(tmp_path, RULES, [*GRPC, "--grpc-max-age", "1"]) as daemon:
        with rls.Client(daemon.addresses["grpc"]) as client:
            until = time.monotonic() + 2.5
            while time.monotonic() < until:
                assert client.code("shop", {"many": "aging"}) == rls.OK


# --- settings ----------------------------------------------------------------------

def test_headers_are_added_if_configured(tmp_path):
    with Daemon(tmp_path, RULES, [*GRPC, "--rls-headers", "true"]) as daemon:
        with rls.Client(daemon.addresses["grpc"]) as client:
            answer = client.ask("shop", {"user": "x"}, {"many": "x"})
            spent = [client.ask("shop", {"user": "x"}) for _ in range(3)][-1]
            added = {h.key: h.value for h in spent.response_headers_to_add}
            assert added["retry-after"] == added["ratelimit-reset"]
        found = {h.key: h.value for h in answer.response_headers_to_add}
        assert found["ratelimit-limit"] == "3" and found["ratelimit-remaining"] == "2"
        assert int(found["ratelimit-reset"]) > 0
        assert "retry-after" not in found
        body = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "x"}]}]}
        assert [h["key"] for h in daemon.http("POST", "/json", body).json[
            "responseHeadersToAdd"]] == ["ratelimit-limit", "ratelimit-remaining",
                                         "ratelimit-reset", "retry-after"]


def test_metadata_is_added_if_configured(tmp_path):
    rules = RULES.replace("name: by-user}", "name: by-user}\n    metadata: "
                          "{owner: {team: web, mail: null}, cost: 7, to: [eu, us], text: '7'}")
    expected = {"metadata": {"owner": {"team": "web", "mail": None}, "cost": 7.0, "to": ["eu", "us"],
                             "text": "7"}}
    with Daemon(tmp_path, rules, [*GRPC, "--rls-metadata", "true"]) as daemon:
        with rls.Client(daemon.addresses["grpc"]) as client:
            answer = rls.to_json(client.ask("shop", {"user": "x"}))
            assert not client.ask("shop", {"many": "x"}).HasField("dynamic_metadata")
        assert answer["dynamicMetadata"] == expected
        body = {"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "x"}]}]}
        assert daemon.http("POST", "/json", body).json["dynamicMetadata"] == expected


def test_a_directory_of_envoyproxy_ratelimit_is_reloaded_by_a_symlink_swap(tmp_path):
    """As Kubernetes mounts a ConfigMap: files behind ..data, which is swapped."""
    config = tmp_path / "config"
    for version, amount in (("..1", 1), ("..2", 5)):
        (config / version).mkdir(parents=True)
        (config / version / "shop.yaml").write_text(
            "domain: shop\ndescriptors:\n  - key: user\n"
            f"    rate_limit: {{unit: year, requests_per_unit: {amount}}}\n")
    (config / "..data").symlink_to("..1")
    (config / "shop.yaml").symlink_to("..data/shop.yaml")
    with Daemon(tmp_path, None, ["--config", config, *GRPC]) as daemon:
        with rls.Client(daemon.addresses["grpc"]) as client:
            assert [client.code("shop", {"user": "x"}) for _ in range(2)] == [rls.OK,
                                                                              rls.OVER_LIMIT]
            (config / "..next").symlink_to("..2")
            os.replace(config / "..next", config / "..data")
            deadline = time.monotonic() + PATIENCE
            while client.ask("shop", {"user": "y"}).statuses[0].current_limit.requests_per_unit != 5:
                assert time.monotonic() < deadline, "the files were not read again"
                time.sleep(0.05)
            assert [client.code("shop", {"user": "x"}) for _ in range(5)] == (
                [rls.OK] * 4 + [rls.OVER_LIMIT]), "what was spent is kept"


def test_calls_over_tls(tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=ration", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    with Daemon(tmp_path, RULES, [*GRPC, "--tls-cert", cert, "--tls-key", key, "--tls",
                                  "grpc"]) as daemon:
        channel = grpc.secure_channel(daemon.addresses["grpc"],
                                      grpc.ssl_channel_credentials(cert.read_bytes()))
        with channel:
            call = channel.unary_unary(rls.METHOD, rls.RateLimitRequest.SerializeToString,
                                       rls.RateLimitResponse.FromString)
            request = rls.request("shop", {"user": "tls"})
            assert [call(request, timeout=PATIENCE).overall_code for _ in range(4)] == (
                [rls.OK] * 3 + [rls.OVER_LIMIT])


# --- hostile peers -----------------------------------------------------------------

def still_serves(daemon):
    with rls.Client(daemon.addresses["grpc"]) as client:
        assert client.code("shop", {"many": "still there"}) == rls.OK


def test_rapid_resets_end_the_connection(daemon):
    """The peer opens calls and resets them at once, so that it never has too many."""
    head = http2.block(http2.CALL)
    with http2.Peer(daemon.socket("grpc")) as peer:
        for first in range(1, 100000, 200):
            peer.send(*[http2.frame(http2.HEADERS, http2.END_HEADERS, stream, head) +
                        http2.frame(http2.RST_STREAM, 0, stream, http2.CANCEL)
                        for stream in range(first, first + 200, 2)],
                      http2.frame(http2.PING, 0, 0, b"12345678"))
            found = peer.read()
            while found[0] not in (http2.GOAWAY, http2.PING):
                found = peer.read()
            if found[0] == http2.GOAWAY:
                break
        assert found[0] == http2.GOAWAY and first > 1000, "after a thousand or so"
    still_serves(daemon)


def test_a_flood_of_continuations_ends_the_connection(daemon):
    with http2.Peer(daemon.socket("grpc")) as peer:
        peer.send(http2.frame(http2.HEADERS, 0, 1, http2.block({":method": "POST"})),
                  *[http2.frame(http2.CONTINUATION, 0, 1, http2.block({"x": "y"}))] * 9)
        with pytest.raises((EOFError, ConnectionError)):
            while True:
                peer.read()
    still_serves(daemon)


def test_headers_without_end_are_refused(daemon):
    with http2.Peer(daemon.socket("grpc")) as peer:
        fields = http2.block(http2.CALL) + b"".join(
            http2.block({f"x-{i}": "y" * 100}) for i in range(130))
        peer.send(http2.frame(http2.HEADERS, 0, 1, fields[:9000]),
                  http2.frame(http2.CONTINUATION, http2.END_HEADERS, 1, fields[9000:]))
        assert peer.until(http2.RST_STREAM, 1)
        peer.send(http2.frame(http2.PING, 0, 0, b"12345678"))
        assert peer.until(http2.PING)


def test_a_flood_of_settings_and_pings_is_survived(daemon):
    """Each wants an answer, and the peer reads none."""
    flood = (http2.frame(http2.SETTINGS) + http2.frame(http2.PING, 0, 0, b"x" * 8)) * 20
    with http2.Peer(daemon.socket("grpc")) as peer:
        peer.socket.settimeout(2)
        try:
            for _ in range(5000):
                peer.send(flood)
        except OSError:
            pass # not read any more, or cut off
        still_serves(daemon)


def test_incomplete_messages_are_bounded(daemon):
    """A thousand calls that each keep 64 KiB back would cost 64 MiB."""
    head, part = http2.block(http2.CALL), b"\0\0\0\xff\xff" + b"x" * 16000
    with http2.Peer(daemon.socket("grpc")) as peer:
        answered = 0
        for stream in range(1, 200, 2):
            peer.send(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, head),
                      http2.frame(http2.DATA, 0, stream, part))
        while peer.until(http2.HEADERS)[1] & http2.END_STREAM:
            answered += 1
            if answered == 30:
                break
    still_serves(daemon)


@pytest.fixture(scope="module")
def silent(daemon):
    """A peer that says nothing, while another one keeps the daemon waiting, too."""
    with daemon.socket("grpc") as peer:
        yield peer


def test_a_request_that_never_ends_is_reset(daemon, silent):
    with http2.Peer(daemon.socket("grpc")) as peer:
        peer.send(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.block(http2.CALL)))
        assert peer.until(http2.RST_STREAM, 1)
        peer.send(http2.frame(http2.PING, 0, 0, b"12345678"))
        assert peer.until(http2.PING)


def test_a_peer_that_says_nothing_is_cut_off(silent):
    while silent.recv(4096):
        pass


# --- grpc-js -----------------------------------------------------------------------

NODE = pathlib.Path(__file__).resolve().parents[1] / "node"
without_node = pytest.mark.skipif(
    shutil.which("node") is None or not (NODE / "node_modules" / "@grpc").is_dir(),
    reason="node or @grpc/grpc-js is missing: ./dev deps installs the packages")


def ask_grpc_js(daemon, *calls):
    lines = "".join(json.dumps({"method": rls.METHOD, **call,
                                "request": base64.b64encode(call["request"]).decode()}) + "\n"
                    for call in calls)
    done = subprocess.run(["node", NODE / "grpc.js", daemon.addresses["grpc"]], input=lines,
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def overall(answer):
    return rls.RateLimitResponse.FromString(base64.b64decode(answer["response"])).overall_code


@without_node
def test_grpc_js_asks_one_by_one_and_a_thousand_at_a_time(daemon):
    user = rls.request("shop", {"user": "js"}).SerializeToString()
    many = rls.request("shop", {"many": "js"}).SerializeToString()
    answers = ask_grpc_js(daemon, *[{"request": user}] * 4, {"request": many, "times": 1000})
    assert [overall(a[0]) for a in answers[:4]] == [rls.OK] * 3 + [rls.OVER_LIMIT]
    assert [overall(a) for a in answers[4]] == [rls.OK] * 1000


@without_node
def test_grpc_js_receives_error_details(daemon):
    answers = ask_grpc_js(
        daemon, {"request": rls.request("", {"user": "js"}).SerializeToString()},
        {"request": b"", "method": "/a.b/c"}, {"request": b"x" * 70000},
        {"request": rls.request("shop", {"queue": "js"}).SerializeToString(), "cancel": True,
         "times": 50},
        {"request": rls.request("shop", {"many": "js2"}).SerializeToString()})
    assert answers[0][0]["code"] == 3 and "domain" in answers[0][0]["message"]
    assert answers[1][0]["code"] == 12
    assert answers[2][0]["code"] == 8
    assert {a["code"] for a in answers[3]} == {1}
    assert overall(answers[4][0]) == rls.OK


def test_token_quotas_limit_although_the_cost_is_known_late(client):
    """As Envoy does it: a look on the way in, a debit when the stream is done."""
    def ask(hits):
        request = rls.request("shop", {"tokens": "ann"})
        request.descriptors[0].hits_addend.value = hits
        return client.should(request, timeout=PATIENCE).overall_code

    for _ in range(2):
        assert ask(0) == rls.OK
        ask(600)
    assert [ask(0) for _ in range(5)] == [rls.OVER_LIMIT] * 5


def test_a_global_quota_mode_refuses_when_all_are_over(tmp_path):
    with Daemon(tmp_path, RULES, [*GRPC, "--rls-quota-mode", "true"]) as daemon:
        with rls.Client(daemon.addresses["grpc"]) as client:
            assert [client.code("shop", {"user": "q"}, {"many": "q"}) for _ in range(8)] == [rls.OK] * 8


def test_probes_of_envoyproxy_ratelimit_find_their_health_check(daemon):
    answer = daemon.http("GET", "/healthcheck")
    assert (answer.status, answer.text) == (200, "OK")
