# SPDX-License-Identifier: Apache-2.0
"""rationd as a service: sockets that stay open while it is restarted, the watchdog, credentials."""

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import ssl
import subprocess

import pytest

from daemon import RATIOND, Daemon, free_port, wait_for
from concurrent_clients import command, post
from restart_clients import Clients
from service_manager import ServiceManager

LIMIT = "1000 per 7 days"


def take(daemon, cost=1):
    return daemon.http("POST", "/v1/throttle", {"key": "ann", "limit": LIMIT, "cost": cost}).json["remaining"]


@pytest.fixture
def manager(tmp_path):
    with ServiceManager(tmp_path) as made:
        yield made


def on_ports(**more):
    """Options with fixed ports, so that a restart finds the same addresses."""
    return [word for name in ("http", "resp", "admin")
            for word in (f"--{name}", more.get(name, f"127.0.0.1:{free_port()}"))]


# --- sockets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [(2, 2), (1, 3), (3, 1)])
def test_clients_that_come_during_a_restart_are_served_after_it(tmp_path, manager, workers):
    options = [*on_ports(), "--state", tmp_path / "state"]
    daemon = manager.daemon(tmp_path, options=[*options, "--workers", workers[0]])
    with daemon:
        assert manager.stored() == sorted(["stored-admin", *["stored-http", "stored-resp"] * workers[0]])
        assert take(daemon) == 999
        addresses = daemon.addresses
        daemon.stop()
        daemon.addresses = addresses
        with contextlib.ExitStack() as stack:
            early = [(stack.enter_context(daemon.socket(port)), data) for port in ("http", "resp") for data in
                     [post("/v1/throttle", {"key": "bob", "limit": LIMIT}) if port == "http" else
                      command("RATION.TAKE", "bob", LIMIT)] * 8]
            for sock, data in early:
                sock.sendall(data)
            daemon.options = [*map(str, options), "--grpc", "none", "--workers", str(workers[1])]
            manager.start(daemon)
            assert daemon.addresses == addresses
            answers = [sock.recv(4096) for sock, _ in early]
        assert all(answer.startswith((b"HTTP/1.1 200", b"*")) for answer in answers), answers
        assert take(daemon) == 998
        assert manager.stored() == sorted(["stored-admin", *["stored-http", "stored-resp"] * max(workers)])


def test_no_request_and_no_count_is_lost_in_restarts_under_load(tmp_path, manager):
    ended = []
    with manager.daemon(tmp_path, options=[*on_ports(), "--state", tmp_path / "state", "--workers", 2]) as daemon:
        clients = Clients(*(int(daemon.addresses[name].rpartition(":")[2]) for name in ("http", "resp")),
                          lambda: ended)

        def progress():
            seen = [client.answered for client in clients.all]
            wait_for(lambda: all(c.answered >= n + 20 for c, n in zip(clients.all, seen)) or
                     any(c.faults for c in clients.all), "answers")

        try:
            for _ in range(4):
                progress()
                daemon.stop()
                manager.start(daemon)
            progress()
        finally:
            ended.append(True)
            result = clients.finish()
        assert not result["faults"] and result["repeated"] > 0, result


def test_without_a_store_waiting_clients_are_accepted_and_the_port_is_closed(tmp_path):
    with ServiceManager(tmp_path, room=0) as manager, manager.daemon(tmp_path) as daemon:
        address = daemon.addresses
        daemon.stop()
        daemon.addresses = address
        assert manager.stored() == []
        with pytest.raises(ConnectionRefusedError):
            daemon.socket()


def test_a_store_without_enough_room_gets_some(tmp_path):
    with ServiceManager(tmp_path, room=3) as manager, \
            manager.daemon(tmp_path, options=[*on_ports(), "--workers", 2]) as daemon:
        assert manager.stored() == ["stored-http", "stored-http", "stored-resp"]
        daemon.stop()
        manager.start(daemon)
        assert take(daemon) == 999


def test_sockets_of_another_address_are_dropped(tmp_path, manager):
    with manager.daemon(tmp_path, options=[*on_ports(), "--workers", 1]) as daemon:
        before = dict(daemon.addresses)
        daemon.stop()
        daemon.options = [*map(str, on_ports(admin=before["admin"], resp="none")), "--grpc", "none", "--workers", "1"]
        manager.start(daemon)
        assert daemon.addresses["http"] != before["http"] and daemon.addresses["admin"] == before["admin"]
        wait_for(lambda: manager.stored() == ["stored-admin", "stored-http"], "the store")
        now = dict(daemon.addresses)
        for name in ("http", "resp"):
            daemon.addresses = {"http": before[name]}
            with pytest.raises(ConnectionRefusedError):
                daemon.socket()
        daemon.addresses = now
        assert take(daemon) == 999


