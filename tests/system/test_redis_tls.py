# SPDX-License-Identifier: Apache-2.0
"""Nodes that use a real redis-server with TLS: which certificates they accept, and their own."""

import subprocess

import pytest

from daemon import free_port, wait_for
from redis_node import REDIS_NODE, Node, no_node_is_left  # noqa: F401 (a fixture)
from redis_server import RedisServer
from test_tls import Authority, has_tls

pytestmark = pytest.mark.skipif(not has_tls(), reason="this build has no TLS")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    for name in ("redis", "node"):
        authority.sign(name)
    return authority


def options(authority, port, clients="no"):
    folder = authority.folder
    return ["--tls-port", str(port), "--tls-cert-file", str(folder / "redis.pem"), "--tls-key-file",
            str(folder / "redis.key"), "--tls-ca-cert-file", str(authority.file),
            "--tls-auth-clients", clients, "--bind", "127.0.0.1", "127.0.0.2", "-::1"]


@pytest.fixture
def port(tmp_path, authority):
    """Of a server whose certificate is for localhost and 127.0.0.1."""
    port = free_port()
    with RedisServer(tmp_path, options=options(authority, port)):
        yield port


def assert_works(url):
    result = Node(url, "50 per hour", count=100, depth=4, deadline=1000).result()
    assert result["allowed"] <= 50 <= result["allowed"] + result["failed"]
    assert result["failed"] == result["late"]


def assert_refused(url, reason):
    node = Node(url, count=1)
    node.logs("redis.down")
    node.kill()
    assert "tls.failed listener=redis" in node.log and reason in node.log


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_certificate_of_an_authority_for_this_name_is_accepted(port, authority, host):
    assert_works(f"rediss://{host}:{port}?ca={authority.file}")


def test_a_certificate_of_no_authority_is_refused(port, tmp_path_factory):
    stranger = Authority(tmp_path_factory.mktemp("stranger"), "stranger")
    assert_refused(f"rediss://127.0.0.1:{port}?ca={stranger.file}", "certificate")
    assert_refused(f"rediss://127.0.0.1:{port}", "certificate")


def test_a_certificate_for_another_name_needs_verify_ca(port, authority):
    other = f"rediss://127.0.0.2:{port}?ca={authority.file}"
    assert_refused(other, "IP address mismatch")
    assert_works(other + "&verify=ca")


def test_verify_no_accepts_any_certificate(port):
    assert_works(f"rediss://127.0.0.2:{port}?verify=no")


def test_a_server_that_asks_gets_the_client_certificate(tmp_path, authority):
    port = free_port()
    ours = f"cert={authority.folder / 'node.pem'}&key={authority.folder / 'node.key'}"
    with RedisServer(tmp_path, options=options(authority, port, clients="yes")):
        assert_works(f"rediss://127.0.0.1:{port}?ca={authority.file}&{ours}")
        node = Node(f"rediss://127.0.0.1:{port}?ca={authority.file}", count=1)
        node.logs("redis.down")


def test_a_server_that_speaks_no_tls_is_given_up(tmp_path, authority):
    port = free_port()
    with RedisServer(tmp_path, port=port):  # it waits for the end of what it takes for a command
        node = Node(f"rediss://127.0.0.1:{port}?ca={authority.file}", count=1)
        node.logs("redis.down")
        assert "tls.slow listener=redis" in node.log and 'reason="no connection could be made"' in node.log


def test_the_servers_of_a_cluster_are_reached_by_tls(tmp_path, authority):
    port = free_port()
    more = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", str(free_port())]
    with RedisServer(tmp_path, options=options(authority, port) + more) as server:
        server.client().execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_for(lambda: b"cluster_state:ok" in server.client().execute_command("CLUSTER", "INFO"))
        assert_works(f"rediss+cluster://localhost:{port}?ca={authority.file}&verify=ca")


def test_unusable_tls_files_are_reported_at_once():
    words = [REDIS_NODE, "rediss://localhost?ca=/none.pem", "1 per hour", "fixed-window", "1", "1", "1", "0"]
    run = subprocess.run(words, capture_output=True, text=True)
    assert run.returncode == 2 and "cannot read /none.pem: No such file or directory" in run.stderr
