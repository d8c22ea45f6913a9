# SPDX-License-Identifier: Apache-2.0
"""Fixtures of several modules: nginx with our module, what it asks, and a Redis for scripts."""

import contextlib

import pytest

from gateway import GIF, THREE, Gateway, Upstream
from nginx_rationd import LOG, OURS, PATIENT, FakeRationd, Rationd, answers
from redis_server import RedisServer, ScriptRunner


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


@pytest.fixture
def asking(gateway, tmp_path):
    """Makes gateways that ask rationd."""
    def make(asked, rules=OURS % "", server=GIF, parameters=PATIENT, http="", **settings):
        directive = f"ration_server {asked} {parameters};" if asked else ""
        access = f"{LOG} access_log {tmp_path}/source.log source;"
        return gateway(rules, server, http=f"{directive} {access} {http}", **settings)

    return make


@pytest.fixture
def rationd(tmp_path):
    made = []

    def make(*args, **more):
        made.append(Rationd(tmp_path, *args, **more))
        return made[-1]

    yield make
    for each in made:
        if each.process is not None:
            with contextlib.suppress(OSError):
                each.thaw()
            each.stop()


@pytest.fixture
def fake(tmp_path):
    made = []

    def make(answer, **more):
        made.append(FakeRationd(tmp_path / "fake.sock", answer, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(params=["in nginx", "by rationd"])
def decided(request, gateway, asking, rationd):
    """Makes gateways whose rules are kept by either."""
    def make(rules, server=GIF, **settings):
        if request.param == "in nginx":
            return gateway(rules, server, **settings)
        return answers(asking(rationd(rules).address, "limits: []\n", server, **settings))

    return make


@pytest.fixture
def server(tmp_path):
    """A Redis for one test."""
    with RedisServer(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """Runs scripts on a Redis whose clock the test moves."""
    runner = ScriptRunner(tmp_path_factory.mktemp("redis"))
    with runner.server, runner.server.client() as runner.client:
        yield runner
