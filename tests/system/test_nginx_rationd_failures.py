# SPDX-License-Identifier: Apache-2.0
"""The gateway that asks rationd: what nginx does when rationd is dead, frozen, restarted,
or sends what is not a reply; and when very many ask."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

import http2
from daemon import PATIENCE, Daemon, wait_for
from faults import Proxy
from gateway import BY_WORKER, MODULE, PLACES, SANITIZED, LoopingClients, assert_workers_admit, begin, proxied
from nginx_rationd import OURS, PATIENT, THEIRS, UP, answers
from redis_server import RedisServer

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")


# --- without rationd -----------------------------------------------------------------------

POLICIES = ("limits:\n  - {name: own, key: ip, limit: 2 per 7 days, when: {path: /local}}\n"
            "  - {name: open, key: ip, limit: 1 per 7 days, on_store_failure: allow, when: {path: /open}}\n"
            "  - {name: shut, key: ip, limit: 9 per 7 days, on_store_failure: refuse, when: {path: /shut},"
            " response: {status: 503, message: Not now.}}\n"
            "  - {name: seen, key: ip, limit: 9 per 7 days, on_store_failure: refuse, mode: shadow,"
            " when: {path: /seen}}\n"
            "  - {name: both, key: ip, limit: 1 per 7 days, when: {path: /both}}\n"
            "  - {name: also, key: ip, limit: 9 per 7 days, on_store_failure: refuse, when: {path: /both}}\n")


def by_policy(g):
    assert g.statuses(3, "/local") == [200] * 2 + [429]
    assert g.statuses(3, "/open") == [200] * 3
    assert g.statuses(2, "/seen") == [200] * 2
    assert g.statuses(2, "/other") == [200] * 2
    assert g.statuses(2, "/both") == [429] * 2
    status, headers, body = g.ask("/shut")
    answer = json.loads(body)
    assert status == 503 and headers["retry-after"] == "1" and headers["x-ratelimit-limit"] is None
    assert answer["rule"] == "shut" and answer["limit"] is None and answer["limits"] == []
    assert answer["message"] == "Not now."
    g.wait_for_log("503 /shut verdict=refused rule=shut source=zone", "source")
    g.wait_for_log("200 /open verdict=allowed rule=- source=zone", "source")


def test_a_rationd_that_is_not_there_leaves_it_to_the_rules(asking):
    g = asking("unix:/nonexistent/socket", POLICIES)
    by_policy(g)
    assert g.log("error").count('rationd at "unix:/nonexistent/socket" cannot be reached; until it '
                                'answers again rules decide by on_store_failure (2: No such file') == 1


def test_a_rationd_that_refuses_connections_leaves_it_to_the_rules(asking):
    g = asking("127.0.0.1:1", POLICIES)
    by_policy(g)
    assert g.log("error").count("cannot be reached") == 1 and "(111: " in g.log("error")


def test_a_rationd_that_is_killed_leaves_it_to_the_rules_until_it_is_back(asking, rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 1000 per 7 days}\n")
    g = answers(asking(d.address, POLICIES))
    assert g.statuses(3, "/shut") == [200] * 3
    d.kill()
    g.wait_for_log("until it answers again", "error")
    by_policy(g)
    d.start()
    g.wait_for_log(UP, "error", 2)
    assert g.statuses(3, "/shut") == [200] * 3
    assert g.log("error").count("until it answers again") == 1


def test_a_rationd_that_is_frozen_costs_a_few_requests_their_patience_and_then_nothing(asking,
                                                                                      rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 1000 per 7 days}\n")
    g = answers(asking(d.address, "limits:\n  - {name: own, key: ip, limit: 1000 per 7 days}\n",
                        parameters="timeout=1s"))
    d.freeze()
    threads = [threading.Thread(target=g.ask, args=("/frozen",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "does not answer in time; until it answers again" in g.log("error")
    began = time.monotonic()
    assert g.statuses(50, "/later") == [200] * 50
    assert time.monotonic() - began < 25  # had each waited, it were 50 at least
    g.wait_for_log("source=zone", "source", 58)
    d.thaw()
    g.wait_for_log(UP, "error", 2)
    g.ask("/back")
    g.wait_for_log("200 /back verdict=allowed rule=api source=rationd", "source")


def test_a_late_answer_is_given_to_no_other_request(asking, rationd):
    rules = "".join(f"  - {{name: rule-{i}, key: ip, limit: 9 per 7 days, when: {{path: /{i}}}}}\n"
                    for i in range(4))
    d = rationd("limits:\n" + rules)
    g = answers(asking(d.address, "limits: []\n", parameters="timeout=100ms", server=f"""ration on;
        location / {{ empty_gif; }}
        location /3 {{ ration_server {d.address} {PATIENT}; empty_gif; }}"""))
    d.freeze()
    assert [g.ask(f"/{i}")[0] for i in range(3)] == [200] * 3  # without a decision
    with begin(g, "/3") as patient:
        time.sleep(0.05)
        d.thaw()
        assert patient.recv(100).startswith(b"HTTP/1.1 200")
    g.wait_for_log("200 /3 verdict=allowed rule=rule-3 source=rationd", "source")


@pytest.mark.parametrize("reply", [
    b"+OK\r\n", b":1\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*0\r\n", b"*3\r\n:1\r\n:2\r\n:3\r\n",
    b"*2\r\n$7\r\nallowed\r\n:1\r\n", b"$-1\r\n", b"\0\0\0", b"*1\r\n" * 50 + b":1\r\n",
    b"$99999999\r\n", b"+PONG\r\n+PONG\r\n", b"*2\r\n$7\r\nallowed\r\n:1\r\n" * 3,
])
def test_nonsense_is_no_answer(asking, fake, reply):
    server = fake(lambda _: reply)
    g = answers(asking(server.address))
    assert g.ask()[0] == 200
    g.wait_for_log("sent what is not a reply; until it answers again", "error")
    g.wait_for_log("200 / verdict=allowed rule=own source=zone", "source")
    assert g.statuses(2) == [200, 429]


def test_a_reply_without_an_end_is_waited_for_in_vain(asking, fake):
    g = answers(asking(fake(lambda _: b"*2\r\n$7\r\nallo").address, parameters="timeout=100ms"))
    assert g.statuses(3) == [200, 200, 429]
    assert "source=rationd" not in g.log("source")


def test_a_server_that_greets_wrongly_is_not_asked(asking, fake):
    server = fake(lambda _: b"-ERR who are you\r\n", pings=False)
    g = asking(server.address)
    g.wait_for_log("sent what is not a reply", "error")
    assert g.statuses(3) == [200, 200, 429]
    assert not any(b"RATION.CHECK" in seen for seen in server.seen[1:])


def test_an_error_of_rationd_is_logged_once_and_the_rules_decide(asking, fake):
    server = fake(lambda data: b"-STORE no answer of Redis\r\n" * data.count(b"RATION.CHECK"))
    g = answers(asking(server.address))
    assert g.statuses(3) == [200, 200, 429]
    assert g.log("error").count("could not decide: STORE no answer of Redis;") == 1
    assert server.connections == 1


def test_a_command_is_never_sent_twice(asking, fake):
    server = fake(lambda data: None if b"RATION" in data else b"")
    g = answers(asking(server.address))
    assert [g.ask(f"/{i}")[0] for i in range(1)] == [200]
    wait_for(lambda: server.connections >= 2, "it is connected to again")
    assert b"".join(server.seen).count(b"RATION.CHECK") == 1


def test_attempts_are_made_one_at_a_time(asking, fake):
    server = fake(lambda _: None, pings=False)
    asking(server.address)
    wait_for(lambda: server.connections >= 4, "four attempts")
    assert server.most_at_once == 1


def test_a_client_that_goes_away_before_the_answer_leaves_nothing_behind(asking, rationd):
    d = rationd()
    g = answers(asking(d.address))
    d.freeze()
    for turn in range(1, 4):
        with begin(g, "/gone"):
            time.sleep(0.02)
        g.wait_for_log("499 /gone", "source", turn)
    d.thaw()
    assert g.ask("/")[0] == 200
    g.wait_for_log("200 / verdict=allowed rule=api source=rationd", "source")


def test_questions_of_one_round_go_out_together(asking, fake):
    gate = threading.Event()

    def answer(data):
        gate.wait(PATIENCE)
        return b"-ERR not now\r\n" * data.count(b"RATION.CHECK")

    server = fake(answer)
    g = answers(asking(server.address, listen="http2"))
    process = subprocess.Popen(["h2load", "-n", "40", "-c", "1", "-m", "40",
                                f"http://127.0.0.1:{g.port}/"], stdout=subprocess.PIPE, text=True)
    wait_for(lambda: b"".join(server.seen).count(b"RATION.CHECK") >= 1, "the first question")
    gate.set()
    assert "40 done, 2 succeeded" in process.communicate(timeout=60)[0]
    assert server.connections == 1
    assert len(server.seen) < 40


def test_every_stream_of_an_http2_connection_is_asked_about(asking, rationd):
    g = answers(asking(rationd().address, listen="http2"))
    out = subprocess.run(["h2load", "-n", "20", "-c", "2", "-m", "10", f"http://127.0.0.1:{g.port}/"],
                         capture_output=True, text=True, timeout=60).stdout
    assert "status codes: 5 2xx, 0 3xx, 15 4xx, 0 5xx" in out


def test_a_stream_that_is_reset_before_the_answer_leaves_nothing_behind(asking, rationd):
    d = rationd()
    g = answers(asking(d.address, listen="http2"))
    d.freeze()
    with http2.Peer(socket.create_connection(("127.0.0.1", g.port), PATIENCE)) as peer:
        for stream in (1, 3, 5):
            peer.send(http2.get(stream, "/reset"), http2.frame(http2.PING, 0, 0, b"behind  "))
            peer.until(http2.PING)  # so it is known by now
            peer.send(http2.frame(http2.RST_STREAM, 0, stream, http2.CANCEL))
            g.wait_for_log("/reset", "source", stream // 2 + 1)
        d.thaw()
        peer.send(http2.get(7, "/"))
        g.wait_for_log("200 / verdict=allowed rule=api source=rationd", "source")


def test_several_connections_are_one_server_to_the_log(asking, rationd):
    d = rationd()
    g = answers(asking(d.address, parameters=PATIENT + " connections=8"))
    wait_for(lambda: connections(d) == 8, "eight connections")
    assert g.statuses(6) == [200] * 5 + [429]
    d.kill()
    g.wait_for_log("until it answers again", "error")
    assert g.statuses(3) == [200] * 2 + [429]
    d.start()
    wait_for(lambda: connections(d) == 8, "eight connections again")
    assert g.log("error").count(UP) == 2 and g.log("error").count("until it answers again") == 1


def connections(d):
    return int(re.search(r'connections{[^}]*listener="resp"[^}]*} (\d+)',
                         d.admin("GET", "/metrics").text).group(1))


def test_a_slow_question_holds_up_only_its_own_connection(asking, fake):
    """As with a rationd that has to be told of something first, over Redis."""
    gates = {}

    def answer(data):
        path = re.search(rb"path\r\n\$\d+\r\n(\S+)\r\n", data).group(1)
        gates.setdefault(path, threading.Event()).wait(PATIENCE)
        return b"-ERR done\r\n" * data.count(b"RATION.CHECK")

    server = fake(answer)
    g = answers(asking(server.address, "limits: []\n", parameters=PATIENT + " connections=2"))
    wait_for(lambda: b"".join(server.seen).count(b"PING") == 2, "both are greeted")
    gates[b"/fast"] = threading.Event()
    gates[b"/fast"].set()
    assert g.ask("/fast")[0] == 200
    with begin(g, "/slow") as slow:
        wait_for(lambda: b"/slow" in gates, "it is asked")
        assert g.ask("/fast")[0] == 200
        assert "/slow" not in g.log("source")
        gates[b"/slow"].set()
        assert slow.recv(100).startswith(b"HTTP/1.1 200")


# --- many at once -----------------------------------------------------------------------------

def test_workers_and_gateways_share_what_rationd_counts_and_not_one_more(asking, rationd, tmp_path):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 3000 per 7 days}\n")
    g = answers(asking(d.address, OURS % ", on_store_failure: refuse", workers=3, listen="reuseport",
                        http=BY_WORKER))
    assert_workers_admit(g, 3000)
    assert "source=zone" not in g.log("source")


def test_two_rationd_that_share_a_redis_admit_the_limit_and_not_one_more(asking, tmp_path):
    rules = "limits:\n  - {name: api, key: ip, limit: 500 per 7 days, algorithm: fixed-window}\n"
    homes = [tmp_path / name for name in ("one", "other")]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(RedisServer(tmp_path))
        nodes = []
        for home in homes:
            home.mkdir()
            nodes.append(stack.enter_context(Daemon(home, rules, [
                "--resp", f"unix:{home}/resp", "--http", "none", "--admin", "none",
                "--redis", server.url, "--redis-deadline", "10s"])))
        g = asking(nodes[0].addresses["resp"], "limits: []\n", parameters=PATIENT + " connections=8",
                    server=f"""ration on; location / {{ empty_gif; }}
                    location /other {{ ration_server {nodes[1].addresses["resp"]} {PATIENT}
                                       connections=8; empty_gif; }}""")
        g.wait_for_log(UP, "error", 2)
        with LoopingClients(g), LoopingClients(g, path="/other"):
            wait_for(lambda: g.log("source").count("verdict=refused") > 50, "the limit is reached")
        g.stop()
    log = g.log("source")
    assert log.count("verdict=allowed") == 500 and "source=zone" not in log
    assert re.search(r"/other verdict=allowed", log) and re.search(r" / verdict=allowed", log)


def test_requests_wait_for_redis_at_the_same_time_over_one_connection(asking, tmp_path):
    kinds = ["token-bucket", "fixed-window", "sliding-window", "sliding-log"]  # apart in calls to Redis
    rules = "limits:\n" + "".join(
        f"  - {{name: {kind}, key: ip, limit: 5 per 7 days, algorithm: {kind}, when: {{path: /{kind}}}}}\n"
        for kind in kinds)
    with RedisServer(tmp_path) as server, Proxy(tmp_path, server.path, lines=1) as proxy, \
            Daemon(tmp_path, rules, ["--resp", f"unix:{tmp_path}/resp", "--http", "none", "--workers", "1",
                                     "--redis", proxy.url(0), "--redis-deadline", "10s"]) as node, \
            contextlib.ExitStack() as stack:
        g = answers(asking(node.addresses["resp"], "limits: []\n", parameters=PATIENT))
        wait_for(lambda: "ration_store_up 1" in node.admin("GET", "/metrics").text, "Redis is connected")
        with proxy.replies_held():
            waiting = [stack.enter_context(begin(g, f"/{kind}")) for kind in kinds]
            wait_for(lambda: server.states() == len(kinds), "all of them are asked")
            assert "verdict=" not in g.log("source")
        assert all(request.recv(100).startswith(b"HTTP/1.1 200") for request in waiting)
        assert connections(node) == 1


def test_rationd_restarts_under_load_and_every_request_is_answered(asking, rationd, tmp_path):
    most, own = 3000, 200
    d = rationd(f"limits:\n  - {{name: api, key: ip, limit: {most} per 7 days, algorithm: fixed-window}}\n",
                state=tmp_path / "rationd-state")
    g = answers(asking(d.address, f"limits:\n  - {{name: own, key: ip, limit: {own} per 7 days}}\n",
                        workers=2))
    with LoopingClients(g) as clients:
        for turn in range(1, 4):
            seen = len(clients.answers)
            wait_for(lambda: len(clients.answers) > seen + 100, "it goes on")
            d.kill()
            g.wait_for_log("until it answers again", "error", 2 * turn)  # both workers
            seen = len(clients.answers)
            wait_for(lambda: len(clients.answers) > seen + 100, "it goes on without")
            d.start()
            g.wait_for_log(UP, "error", 2 * (turn + 1))
    assert not clients.lost and set(clients.answers) <= {200, 429}
    allowed = re.findall(r"verdict=allowed rule=\S+ source=(\w+)", g.log("source"))
    assert allowed.count("rationd") <= most and allowed.count("zone") <= own
    assert "source=rationd" in g.log("source")


def test_a_frozen_rationd_under_load_delays_and_loses_no_request(asking, rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 100000 per 7 days}\n")
    g = answers(asking(d.address, "limits: []\n", workers=2, parameters="timeout=20ms"))
    with LoopingClients(g) as clients:
        def ask_it():  # workers, each of which tells when it begins to, and when it ends
            log = g.log("error")
            return log.count(UP) - log.count("until it answers again")

        for _ in range(3):
            d.freeze()
            wait_for(lambda: ask_it() == 0, "it is noticed")
            d.thaw()
            wait_for(lambda: ask_it() == 2, "it is back")
    assert not clients.lost and set(clients.answers) == {200}


def test_reloads_under_load_lose_no_request_and_no_count(asking, rationd):
    d = rationd("limits:\n  - {name: api, key: ip, limit: 1000000 per 7 days, algorithm: fixed-window}\n")
    g = answers(asking(d.address, OURS % ", on_store_failure: refuse", workers=2))
    with LoopingClients(g) as clients:
        for _ in range(10):
            g.reload()
    assert not clients.lost and set(clients.answers) == {200}
    assert int(g.ask()[1]["x-ratelimit-remaining"]) == 1_000_000 - len(clients.answers) - 1
    assert "open socket" not in g.log("error")


def test_a_worker_that_ends_finishes_what_it_has_asked(asking, rationd):
    d = rationd()
    g = answers(asking(d.address))
    d.freeze()
    with begin(g, "/") as s:
        time.sleep(0.05)
        os.kill(g.master, signal.SIGQUIT)
        g.wait_for_log("gracefully shutting down", "error")
        d.thaw()
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    g.wait_for_log("200 / verdict=allowed rule=api source=rationd", "source")
    assert g.process.wait(PATIENCE) == 0
    assert "open socket" not in g.log("error")


@pytest.mark.skipif(SANITIZED is not None or not shutil.which("valgrind"), reason="needs valgrind")
def test_valgrind_finds_nothing_wrong(asking, rationd, upstream):
    d = rationd(THEIRS + PLACES[8:] % "1s")
    g = asking(d.address, start=False, server=proxied(upstream), top="master_process off;")
    g.start("valgrind", "--error-exitcode=77", "--quiet", f"--log-file={g.folder}/valgrind.log")
    answers(g)
    upstream.release.set()
    assert g.statuses(3, "/hold") == [200] * 3
    d.freeze()
    with begin(g, "/gone"):
        time.sleep(0.1)
    g.wait_for_log("499 /gone", "source")
    d.thaw()
    assert g.statuses(3) == [200, 200, 429] or g.statuses(1) == [429]
    d.kill()
    g.wait_for_log("until it answers again", "error")
    assert g.ask()[0] == 200
    g.process.send_signal(3)  # SIGQUIT: a clean end
    assert g.process.wait(60) == 0
    assert "nginx" not in (g.folder / "valgrind.log").read_text()
