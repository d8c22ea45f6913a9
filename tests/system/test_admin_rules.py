# SPDX-License-Identifier: Apache-2.0
"""The admin port of rationd: reading rules, trying them, putting others in their place."""

import os
import subprocess
import threading

import pytest
import yaml

from admin_port import RULES, daemon, log_line, login, own, refused, spend  # noqa: F401 (fixtures)
from daemon import BUILD, Daemon


def test_rules_are_listed_with_their_totals(daemon):
    before = {r["name"]: r for r in daemon.admin("GET", "/v1/rules").json["rules"]}
    spend(daemon, 7, login("192.0.2.1"))
    answer = daemon.admin("GET", "/v1/rules")
    rules = {r["name"]: r for r in answer.json["rules"]}
    assert answer.headers["ETag"] == '"1"' and answer.json["version"] == 1
    assert answer.json["files"] == [str(daemon.file)]
    assert list(rules) == ["login", "api", "seats"]
    assert rules["login"]["limits"] == ["5 per minute"]
    assert rules["login"]["algorithm"] == "sliding-log" and rules["login"]["key"] == "ip"
    assert rules["login"]["allowed"] - before["login"]["allowed"] == 5
    assert rules["login"]["refused"] - before["login"]["refused"] == 2
    assert rules["api"]["limits"][:2] == ["free: 100 per day", "pro: 10000 per minute burst 500"]
    assert rules["api"]["key"] == "api_key, ip" and rules["api"]["mode"] == "enforce"


def test_rules_as_yaml_are_rules_that_can_be_put(own):
    answer = own.admin("GET", "/v1/rules", headers={"Accept": "application/yaml"})
    assert answer.headers["Content-Type"] == "application/yaml"
    assert [r["name"] for r in yaml.safe_load(answer.text)["limits"]] == ["login", "api", "seats"]
    assert own.admin("PUT", "/v1/rules", answer.body).json["version"] == 2
    again = own.admin("GET", "/v1/rules", headers={"Accept": "application/yaml"})
    assert again.body == answer.body and again.headers["ETag"] == '"2"'


ENVOY = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 3}\n"


def test_rules_in_envoys_format_are_not_left_out_of_what_can_be_put_back(tmp_path):
    with Daemon(tmp_path, ENVOY, ["--resp", "none", "--grpc", "none"]) as daemon:
        answer = daemon.admin("GET", "/v1/rules", headers={"Accept": "application/yaml"})
        assert answer.status == 409 and "Envoy" in answer.text
        listed = daemon.admin("GET", "/v1/rules").json
        assert listed["text"] == "" and [r["name"] for r in listed["rules"]] == ["shop.user"]
        assert daemon.admin("PUT", "/v1/rules", ENVOY.encode()).status == 200
        again = daemon.admin("GET", "/v1/rules", headers={"Accept": "application/yaml"})
        assert (again.status, again.text) == (200, ENVOY), "the text that was put comes back"


def test_put_rules_are_in_force_until_a_reload(own):
    text = "limits:\n  - { name: all, key: ip, limit: 2 per minute } # mine\n"
    answer = own.admin("PUT", "/v1/rules", text)
    assert answer.status == 200 and answer.json["version"] == 2 and answer.json["warnings"] == []
    assert "restart" in answer.json["note"]
    rules = own.admin("GET", "/v1/rules").json
    assert (rules["source"], rules["text"]) == ("api", text)
    assert [own.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.2"}}).status
            for _ in range(3)] == [200, 200, 429]
    assert log_line(own, "rules.put")["version"] == "2"
    assert own.admin("POST", "/v1/rules/reload").json["version"] == 3
    assert own.admin("GET", "/v1/rules").json["source"] == "file"
    assert log_line(own, "rules.reload")["by"].startswith("127.0.0.1:")


def test_put_rules_can_be_deleted_and_the_files_hold_again(own):
    assert own.admin("PUT", "/v1/rules", "limits: []").status == 200
    refused(own.admin("DELETE", "/v1/rules", headers={"If-Match": '"1"'}), 412, "changed")
    assert own.admin("DELETE", "/v1/rules", headers={"If-Match": '"2"'}).json["version"] == 3
    assert own.admin("GET", "/v1/rules").json["source"] == "file"
    own.file.write_text("limits: [{}]")
    refused(own.admin("DELETE", "/v1/rules"), 422, "bad_rules")


def test_warnings_come_with_rules_that_are_put(own):
    text = "limits: [{ name: a, when: { method: [GET, GET] }, key: ip, limit: 5 per minute }]"
    answer = own.admin("PUT", "/v1/rules", text)
    assert answer.status == 200
    assert any("warning:" in line for line in answer.json["warnings"]), answer


