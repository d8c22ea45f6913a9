# SPDX-License-Identifier: Apache-2.0
"""A real Envoy, with rationd as its rate limit service and an upstream behind it."""

import concurrent.futures
import contextlib
import http.client
import http.server
import re
import shutil
import subprocess
import threading
import time

import pytest
import yaml

from daemon import PATIENCE, Answer, Daemon
from proxies import PROGRAMS
from stillclock import StillClock

ENVOY = shutil.which("envoy", path=PROGRAMS)
pytestmark = pytest.mark.skipif(not ENVOY, reason="Envoy is not installed: ./dev deps")

RULES = """
domain: edge
descriptors:
  - key: path
    value: /limited
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: path
    value: /short
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: path
    value: /zero
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: path
    value: /line
    rate_limit: {limit: 2 per 2 seconds, queue: {size: 4, max_wait: 20s}}
"""


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"up")

    def log_message(self, *_):
        pass


def cluster(name, address, http2=False):
    host, port = address.rsplit(":", 1)
    made = {"name": name, "type": "STATIC", "connect_timeout": "1s",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [
                {"endpoint": {"address": {"socket_address": {
                    "address": host, "port_value": int(port)}}}}]}]}}
    if http2:
        made["typed_extension_protocol_options"] = {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/"
                         "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}}}}
    return made


def config(upstream, service, deny, timeout):
    """As docs/envoy.md shows it."""
    limit = {"name": "envoy.filters.http.ratelimit", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
        "domain": "edge", "timeout": timeout, "failure_mode_deny": deny,
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "rate_limit_service": {"transport_api_version": "V3", "grpc_service": {
            "envoy_grpc": {"cluster_name": "ration"}}}}}
    router = {"name": "envoy.filters.http.router", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}
    action = {"request_headers": {"header_name": ":path", "descriptor_key": "path"}}
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager"
                 ".v3.HttpConnectionManager",
        "stat_prefix": "edge", "http_filters": [limit, router],
        "route_config": {"virtual_hosts": [{
            "name": "all", "domains": ["*"], "rate_limits": [{"actions": [action]}],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "upstream"}}]}]}}
    return {
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
        "static_resources": {
            "listeners": [{
                "name": "edge", "address": {"socket_address": {"address": "127.0.0.1",
                                                               "port_value": 0}},
                "filter_chains": [{"filters": [{
                    "name": "envoy.filters.network.http_connection_manager",
                    "typed_config": manager}]}]}],
            "clusters": [cluster("upstream", upstream), cluster("ration", service, http2=True)]}}


def get(address, path):
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return Answer(connection.getresponse())


def wait_for(what, *args):
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError, AttributeError):
            found = what(*args)
            if found:
                return found
        assert time.monotonic() < deadline, f"{what.__name__} never came true"
        time.sleep(0.05)


