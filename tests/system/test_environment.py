# SPDX-License-Identifier: Apache-2.0
"""Settings of rationd in the environment: each option has its variable, which comes before the section
`server:` and after the command line; misspelt ones are pointed out."""

import os
import re
import subprocess

import pytest

from daemon import PATIENCE, RATIOND, Daemon

RULES = "limits: [{name: a, key: ip, limit: 5 per minute}]\n"
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("RATION_")}


def rationd(*options, **env):
    done = subprocess.run([RATIOND, *options], capture_output=True, text=True, timeout=PATIENCE,
                          env={**CLEAN, **{k: str(v) for k, v in env.items()}})
    return done.returncode, done.stdout + done.stderr


def options():
    """(name, word for the value) of every option that has one."""
    return re.findall(r"^  --([a-z-]+) ([A-Z]+) ", rationd("--help")[1], re.M)


SETTINGS = [(name, value) for name, value in options() if name != "config"]


def variable(name):
    return "RATION_" + name.upper().replace("-", "_")


# A value of which nothing could be meant, and for which rationd has an answer.
WRONG = {"ADDR": "nonsense", "SIZE": "1 furlong", "N": "-1", "FLAG": "perhaps", "HOW": "backwards", "LEVEL": "loud",
         "TIME": "soon", "URL": "gopher://", "VERSION": "0.9", "LIST": "telnet"}


@pytest.mark.parametrize("name, value", [s for s in SETTINGS if s[1] != "FILE"])
def test_a_wrong_value_names_the_variable(name, value):
    status, text = rationd("--check", **{variable(name): WRONG[value]})
    assert status == 2 and text.startswith(f"rationd: {variable(name)}"), text
    assert re.search("; .*write|; name the certificate|: not the URL", text) # what would be right


@pytest.mark.parametrize("name", [name for name, value in SETTINGS if value == "SIZE"])
def test_no_memory_at_all_is_a_wrong_value(name):
    status, text = rationd("--check", **{variable(name): 0})
    assert status == 2 and text.startswith(f'rationd: {variable(name)} "0"; write a size of '), text


@pytest.mark.parametrize("name", [name for name, value in SETTINGS if value == "FILE" and name != "state"])
def test_a_missing_file_names_the_variable(name):
    others = {"RATION_TLS_CERT": "/etc/hosts", "RATION_TLS_KEY": "/etc/hosts"} if name.startswith("tls") else {}
    status, text = rationd("--check", **{**others, variable(name): "/absent"})
    assert status == 2 and text.startswith(f'rationd: {variable(name)} "/absent"; '), text


def test_there_are_settings_to_try():
    assert len(SETTINGS) > 30 and {value for _, value in SETTINGS} == {*WRONG, "FILE"}


def test_a_daemon_lives_on_variables_alone(tmp_path):
    """Rules from two files, a state, listeners and a token: nothing on the command line or in a section."""
    (tmp_path / "a.yaml").write_text(RULES)
    (tmp_path / "b.yaml").write_text("limits: [{name: b, key: user, limit: 1 per hour}]\n")
    env = {"RATION_CONFIG": f"{tmp_path}/a.yaml:{tmp_path}/b.yaml", "RATION_STATE": str(tmp_path / "state"),
           "RATION_HTTP": "127.0.0.1:0", "RATION_RESP": "none", "RATION_GRPC": "none",
           "RATION_ADMIN": f"unix:{tmp_path}/admin", "RATION_ADMIN_TOKEN": "s3cret", "RATION_TRUST_LOCAL": "false",
           "RATION_WORKERS": "1", "RATION_MEMORY": "2M"}
    with bare_daemon(tmp_path, env) as d:
        assert d.addresses["resp"] == d.addresses["grpc"] == "none"
        check = {"attributes": {"user": "ada", "ip": "192.0.2.7"}}
        assert [d.http("POST", "/v1/check", check).status for _ in range(2)] == [200, 429]
        assert d.admin("GET", "/v1/rules").status == 401
        answer = d.admin("GET", "/v1/rules", headers={"Authorization": "Bearer s3cret"})
        assert [rule["name"] for rule in answer.json["rules"]] == ["a", "b"]
    assert (tmp_path / "state").stat().st_size >= 2 << 20