@pytest.mark.parametrize("method, path", [("PUT", "/v1/rules"), ("POST", "/v1/rules/validate")])
def test_bad_rules_are_reported_and_change_nothing(daemon, method, path):
    answer = daemon.admin(method, path, "limits:\n  - name: a\n    key: ip\n    lmit: 5 per minute\n")
    assert refused(answer, 422, "bad_rules", "1 error")
    assert 'rules:4:5: error: unknown key "lmit"; did you mean "limit"?' in answer.json["report"]
    assert daemon.admin("GET", "/v1/rules").json["version"] == 1


@pytest.mark.parametrize("method, path", [("PUT", "/v1/rules"), ("POST", "/v1/rules/validate")])
def test_diagnostics_have_the_place_of_each_fault(daemon, method, path):
    text = ("limits:\n  - { name: a, key: ip, lmit: 5 per minute }\n"
            "  - { name: b, when: { method: [GET, GET] }, key: ip, limit: 5 per fortnight }\n")
    answer = daemon.admin(method, path + "?name=my.yaml", text)
    assert answer.status == 422
    found = [(d["file"], d["line"], d["column"], d["severity"]) for d in answer.json["diagnostics"]]
    assert found == [("my.yaml", 2, 25, "error"), ("my.yaml", 3, 38, "warning"), ("my.yaml", 3, 68, "error")], answer
    assert "fortnight" in answer.json["diagnostics"][2]["message"]
    assert daemon.admin(method, path, "limits: }").json["diagnostics"][0]["line"] == 1


def test_diagnostics_of_good_rules_are_their_warnings(daemon):
    text = "limits:\n  - { name: b, when: { method: [GET, GET] }, key: ip, limit: 5 per minute }\n"
    answer = daemon.admin("POST", "/v1/rules/validate", text).json
    assert (answer["valid"], answer["rules"]) == (True, 1)
    assert [(d["line"], d["severity"]) for d in answer["diagnostics"]] == [(2, "warning")]


def test_the_faults_of_many_are_a_hundred(daemon):
    text = "limits:\n" + "  - { name: a, lmit: 1 }\n" * 300
    assert len(daemon.admin("POST", "/v1/rules/validate", text).json["diagnostics"]) == 100


def test_validation_changes_nothing(daemon):
    answer = daemon.admin("POST", "/v1/rules/validate", '{"limits": []}')
    assert (answer.status, answer.json) == (200, {"valid": True, "rules": 0, "warnings": [], "diagnostics": []})
    assert daemon.admin("GET", "/v1/rules").json["version"] == 1


def test_rules_of_nothing_are_refused(daemon):
    assert refused(daemon.admin("PUT", "/v1/rules"), 400, "bad_request", "empty")


@pytest.mark.parametrize("tag, status", [('"1"', 200), ('"2"', 412), ('"7", "1"', 200), ("*", 200),
                                         ("1", 412), ('W/"1"', 412)])
def test_rules_replace_only_the_version_that_was_named(own, tag, status):
    answer = own.admin("PUT", "/v1/rules", "limits: []", {"If-Match": tag})
    assert answer.status == status, answer
    assert own.admin("GET", "/v1/rules").json["version"] == (2 if status == 200 else 1)
    if status == 412:
        assert refused(answer, 412, "changed", '"1"', tag)


def test_a_reload_of_bad_files_keeps_the_rules(own):
    own.file.write_text("limits: [{ name: a }]")
    answer = own.admin("POST", "/v1/rules/reload")
    assert refused(answer, 422, "bad_rules") and "rules.yaml" in answer.json["report"]
    assert own.admin("GET", "/v1/rules").json["version"] == 1
    assert own.admin("GET", "/v1/status").json["rules"]["last_reload_failed"] is True
    assert "ration_rules_last_reload_successful 0" in own.admin("GET", "/metrics").text


