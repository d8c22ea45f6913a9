# SPDX-License-Identifier: Apache-2.0
"""The contract over leased limits: as test_contract_redis.py, with every limit leased.
Keys are asked for too rarely there to be held, so this is about the scripts that know
of leases."""

import pytest
import yaml

from test_contract_redis import alike, play_both, shared  # noqa: F401 (a fixture)

# Where limits are that can be leased, and what is done with them.
FILES = ("buckets", "costs", "fixed-windows", "reservations", "several-limits", "sliding-windows", "tiers")


def leased(rules):
    ruleset = yaml.safe_load(rules)
    for limit in ruleset["limits"]:
        limit["consistency"] = "leased"
    return yaml.safe_dump(ruleset, sort_keys=False)


def chosen():
    return [s for s in alike() if s.id.startswith(FILES)]


@pytest.fixture(scope="module")
def kinds():
    """Of the keys that were met: letters."""
    met = set()
    yield met
    assert {b"B", b"W", b"C"} <= met, "limits were leased"


@pytest.mark.parametrize("rules, scenario", chosen())
def test_two_nodes_with_leases_decide_as_one(tmp_path, shared, kinds, rules, scenario):  # noqa: F811
    play_both(tmp_path, shared, leased(rules), scenario)
    kinds.update(key.split(b":")[2] for key in shared[0].client().keys("ration:{*}:?:*"))
