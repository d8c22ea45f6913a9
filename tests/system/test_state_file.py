# SPDX-License-Identifier: Apache-2.0
"""What rationd and nginx say when their state file is damaged, cut short or taken away."""

import contextlib
import http.client
import os
import shutil
import signal

import pytest

from daemon import Daemon, wait_for
from gateway import GIF, MODULE, SANITIZED, THREE

RULES = "limits:\n  - {name: login, key: ip, limit: 5 per 7 days, algorithm: fixed-window}\n"
DELTA_AT = 128 + 24  # of the clock in the header
needs_nginx = pytest.mark.skipif(SANITIZED is not None or not MODULE.exists() or not shutil.which("nginx"),
                                 reason="needs nginx and the module")


def check(daemon, ip="192.0.2.7"):
    return daemon.http("POST", "/v1/check", {"attributes": {"ip": ip}})


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xFF]))


def test_a_flipped_byte_of_the_clock_forgets_nothing_and_is_said(tmp_path):
    state = tmp_path / "state"
    with Daemon(tmp_path, RULES, ["--state", state]) as daemon:
        assert [check(daemon).status for _ in range(4)] == [200] * 4
        for at in (DELTA_AT + 6, DELTA_AT + 7):
            daemon.stop()
            flip(state, at)
            daemon.start()
            daemon.logged("part of its clock was damaged, by a crash or the disk, and was restored")
        assert [check(daemon).status for _ in range(3)] == [200, 429, 429]
        assert check(daemon, "192.0.2.8").status == 200


def test_a_deleted_state_file_is_said_once_and_counting_goes_on(tmp_path):
    state = tmp_path / "state"
    with Daemon(tmp_path, RULES, ["--state", state]) as daemon:
        assert [check(daemon).status for _ in range(4)] == [200] * 4
        state.unlink()
        daemon.logged("deleted, moved or replaced while in use")
        assert [check(daemon).status for _ in range(2)] == [200, 429]
        wait_for(lambda: daemon.admin("GET", "/healthz").status == 200, "it lives")
        assert sum("deleted, moved" in line for line in daemon.log) == 1


def test_a_truncated_state_file_ends_the_daemon_with_a_message(tmp_path):
    state = tmp_path / "state"
    daemon = Daemon(tmp_path, RULES, ["--state", state, "--memory", "1M"])
    check(daemon)
    os.truncate(state, 0)
    with contextlib.suppress(OSError, http.client.HTTPException):
        while True:  # until a look at the clock or a counter ends it
            check(daemon)
    daemon._end()
    assert daemon.status == -signal.SIGBUS
    assert (f'rationd: SIGBUS: the state file "{state}" was cut short, or its disk failed, while in use; its '
            "counters are lost: stop all its users, move it away and start again\n") in daemon.log
    with pytest.raises(RuntimeError, match="not a ration state file; it was left alone"):
        daemon.start()


def test_a_torn_end_of_the_journal_is_said_and_loses_nothing_before_it(tmp_path):
    state, journal = tmp_path / "state", tmp_path / "state.overrides"
    with Daemon(tmp_path, RULES, ["--state", state]) as daemon:
        for ip in ("192.0.2.1", "192.0.2.2"):
            assert daemon.admin("PUT", "/v1/bans", {"attributes": {"ip": ip}}).status == 200
        daemon.stop()
        os.truncate(journal, journal.stat().st_size - 5)
        daemon.start()
        daemon.logged("are no complete record and were left out; a crash, or damage")
        assert check(daemon, "192.0.2.1").status == 429 and check(daemon, "192.0.2.2").status == 200
        # A running daemon says so as well, whichever process tears the file.
        assert daemon.admin("PUT", "/v1/bans", {"attributes": {"ip": "192.0.2.3"}}).status == 200
        daemon.logged("were no complete record and were cut off")
        with open(journal, "ab") as file:
            file.write(b"half a record")
        daemon.logged("its last 13 bytes, from byte")
        assert check(daemon, "192.0.2.1").status == check(daemon, "192.0.2.3").status == 429


def test_the_first_ban_is_no_alarm(tmp_path):
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as daemon:
        assert daemon.admin("PUT", "/v1/bans", {"attributes": {"ip": "192.0.2.1"}}).status == 200
        assert check(daemon, "192.0.2.1").status == 429
        daemon.stop()
        assert not any("do not hold any more" in line for line in daemon.log)


def test_lost_bans_are_reported(tmp_path):
    state, journal = tmp_path / "state", tmp_path / "state.overrides"
    with Daemon(tmp_path, RULES, ["--state", state]) as daemon:
        for spoil, words in ((lambda: os.truncate(journal, 0), "an empty file"),
                             (lambda: os.truncate(journal, 40), "cut short while in use"),
                             (journal.unlink, "deleted while in use")):
            assert daemon.admin("PUT", "/v1/bans", {"attributes": {"ip": "192.0.2.1"}}).status == 200
            assert check(daemon, "192.0.2.1").status == 429
            spoil()
            daemon.logged(words + "; the overrides and bans that were in it do not hold any more")
            assert check(daemon, "192.0.2.1").status == 200
        daemon.stop()
        journal.write_bytes(b"")
        daemon.start()
        daemon.logged("an empty file; the overrides and bans that were in it")


@needs_nginx
def test_nginx_says_that_its_file_was_deleted_and_goes_on(gateway):
    g = gateway(THREE, server=GIF)
    assert g.statuses(2) == [200] * 2
    (g.folder / "state").unlink()
    wait_for(lambda: "deleted, moved or replaced while in use" in g.log("error"), "a word of it")
    assert g.statuses(2) == [200, 429]


@needs_nginx
def test_a_worker_that_dies_of_a_truncated_file_says_why_and_the_next_one_serves(gateway):
    g = gateway(THREE, server=GIF, killed=True)
    assert g.ask()[0] == 200
    os.truncate(g.folder / "state", 0)

    def serves():
        with contextlib.suppress(OSError, http.client.HTTPException):
            return g.ask()[0] == 200 and "counts in private memory" in g.log("error")
        return False

    wait_for(serves, "a worker without the file")
    assert f'SIGBUS: the state file "{g.folder}/state" was cut short' in g.log("error")
