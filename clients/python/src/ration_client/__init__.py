# SPDX-License-Identifier: Apache-2.0
"""A client of rationd, the rate limiter.

    from ration_client import Client
    limiter = Client("ration://127.0.0.1:6380")
    if not limiter.check({"ip": "192.0.2.7", "path": "/login"}).allowed:
        ...
"""

from .aio import AsyncClient
from .backoff import backoff, retry_after_seconds
from .client import Client
from .decision import Decision

__all__ = ["AsyncClient", "Client", "Decision", "backoff", "retry_after_seconds"]
__version__ = "0.1.0"
