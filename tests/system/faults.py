# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between a node and its Redis, on purpose: a proxy on unix sockets
that delays, loses and cuts, and wall clocks that are stepped.

    with Proxy(folder, server.path, lines=4) as proxy:
        node = Daemon(..., ["--redis", proxy.url(0), ...])
        proxy.set(0, "cut=0.05 delay=0.02")  # of line 0, from now on
        proxy.set(0, "")                     # nothing goes wrong any more

The proxy is a process of its own, so that a test's threads do not slow it down.

    delay=S   each piece of data waits up to S seconds, in order
    late=P    only with this probability
    cut=P     with this probability, instead of being passed on, a piece ends the
              connection: a call that was never made, or one whose reply is lost
    tear=P    the same, when half of the piece has been passed on
    drop=P    a piece of replies is left out: the next reply looks like the answer
    mute=P    nothing is passed on any more, in either direction, for this connection
    hold=1    replies are kept back until that is set to 0
    away=1    connections are refused, and those there are, cut at their next piece
"""

import asyncio
import contextlib
import pathlib
import random
import struct
import subprocess
import sys

from daemon import BUILD

PIECE = 65536


# --- the proxy's own process ---------------------------------------------------------------

class Line:
    """One listening socket and what happens to its connections."""

    def __init__(self, target, source):
        self.target, self.source = target, source
        self.faults = {}

    def happens(self, name):
        return self.source.random() < self.faults.get(name, 0)

    async def serve(self, reader, writer):
        with contextlib.suppress(OSError):
            if not self.happens("away"):
                await self.connect(reader, writer)
        writer.close()

    async def connect(self, reader, writer):
        from_redis, to_redis = await asyncio.open_unix_connection(self.target)
        muted = asyncio.Event()
        ways = [asyncio.create_task(self.carry(reader, to_redis, muted, False)),
                asyncio.create_task(self.carry(from_redis, writer, muted, True))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        to_redis.close()

    async def carry(self, reader, writer, muted, replies):
        """Until one of them ends, or must be cut."""
        while data := await reader.read(PIECE):
            while replies and self.faults.get("hold"):
                await asyncio.sleep(0.002)
            if self.faults.get("delay") and self.source.random() < self.faults.get("late", 1):
                await asyncio.sleep(self.source.random() * self.faults["delay"])
            if self.happens("mute"):
                muted.set()
            if muted.is_set() or (replies and self.happens("drop")):
                continue
            if self.happens("cut") or self.happens("away"):
                return
            torn = self.happens("tear")
            writer.write(data[:len(data) // 2] if torn else data)
            await writer.drain()
            if torn:
                return


async def run(target, paths):
    source = random.Random(0)
    lines = [Line(target, source) for _ in paths]
    for line, path in zip(lines, paths):
        await asyncio.start_unix_server(line.serve, path)
    print("ready", flush=True)
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while order := (await orders.readline()).decode().split():
        faults = {name: float(value) for name, value in (word.split("=") for word in order[1:])}
        lines[int(order[0])].faults = faults


# --- for tests -------------------------------------------------------------------------------

class Proxy:
    """Runs from `with` to the end of it. Each line leads to the same Redis."""

    def __init__(self, folder, target, lines):
        self.paths = [str(pathlib.Path(folder) / f"line{i}.sock") for i in range(lines)]
        self.command = [sys.executable, __file__, str(target), *self.paths]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def url(self, line):
        return f"redis+unix://{self.paths[line]}"

    @contextlib.contextmanager
    def replies_held(self, line=0):
        """Redis is asked and decides, and its reply does not arrive."""
        self.set(line, "hold=1")
        try:
            yield
        finally:
            self.set(line, "")

    def set(self, line, faults):
        self.process.stdin.write(f"{line} {faults}\n")
        self.process.stdin.flush()


class StepClock:
    """The wall clock of a process that has `env`, off by so many seconds
    (tests/programs/stepclock.c)."""

    def __init__(self, path, seconds=0):
        self.path = path
        self.file = open(path, "w+b", buffering=0)
        self.step(seconds)

    def step(self, seconds):
        self.file.seek(0)
        self.file.write(struct.pack("=q", round(seconds * 1e9)))

    def env(self):
        return {"STEPCLOCK": str(self.path),
                "LD_PRELOAD": str(BUILD / "tests" / "libstepclock.so")}


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], sys.argv[2:]))