def test_unix_sockets_stay_too(tmp_path, manager):
    path = tmp_path / "sock"
    with manager.daemon(tmp_path, options=on_ports(http=f"unix:{path}")) as daemon:
        inode = path.stat().st_ino
        daemon.stop()
        assert path.stat().st_ino == inode
        manager.start(daemon)
        assert take(daemon) == 999 and path.stat().st_ino == inode
        daemon.stop()
        path.unlink()
        manager.start(daemon)
        assert take(daemon) == 999, "it listens again where the file has gone"


def test_a_killed_daemon_leaves_its_sockets_to_the_next(tmp_path, manager):
    with manager.daemon(tmp_path, options=[*on_ports(), "--state", tmp_path / "state"]) as daemon:
        assert take(daemon) == 999
        addresses = dict(daemon.addresses)
        daemon.kill()
        daemon.addresses = addresses
        with daemon.socket() as early:
            early.sendall(post("/v1/throttle", {"key": "ann", "limit": LIMIT}))
            manager.start(daemon)
            assert json.loads(early.recv(4096).partition(b"\r\n\r\n")[2])["remaining"] == 998


@pytest.mark.parametrize("before, after", [
    ("127.0.0.1:{}", ":{}"), ("127.0.0.1:{}", "0.0.0.0:{}"), ("[::]:{}", ":{}"), (":{}", "127.0.0.1:{}")])
def test_an_address_that_overlaps_the_last_one_needs_no_second_start(tmp_path, manager, before, after):
    port = free_port()
    with manager.daemon(tmp_path, options=[f"--http={before.format(port)}", "--workers", 2]) as daemon, \
            contextlib.ExitStack() as stack:
        for _, kept in manager.store:  # as a manager that closes its own only later
            stack.enter_context(kept.dup())
        daemon.stop()
        daemon.options[0] = f"--http={after.format(port)}"
        manager.start(daemon)
        assert take(daemon) == 999


def listening(family=socket.AF_INET, address=("127.0.0.1", 0)):
    sock = socket.socket(family)
    sock.bind(address)
    sock.listen()
    return sock


def refuses(address):
    try:
        socket.create_connection(address).close()
    except ConnectionRefusedError:
        return True
    return False


def test_stored_sockets_that_listen_no_more_do_not_keep_it_from_starting(tmp_path, manager):
    options = on_ports()
    with manager.daemon(tmp_path, options=[*options, "--workers", 2]) as daemon:
        daemon.kill()
        for _, kept in manager.store[1:]:
            kept.shutdown(socket.SHUT_RDWR)
        manager.start(daemon)
        assert take(daemon) == 999
        stored = sorted(["stored-admin", *["stored-http", "stored-resp"] * 2])
        wait_for(lambda: manager.stored() == stored, "a store of sockets that listen")
        daemon.stop()
        manager.start(daemon)
        assert take(daemon) == 999


def test_stored_sockets_of_listeners_that_it_does_not_know_are_dropped(tmp_path, manager):
    sock = listening()
    manager.store.append(("stored-" + "x" * 248, sock.dup()))
    manager.store.append(("stored-of-another-version", sock))
    address = sock.getsockname()
    with manager.daemon(tmp_path, options=on_ports()) as daemon:
        assert refuses(address)
        wait_for(lambda: not any(len(name) > 12 for name in manager.stored()), "the store")
        assert take(daemon) == 999


def test_a_socket_that_no_listener_takes_is_told_of(tmp_path, manager):
    manager.store += [("rationd.socket", listening()), ("grpc", listening())]
    with manager.daemon(tmp_path, options=["--grpc", "none"]) as daemon:
        daemon.logged("socket.unused", "name=rationd.socket")
        daemon.logged("socket.unused", "name=grpc")
        assert take(daemon) == 999