def bare_daemon(folder, env):
    """A daemon without any option."""
    d = Daemon(folder, None, start=False)
    d.options, d.env = [], {**CLEAN, **env}
    d.start()
    return d


def test_the_command_line_comes_before_the_environment_before_the_section(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES + "server: {log_level: of section, workers: 3}\n")
    status, text = rationd("--check", "--config", rules)
    assert status == 2 and "rules.yaml:2:" in text and "of section" in text
    status, text = rationd("--check", "--config", rules, RATION_LOG_LEVEL="of environment")
    assert status == 2 and 'RATION_LOG_LEVEL "of environment"' in text
    status, text = rationd("--check", "--config", rules, "--log-level", "of option", RATION_LOG_LEVEL="of environment")
    assert status == 2 and '--log-level "of option"' in text
    assert rationd("--check", "--config", rules, RATION_LOG_LEVEL="warn")[0] == 0


def test_secrets_of_the_environment_come_before_the_section(tmp_path):
    with Daemon(tmp_path, RULES + "server: {admin_token: of-section, trust_local: false}\n",
                env={"RATION_ADMIN_TOKEN": "of-environment"}) as d:
        def status(token):
            return d.admin("GET", "/v1/rules", headers={"Authorization": f"Bearer {token}"}).status
        assert (status("of-section"), status("of-environment")) == (401, 200)


def test_config_on_the_command_line_replaces_that_of_the_environment(tmp_path):
    (tmp_path / "rules.yaml").write_text(RULES)
    assert rationd("--check", RATION_CONFIG="/absent")[0] == 2
    assert rationd("--check", "--config", tmp_path / "rules.yaml", RATION_CONFIG="/absent")[0] == 0


def test_an_empty_variable_is_none(tmp_path):
    everything = {variable(name): "" for name, _ in SETTINGS}
    assert rationd("--check", **everything, RATION_CONFIG="") == (0, "rationd: rules and settings are in order\n")


@pytest.mark.parametrize("name, meant", [
    ("RATION_WORKER", "RATION_WORKERS"), ("RATION_LOGLEVEL", "RATION_LOG_LEVEL"), ("RATION_HTPP", "RATION_HTTP"),
    ("RATION_ADMIN_TOKN", "RATION_ADMIN_TOKEN"), ("RATION_TLS_KEYS", "RATION_TLS_KEY"),
    ("RATION_REDIS_URL", "RATION_REDIS"), ("RATION_TLS_CERT_FILE", "RATION_TLS_CERT"),
    ("RATION_CONFIGS", "RATION_CONFIG"), ("RATION_TIMEOUTS", "RATION_TIMEOUT")])
def test_a_misspelt_variable_is_pointed_out(name, meant):
    status, text = rationd("--check", **{name: "1"})
    assert status == 0 and f"event=environment.unknown variable={name}" in text
    assert f"did you mean {meant}?" in text


def test_no_variable_can_be_one_that_kubernetes_makes():
    """For services called ration-http, ration-admin ...: docs/adr/2026-11-18-settings-in-the-environment.md."""
    assert [name for name, _ in SETTINGS if name.endswith("-port") or "-port-" in name or "-service-" in name] == []


def test_other_variables_are_left_alone():
    """Those of the command `ration`, of Kubernetes for services called ration and ration-http, and whatever else."""
    others = ["TOKEN", "TOKEN_FILE", "CACERT", "CERT", "KEY", "TIMEOUT", "VERSION", "HOME", "BUILD", "SOAK", "SEED",
              "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "HTTP_SERVICE_HOST", "HTTP_SERVICE_PORT",
              "HTTP_PORT_8080_TCP", "HTTP_PORT_8080_TCP_ADDR", "ADMIN_PORT_8082_TCP_PROTO"]
    env = {f"RATION_{name}": "1" for name in others} | {"RATION_PORT": "tcp://10.0.0.1:8080",
                                                        "RATION_HTTP_PORT": "tcp://10.0.0.1:8080"}
    assert rationd("--check", **env) == (0, "rationd: rules and settings are in order\n")
