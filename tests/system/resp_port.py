# SPDX-License-Identifier: Apache-2.0
"""Daemons for the tests of the RESP port, on a clock that stands still."""

import pytest

from daemon import Daemon
from stillclock import StillClock

RULES = """
limits:
  - {name: api, key: user, limit: 5 per hour, when: {user: {present: true}}}
  - {name: jobs, key: job, limit: 2 concurrent, when: {job: {present: true}}}
"""
TOKEN = "open-sesame-open"
OPTIONS = ["--workers", "1", "--memory", "2M", "--admin", "none", "--http", "none"]


@pytest.fixture
def clock(tmp_path):
    return StillClock(tmp_path / "clock")


@pytest.fixture
def daemon(tmp_path, clock):
    with Daemon(tmp_path, RULES, OPTIONS, env=clock.env()) as daemon:
        yield daemon


@pytest.fixture
def guarded(tmp_path, clock):
    """A daemon that has a token."""
    with Daemon(tmp_path, RULES + f"server: {{admin_token: {TOKEN}}}\n", OPTIONS, env=clock.env()) as daemon:
        yield daemon
