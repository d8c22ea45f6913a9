# SPDX-License-Identifier: Apache-2.0
"""A rules directory of several teams: rationd, the command line, and files that change."""

import os
import shutil
import subprocess

import pytest

from admin_port import log_line
from daemon import BUILD, PATIENCE, RATIOND, Daemon, wait_for

MISTAKE = "limits:\n  - name: search\n    key: ip\n    lmit: 5 per minute\n"


def limit(name, amount=5, more=""):
    return f"limits:\n  - {{ name: {name}, key: ip, limit: {amount} per hour{more} }}\n"


def fill(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def rules(tmp_path):
    folder = tmp_path / "rules"
    fill(folder, {"root.yaml": limit("all", 100), "web/login.yaml": limit("login"),
                  "api/search.yaml": limit("search")})
    return folder


@pytest.fixture
def own(tmp_path, rules):
    with Daemon(tmp_path, options=["--config", rules]) as d:
        yield d


def names(d):
    return [rule["name"] for rule in d.admin("GET", "/v1/rules").json["rules"]]


def kept(d):
    lines = d.admin("GET", "/metrics").text.splitlines()
    return {line for line in lines if line.startswith("ration_rules_team_kept{")}


def metric(team, value):
    return f'ration_rules_team_kept{{team="{team}"}} {value}'


def test_a_mistake_of_one_team_leaves_the_others_free_to_change(own, rules):
    assert names(own) == ["all", "api.search", "web.login"]
    assert kept(own) == {metric("api", 0), metric("web", 0)}
    fill(rules, {"api/search.yaml": MISTAKE, "web/login.yaml": limit("signup")})
    wait_for(lambda: names(own) == ["all", "api.search", "web.signup"])
    assert kept(own) == {metric("api", 1), metric("web", 0)}
    line = log_line(own, "rules.team_kept")
    assert (line["team"], line["errors"]) == ("api", "1")
    error = log_line(own, "rules.error")
    assert (error["line"], error["column"]) == ("4", "5")
    assert error["file"] == str(rules / "api/search.yaml")
    assert "did you mean" in error["message"]
    own.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.7"}})
    assert 'ration_rule_decisions_total{rule="api.search"' in own.admin("GET", "/metrics").text


def test_a_reload_by_hand_says_what_is_kept_and_a_repair_ends_it(own, rules):
    (rules / "api/search.yaml").write_text(MISTAKE)
    answer = own.admin("POST", "/v1/rules/reload")
    assert answer.status == 200, answer
    assert answer.json["note"] == "teams with errors in their files keep their former rules"
    assert any('error: unknown key "lmit"' in line for line in answer.json["warnings"])
    (rules / "api/search.yaml").write_text(limit("find"))
    answer = own.admin("POST", "/v1/rules/reload")
    assert answer.status == 200 and "note" not in answer.json
    assert names(own) == ["all", "api.find", "web.login"]
    assert metric("api", 0) in kept(own)


def test_a_root_that_a_kept_team_does_not_fit_changes_nothing(own, rules):
    fill(rules, {"root.yaml": "tiers: { plans: { free: 5 per day } }\n",
                 "api/search.yaml": "limits: [{ name: a, limit: { by: tier, use: plans } }]\n"})
    assert own.admin("POST", "/v1/rules/reload").status == 200
    before = names(own)
    fill(rules, {"root.yaml": limit("all"), "api/search.yaml": MISTAKE, "web/login.yaml": limit("new")})
    answer = own.admin("POST", "/v1/rules/reload")
    assert answer.status == 422, answer
    assert "search.yaml (former version):1:" in answer.json["report"]
    assert names(own) == before == ["api.a", "web.login"]
    assert "ration_rules_last_reload_successful 0" in own.admin("GET", "/metrics").text


def test_files_and_teams_that_are_deleted_take_their_rules_along(own, rules):
    (rules / "api/search.yaml").unlink()
    wait_for(lambda: names(own) == ["all", "web.login"])
    shutil.rmtree(rules / "web")
    wait_for(lambda: names(own) == ["all"])
    fill(rules, {"late/a.yaml": limit("a")})
    wait_for(lambda: names(own) == ["all", "late.a"])
    fill(rules, {"late/a.yaml": limit("b")})
    wait_for(lambda: names(own) == ["all", "late.b"])


def test_rules_that_were_put_do_not_make_it_forget_what_was_good(own, rules):
    assert own.admin("PUT", "/v1/rules", "limits: []").status == 200
    (rules / "api/search.yaml").write_text(MISTAKE)
    assert own.admin("DELETE", "/v1/rules").status == 200
    assert names(own) == ["all", "api.search", "web.login"]


def test_a_swap_of_data_as_kubernetes_does_it_is_one_change(tmp_path):
    """A mounted ConfigMap: NAME -> ..data/NAME, ..data -> ..1, and ..data is replaced by rename."""
    mount = tmp_path / "mount"
    fill(mount / "..1", {"root.yaml": limit("all"), "api/a.yaml": limit("a")})
    fill(mount / "..2", {"root.yaml": limit("every"), "api/a.yaml": limit("b")})
    (mount / "..data").symlink_to("..1")
    for name in ["root.yaml", "api"]:
        (mount / name).symlink_to(f"..data/{name}")
    with Daemon(tmp_path, options=["--config", mount]) as d:
        assert names(d) == ["all", "api.a"]
        (mount / "..next").symlink_to("..2")
        os.rename(mount / "..next", mount / "..data")
        wait_for(lambda: names(d) == ["every", "api.b"])
        shutil.rmtree(mount / "..1")
        assert d.admin("POST", "/v1/rules/reload").status == 200
        assert names(d) == ["every", "api.b"]


def test_a_team_with_a_mistake_and_nothing_to_keep_prevents_the_start(rules):
    (rules / "api/search.yaml").write_text(MISTAKE)
    ended = subprocess.run([RATIOND, "--config", rules, "--http", "127.0.0.1:0"],
                           capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 2
    assert 'search.yaml:4:5: error: unknown key "lmit"; did you mean "limit"?' in ended.stderr


def test_lint_reports_the_errors_of_all_teams(rules):
    fill(rules, {"api/search.yaml": MISTAKE, "web/login.yaml": "mode: shadow\n"})
    ended = subprocess.run([BUILD / "ration", "lint", rules], capture_output=True, text=True,
                           timeout=PATIENCE)
    assert ended.returncode != 0
    said = ended.stdout + ended.stderr
    assert 'search.yaml:4:5: error: unknown key "lmit"' in said
    assert 'login.yaml:1:1: error: only files at the root may say "mode"' in said


def test_rules_of_teams_can_be_printed_and_put_as_one_file(own, rules):
    fill(rules, {"api/search.yaml": "attributes: { tenant: { path: '/t/{tenant}/**' } }\n"
                                    "limits: [{ name: a, key: tenant, limit: 2 per hour }]\n"})
    assert own.admin("POST", "/v1/rules/reload").status == 200
    printed = own.admin("GET", "/v1/rules", headers={"Accept": "application/yaml"})
    assert printed.status == 200 and "api.tenant" in printed.text, printed
    assert own.admin("PUT", "/v1/rules", printed.text).status == 200
    assert names(own) == ["all", "api.a", "web.login"]
