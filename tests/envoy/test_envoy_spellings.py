# SPDX-License-Identifier: Apache-2.0
"""Envoy as examples/forward-auth/ sets it up: no spelling of a path gets around a limit."""

import pytest

from test_envoy_auth import Envoy, pytestmark
from test_path_spellings import (PATHS, RULES, app, apps, proxy,
                            test_no_spelling_reaches_a_handler_when_the_limit_is_spent)


@pytest.fixture
def port(app, tmp_path):
    with proxy(Envoy, app, RULES.format(paths=PATHS.get(app.name, "")), tmp_path) as port:
        yield port
