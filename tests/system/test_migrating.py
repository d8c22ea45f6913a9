# SPDX-License-Identifier: Apache-2.0
"""docs/migrating.md: every file on the page loads, every program runs, and each step refuses what the page says it
does. nginx, express-rate-limit and redis-py are real; Envoy's part is in test_envoy_migrating.py."""

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import types

import pytest
import yaml

import rls
from daemon import PATIENCE, ROOT, Daemon, free_port, wait_for
from gateway import MODULE

PAGE = (ROOT / "docs/migrating.md").read_text()
NODE = ROOT / "tests/node"


def blocks(heading, language):
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.M | re.S)


def test_the_command_to_compare_works(tmp_path):
    command = re.search(r"^curl .*shadow.*$", PAGE, re.M)[0]
    rules = "mode: shadow\nlimits:\n  - {name: api, key: ip, limit: 1 per hour}\n"
    with Daemon(tmp_path, rules) as daemon:
        answers = [daemon.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.7"}}).json for _ in range(3)]
        done = subprocess.run(command.replace("127.0.0.1:8082", daemon.addresses["admin"]), shell=True, text=True,
                              capture_output=True, timeout=PATIENCE)
    assert 'ration_rule_shadow_refusals_total{rule="api"} 2' in done.stdout
    assert [answer.get("shadow") for answer in answers] == [None, True, True]


# --- nginx -----------------------------------------------------------------------------

@pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"), reason="needs nginx and the module")
def test_each_step_in_nginx_refuses_by_one_of_them(gateway):
    [rules], (both, switched) = blocks("nginx limit_req", "yaml"), blocks("nginx limit_req", "nginx")
    rate = re.search(r"`(rate=\S+) burst=20 nodelay`", PAGE)[1]
    log_format = re.search(r"`(log_format compare [^`]+)`", PAGE)[1]
    count = blocks("nginx limit_req", "sh")[0]
    http = f"limit_req_zone $binary_remote_addr zone=a:1m {rate}; limit_req_status 429; {log_format}"
    g = gateway(rules, server="", http=http)
    pairs = {}
    for step, lines in (("both", both), ("switched", switched)):
        server = f"{lines} location / {{ empty_gif; }} access_log compare.log compare;"
        g.write(server=server)
        if g.process:
            g.stop()
            (g.folder / "compare.log").unlink(missing_ok=True)
            for state in g.folder.glob("state*"):
                state.unlink()
        g.start()
        assert 429 in g.statuses(60)
        wait_for(lambda: (g.folder / "compare.log").read_text().count("\n") == 60)
        done = subprocess.run(count, shell=True, cwd=g.folder, capture_output=True, text=True, check=True)
        pairs[step] = {pair: int(n) for n, pair in re.findall(r"(\d+) (.+)", done.stdout)}
    assert pairs["both"]["REJECTED / REJECTED_DRY_RUN"] >= 20
    assert pairs["switched"]["- / REJECTED"] >= 20
    for counted in pairs.values():  # milliseconds there, nanoseconds here: the same but for a few
        assert sum(counted.values()) == 60 and counted["PASSED / PASSED"] >= 21
        assert counted.get("REJECTED / PASSED", 0) + counted.get("PASSED / REJECTED_DRY_RUN", 0) <= 3


# --- redis-cell ------------------------------------------------------------------------

@pytest.fixture
def two_throttles(tmp_path):
    """The program of the page between two servers that know CL.THROTTLE."""
    with contextlib.ExitStack() as stack:
        servers = []
        for name in ("old", "new"):
            (tmp_path / name).mkdir()
            servers.append(stack.enter_context(Daemon(tmp_path / name, "limits: []\n")))
        [program] = blocks("redis-cell", "python")
        page = types.ModuleType("page")
        ports = [daemon.addresses["resp"].rpartition(":")[2] for daemon in servers]
        exec(program.replace("6379", ports[0]).replace("6380", ports[1]), page.__dict__)
        yield page, servers


def test_throttle_by_both_and_by_the_old_one_alone(two_throttles):
    page, (_, new) = two_throttles
    assert [page.throttle("ann", 2, 1, 3600)[0] for _ in range(5)] == [0, 0, 0, 1, 1]
    assert page.different == 0
    page.NEW.execute_command("CL.THROTTLE", "bob", 2, 1, 3600, 3)
    assert page.throttle("bob", 2, 1, 3600)[0] == 0 and page.different == 1
    page.DECIDES = "new"
    assert page.throttle("bob", 2, 1, 3600)[0] == 1
    new.freeze()
    assert page.throttle("cyd", 2, 1, 3600)[0] == 0
    new.kill()
    assert page.throttle("cyd", 2, 1, 3600)[0] == 0


# --- limitador -------------------------------------------------------------------------

def test_limits_of_limitador_translated(tmp_path):
    [theirs], [ours] = blocks("limitador", "limitador"), blocks("limitador", "yaml")
    assert [(t["max_value"], t["seconds"]) for t in yaml.safe_load(theirs)] == [(5, 60), (1000, 1)]
    with Daemon(tmp_path, ours, ["--grpc", "127.0.0.1:0"]) as daemon, rls.Client(daemon.addresses["grpc"]) as client:
        codes = [client.code("shop", {"req.method": "POST", "user_id": "ann"}) for _ in range(6)]
        assert codes == [rls.OK] * 5 + [rls.OVER_LIMIT]
        for others in ({"req.method": "GET", "user_id": "ann"}, {"req.method": "POST", "user_id": "bob"}):
            assert client.code("shop", others) == rls.OK
        assert client.code("other", {"req.method": "POST", "user_id": "ann"}) == rls.OK
        metrics = daemon.admin("GET", "/metrics").text
    assert 'ration_rule_decisions_total{rule="all",decision="allowed"} 7' in metrics  # what "posts" refuses costs it nothing


# --- express-rate-limit ----------------------------------------------------------------

@contextlib.contextmanager
def express(decides, rationd):
    port = free_port()
    process = subprocess.Popen(["node", ROOT / "examples/migrating/express.js"], env={
        **os.environ, "NODE_PATH": str(NODE / "node_modules"), "PORT": str(port), "DECIDES": decides,
        "RATIOND": f"http://{rationd}", "DEADLINE_MS": "2000"})

    def ask(path="/"):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def is_up():
        with contextlib.suppress(OSError):
            return ask("/compare")
    try:
        wait_for(is_up)
        yield ask
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("decides", ["old", "ration"])
def test_both_limiters_of_express_agree(tmp_path, decides):
    rules = (ROOT / "examples/migrating/express.yaml").read_text()
    with Daemon(tmp_path, rules) as daemon, express(decides, daemon.addresses["http"]) as ask:
        answers = [ask() for _ in range(7)]
        assert [status for status, _, _ in answers] == [200] * 5 + [429] * 2
        assert (decides == "ration") == ("retry-after" in answers[-1][1]) == answers[-1][2].startswith(b"{")
        assert json.loads(ask("/compare")[2]) == {
            "same": 7, "onlyOldRefused": 0, "onlyRationRefused": 0, "withoutRationd": 0}


@pytest.mark.parametrize("decides", ["old", "ration"])
def test_express_goes_on_by_the_old_one_without_rationd(tmp_path, decides):
    rules = (ROOT / "examples/migrating/express.yaml").read_text()
    with Daemon(tmp_path, rules) as daemon, express(decides, daemon.addresses["http"]) as ask:
        daemon.freeze()
        assert ask()[0] == 200
        daemon.kill()
        assert [ask()[0] for _ in range(5)] == [200] * 4 + [429]
        assert json.loads(ask("/compare")[2])["withoutRationd"] == 6


def test_a_wrong_choice_is_named():
    done = subprocess.run(["node", ROOT / "examples/migrating/express.js"], capture_output=True, text=True,
                          env={**os.environ, "NODE_PATH": str(NODE / "node_modules"), "DECIDES": "both"})
    assert done.returncode == 2 and "must be old or ration" in done.stderr
