# SPDX-License-Identifier: Apache-2.0
"""The contract of Envoy's rate limit service: gRPC and POST /json give one answer.

tests/contract/envoy/ has rules files as envoyproxy/ratelimit reads them (the text of one,
or several by name) and requests as JSON. A step is played `times` times to one daemon for each way to ask. All must
give the same answer, and the last one must have what the step says:

    answer     the whole of it, as JSON
    code       overallCode; `codes`: of each status
    remaining  limitRemaining of each status; `limits`: requestsPerUnit of each
    reset      durationUntilReset of the first, in seconds
    error      part of the message; over gRPC an INVALID_ARGUMENT, else a 400
"""

import json
import pathlib

import grpc
import pytest
import yaml

import rls
from daemon import Daemon
from stillclock import START, StillClock

TABLE = pathlib.Path(__file__).resolve().parents[1] / "contract" / "envoy"


class OverGrpc:
    def __init__(self, daemon):
        self.client = rls.Client(daemon.addresses["grpc"])

    def ask(self, request):
        try:
            return rls.to_json(self.client.should(rls.from_json(request), timeout=20))
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
            return {"error": error.details()}

    def close(self):
        self.client.channel.close()


class OverJson:
    def __init__(self, daemon):
        self.connection = daemon.connection()

    def ask(self, request):
        self.connection.request("POST", "/json", json.dumps(request))
        response = self.connection.getresponse()
        answer = json.loads(response.read())
        if response.status == 400:
            return {"error": answer["message"]}
        assert response.status == {"OK": 200, "OVER_LIMIT": 429}[answer["overallCode"]]
        return answer

    def close(self):
        self.connection.close()


def expect(answer, step):
    if "error" in step:
        assert step["error"] in answer.get("error", ""), answer
        return
    statuses = answer["statuses"]
    if "answer" in step:
        assert answer == step["answer"]
    if "code" in step:
        assert answer["overallCode"] == step["code"], answer
    if "codes" in step:
        assert [s["code"] for s in statuses] == step["codes"]
    if "remaining" in step:
        assert [s.get("limitRemaining", 0) for s in statuses] == step["remaining"]
    if "limits" in step:
        assert [s["currentLimit"]["requestsPerUnit"] for s in statuses] == step["limits"]
    if "reset" in step:
        assert statuses[0]["durationUntilReset"] == f"{step['reset']}s"


def scenarios():
    for path in sorted(TABLE.glob("*.yaml")):
        for suite in yaml.safe_load_all(path.read_text()):
            for scenario in suite["scenarios"]:
                yield pytest.param(suite["rules"], scenario, id=scenario["name"])


def start(folder, rules, options, env):
    folder.mkdir()
    if isinstance(rules, str):
        return Daemon(folder, rules, options, env=env)
    for name, text in rules.items():
        (folder / name).write_text(text)
    return Daemon(folder, None, ["--config", folder, *options], env=env)


@pytest.mark.parametrize("rules, scenario", scenarios())
def test_envoys_requests_are_answered_as_documented(tmp_path, rules, scenario):
    clock = StillClock(tmp_path / "clock", scenario.get("at", START))
    options = ["--workers", "1", "--memory", "2M", "--resp", "none", "--admin", "none",
               "--grpc", "127.0.0.1:0"]
    daemons, ways = [], []
    try:
        for way in (OverGrpc, OverJson):
            daemons.append(start(tmp_path / way.__name__, rules, options, clock.env()))
            ways.append(way(daemons[-1]))
        for step in scenario["steps"]:
            if "advance" in step:
                clock.advance(step["advance"])
                continue
            for _ in range(step.get("times", 1)):
                over_grpc, over_json = (way.ask(step["ask"]) for way in ways)
                assert over_grpc == over_json, step
            expect(over_grpc, step)
    finally:
        for way in ways:
            way.close()
        for daemon in daemons:
            daemon.stop()
