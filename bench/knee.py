# SPDX-License-Identifier: Apache-2.0
"""A small service with a knee, and clients that always want more of it."""

import asyncio
import statistics
import time


class Service:
    """Works on `knee` requests at a time, each for `seconds`; the others wait, and each of them makes
    the work of all a little slower: it loses a share `slowdown` for each knee of requests in line."""

    def __init__(self, knee, seconds, slowdown=0.3):
        self.knee, self.seconds, self.slowdown = knee, seconds, slowdown
        self.present = 0

    async def start(self):
        self.places = asyncio.Semaphore(self.knee)
        self.server = await asyncio.start_server(self.converse, "127.0.0.1", 0, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def converse(self, reader, writer):
        try:
            while (await reader.readuntil(b"\r\n\r\n")):
                self.present += 1
                try:
                    async with self.places:
                        over = max(self.present - self.knee, 0) / self.knee
                        await asyncio.sleep(self.seconds * (1 + self.slowdown * over))
                finally:
                    self.present -= 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # the end
        finally:
            writer.close()


class Clients:
    """So many connections, each with one request at a time; after a refusal it asks again soon."""

    def __init__(self, port, count, again=0.1):
        self.port, self.count, self.again = port, count, again
        self.latencies, self.refused, self.unexpected, self.told = [], 0, set(), set()

    async def ask(self, number):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.sleep(self.again * number / self.count)
        try:
            while True:
                began = time.monotonic()
                writer.write(b"GET / HTTP/1.1\r\nHost: knee\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                headers = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
                await reader.readexactly(int(headers[b"content-length"]))
                self.told.add(int(headers.get(b"x-ratelimit-limit", 0)))
                status = int(head.split()[1])
                if status == 200:
                    self.latencies.append(time.monotonic() - began)
                    continue
                self.refused += status == 429
                if status != 429:
                    self.unexpected.add(status)
                await asyncio.sleep(self.again)
        finally:
            writer.close()

    async def run(self, warm_up, seconds):
        """Requests per second and their mean latency, after a time to learn."""
        tasks = [asyncio.create_task(self.ask(i)) for i in range(self.count)]
        await asyncio.sleep(warm_up)
        self.latencies.clear()
        began = time.monotonic()
        await asyncio.sleep(seconds)
        took, latencies = time.monotonic() - began, list(self.latencies)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(latencies) / took, statistics.mean(latencies) if latencies else float("inf")
