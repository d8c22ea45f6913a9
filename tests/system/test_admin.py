# SPDX-License-Identifier: Apache-2.0
"""The admin port of rationd: health, status, the keys refused most, shadow mode, its page."""

import http.client
import json
import re
import subprocess
import time

from admin_port import daemon, log_line, login, own, refused, spend  # noqa: F401 (fixtures)
from daemon import PATIENCE, ROOT, Daemon, wait_for


# --- health and status ----------------------------------------------------------------


def test_health_and_readiness(daemon):
    answer = daemon.admin("GET", "/healthz")
    assert (answer.status, answer.text) == (200, "ok\n")
    assert daemon.admin("GET", "/readyz").json == {"ready": True, "rules_version": 1}
    assert daemon.admin("HEAD", "/healthz").body == b""


def is_draining(d):
    """Either there is no answer any more, or a 503."""
    try:
        answer = d.admin("GET", "/readyz")
    except (OSError, http.client.HTTPException):
        return True
    assert answer.status == 200 or answer.json == {"ready": False, "reason": "draining"}
    return answer.status == 503


def test_while_it_drains_it_is_not_ready(own):
    busy = own.socket("http") # a request on its way keeps the drain going
    busy.sendall(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
    wait_for(lambda: own.admin("GET", "/v1/status").json["connections"]["http"]["open"] == 1)
    own.process.terminate()
    wait_for(lambda: is_draining(own))
    assert own.process.poll() is None
    busy.sendall(b"}")
    assert busy.recv(4096).startswith(b"HTTP/1.1 ")
    busy.close()
    assert own.process.wait(PATIENCE) == 0


def test_status_describes_the_daemon(daemon):
    status = daemon.admin("GET", "/v1/status").json
    assert status["rules"]["count"] == 3 and status["rules"]["source"] == "file"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", status["rules"]["loaded_at"])
    assert status["listeners"] == {k: v for k, v in daemon.addresses.items() if v != "none"}
    assert status["connections"]["admin"]["open"] >= 1
    assert status["memory"]["slots"] > 1000 and status["workers"] >= 1
    assert status["shadow"] is False


# --- top, shadow, paths ---------------------------------------------------------------


def test_top_knows_the_last_refusals_of_a_key(own):
    before = time.time()
    spend(own, 5 + 3, login("192.0.2.21"))
    spend(own, 5 + 20, login("192.0.2.22"))
    many, few = own.admin("GET", "/v1/top?count=2").json["keys"]
    assert (many["key"], len(many["last"]), few["key"], len(few["last"])) == ("192.0.2.22", 8, "192.0.2.21", 3)
    assert re.fullmatch("[0-9a-f]{16}", few["hash"]) and few["hash"] != many["hash"]
    for key in (many, few):
        assert key["last"] == sorted(key["last"], reverse=True)
        assert before - 1 < key["last"][-1] <= key["last"][0] < time.time() + 1
    state = own.admin("GET", "/v1/state?ip=192.0.2.21&method=POST&path=/login").json
    assert state["refusals"] == [{"rule": "login", "last": few["last"]}]
    assert "refusals" not in own.admin("GET", "/v1/state?ip=192.0.2.23&method=POST&path=/login").json
    assert "refusals" not in own.admin("GET", "/v1/state?rule=api&ip=192.0.2.21&path=/api/x").json


def test_top_lists_the_keys_refused_most(own):
    spend(own, 5 + 4, login("192.0.2.20"))
    spend(own, 5 + 2, login("192.0.2.21"))
    keys = own.admin("GET", "/v1/top").json["keys"]
    assert [(k["rule"], k["key"], k["refused"]) for k in keys] == \
        [("login", "192.0.2.20", 4), ("login", "192.0.2.21", 2)]
    assert len(own.admin("GET", "/v1/top?count=1").json["keys"]) == 1
    assert refused(own.admin("GET", "/v1/top?count=0"), 400, "bad_request", "1 to 1000")
    assert refused(own.admin("GET", "/v1/top?cout=1"), 400, "bad_request", "did you mean count?")


def test_shadow_mode_refuses_no_request(own):
    assert own.admin("GET", "/v1/shadow").json == {"shadow": False}
    assert own.admin("PUT", "/v1/shadow", {"shadow": True}).json == {"shadow": True}
    answers = [own.http("POST", "/v1/check", {"attributes": login("192.0.2.22")})
               for _ in range(6)]
    assert [a.status for a in answers] == [200] * 6 and answers[-1].json["shadow"] is True
    assert log_line(own, "shadow.set")["shadow"] == "on"
    assert own.admin("PUT", "/v1/shadow", {"shadow": False}).json == {"shadow": False}
    assert own.http("POST", "/v1/check", {"attributes": login("192.0.2.22")}).status == 429


def test_paths_and_methods_that_are_not_there(daemon):
    assert refused(daemon.admin("GET", "/v1/nothing"), 404, "not_found", "/v1/rules", "/v1/bans")
    answer = daemon.admin("POST", "/v1/rules")
    assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD, PUT, DELETE"


# --- docs -----------------------------------------------------------------------------


def same(expected, actual):
    """Equal but for what the page leaves open."""
    if expected == "…":
        return True
    if isinstance(expected, dict):
        return isinstance(actual, dict) and list(expected) == list(actual) and \
            all(same(v, actual[k]) for k, v in expected.items())
    if isinstance(expected, list):
        return isinstance(actual, list) and len(expected) == len(actual) and \
            all(map(same, expected, actual))
    return expected == actual


def test_the_examples_of_the_page_are_true(tmp_path):
    page = (ROOT / "docs/admin.md").read_text()
    rules = re.search(r"^```yaml\n(.*?)^```", page, re.S | re.M).group(1)
    examples = re.findall(r"^```console\n\$ ((?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```", page, re.S | re.M)
    assert len(examples) > 20
    with Daemon(tmp_path, rules) as d:
        for command, expected in examples:
            command = command.replace("127.0.0.1:8082", d.addresses["admin"])
            answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True,
                                    timeout=PATIENCE).stdout
            if not expected.startswith("{"):
                assert answer == expected, command
                continue
            answer = answer.replace(str(d.file), "rules.yaml")
            expected = json.loads(re.sub(r"(?<=[:,\[])…", '"…"', expected))
            assert same(expected, json.loads(answer)), (command, expected, answer)


def test_the_page_has_every_endpoint():
    source = (ROOT / "src/front/admin/routes.c").read_text()
    page = (ROOT / "docs/admin.md").read_text()
    for path in re.findall(r'\{RN_\w+, "([^"]+)"', source):
        assert re.search(r"`[^`\n]*" + re.escape(path.rstrip("/")) + r"\b", page), path
