# SPDX-License-Identifier: Apache-2.0
"""clients/scenarios.yaml with the Python clients, and its requests with each framework."""

import importlib.util

import pytest
from runner import CLIENTS, TABLE, Site, has_requests, run
from frameworks import SITES

# FastAPI is not among what ./dev test installs: ./dev test-clients brings it.
FRAMEWORKS = [name for name in SITES if name != "fastapi" or importlib.util.find_spec("fastapi")]
SCENARIOS = TABLE["scenarios"]
ASKING = [s for s in SCENARIOS if not has_requests(s)]
REQUESTING = [s for s in SCENARIOS if has_requests(s)]


def name_of(scenario):
    return scenario["name"].replace(" ", "-")


def test_names_are_unique():
    assert len({s["name"] for s in SCENARIOS}) == len(SCENARIOS) >= 40


@pytest.mark.parametrize("scenario", ASKING, ids=name_of)
@pytest.mark.parametrize("kind", CLIENTS)
def test_client(kind, scenario, tmp_path):
    run(scenario, tmp_path, CLIENTS[kind])


@pytest.mark.parametrize("scenario", REQUESTING, ids=name_of)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_middleware(framework, scenario, tmp_path):
    run(scenario, tmp_path, lambda settings: Site(framework, settings, scenario.get("app", {})))
