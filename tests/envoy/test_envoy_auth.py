# SPDX-License-Identifier: Apache-2.0
"""Envoy with ext_authz as examples/forward-auth/ sets it up: it must do what the other proxies do."""

import os

import pytest

from proxies import Proxy
from test_forward_auth import (
    test_a_rule_for_one_path_and_method_applies_to_no_other,
    test_clients_are_distinguished_by_the_address_that_the_proxy_sees)
from test_forward_auth_failures import (
    site,
    test_a_dead_rationd_is_answered_for_by_policy_within_the_deadline,
    test_a_frozen_rationd_is_answered_for_by_policy_within_the_deadline,
    test_a_refusal_is_one_whatever_its_status,
    test_an_application_that_fails_is_not_mistaken_for_rationd,
    test_no_decision_is_a_refusal,
    test_no_request_makes_rationd_or_the_proxy_fail_open)

ENVOY = os.environ.get("ENVOY")
pytestmark = pytest.mark.skipif(not ENVOY, reason="ENVOY is not set: run ./dev test-envoy")


class Envoy(Proxy):
    no_decision = 403 # any 5xx is a failure to it, which it may answer by letting the request pass
    to_refuse = ("failure_mode_allow: true", "failure_mode_allow: false")

    def command(self):
        return [ENVOY, "-c", self.copy("envoy.yaml"), "--concurrency", "2", "--use-dynamic-base-id",
                "--log-level", "error"]


@pytest.fixture
def kind():
    return Envoy