@contextlib.contextmanager
def envoy(folder, service, deny=False, timeout="1s", change=None):
    """Yields the address of its listener. `change` may change its configuration."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = config(f"127.0.0.1:{server.server_port}", service, deny, timeout)
    if change:
        change(settings)
    (folder / "envoy.yaml").write_text(yaml.safe_dump(settings))
    admin_file = folder / "admin"
    with open(folder / "envoy.log", "wb") as log:
        process = subprocess.Popen(
            [ENVOY, "-c", folder / "envoy.yaml", "--admin-address-path", admin_file,
             "--concurrency", "1", "--disable-hot-restart", "-l", "warning"],
            stdout=log, stderr=log)
        try:
            admin = wait_for(lambda: admin_file.read_text().strip())
            wait_for(lambda: get(admin, "/ready").status == 200)
            listeners = get(admin, "/listeners").text
            yield re.search(r"edge::(\S+)", listeners)[1]
        finally:
            process.terminate()
            process.wait(PATIENCE)
            server.shutdown()
            server.server_close()


@pytest.fixture(scope="module")
def edge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edge")
    options = ["--grpc", "127.0.0.1:0", "--rls-headers", "true"]
    with Daemon(folder, RULES, options) as daemon, envoy(folder, daemon.addresses["grpc"]) as at:
        yield at


def test_admitted_requests_pass_and_have_headers(edge):
    answer = get(edge, "/limited")
    assert answer.status == 200 and answer.text == "up"
    assert answer.headers["x-ratelimit-limit"].startswith("2, 2;w=")
    assert answer.headers["x-ratelimit-remaining"] == "1"
    assert int(answer.headers["x-ratelimit-reset"]) > 0
    assert answer.headers["ratelimit-limit"] == "2"
    assert answer.headers["ratelimit-remaining"] == "1"


def test_refused_requests_are_429_and_say_when_to_retry(edge):
    while get(edge, "/limited").status == 200:
        pass
    answer = get(edge, "/limited")
    assert answer.status == 429
    assert answer.headers["x-envoy-ratelimited"] == "true"
    assert answer.headers["x-ratelimit-remaining"] == "0"
    assert int(answer.headers["retry-after"]) == int(answer.headers["x-ratelimit-reset"]) > 0


def test_the_reset_is_the_end_of_the_window(edge):
    get(edge, "/short")
    answer = get(edge, "/short")
    if answer.status == 200: # a minute began just then
        answer = get(edge, "/short")
    assert answer.status == 429
    assert 0 < int(answer.headers["x-ratelimit-reset"]) <= 60


def test_a_limit_of_nothing_refuses(edge):
    assert get(edge, "/zero").status == 429


def test_requests_that_no_rule_names_pass(edge):
    answer = get(edge, "/other")
    assert answer.status == 200
    assert answer.headers["x-ratelimit-limit"] is None


def test_requests_wait_in_line_within_the_timeout(tmp_path):
    clock = StillClock(tmp_path / "clock")
    with Daemon(tmp_path, RULES, ["--grpc", "127.0.0.1:0"], env=clock.env()) as daemon, \
            envoy(tmp_path, daemon.addresses["grpc"], timeout="30s") as at, \
            concurrent.futures.ThreadPoolExecutor(4) as pool:
        def are_waiting(count):
            return f"\nration_waiting {count}\n" in daemon.admin("GET", "/metrics").text

        assert [get(at, "/line").status for _ in range(2)] == [200, 200]
        waiting = [pool.submit(get, at, "/line") for _ in range(4)]
        wait_for(are_waiting, 4)
        assert get(at, "/line").status == 429, "the line is full"
        clock.advance(4)
        wait_for(are_waiting, 2)
        clock.advance(4)
        assert [answer.result().status for answer in waiting] == [200] * 4


@pytest.mark.parametrize("deny, status", [(False, 200), (True, 500)],
                         ids=["lets everything pass", "refuses everything"])
def test_without_a_service_the_failure_mode(tmp_path, deny, status):
    with Daemon(tmp_path, RULES, ["--grpc", "127.0.0.1:0"]) as daemon:
        with envoy(tmp_path, daemon.addresses["grpc"], deny) as at:
            assert get(at, "/zero").status == 429
            daemon.stop()
            assert get(at, "/zero").status == status


def test_a_restarted_service_is_found_again(tmp_path):
    with Daemon(tmp_path, RULES, ["--grpc", "127.0.0.1:0"]) as daemon:
        with envoy(tmp_path, daemon.addresses["grpc"]) as at:
            daemon.options[daemon.options.index("--grpc") + 1] = daemon.addresses["grpc"]
            assert get(at, "/zero").status == 429
            daemon.stop()
            daemon.start()
            wait_for(lambda: get(at, "/zero").status == 429)


def test_native_rules_hold_where_a_file_says_so(tmp_path):
    rules = """
apply_to_envoy: true
limits:
  - name: by-path
    when: {domain: edge}
    key: path
    limit: 2 per 52 weeks
    algorithm: fixed-window
"""
    with Daemon(tmp_path, rules, ["--grpc", "127.0.0.1:0"]) as daemon:
        with envoy(tmp_path, daemon.addresses["grpc"]) as at:
            assert [get(at, "/mine").status for _ in range(3)] == [200, 200, 429]
            answer = get(at, "/other")
            assert answer.status == 200
            assert answer.headers["x-ratelimit-remaining"] == "1"
