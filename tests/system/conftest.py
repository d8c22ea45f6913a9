# SPDX-License-Identifier: Apache-2.0
"""What tests of the gateway ask for."""

import pytest

from gateway import GIF, THREE, Gateway, Upstream


@pytest.fixture
def gateway(tmp_path):
    """Makes gateways and stops them."""
    made = []

    def make(rules=THREE, server=GIF, start=True, **settings):
        made.append(Gateway(tmp_path, rules, server, **settings))
        return made[-1].start() if start else made[-1]

    yield make
    for each in made:
        each.stop()
        assert "exited on signal" not in each.log("error") or each.settings.get("killed")


@pytest.fixture
def upstream():
    made = Upstream()
    yield made
    made.close()
