# SPDX-License-Identifier: Apache-2.0
"""Settings and files that cannot be meant: each draws a message, and nothing hangs. And bodies that
say something twice."""

import os
import socket
import subprocess

import pytest

from daemon import BUILD, PATIENCE, RATIOND, Daemon
from test_tls import authority, pair  # noqa: F401 (fixtures)

RULES = "limits: [{name: all, key: ip, limit: 10 per day}]\n"
ADDRESSES = ["--http", "127.0.0.1:0", "--resp", "none", "--grpc", "none", "--admin", "none"]


def run(*words, **how):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=PATIENCE,
                          stdin=how.pop("stdin", subprocess.DEVNULL), **how)


@pytest.mark.parametrize("option, value, message", [
    ("redis", "redis://h:99999", "a port that is not a number from 1 to 65535"),
    ("redis", "redis://h:0", "a port that is not a number from 1 to 65535"),
    ("redis", "redis://h:", "a port that is not a number from 1 to 65535"),
    ("redis", "redis+cluster://a:6379,[::1]:65536", "a port that is not a number from 1 to 65535"),
    ("redis", "redis+sentinel://a:26379x/m", "a port that is not a number from 1 to 65535"),
    ("redis", "redis://h/65536", "a database that is not a number from 0 to 65535"),
    ("http", "127.0.0.1:99999", '"99999" is not a port from 0 to 65535'),
    ("resp", "rationd.example:65536", '"65536" is not a port from 0 to 65535'),
    ("grpc", "nonsense", "has no port"),
    ("http", "8080", "is a port only; write :8080 for all addresses, or 127.0.0.1:8080"),
    ("workers", "0", "write a number from 1 to 256"),
    ("admin", "[::1:80", "is not [v6]:port"),
    ("admin", "unix:", "lacks a path"),
    ("input-memory", "1M", "write a size of 16M or more"),
    ("usage-memory", "1k", "write a size of 1M or more"),
    ("waiting", "all", "write a number of requests; 0: none waits"),
    ("trust-local", "maybe", "write true or false"),
])
def test_check_refuses_what_could_not_be_used(tmp_path, option, value, message):
    given = run(RATIOND, "--check", f"--{option}", value)
    assert given.returncode == 2 and message in given.stderr
    file = tmp_path / "rules.yaml"  # where it stands there
    file.write_text(f'server:\n  {option.replace("-", "_")}: "{value}"\n')
    given = run(RATIOND, "--check", "--config", file)
    assert given.returncode == 2 and f"{file}:2:" in given.stderr and message in given.stderr


def test_a_wrong_url_of_a_redis_is_named_by_where_it_was_given_and_never_printed(tmp_path):
    url, rules = tmp_path / "url", tmp_path / "rules.yaml"
    url.write_text("redis//:s3cret@h\n")
    url.chmod(0o600)
    rules.write_text(f"server:\n  redis_file: {url}\n")
    for words, place in ((["--redis-file", url], 'rationd: --redis-file "/'),
                         (["--config", rules], f'{rules}:2:15: redis_file: "/')):
        given = run(RATIOND, "--check", *words)
        assert given.returncode == 2 and place in given.stderr and '"; not the URL' in given.stderr
        assert "s3cret" not in given.stderr
    rules.write_text("server:\n  redis: redis//:s3cret@h\n")
    given = run(RATIOND, "--check", "--config", rules)
    assert given.returncode == 2 and f"{rules}:2:10: redis: not the URL" in given.stderr and "s3cret" not in given.stderr


def test_a_daemon_that_listens_nowhere_does_not_start(tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("server: {http: none, resp: none, grpc: none, admin: none}\n")
    given = run(RATIOND, "--config", file)
    assert given.returncode == 2
    assert given.stderr == ("rationd: http, resp, grpc and admin are all none; give one of them an address, or no client "
                            "can reach rationd\n")
    assert run(RATIOND, "--check", "--config", file, "--http", "127.0.0.1:0").returncode == 0


@pytest.mark.parametrize("value", ["redis://h:65535", "redis://[::1]:1", "redis+cluster://a,b:7000"])
def test_check_takes_what_can_be_used(value):
    assert run(RATIOND, "--check", "--redis", value).returncode == 0


def test_more_memory_than_the_machine_has_is_pointed_out(tmp_path):
    with Daemon(tmp_path, options=["--memory", "15000G"]) as daemon:
        daemon.logged("memory.large")
    with Daemon(tmp_path, options=["--memory", "4M"]) as daemon:
        assert not any("memory.large" in line for line in daemon.log)


# --- files that are none ----------------------------------------------------------------------------

def make(folder, kind):
    path = folder / "odd.yaml"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(path))
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path


KINDS = ["FIFO", "socket", "device", "directory"]


@pytest.mark.parametrize("kind", KINDS[:3])
def test_rules_are_read_from_regular_files(tmp_path, kind):
    odd = make(tmp_path, kind)
    for words in ([RATIOND, "--check", "--config", odd], [RATIOND, *ADDRESSES, "--config", odd],
                  [BUILD / "ration", "lint", odd]):
        given = run(*words)
        assert given.returncode == 2
        assert f"cannot be read: it is a {kind}, not a regular file" in given.stdout + given.stderr


def test_what_a_shell_pipes_is_read():
    given = run("sh", "-c", f"printf 'limits: []' | {BUILD}/ration lint /dev/stdin")
    assert given.returncode == 0, given.stderr