def test_a_socket_whose_callers_have_no_address_is_refused(tmp_path, manager):
    """They would count as callers of this machine, who need no token."""
    try:
        manager.store.append(("admin", listening(socket.AF_VSOCK, (socket.VMADDR_CID_ANY, free_port()))))
    except OSError as error:
        pytest.skip(f"no vsock here: {error}")
    with pytest.raises(RuntimeError, match="family 40"):
        manager.daemon(tmp_path)


def test_a_tcp_socket_in_the_place_of_a_unix_socket_speaks_tls(tmp_path, manager):
    run = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
           "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", tmp_path / "key",
           "-out", tmp_path / "cert"]
    subprocess.run(run, check=True, capture_output=True)
    checked = subprocess.run([RATIOND, "--check", "--tls-cert", tmp_path / "cert", "--tls-key", tmp_path / "key"],
                             capture_output=True)
    if b"no TLS" in checked.stderr:
        pytest.skip("this build has no TLS")
    sock = listening()
    manager.store.append(("http", sock))
    with manager.daemon(tmp_path, options=["--http", f"unix:{tmp_path}/http", "--tls-cert", tmp_path / "cert",
                                           "--tls-key", tmp_path / "key"]):
        context = ssl.create_default_context(cafile=tmp_path / "cert")
        with socket.create_connection(sock.getsockname()) as raw, \
                context.wrap_socket(raw, server_hostname="localhost") as secure:
            secure.sendall(post("/v1/throttle", {"key": "ann", "limit": LIMIT}))
            assert secure.recv(4096).startswith(b"HTTP/1.1 200")


# --- the watchdog -------------------------------------------------------------------------------------


def freeze_thread(tid):
    """One thread, not its process."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(16, tid, None, None) != 0:  # PTRACE_ATTACH
        pytest.skip(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")
    os.waitpid(tid, 0x40000000)  # __WALL: until it has stopped
    return lambda: libc.ptrace(17, tid, None, None)  # PTRACE_DETACH


def test_watchdog_hears_of_a_hung_thread_by_silence(tmp_path, manager):
    with manager.daemon(tmp_path, options=["--workers", 2],
                        env={"WATCHDOG_USEC": "400000"}) as daemon:
        pid = daemon.process.pid
        manager.told("WATCHDOG", 3)
        workers = sorted(int(tid) for tid in os.listdir(f"/proc/{pid}/task") if int(tid) != pid)
        assert len(workers) >= 2
        for worker in workers[:2]:
            thaw = freeze_thread(worker)

            def signs():
                return sum("WATCHDOG" in state for state in manager.states)

            # The control thread goes on: what it answers shows that time has passed for it.
            until = signs() + 1
            for _ in range(8):
                daemon.reload()
                wait_for(lambda n=sum("RELOADING" in s for s in manager.states): n >= 0 and
                         daemon.admin("GET", "/v1/signals").status == 200)
                signal.sigtimedwait([], 0.1)
            assert signs() <= until, "a sign of life although a thread hangs"
            thaw()
            manager.told("WATCHDOG", until + 3)


def test_watchdog_of_another_process_is_none_of_ours(tmp_path, manager):
    with manager.daemon(tmp_path, env={"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}) as daemon:
        assert take(daemon) == 999
        daemon.stop()
        manager.told("STOPPING")
        assert not any("WATCHDOG" in state for state in manager.states)


# --- a manager that hangs, or says nonsense -----------------------------------------------------------


def is_full(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        try:
            probe.sendto(b"STATUS=probe", path)
        except BlockingIOError:
            return True
        return False


def drain(manager):
    read = []
    with contextlib.suppress(BlockingIOError):
        while True:
            read.append(manager.recv(4096, socket.MSG_DONTWAIT))
    return read


def test_a_manager_that_hangs_does_not_make_rationd_hang(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        with Daemon(tmp_path, env={"NOTIFY_SOCKET": path, "FDSTORE": "64", "WATCHDOG_USEC": "40000"}) as daemon:
            wait_for(lambda: is_full(path), "a full socket")
            for _ in range(3):
                daemon.reload()
                assert daemon.admin("GET", "/v1/rules").status == 200
            drain(manager)
            wait_for(lambda: b"WATCHDOG=1" in drain(manager), "signs of life go on")
            wait_for(lambda: is_full(path), "a full socket")
            daemon.stop()
            daemon.start()
            assert take(daemon) == 999


@pytest.mark.parametrize("variables", [
    {"LISTEN_FDS": "2147483647"}, {"LISTEN_FDS": "18446744073709551615"}, {"LISTEN_FDS": "-1"}, {"LISTEN_FDS": "many"},
    {"LISTEN_FDS": "3", "LISTEN_FDNAMES": ":" * 70_000}, {"LISTEN_FDS": "3", "LISTEN_FDNAMES": "stored-http\nX=1::\x01"},
    {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "stored-" + "http" * 1000}, {"LISTEN_FDS": "1", "LISTEN_FDNAMES": ""},
    {"NOTIFY_SOCKET": "@"}, {"NOTIFY_SOCKET": "@" + "x" * 107}, {"NOTIFY_SOCKET": "/" + "x" * 5000},
    {"NOTIFY_SOCKET": "notify"}, {"NOTIFY_SOCKET": "/dev/null"}, {"NOTIFY_SOCKET": "vsock:2:1"},
    {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "-1"}, {"WATCHDOG_USEC": "9" * 30}, {"WATCHDOG_USEC": "1"},
    {"FDSTORE": "-1"}, {"FDSTORE": "9" * 30}], ids=lambda v: " ".join(f"{n}={t[:12]!r}" for n, t in v.items()))
def test_nonsense_from_a_manager_is_ignored(tmp_path, variables):
    """LISTEN_PID is the daemon's own."""
    with Daemon(tmp_path, env={"NOTIFY_SOCKET": "/nowhere", **variables}, start=False) as daemon:
        daemon.wrapper = ["/bin/sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh"]
        daemon.start()
        assert take(daemon) == 999


