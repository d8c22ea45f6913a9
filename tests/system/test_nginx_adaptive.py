# SPDX-License-Identifier: Apache-2.0
"""Adaptive concurrency in nginx, in front of a service with a knee. bench/bench_adaptive.py measures what
it is worth; here the machine may be busy, so the bounds are wide."""

import asyncio
import shutil
import sys
import types

import pytest

from daemon import PATIENCE, ROOT
from gateway import MODULE, proxied

sys.path.insert(0, str(ROOT / "bench"))
from knee import Clients, Service  # noqa: E402  (it lies beside the benchmarks)

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")

KNEE, CLIENTS, LEAST = 8, 48, 2
RULES = (f"limits:\n  - {{name: backend, limit: {{concurrent: adaptive, min: {LEAST}, max: {CLIENTS}}}, "
         "response: {headers: x}}\n")


async def served(clients, enough):
    """Lets the clients ask until so many requests were served."""
    tasks = [asyncio.create_task(clients.ask(i)) for i in range(clients.count)]
    try:
        async with asyncio.timeout(PATIENCE):
            while not enough():
                await asyncio.sleep(0.05)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_the_number_leaves_the_minimum_and_keeps_some_out(gateway):
    async def story():
        service = await Service(KNEE, 0.02).start()
        g = gateway(RULES, server=proxied(types.SimpleNamespace(port=service.port)))
        clients = Clients(g.port, CLIENTS)
        await served(clients, lambda: len(clients.latencies) >= 400 and max(clients.told) > LEAST)
        service.server.close()
        return clients

    clients = asyncio.run(story())
    assert not clients.unexpected
    assert clients.refused > 0, "more wanted in than there were places"
    assert min(clients.told) >= LEAST and max(clients.told) <= CLIENTS
