# SPDX-License-Identifier: Apache-2.0
"""docs/retrying.md: its table is that of the simulation, and its clients get through to a rationd that refuses most of
what they ask, without asking earlier than they were told."""

import http.server
import re
import subprocess
import threading
import time

import pytest

from daemon import PATIENCE, ROOT, Daemon, wait_for

PAGE = (ROOT / "docs/retrying.md").read_text()
CLIENTS = {"retry.py": ["/usr/bin/python3"], "retry.js": ["node"]}


def test_the_table_is_that_of_the_simulation():
    done = subprocess.run(["/usr/bin/python3", ROOT / "bench/bench_retries.py"], capture_output=True, text=True, check=True)
    assert done.stdout.count("\n") >= 7 and done.stdout in PAGE


def start(client, url, count=1):
    return subprocess.Popen([*CLIENTS[client], ROOT / "examples/retrying" / client, url, str(count)],
                            stdout=subprocess.PIPE, text=True)


def outputs(clients):
    return [client.communicate(timeout=PATIENCE)[0].split("\n")[:-1] for client in clients]


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_get_through_a_limit_that_refuses_most_of_them(tmp_path, client):
    with Daemon(tmp_path, "limits:\n  - {name: api, key: ip, limit: 4 per second burst 1}\n") as daemon:
        url = f"http://{daemon.addresses['http']}/v1/auth"
        clients = [start(client, url) for _ in range(5)]
        assert outputs(clients) == [["ok"]] * 5
        metrics = daemon.admin("GET", "/metrics").text
    assert int(re.search(r'^ration_decisions_total{decision="refused"} (\d+)', metrics, re.M)[1]) >= 2


def test_curl_gets_through(tmp_path):
    command = re.search(r"^curl --fail.*", PAGE, re.M)[0]
    with Daemon(tmp_path, "limits:\n  - {name: api, key: ip, limit: 1 per second}\n") as daemon:
        command = command.replace("127.0.0.1:8080", daemon.addresses["http"])
        assert [subprocess.run(command, shell=True, timeout=PATIENCE).returncode for _ in range(3)] == [0, 0, 0]
        metrics = daemon.admin("GET", "/metrics").text
    assert int(re.search(r'^ration_decisions_total{decision="refused"} (\d+)', metrics, re.M)[1]) >= 1


class Moody(http.server.BaseHTTPRequestHandler):
    """Answers as the list of its server says, then 200; notes when it was asked."""

    def do_GET(self):
        self.server.times.append(time.monotonic())
        status, headers = self.server.answers.pop(0) if self.server.answers else (200, {})
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def moody():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Moody)
    server.answers, server.times = [], []
    server.url = f"http://127.0.0.1:{server.server_address[1]}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("client", CLIENTS)
def test_nobody_asks_before_retry_after(moody, client):
    moody.answers = [(429, {"retry-after": "2"}), (503, {})]
    assert outputs([start(client, moody.url)]) == [["ok"]]
    assert len(moody.times) == 3
    assert moody.times[1] - moody.times[0] >= 2


@pytest.mark.parametrize("client", CLIENTS)
def test_what_can_never_be_admitted_is_not_repeated(moody, client):
    moody.answers = [(429, {})] * 9
    client = start(client, moody.url)
    client.communicate(timeout=PATIENCE)
    assert len(moody.times) == 1


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_give_up_when_the_wait_is_longer_than_their_time(moody, client):
    moody.answers = [(429, {"retry-after": "86400"})] * 9
    [[said]] = outputs([start(client, moody.url)])
    assert said.startswith("gave up") and len(moody.times) == 1


@pytest.mark.parametrize("client", CLIENTS)
def test_clients_survive_a_retry_after_that_is_none(moody, client):
    moody.answers = [(503, {"retry-after": "soon"}), (503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})]
    assert outputs([start(client, moody.url)]) == [["ok"]]
    wait_for(lambda: len(moody.times) == 3)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("nonsense", ["\xb2", "-1", "1e999", "Fri, 31 Dec 9999 23:59:59 -9999"])
def test_clients_survive_a_retry_after_that_looks_like_a_time(moody, client, nonsense):
    moody.answers = [(503, {"retry-after": nonsense})]
    [[said]] = outputs([start(client, moody.url)])
    assert said == "ok" or said.startswith("gave up")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("digits", [310, 5000])
def test_clients_give_up_at_a_wait_that_is_no_number_any_more(moody, client, digits):
    moody.answers = [(503, {"retry-after": "9" * digits})] * 9
    [[said]] = outputs([start(client, moody.url)])
    assert said.startswith("gave up") and len(moody.times) == 1


@pytest.mark.parametrize("client", CLIENTS)
def test_an_answer_that_ends_too_early_is_asked_for_again(moody, client):
    moody.answers = [(200, {"content-length": "10"})] # before the one of 0: a server that dies meanwhile
    assert outputs([start(client, moody.url)]) == [["ok"]]
    assert len(moody.times) == 2
