# SPDX-License-Identifier: Apache-2.0
"""rationd over TLS, with clients that people use: curl, redis-cli, Python's ssl."""

import contextlib
import http.client
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import time

import pytest

from daemon import PATIENCE, RATIOND, Daemon, wait_for

RULES = "limits: [{name: api, key: ip, limit: 100 per minute}]\n"
PEER = {"attributes": {"ip": "192.0.2.7"}}


def has_tls():
    words = [RATIOND, "--check", "--tls-cert", "-", "--tls-key", "-"]
    return b"no TLS" not in subprocess.run(words, capture_output=True).stderr


pytestmark = pytest.mark.skipif(not has_tls(), reason="this build has no TLS")


def openssl(*words, cwd):
    subprocess.run(["openssl", *map(str, words)], cwd=cwd, check=True, capture_output=True)


class Authority:
    """Signs certificates, in files NAME.pem and NAME.key."""

    def __init__(self, folder, name="authority"):
        self.folder, self.name = pathlib.Path(folder), name
        self.file = self.folder / f"{name}.pem"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "30",
                "-subj", f"/CN={name}", cwd=self.folder)

    def sign(self, name, names="DNS:localhost,IP:127.0.0.1", days=30):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}",
                "-addext", f"subjectAltName={names}", cwd=self.folder)
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey",
                f"{self.name}.key", "-CAcreateserial", "-days", days, "-copy_extensions", "copy",
                "-out", f"{name}.pem", cwd=self.folder)
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    authority = Authority(tmp_path_factory.mktemp("authority"))
    for name in ("server", "next", "alice"):
        authority.sign(name)
    return authority


@pytest.fixture
def pair(authority, tmp_path):
    """The server's certificate and key, in files that a test may replace."""
    install(authority, "server", tmp_path)
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def install(authority, name, folder):
    """Both by rename, the key first."""
    for ending, to in (("key", "key.pem"), ("pem", "cert.pem")):
        shutil.copy(authority.folder / f"{name}.{ending}", folder / f"{to}.new")
        os.rename(folder / f"{to}.new", folder / to)


def options(pair, *more):
    return ["--tls-cert", pair[0], "--tls-key", pair[1], *more]


def trusting(authority, client=None):
    context = ssl.create_default_context(cafile=authority.file)
    if client:
        context.load_cert_chain(authority.folder / f"{client}.pem",
                                authority.folder / f"{client}.key")
    return context


def dial(daemon, port, context):
    """A TLS connection to a port of the daemon."""
    host, _, number = daemon.addresses[port].rpartition(":")
    plain = socket.create_connection((host, int(number)), timeout=PATIENCE)
    return context.wrap_socket(plain, server_hostname=host)


def request(daemon, context, port="http", path="/healthz"):
    host, _, number = daemon.addresses[port].rpartition(":")
    connection = http.client.HTTPSConnection(host, int(number), timeout=PATIENCE, context=context)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


def shown(daemon, authority):
    """The name in the certificate that a new connection is shown."""
    with dial(daemon, "http", trusting(authority)) as connection:
        return dict(part[0] for part in connection.getpeercert()["subject"])["commonName"]


def events(daemon, event):
    return [line for line in daemon.log if f" event={event} " in line]


def curl(*words):
    return subprocess.run(["curl", "-sS", "--max-time", str(PATIENCE), *map(str, words)],
                          capture_output=True, text=True)


def redis_cli(daemon, *words):
    host, _, port = daemon.addresses["resp"].rpartition(":")
    done = subprocess.run(["redis-cli", "-h", host, "-p", port, *map(str, words)],
                          capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout.strip() or done.stderr.strip()


# --- clients ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_curl_decides_over_tls(tmp_path, authority, pair, version):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        done = curl("--cacert", authority.file, f"--tlsv{version}", "--tls-max", version,
                    "-w", "\n%{http_version} %{http_code}", "-d", '{"attributes":{"ip":"192.0.2.7"}}',
                    f"https://{daemon.addresses['http']}/v1/check")
        assert done.returncode == 0, done.stderr
        body, _, end = done.stdout.rpartition("\n")
        assert '"remaining":99' in body and end == "1.1 200"