def test_a_reload_does_not_wait_for_a_fifo(tmp_path):
    with Daemon(tmp_path, RULES) as daemon:
        daemon.file.unlink()
        os.mkfifo(daemon.file)
        answer = daemon.admin("POST", "/v1/rules/reload")
        assert answer.status == 422 and "it is a FIFO" in answer.text
        assert daemon.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.7"}}).json["remaining"] == 9


@pytest.mark.parametrize("kind", KINDS)
def test_state_is_a_regular_file(tmp_path, kind):
    given = run(RATIOND, *ADDRESSES, "--state", make(tmp_path, kind))
    assert given.returncode == 2
    assert "not a regular file" in given.stderr or "cannot be opened" in given.stderr


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", [0, 1], ids=["cert", "key"])
def test_certificates_and_keys_are_regular_files(tmp_path, pair, kind, which):  # noqa: F811
    files = list(pair)
    files[which] = make(tmp_path, kind)
    given = run(RATIOND, "--check", "--tls-cert", files[0], "--tls-key", files[1])
    assert given.returncode == 2 and f"it is a {kind}, not a regular file" in given.stderr


def test_of_certificate_and_authorities_the_wrong_one_is_named(pair):  # noqa: F811
    cert, key = pair
    for ca, wrong in ((key, "client-ca"), (cert, "cert")):
        given = run(RATIOND, "--check", "--tls-cert", cert if wrong != "cert" else key, "--tls-key", key, "--tls-client-ca", ca)
        assert given.returncode == 2 and given.stderr.startswith(f"rationd: --tls-{wrong} "), given.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_token_files_are_regular_files(tmp_path, kind):
    given = run(BUILD / "ration", "top", "--token-file", make(tmp_path, kind))
    assert given.returncode != 0 and f"it is a {kind}, not a regular file" in given.stderr


# --- members that are given twice -------------------------------------------------------------------

TWICE = [
    ("http", "/v1/check", '{"attributes": {"ip": "192.0.2.7"}, "attributes": {"ip": "192.0.2.8"}}', "attributes"),
    ("http", "/v1/check", '{"attributes": {"ip": "192.0.2.7", "ip": "192.0.2.8"}}', "ip"),
    ("http", "/v1/check", '{"attributes": {"ip": "192.0.2.7", "a": "1", "IP": "192.0.2.8"}}', "IP"),
    ("http", "/v1/check", '{"attributes": {"ip": "192.0.2.7"}, "cost": 5, "c\\u006fst": 1}', "cost"),
    ("http", "/v1/check", '{"attributes": {"ip": "192.0.2.7"}, "peek": true, "peek": false}', "peek"),
    ("http", "/v1/throttle", '{"key": "a", "limit": "5 per hour", "key": "b"}', "key"),
    ("http", "/v1/throttle", '{"key": "a", "limit": "5 per hour", "limit": "6 per hour"}', "limit"),
    ("http", "/v1/reserve", '{"key": "a", "limit": "5 per hour", "cost": 1, "for": 1, "for": 2}', "for"),
    ("http", "/v1/charge", '{"charge": "x", "status": 401, "status": 200}', "status"),
    ("http", "/json", '{"domain": "a", "domain": "b", "descriptors": []}', "this member"),
    ("http", "/json", '{"domain": "a", "hits_addend": 1, "hitsAddend": 2}', "this member"),
    ("http", "/json", '{"domain": "a", "descriptors": [{"entries": [{"key": "a", "key": "b"}]}]}', "this member"),
    ("admin", "/v1/state/reset", '{"attributes": {"ip": "192.0.2.7", "ip": "192.0.2.8"}}', "ip"),
    ("admin", "/v1/state/reset", '{"rule": "all", "rule": "all", "attributes": {"ip": "a"}}', "rule"),
    ("admin", "/v1/explain", '{"attributes": {}, "attributes": {}}', "attributes"),
]


def test_a_batch_with_a_mistake_is_not_decided(tmp_path):
    with Daemon(tmp_path, "limits: []\n") as daemon:
        for mistake in ({"key": "ann"}, {"key": "ann", "algorithm": "fixed-window"}, {"limit": "1 per day"},
                        {"attributes": {"ip": "192.0.2.7"}, "key": "ann", "limit": "1 per day"}, {"cost": "1"}, 1):
            answer = daemon.http("POST", "/v1/check", {"checks": [{"key": "bob", "limit": "1 per day"}, mistake]})
            assert answer.status == 400 and "results" not in answer.json, (mistake, answer)
        alone = daemon.http("POST", "/v1/check", {"checks": [{"key": "bob", "limit": "1 per day"}]})
        assert alone.json["results"][0]["allowed"], alone


def test_a_member_that_is_given_twice_is_refused(tmp_path):
    with Daemon(tmp_path, RULES) as daemon:
        for port, path, body, name in TWICE:
            answer = daemon.http("POST", path, body, port=port)
            assert answer.status == 400, (path, body, answer)
            assert "given twice" in answer.text and name in answer.text, (path, body, answer)
        batch = '{"checks": [{"attributes": {"ip": "192.0.2.7"}}, {"attributes": {}, "cost": 1, "cost": 0}]}'
        assert "given twice" in daemon.http("POST", "/v1/check", batch).text
        answer = daemon.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.7", "a": "1", "b": "1"}})
        assert answer.status == 200
