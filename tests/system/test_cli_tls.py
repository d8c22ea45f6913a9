# SPDX-License-Identifier: Apache-2.0
"""`ration` over TLS: which certificates it accepts, which it does not, and what it says then."""

import contextlib
import re
import socket

import pytest

from daemon import Daemon
from ration_command import run, server
from test_tls import Authority, has_tls

pytestmark = pytest.mark.skipif(not has_tls(), reason="this build has no TLS")

RULES = "limits: [{name: api, key: ip, limit: 5 per hour}]\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("authority"))
    made.sign("server")
    made.sign("alice")
    made.sign("elsewhere", names="DNS:ration.example,DNS:*.ration.example,IP:192.0.2.1")
    made.sign("ended", days=-1)
    return made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    made = Authority(tmp_path_factory.mktemp("stranger"), "stranger")
    made.sign("mallory")
    return made


def files(authority, name, *more):
    return ["--tls-cert", authority.folder / f"{name}.pem", "--tls-key", authority.folder / f"{name}.key",
            *more]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, authority):
    with Daemon(tmp_path_factory.mktemp("daemon"), RULES, files(authority, "server")) as d:
        yield d


@contextlib.contextmanager
def serving(tmp_path, authority, name, *more):
    with Daemon(tmp_path, RULES, files(authority, name, *more)) as d:
        yield d


def port_of(d, name):
    return d.addresses[name].rpartition(":")[2]


def ask(d, *more, host="127.0.0.1", env=None):
    """The question that the tests of failures ask."""
    return run("shadow", "status", "--admin", f"https://{host}:{port_of(d, 'admin')}", *more, env=env)


def objects(answer, *words):
    """That it failed, in one line that has all of the words."""
    assert (answer.status, answer.out) == (2, ""), answer
    assert answer.err.startswith("ration: ") and answer.err.count("\n") == 1, answer
    for word in words:
        assert str(word) in answer.err, answer
    return True


# --- what works ------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_every_command_speaks_tls(daemon, authority, host):
    trust = ["--cacert", authority.file]
    http, admin = (f"https://{host}:{port_of(daemon, name)}" for name in ("http", "admin"))
    answer = run("check", "--http", http, *trust, "--times", 6, f"ip={host}")
    assert (answer.status, "5 allowed, 1 refused" in answer.out) == (1, True), answer
    assert run("check", f"--server={http}/", *trust, f"ip={host}").status == 1
    assert run("state", "--admin", admin, *trust, f"ip={host}").status == 0
    assert run("explain", "--admin", admin, *trust, f"ip={host}").status == 1
    assert run("ban", "add", "--admin", admin, *trust, "user=eve").status == 0
    assert "user=eve" in run("ban", "list", "--admin", admin, *trust).out
    assert "name: " in run("rules", "get", "--admin", admin, *trust).out
    assert f"at {host}:" in run("top", "--once", "--interval", "100ms", "--admin", admin, *trust).out
    assert run("reset", "--admin", admin, *trust, f"ip={host}").status == 0


def test_an_answer_of_many_records_arrives_whole(daemon, authority):
    admin = ["--admin", f"https://{daemon.addresses['admin']}", "--cacert", authority.file]
    rules = RULES.replace("]", "".join(f", {{name: r{i}, key: ip, limit: 5 per hour}}" for i in range(3000)) + "]")
    assert run("rules", "push", "-", *admin, stdin=rules).status == 0
    assert run("rules", "get", *admin).out == rules
    assert run("rules", "reload", *admin).status == 0


@pytest.mark.parametrize("port, scheme", [("resp", "rediss"), ("http", "https")])
@pytest.mark.parametrize("pipeline", [1, 100])
def test_bench_speaks_tls(daemon, authority, port, scheme, pipeline):
    answer = run("bench", f"--{port}", f"{scheme}://{daemon.addresses[port]}", "--cacert", authority.file,
                 "--requests", 20000, "--connections", 5, "--pipeline", pipeline, "--threads", 2, "--json")
    assert answer.status == 0, answer
    report = answer.json
    assert (report["requests"], report["errors"], report["unanswered"]) == (20000, 0, 0)


