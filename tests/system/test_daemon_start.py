# SPDX-License-Identifier: Apache-2.0
"""A start that cannot work: rationd says what it found and what to do about it."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from daemon import PATIENCE, RATIOND

NOBODY = "65534"


@pytest.fixture
def folder():
    """One that others may read, also where those of pytest are the owner's alone."""
    path = pathlib.Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def start(folder, *options):
    """The message for a user without rights."""
    program = shutil.copy(RATIOND, folder / "rationd")
    drop = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--inh-caps=-all"]
    done = subprocess.run([*(drop if os.geteuid() == 0 else []), program, "--http", "127.0.0.1:0",
                           "--resp", "none", "--grpc", "none", "--admin", "none", *options],
                          capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2, done
    return done.stderr


@pytest.mark.skipif(int(open("/proc/sys/net/ipv4/ip_unprivileged_port_start").read()) <= 80,
                    reason="anybody may use port 80 here")
def test_a_port_that_needs_rights(folder):
    assert start(folder, "--http", "127.0.0.1:80") == (
        "rationd: --http 127.0.0.1:80: cannot listen on 127.0.0.1:80: Permission denied; choose a port "
        "from 1024 on, grant CAP_NET_BIND_SERVICE, or let systemd pass the socket\n")


def test_a_state_file_of_another_user(folder):
    state = folder / "state"
    state.touch(0o000)
    assert start(folder, "--state", state) == (
        f'rationd: state file "{state}": cannot be opened: Permission denied; this process must be able '
        "to read and write the file, and its folder to make it\n")


def test_a_state_file_in_a_folder_that_is_not_there(folder):
    state = folder / "none" / "state"
    assert start(folder, "--state", state) == (
        f'rationd: state file "{state}": cannot be created: No such file or directory; make its folder '
        "first\n")


def test_a_certificate_without_its_key(folder):
    assert start(folder, "--tls-cert", "cert.pem") == (
        'rationd: --tls-cert "cert.pem"; name the file of its key with --tls-key (tls_key in the section '
        "server)\n")