# --- credentials ----------------------------------------------------------------------------------------

GUARDED = "limits: []\nserver: {trust_local: false}\n"


@pytest.fixture
def credentials(tmp_path):
    folder = tmp_path / "credentials"
    folder.mkdir()
    return folder


def write(path, text):
    path.write_text(text + "\n")
    path.chmod(0o400)


def status(daemon, token):
    return daemon.admin("GET", "/v1/rules", headers={"Authorization": f"Bearer {token}"}).status


def test_admin_token_is_a_credential(tmp_path, credentials):
    write(credentials / "admin-token", "s3cret")
    env = {"CREDENTIALS_DIRECTORY": str(credentials)}
    with Daemon(tmp_path, GUARDED, env=env) as daemon:
        assert status(daemon, "s3cret") == 200 and status(daemon, "other") == 401
    with Daemon(tmp_path, GUARDED, env={**env, "RATION_ADMIN_TOKEN": "other"}) as daemon:
        assert status(daemon, "s3cret") == 401 and status(daemon, "other") == 200, "what is set otherwise wins"


def test_redis_and_its_secret_are_credentials(tmp_path, credentials):
    def fault(**env):
        done = subprocess.run([RATIOND, "--check"], capture_output=True, text=True,
                              env={**os.environ, "CREDENTIALS_DIRECTORY": str(credentials), **env})
        return done.returncode and done.stderr

    assert fault() == 0, "credentials that are missing are not set"
    write(credentials / "redis", "nonsense://")
    assert re.match('rationd: --redis-file "/.*"; not the URL', fault())
    assert fault(RATION_REDIS="none") == 0
    write(credentials / "redis", "redis://127.0.0.1:1")
    assert fault() == 0
    write(credentials / "redis-key-secret", "one\ntwo")
    assert "redis-key-secret" in fault() and "several lines" in fault()


def test_a_credential_that_cannot_be_read_is_not_taken_for_a_missing_one(tmp_path, credentials):
    """Without a token, who is on this machine may change everything."""
    def fault(folder):
        return subprocess.run([RATIOND, "--check"], capture_output=True, text=True,
                              env={**os.environ, "CREDENTIALS_DIRECTORY": str(folder)}).stderr

    token = credentials / "admin-token"
    token.symlink_to("/nowhere")
    assert "No such file" in fault(credentials)
    assert "Not a directory" in fault(__file__)
    assert "too long" in fault("/" + "x" * 5000)
    token.unlink()
    token.mkdir()
    assert "is a directory" in fault(credentials)
    assert fault(tmp_path / "absent") == ""


def test_a_misspelt_option_does_not_print_its_value():
    done = subprocess.run([RATIOND, "--admin-tokn=s3cret"], capture_output=True, text=True)
    assert done.returncode == 2 and "--admin-tokn;" in done.stderr and "s3cret" not in done.stderr