def test_files_may_be_named_by_the_environment(tmp_path, authority):
    with serving(tmp_path, authority, "server", "--tls-client-ca", authority.file) as d:
        env = {"RATION_CACERT": str(authority.file), "RATION_CERT": str(authority.folder / "alice.pem"),
               "RATION_KEY": str(authority.folder / "alice.key"),
               "RATION_ADMIN": f"https://{d.addresses['admin']}"}
        assert run("shadow", "status", env=env).status == 0
        assert objects(run("shadow", "status", env={**env, "RATION_CERT": "", "RATION_KEY": ""}), "--cert")
    with Daemon(tmp_path, RULES) as d: # in plain they mean nothing
        assert run("shadow", "status", "--admin", d.addresses["admin"], env=env).status == 0


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_certificate_is_shown_on_request(tmp_path, authority, stranger, version):
    # rationd has no highest version: TLS 1.2 is made by a client's configuration.
    config = tmp_path / "openssl.cnf"
    config.write_text("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n"
                      f"[c]\nMaxProtocol = TLSv{version}\n")
    env = {"OPENSSL_CONF": str(config)}
    with serving(tmp_path, authority, "server", "--tls-client-ca", authority.file) as d:
        def show(*more):
            return ask(d, "--cacert", authority.file, *more, env=env)

        both = tmp_path / "both.pem"
        both.write_text((authority.folder / "alice.pem").read_text() +
                        (authority.folder / "alice.key").read_text())
        assert show("--cert", authority.folder / "alice.pem", "--key", authority.folder / "alice.key").status == 0
        assert show("--cert", both).status == 0
        wanted = "it wants to see a certificate; --cert FILE and --key FILE show one"
        assert objects(show(), wanted)
        load = run("bench", "--resp", f"rediss://{d.addresses['resp']}", "--cacert", authority.file,
                   "--requests", 1, env=env)
        assert load.status == 2 and "it wants to see a certificate" in load.err, load
        mallory = stranger.folder / "mallory.pem"
        assert objects(show("--cert", mallory, "--key", stranger.folder / "mallory.key"),
                       f"it does not accept the certificate in {mallory} (", "unknown ca")


# --- certificates that are refused ---------------------------------------------------------------


def test_another_authority_is_not_believed(daemon, stranger):
    assert objects(ask(daemon, "--cacert", stranger.file), "no TLS with 127.0.0.1:",
                   f": its certificate is not from the authorities in {stranger.file}\n")


def test_without_an_authority_the_systems_are_asked(daemon):
    assert objects(ask(daemon), ": its certificate is from no authority that this system knows; "
                                "--cacert FILE names another\n")


def test_an_authority_of_the_system_is_believed(daemon, authority):
    assert ask(daemon, env={"SSL_CERT_FILE": str(authority.file)}).status == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_certificate_for_another_name_is_not_believed(tmp_path, authority, host):
    with serving(tmp_path, authority, "elsewhere") as d:
        assert objects(ask(d, "--cacert", authority.file, host=host),
                       f": its certificate is not for {host}, but for DNS:ration.example, "
                       "DNS:*.ration.example, IP Address:192.0.2.1\n")


def test_a_certificate_that_has_ended_is_not_believed(tmp_path, authority):
    with serving(tmp_path, authority, "ended") as d:
        answer = ask(d, "--cacert", authority.file)
        assert objects(answer, ": its certificate has expired: ")
        assert re.search(r"expired: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n$", answer.err)