def test_rules_that_an_operator_has_set_survive_a_restart_until_they_are_deleted(tmp_path):
    other = "limits:\n  - { name: other, key: ip, limit: 3 per minute }\n"

    def names(d):
        return [rule["name"] for rule in d.admin("GET", "/v1/rules").json["rules"]]

    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as d:
        assert d.admin("PUT", "/v1/rules", other).json["note"] == (
            "these rules last until they are replaced or deleted")
        d.reload() # the files are read, and change nothing
        log_line(d, "rules.files_overridden")
        assert names(d) == ["other"]
        d.kill()
        d.start()
        assert names(d) == ["other"]
        assert "rules delete" in log_line(d, "rules.from_api")["advice"]
        done = subprocess.run([BUILD / "ration", "rules", "delete", "--admin", d.addresses["admin"]],
                              capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.startswith("the files are in force")
        assert "other" not in names(d)
        d.stop()
        d.start()
        assert "other" not in names(d)
        assert not any("rules.from_api" in line for line in d.log)


def test_kept_rules_that_cannot_be_read_are_reported(tmp_path):
    kept = tmp_path / "state.rules"
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as d:
        d.stop()
        d.start()
        assert not any("rules.lost" in line for line in d.log)
        for spoil, words in ((lambda: kept.write_bytes(b""), "its first line does not say"),
                             (lambda: kept.write_bytes(b"limits: []\n"), "its first line does not say"),
                             (lambda: os.truncate(kept, 1 << 40), "larger than 64 MiB"),
                             (lambda: (kept.unlink(), kept.symlink_to("nowhere")), "No such file"),
                             (lambda: (kept.unlink(), os.mkfifo(kept)), "not a regular file")):
            d.stop()
            spoil()
            d.start()
            assert log_line(d, "rules.lost")["error"].startswith(words)
            assert d.admin("GET", "/v1/rules").json["version"] == 1


def test_pushed_rules_are_called_by_their_file(tmp_path):
    bad = tmp_path / "bad rules.yaml"
    bad.write_text("limits:\n  - { name: a, lmit: 5 per minute }\n")
    with Daemon(tmp_path, RULES) as d:
        for verb in ("push", "validate"):
            done = subprocess.run([BUILD / "ration", "rules", verb, bad, "--admin", d.addresses["admin"]],
                                  capture_output=True, text=True)
            assert done.returncode == 2
            assert f'{bad}:2:16: error: unknown key "lmit"' in done.stderr, done.stderr


def test_a_reload_never_lets_the_files_in_while_an_operator_has_set_rules(tmp_path):
    """Not for an instant: requests are refused by the operator's rules all the time."""
    with Daemon(tmp_path, "limits: []", ["--state", tmp_path / "state"]) as d:
        assert d.admin("PUT", "/v1/rules", "limits: [{name: shut, limit: 0 per second}]").status == 200
        stop, allowed = threading.Event(), []

        def ask():
            with d.resp() as resp:
                while not stop.is_set():
                    allowed.append(resp("RATION.CHECK", "ip", "192.0.2.7")[1])

        askers = [threading.Thread(target=ask) for _ in range(2)]
        for asker in askers:
            asker.start()
        for _ in range(50):
            assert d.admin("POST", "/v1/rules/reload").json["note"].startswith("the files are in order")
            d.reload()
        stop.set()
        for asker in askers:
            asker.join()
        assert len(allowed) > 100 and set(allowed) == {0}
        d.logged("rules.files_overridden")


def test_bans_that_cannot_be_read_keep_rationd_from_starting(tmp_path):
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as d:
        assert d.admin("PUT", "/v1/bans", {"attributes": {"ip": "192.0.2.66"}}).status == 200
        d.stop()
        journal = tmp_path / "state.overrides"
        sound = journal.read_bytes()
        journal.write_bytes(b"\xff" + sound[1:])
        with pytest.raises(RuntimeError, match="it was left alone: move it away"):
            d.start()
        journal.write_bytes(sound)
        d.start()
        answer = d.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.66"}}).json
        assert answer["banned"] and not answer["allowed"]


def test_rules_that_cannot_be_saved_or_deleted_are_reported(tmp_path):
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as d:
        kept = tmp_path / "state.rules"
        kept.mkdir() # no file can take its place
        (kept / "x").touch()
        answer = d.admin("PUT", "/v1/rules", "limits: []")
        assert answer.status == 200 and "could not be saved" in answer.json["note"]
        assert d.admin("GET", "/v1/rules").json["rules"] == []
        answer = d.admin("DELETE", "/v1/rules")
        assert answer.status == 503 and "could not be deleted" in answer.json["message"]
        assert d.admin("GET", "/v1/rules").json["rules"] == []
        (kept / "x").unlink()
        kept.rmdir()
        assert d.admin("DELETE", "/v1/rules").status == 200
        assert d.admin("GET", "/v1/rules").json["rules"] != []


def test_files_beside_a_linked_state_have_the_name_of_the_file_itself(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk/state")
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "disk" / "state"]) as d:
        assert d.admin("PUT", "/v1/rules", "limits: [{name: other, limit: 1 per day}]").status == 200
        assert d.admin("PUT", "/v1/bans", {"attributes": {"ip": "192.0.2.66"}}).status == 200
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "link"]) as d:
        assert [rule["name"] for rule in d.admin("GET", "/v1/rules").json["rules"]] == ["other"]
        assert len(d.admin("GET", "/v1/bans").json["bans"]) == 1
    assert {path.name for path in (tmp_path / "disk").iterdir()} >= {"state.rules", "state.overrides"}
    assert not list(tmp_path.glob("link?*"))