def test_redis_cli_decides_over_tls(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        tls = ["--tls", "--cacert", authority.file]
        assert redis_cli(daemon, *tls, "PING") == "PONG"
        answer = redis_cli(daemon, *tls, "CL.THROTTLE", "k", 5, 10, 60)
        assert answer.splitlines()[:3] == ["0", "6", "5"]
        assert "PONG" not in redis_cli(daemon, "PING")


def test_large_bodies_and_pipelines_arrive_whole(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        with dial(daemon, "resp", trusting(authority)) as connection:
            count = 20000
            command = b"*2\r\n$4\r\nECHO\r\n$7\r\n%07d\r\n"
            expected = b"".join(b"$7\r\n%07d\r\n" % i for i in range(count))
            got = b""
            for start in range(0, count, 1000):
                connection.sendall(b"".join(command % i for i in range(start, start + 1000)))
                while len(got) < (start + 1000) * 13:
                    got += connection.recv(1 << 16)
            assert got == expected


def test_the_admin_port_speaks_tls_and_its_peer_is_still_local(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        assert request(daemon, trusting(authority), "admin", "/v1/rules") == 200
        assert request(daemon, trusting(authority), "admin", "/metrics") == 200


def test_only_the_listeners_named_speak_tls(tmp_path, authority, pair):
    rules = f"server: {{tls_cert: {pair[0]}, tls_key: {pair[1]}, tls: [admin]}}\n" + RULES
    with Daemon(tmp_path, rules) as daemon:
        assert request(daemon, trusting(authority), "admin") == 200
        assert daemon.http("POST", "/v1/check", PEER).status == 200
        with daemon.resp() as redis:
            assert redis("PING") == b"PONG"


def test_unix_sockets_stay_plain(tmp_path, authority, pair):
    path = tmp_path / "http.sock"
    with Daemon(tmp_path, RULES, options(pair, "--http", f"unix:{path}")) as daemon:
        assert daemon.http("POST", "/v1/check", PEER).status == 200
        assert request(daemon, trusting(authority), "admin") == 200


def test_alpn_names_what_the_port_speaks(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        context = trusting(authority)
        context.set_alpn_protocols(["h2", "http/1.1"])
        with dial(daemon, "http", context) as connection:
            assert connection.selected_alpn_protocol() == "http/1.1"
        with dial(daemon, "resp", context) as connection:
            assert connection.selected_alpn_protocol() is None
        context.set_alpn_protocols(["h2"])
        with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
            dial(daemon, "http", context)


def test_the_least_version_can_be_raised(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair, "--tls-min", "1.3")) as daemon:
        context = trusting(authority)
        assert request(daemon, context) == 200
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="(?i)protocol.version"):
            dial(daemon, "http", context)


def test_plain_http_is_turned_away_and_logged(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        with daemon.socket("http") as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert plain.recv(100) == bytes([21, 3, 1, 0, 2, 2, 10])
            assert plain.recv(100) == b""
        wait_for(lambda: events(daemon, "tls.failed"))
        assert 'listener=http' in events(daemon, "tls.failed")[0]
        assert 'reason="the client does not speak TLS"' in events(daemon, "tls.failed")[0]
        began = time.monotonic()
        for _ in range(40):
            with daemon.socket("http") as plain:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                plain.recv(100)
        assert request(daemon, trusting(authority)) == 200
        seconds = time.monotonic() - began
        assert len(events(daemon, "tls.failed")) <= 1 + 10 * (seconds + 2), "ten in a second"


def test_answers_end_with_close_notify(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        context = trusting(authority)
        with dial(daemon, "http", context) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            got = b""
            while part := connection.recv(4096): # an end without the notice would raise
                got += part
            assert got.endswith(b"ok\n")
        context.options |= ssl.OP_NO_TICKET
        with dial(daemon, "http", context) as idle:
            assert request(daemon, context) == 200
            daemon.process.send_signal(15)
            assert idle.recv(4096) == b""
        assert daemon._end() == 0


@pytest.mark.parametrize("port", ["http", "resp", "grpc", "admin"])
def test_connections_without_a_handshake_do_not_disturb_a_stop(tmp_path, authority, pair, port):
    with Daemon(tmp_path, RULES, options(pair, "--grpc", "127.0.0.1:0")) as daemon, \
            daemon.socket(port) as silent, dial(daemon, port, trusting(authority)):
        daemon.process.send_signal(signal.SIGTERM)
        assert silent.recv(100) == b""
        assert daemon._end() == 0


# --- certificates of clients -----------------------------------------------------------


def test_clients_need_a_certificate_of_the_right_authority(tmp_path, authority, pair):
    other = Authority(tmp_path, "other")
    other.sign("mallory")
    more = ["--tls-client-ca", authority.file]
    with Daemon(tmp_path, RULES, options(pair, *more)) as daemon:
        url = f"https://{daemon.addresses['http']}/healthz"
        ours = ["--cacert", authority.file]

        def by(folder, name):
            return ["--cert", folder / f"{name}.pem", "--key", folder / f"{name}.key"]

        assert curl(*ours, *by(authority.folder, "alice"), url).stdout == "ok\n"
        assert curl(*ours, url).returncode != 0
        assert curl(*ours, *by(tmp_path, "mallory"), url).returncode != 0
        assert redis_cli(daemon, "--tls", *ours, *by(authority.folder, "alice"), "PING") == "PONG"
        assert "PONG" not in redis_cli(daemon, "--tls", *ours, "PING")
        assert request(daemon, trusting(authority, "alice"), "admin") == 200
        wait_for(lambda: len(events(daemon, "tls.failed")) >= 2)
        assert "peer did not return a certificate" in "".join(events(daemon, "tls.failed"))


# --- another certificate ---------------------------------------------------------------


def test_renamed_files_are_taken_up_and_open_connections_stay(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        with dial(daemon, "resp", trusting(authority)) as old:
            old.sendall(b"PING\r\n")
            assert old.recv(7) == b"+PONG\r\n"
            assert shown(daemon, authority) == "server"
            install(authority, "next", tmp_path)
            wait_for(lambda: shown(daemon, authority) == "next")
            old.sendall(b"PING\r\n")
            assert old.recv(7) == b"+PONG\r\n"


def test_a_swapped_symlink_is_taken_up(tmp_path, authority):
    """As Kubernetes mounts secrets: a link to a directory, replaced in one step."""
    for name in ("server", "next"):
        (tmp_path / name).mkdir()
        install(authority, name, tmp_path / name)
    (tmp_path / "current").symlink_to("server")
    current = tmp_path / "current"
    with Daemon(tmp_path, RULES, options((current / "cert.pem", current / "key.pem"))) as daemon:
        assert shown(daemon, authority) == "server"
        (tmp_path / "fresh").symlink_to("next")
        os.rename(tmp_path / "fresh", current)
        wait_for(lambda: shown(daemon, authority) == "next")


def test_a_bad_pair_keeps_the_former(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        shutil.copy(authority.folder / "next.pem", pair[0]) # with the key of the other
        wait_for(lambda: events(daemon, "tls.refused"))
        assert "is not the key of the certificate in" in events(daemon, "tls.refused")[0]
        assert shown(daemon, authority) == "server"
        before = len(events(daemon, "tls.refused"))
        daemon.reload()
        wait_for(lambda: len(events(daemon, "tls.refused")) > before)
        wait_for(lambda: events(daemon, "rules.reload")) # which had nothing to do with it
        assert shown(daemon, authority) == "server"


def test_sighup_reads_the_certificate_again(tmp_path, authority, pair):
    with Daemon(tmp_path, RULES, options(pair)) as daemon:
        install(authority, "next", tmp_path)
        daemon.reload()
        wait_for(lambda: len(events(daemon, "tls.loaded")) >= 2)
        assert shown(daemon, authority) == "next"


# --- settings that do not fit ------------------------------------------------------------


def complaint(*words, cwd):
    done = subprocess.run([RATIOND, "--check", *map(str, words)], cwd=cwd, capture_output=True,
                          text=True, timeout=PATIENCE)
    assert done.returncode == 2
    return done.stderr.strip()


def test_mistakes_are_reported_by_check(tmp_path, pair):
    cert, key = "cert.pem", "key.pem"
    both = ["--tls-cert", cert, "--tls-key", key]
    assert complaint("--tls-cert", cert, cwd=tmp_path) == (
        'rationd: --tls-cert "cert.pem"; name the file of its key with --tls-key (tls_key in the section server)')
    assert complaint("--tls-key", key, cwd=tmp_path) == (
        'rationd: --tls-key "key.pem"; name the certificate with --tls-cert (tls_cert in the section server), too')
    assert complaint("--tls", "http", cwd=tmp_path) == (
        'rationd: --tls "http"; name the certificate with --tls-cert (tls_cert in the section server), too')
    assert complaint("--tls-cert", "none.pem", "--tls-key", key, cwd=tmp_path) == (
        'rationd: --tls-cert "none.pem"; it cannot be read: No such file or directory')
    assert complaint("--tls-cert", cert, "--tls-key", "none.pem", cwd=tmp_path) == (
        'rationd: --tls-key "none.pem"; it cannot be read: No such file or directory')
    assert complaint(*both, "--tls-min", "1.1", cwd=tmp_path) == (
        'rationd: --tls-min "1.1"; write 1.2 or 1.3')
    assert complaint(*both, "--tls", "http,htpp", cwd=tmp_path) == (
        'rationd: --tls "http,htpp"; "htpp": listeners are http, grpc, resp and admin')
    assert complaint(*both, "--tls", "http", "--http", "unix:h", cwd=tmp_path) == (
        'rationd: --tls "http"; "http": is a unix socket or none, and those do not speak TLS')


def test_mistakes_in_files_are_reported_with_their_place(tmp_path, pair):
    (tmp_path / "rules.yaml").write_text(
        "server:\n  tls_cert: cert.pem\n  tls_key: missing.pem\n" + RULES)
    assert complaint("--config", "rules.yaml", cwd=tmp_path) == (
        'rationd: rules.yaml:3:12: tls_key: "missing.pem"; '
        'it cannot be read: No such file or directory')
