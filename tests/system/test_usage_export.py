# SPDX-License-Identifier: Apache-2.0
"""A period of many clients is exported completely, and neither the daemon nor `ration` needs memory
that grows with their number. A soak (RATION_SOAK=1) exports a million."""

import csv
import json
import os
import subprocess

import pytest

from daemon import Daemon
from ration_command import RATION

# The number of clients, and room for them. Without more, rationd has room for some 400,000.
MANY, ROOM = (1_000_000, ["--memory", "256MB", "--usage-memory", "256MB"]) if os.environ.get("RATION_SOAK") else (20_000, [])
PATIENCE = 900
RULES = "limits: [{name: api, key: user, limit: 1000000 per minute, usage: true}]"
# What a page, its tree and the buffers of both programs may take, whatever the number of clients.
GROWTH = 32 << 20


def memory(pid):
    """Bytes of its own that it has now, without the files that it maps, and the most that it ever had with
    them. 0 and 0: it has ended."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    return [int(lines.get(name, "0 kB").split()[0]) * 1024 for name in ("RssAnon", "VmHWM")]


def fill(daemon):
    """Client i uses i % 7 + 1 units."""
    with daemon.resp() as resp:
        for at in range(0, MANY, 1000):
            batch = range(at, min(at + 1000, MANY))
            words = [(b"RATION.CHECK", b"user", b"client-%07d" % i, b"COST", b"%d" % (i % 7 + 1)) for i in batch]
            resp.socket.sendall(b"".join(b"*5\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in c) for c in words))
            for _ in batch:
                resp.read()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    with Daemon(folder, RULES, ["--state", folder / "state", *ROOM]) as daemon:
        fill(daemon)
        daemon.state = folder / "state"
        yield daemon
    for path in folder.glob("state*"):
        path.unlink()


def watched(daemon, *args):
    """Runs `ration usage`: yields its output, and afterwards checks what both programs have needed."""
    before, _ = memory(daemon.process.pid)
    env = {k: v for k, v in os.environ.items() if not k.startswith("RATION_")}
    most = [before, 0]
    with subprocess.Popen([RATION, "usage", *map(str, args)], stdout=subprocess.PIPE,
                          env={**env, "RATION_ADMIN": daemon.addresses["admin"]}) as process:
        pids, peaks = [daemon.process.pid, process.pid], [0, 0]
        while piece := process.stdout.read(1 << 20):
            for i, pid in enumerate(pids): # the process that has ended is a zombie until the block ends
                own, peak = memory(pid)
                most[i], peaks[i] = max(most[i], own), max(peaks[i], peak)
            yield piece
    assert process.returncode == 0
    print(f"{' '.join(map(str, args))}: private memory of rationd {before >> 10} KiB before, {most[0] >> 10} KiB "
          f"at most, of ration {most[1] >> 10} KiB; peaks with mapped files {peaks[0] >> 10} and {peaks[1] >> 10} KiB")
    assert most[0] - before < GROWTH and most[1] < GROWTH


def check(rows):
    """Every client once, with its units."""
    seen = bytearray(MANY)
    for name, units in rows:
        number = int(name.removeprefix("client-"))
        assert not seen[number] and units == number % 7 + 1, name
        seen[number] = 1
    assert sum(seen) == MANY


def lines_of(pieces):
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
    assert rest == b""


@pytest.mark.parametrize("from_file", [False, True], ids=["daemon", "file"])
def test_csv_of_many_clients(filled, from_file):
    source = ["--state", filled.state] if from_file else []
    lines = (line.decode() + "\n" for line in lines_of(watched(filled, "--csv", *source)))
    check((row["client"], int(row["units"])) for row in csv.DictReader(lines))


@pytest.mark.parametrize("from_file", [False, True], ids=["daemon", "file"])
def test_json_of_many_clients(filled, from_file):
    source = ["--state", filled.state] if from_file else []

    def rows():
        for line in lines_of(watched(filled, "--json", *source)):
            if line.startswith((b"{\"rule", b",")):
                row = json.loads(line.lstrip(b",").removesuffix(b"]}"))
                yield row["client"], row["units"]

    check(rows())
