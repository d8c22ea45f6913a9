# SPDX-License-Identifier: Apache-2.0
"""What the log of rationd tells of changes over its admin port, and what it keeps to itself."""

import json
import signal
import subprocess

import pytest

from admin_port import RULES, log_line, own  # noqa: F401 (fixtures)
from daemon import RATIOND, Daemon, wait_for

SECRET = "sk_live_51H8xYz"
CLIENT = {"api_key": SECRET, "ip": "192.0.2.7"}


def change_everything(d):
    """One line of each kind; and the ids of the override and the ban."""
    override = {"rule": "api", "attributes": CLIENT}
    ids = [d.admin("PUT", "/v1/overrides", {**override, "limit": "7 per minute"}).json["id"],
           d.admin("PUT", "/v1/bans", {"attributes": CLIENT, "reason": "test"}).json["id"]]
    state = {"attributes": {**CLIENT, "path": f"/api/x?key={SECRET}"}}
    assert d.admin("POST", "/v1/state/reset", state).status == 200
    assert d.admin("POST", "/v1/state/adjust", {**state, "add": 1}).status == 200
    assert d.admin("DELETE", "/v1/overrides", override).json["deleted"]
    assert d.admin("DELETE", f"/v1/bans/{ids[1]}").json["deleted"]
    return ids


EVENTS = ["override.set", "ban.set", "state.reset", "state.adjust", "override.delete", "ban.delete"]


@pytest.mark.parametrize("how, client, path", [
    ([], "api_key=sk_l... ip=192.0.2.7", " path=/api/x..."),
    (["--log-keys", "masked"], "api_key=sk_l... ip=192.0.2.7", " path=/api/x..."),
    (["--log-keys", "full"], f"api_key={SECRET} ip=192.0.2.7", f" path=/api/x?key={SECRET}"),
    (["--log-keys", "none"], "api_key=... ip=...", " path=..."),
])
def test_the_log_has_as_much_of_a_key_as_log_keys_allows(tmp_path, how, client, path):
    with Daemon(tmp_path, RULES, how) as d:
        change_everything(d)
        for event in EVENTS:
            expected = client + path if event.startswith("state") else client
            assert log_line(d, event)["client"] == expected, event
        assert any(SECRET in line for line in d.log) == ("full" in how)


def test_changes_are_recognised_by_their_id(own):
    override, ban = change_everything(own)
    assert log_line(own, "override.set")["id"] == log_line(own, "override.delete")["id"] == str(override)
    assert log_line(own, "ban.set")["id"] == log_line(own, "ban.delete")["id"] == str(ban)


@pytest.mark.parametrize("value, shown", [
    ("elevenbytes", "..."), ("twelve-bytes", "twel..."),
    ("日本語日本語", "日..."), # four bytes would be a character and a third
])
def test_masks_show_whole_characters_of_long_values(own, value, shown):
    assert own.admin("PUT", "/v1/bans", {"attributes": {"user": value}}).status == 200
    assert log_line(own, "ban.set")["client"] == f"user={shown}"


def test_the_setting_may_stand_in_the_file(tmp_path):
    with Daemon(tmp_path, RULES + "server: {log_keys: none}\n") as d:
        assert d.admin("PUT", "/v1/bans", {"attributes": {"ip": "192.0.2.7"}}).status == 200
        assert log_line(d, "ban.set")["client"] == "ip=..."


@pytest.mark.parametrize("option, right", [("--log-keys", "full, masked or none"),
                                           ("--log-format", "logfmt or json"),
                                           ("--log-level", "error, warn, info or debug")])
def test_another_setting_is_refused(option, right):
    done = subprocess.run([RATIOND, "--check", option, "some"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f'rationd: {option} "some"; write {right}\n')


def start_with_json(tmp_path, *options):
    """A daemon whose log is JSON, and a function that waits for a record of an event."""
    (tmp_path / "rules.yaml").write_text(RULES)
    process = subprocess.Popen(
        [RATIOND, "--config", tmp_path / "rules.yaml", "--log-format", "json", "--http", "127.0.0.1:0",
         "--resp", "none", "--grpc", "none", "--admin", "none", *options],
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)

    def wait_for(event):
        for line in process.stderr:
            record = json.loads(line) # each line, whatever it is about
            assert list(record)[:3] == ["time", "level", "event"]
            if record["event"] == event:
                return record
        raise AssertionError(f"no {event}")
    return process, wait_for


def test_with_json_every_line_is_a_record_with_the_place_of_a_mistake(tmp_path):
    process, wait_for = start_with_json(tmp_path, "--log-level", "error")
    with process:
        ready = wait_for("daemon.ready")
        assert ready["http"].startswith("127.0.0.1:") and ready["resp"] == "none"
        assert ready["rules"] == 3 and ready["files"] == 1
        (tmp_path / "rules.yaml").write_text("limits:\n  - name: a\n    lmit: 5 per minute\n")
        process.send_signal(signal.SIGHUP)
        record = wait_for("rules.error")
        assert record["file"].endswith("rules.yaml") and (record["line"], record["column"]) == (3, 5)
        assert record["message"] == 'unknown key "lmit"; did you mean "limit"?'
        assert record["level"] == "error"
        process.terminate()
        assert process.stderr.read() == "" # the end is no error


def test_a_mistake_is_one_line_of_the_log_with_its_place(own):
    own.file.write_text("limits:\n  - name: a\n    lmit: 5 per minute\n")
    own.reload()
    assert log_line(own, "rules.error")["message"] == 'unknown key "lmit"; did you mean "limit"?'
    assert log_line(own, "rules.error")["line"] == "3"


def test_without_rules_the_log_warns_that_nothing_is_limited(tmp_path):
    with Daemon(tmp_path) as d:
        assert log_line(d, "rules.none")["meaning"] == "every request is allowed"
        assert " rules=0 files=0" in next(l for l in d.log if l.startswith("rationd: ready"))


def test_the_list_of_rules_has_no_secrets_of_the_daemon(tmp_path):
    server = "server: {admin_token: t0pSecret, redis_key_secret: pepper-and-s4lt, workers: 1}\n"
    with Daemon(tmp_path, RULES + server) as d:
        for accept in ("application/json", "application/yaml"):
            text = d.admin("GET", "/v1/rules", headers={"Accept": accept}).text
            assert "t0pSecret" not in text and "s4lt" not in text
            assert "workers" in text and "/api/**" in text


def test_the_log_escapes_what_a_caller_sent(tmp_path):
    with Daemon(tmp_path, RULES, ["--log-keys", "full"]) as d:
        d.admin("PUT", "/v1/bans", {"attributes": {"user": 'a"\nrationd: forged \x1b[2J'}})
        line = log_line(d, "ban.set")
        assert "forged" in line["client"] and not any(l.startswith("rationd: forged") for l in d.log)
        assert not any("\x1b" in l for l in d.log)