def test_bench_verifies_certificates_as_well(tmp_path, daemon, stranger, authority):
    load = ["bench", "--requests", 1, "--resp"]
    assert objects(run(*load, f"rediss://{daemon.addresses['resp']}", "--cacert", stranger.file),
                   "no TLS with", f"not from the authorities in {stranger.file}")
    with serving(tmp_path, authority, "elsewhere") as d:
        assert objects(run(*load, f"rediss://{d.addresses['resp']}", "--cacert", authority.file),
                       "its certificate is not for 127.0.0.1, but for DNS:ration.example")


# --- servers without TLS -------------------------------------------------------------


def test_a_daemon_that_speaks_no_tls(tmp_path, authority):
    with Daemon(tmp_path, RULES) as d:
        plain = "it does not speak TLS; leave out https:// or rediss://\n"
        assert objects(ask(d, "--cacert", authority.file), plain)
        assert objects(run("bench", "--resp", f"rediss://{d.addresses['resp']}", "--requests", 1), plain)


def test_a_daemon_that_speaks_tls_where_none_is_expected(daemon):
    address = daemon.addresses["admin"]
    answer = run("shadow", "status", "--admin", address)
    assert objects(answer, f"what answers at {address} speaks TLS; write https://{address}\n")
    for port, scheme in ("resp", "rediss"), ("http", "https"):
        address = daemon.addresses[port]
        answer = run("bench", f"--{port}", address, "--requests", 1)
        assert answer.status == 2 and f"speaks TLS; write {scheme}://{address}" in answer.err, answer


def test_a_server_that_hangs_up(authority):
    with server(b"") as address:
        answer = run("shadow", "status", "--admin", f"https://{address}", "--cacert", authority.file)
        assert objects(answer, "it closed the connection; does it speak TLS?")


def test_a_server_that_says_nothing(authority):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = "127.0.0.1:%d" % silent.getsockname()[1]
        answer = run("shadow", "status", "--admin", f"https://{address}", "--timeout", "200ms")
        assert objects(answer, f"rationd at {address} does not answer in time")


# --- mistakes --------------------------------------------------------------------------


@pytest.mark.parametrize("args, message", [
    (["--admin", "127.0.0.1:9", "--cacert", "ca.pem"], "--cacert is for TLS; write the address as https://127.0.0.1:9"),
    (["--admin", "unix:/x", "--cert", "c.pem"], "--cert is for TLS; write the address as https://HOST:PORT"),
    (["--admin", "rediss://127.0.0.1:9"], '--admin: found "rediss://127.0.0.1:9", expected http:// or https://'),
    (["--admin", "https://unix:/x"], "unix sockets do not speak TLS"),
    (["--admin", "https://127.0.0.1"], '"https://127.0.0.1" is not an address: it has no port'),
    (["--admin", "https://127.0.0.1:9/v1"], "a port is a number from 1 to 65535"),
    (["--admin", "https://127.0.0.1:9", "--key", "k.pem"], "--key needs a certificate, too; --cert FILE names it"),
    (["--admin", "https://127.0.0.1:9", "--cacert", "/nonexistent"],
     "--cacert: /nonexistent cannot be opened: No such file or directory"),
    (["--admin", "https://127.0.0.1:9", "--cacert", "/dev/null"], "--cacert: /dev/null is not a file of certificates in PEM ("),
    (["--admin", "https://127.0.0.1:9", "--cert", "/dev/null"], "--cert: /dev/null is not a certificate in PEM ("),
])
def test_mistakes_are_answered_with_what_would_be_right(args, message):
    answer = run("shadow", "status", *args)
    assert (answer.status, answer.out) == (2, "") and message in answer.err, answer


def test_a_key_of_another_certificate(authority):
    answer = run("shadow", "status", "--admin", "https://127.0.0.1:9", "--cert", authority.folder / "alice.pem",
                 "--key", authority.folder / "server.key")
    assert objects(answer, "server.key is not the key of the certificate in ")


def test_certificates_cannot_go_unverified(daemon):
    answer = ask(daemon, "--insecure")
    assert answer.status == 2 and "there is no option \"--insecure\"" in answer.err
