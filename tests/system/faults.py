# SPDX-License-Identifier: Apache-2.0
"""A network that fails: between programs and the server that they think they talk to.
What passes is late, is swallowed, or cuts the connection, at random, as told."""

import asyncio
import contextlib
import random
import threading


class Faults:
    """Runs from `with` to the end of it; programs connect to the unix socket `path`.
    The chances, each of a piece of data in one direction, may be changed at any time."""

    def __init__(self, path, target, seed=1):
        self.path, self.target = str(path), str(target)
        self.source = random.Random(seed)
        self.late, self.late_s = 0, (0, 0)  # how often, and from how long to how long
        self.swallow = 0  # it and all that follows; the connection is cut a while later
        self.cut = 0  # at once: what had been sent before may have arrived or not
        self.counts = {"passed": 0, "late": 0, "swallowed": 0, "cut": 0}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        serve = asyncio.start_unix_server(self.connected, self.path)
        asyncio.run_coroutine_threadsafe(serve, self.loop).result()
        return self

    def __exit__(self, *_):
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    async def end(self):
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def connected(self, reader, writer):
        try:
            to_reader, to_writer = await asyncio.open_unix_connection(self.target)
        except OSError:
            writer.close()
            return
        ways = [asyncio.ensure_future(self.pump(reader, to_writer)),
                asyncio.ensure_future(self.pump(to_reader, writer))]
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        for end in (writer, to_writer):
            end.close()

    async def pump(self, reader, writer):
        """Until the connection is to be cut."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                chance = self.source.random()
                if chance < self.cut:
                    self.counts["cut"] += 1
                    return
                if chance < self.cut + self.swallow:
                    self.counts["swallowed"] += 1
                    await asyncio.sleep(self.source.uniform(0.1, 1))
                    return
                late = self.source.random() < self.late
                self.counts["late" if late else "passed"] += 1
                if late:
                    await asyncio.sleep(self.source.uniform(*self.late_s))
                writer.write(data)
                await writer.drain()
