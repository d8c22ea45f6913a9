# SPDX-License-Identifier: Apache-2.0
"""Envoy as examples/sticky/ sets it up: it is to do what the other balancers do."""

import pytest

from test_envoy_auth import Envoy as AuthEnvoy
from test_envoy_auth import pytestmark
from test_sticky import (EXAMPLES, balanced, test_a_key_that_moves_gets_one_burst_more_for_each_time,
                         test_a_node_that_is_gone_moves_its_keys_alone_and_has_them_back,
                         test_each_key_is_counted_by_one_node_and_exactly,
                         test_two_balancers_agree)


class Envoy(AuthEnvoy):
    examples, listens = EXAMPLES, "8080"


@pytest.fixture
def kind():
    return Envoy
