# SPDX-License-Identifier: Apache-2.0
"""Named tokens of rationd, what each scope allows, and secrets from files."""

import os
import signal
import subprocess

import pytest

from admin_port import RULES, log_line, refused
from daemon import PATIENCE, RATIOND, Daemon, RespError, wait_for
from redis_server import RedisServer

SERVER = """
server:
  admin_token: s3cret
  tokens:
    prometheus: { token: scr4pe, scope: metrics }
    grafana: { token: l00k, scope: read }
    ops-anna: { token: ch4nge, scope: admin }
"""
TOKENS = {"prometheus": "scr4pe", "grafana": "l00k", "ops-anna": "ch4nge", "admin": "s3cret"}
CLIENT = {"attributes": {"ip": "192.0.2.7"}}
LOGIN = {"attributes": {"ip": "192.0.2.7", "method": "POST", "path": "/login"}}
# What each request needs. A new route that is not here fails test_every_route_has_a_scope.
ASKED = [
    ("metrics", "GET", "/metrics", None),
    ("metrics", "GET", "/v1/whoami", None),
    ("read", "GET", "/v1/history", None),
    ("read", "GET", "/v1/live?lines=1", None),
    ("read", "GET", "/v1/activity", None),
    ("read", "GET", "/schema.json", None),
    ("read", "GET", "/v1/status", None),
    ("read", "GET", "/v1/rules", None),
    ("admin", "PUT", "/v1/rules", {"limits": []}),
    ("admin", "DELETE", "/v1/rules", None),
    ("read", "POST", "/v1/rules/validate", {"limits": []}),
    ("admin", "POST", "/v1/rules/reload", None),
    ("read", "GET", "/v1/rules/versions", None),
    ("read", "GET", "/v1/rules/versions/1", None),
    ("admin", "POST", "/v1/rules/rollback", {"version": 1}),
    ("admin", "POST", "/v1/rules/trial", {"limits": []}),
    ("admin", "DELETE", "/v1/rules/trial", None),
    ("read", "POST", "/v1/explain", LOGIN),
    ("read", "GET", "/v1/state?rule=login&ip=192.0.2.7&method=POST&path=/login", None),
    ("admin", "POST", "/v1/state/reset", LOGIN),
    ("admin", "POST", "/v1/state/adjust", LOGIN),
    ("read", "GET", "/v1/overrides", None),
    ("admin", "PUT", "/v1/overrides", CLIENT),
    ("admin", "DELETE", "/v1/overrides", CLIENT),
    ("admin", "DELETE", "/v1/overrides/1", None),
    ("read", "GET", "/v1/bans", None),
    ("admin", "PUT", "/v1/bans", {"attributes": {"ip": "198.51.100.1"}}),
    ("admin", "DELETE", "/v1/bans", CLIENT),
    ("admin", "DELETE", "/v1/bans/77", None),
    ("read", "GET", "/v1/reputation", None),
    ("admin", "DELETE", "/v1/reputation", LOGIN),
    ("admin", "POST", "/v1/pause", {"key": "k", "for": 0}),
    ("read", "GET", "/v1/pause?key=k", None),
    ("admin", "DELETE", "/v1/pause", {"key": "k"}),
    ("read", "GET", "/v1/usage", None),
    ("admin", "POST", "/v1/usage", {"rule": "login"}),
    ("read", "GET", "/v1/signals", None),
    ("admin", "PUT", "/v1/signals/1", {"value": 0.5}),
    ("read", "GET", "/v1/top", None),
    ("read", "GET", "/v1/report", None),
    ("read", "GET", "/v1/limits", None),
    ("read", "GET", "/v1/shadow", None),
    ("admin", "PUT", "/v1/shadow", {"shadow": False}),
]
SCOPES = {"prometheus": ["metrics"], "grafana": ["metrics", "read"],
          "ops-anna": ["metrics", "read", "admin"], "admin": ["metrics", "read", "admin"]}


def bearer(token, stranger=True):
    """The headers of a request that needs a token, and shows this one."""
    return {"Authorization": f"Bearer {token}", **({"X-Forwarded-For": "192.0.2.9"} if stranger else {})}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("tokens"), RULES + SERVER) as d:
        yield d


@pytest.mark.parametrize("name", SCOPES)
def test_a_token_allows_what_its_scope_says(daemon, name):
    for needed, method, path, body in ASKED:
        answer = daemon.admin(method, path, body, headers=bearer(TOKENS[name]))
        if needed in SCOPES[name]:
            assert answer.status not in (401, 403), (path, answer)
        else:
            assert refused(answer, 403, "forbidden", f"a token of scope {needed}; {name} has scope")


def test_every_route_has_a_scope(daemon):
    listed = daemon.admin("GET", "/nowhere").json["message"].split("there are: ")[1].split()
    assert {path.rstrip("/") for path in listed} - {"", "/web", "/healthz", "/readyz", "/openapi.json"} == \
        {path.split("?")[0].removesuffix("/1").removesuffix("/77") for _, _, path, _ in ASKED}


def test_an_unknown_route_needs_the_scope_admin(daemon):
    for method, path in (("POST", "/v1/new"), ("PATCH", "/v1/rules"), ("OPTIONS", "/v1/rules")):
        assert daemon.admin(method, path, headers=bearer("l00k")).status == 403
    assert daemon.admin("HEAD", "/v1/rules", headers=bearer("l00k")).status == 200


def test_a_scraper_cannot_switch_shadow_mode_on(daemon):
    for stranger in (True, False):  # a token that is shown counts where none is needed, too
        answer = daemon.admin("PUT", "/v1/shadow", {"shadow": True}, headers=bearer("scr4pe", stranger))
        assert refused(answer, 403, "forbidden", "this needs a token of scope admin; prometheus has scope metrics")
    assert daemon.admin("GET", "/v1/shadow").json == {"shadow": False}
    denied = log_line(daemon, "admin.denied")
    assert denied["token"] in SCOPES and denied["needs"] in ("read", "admin")


def test_the_log_of_a_change_names_the_token(tmp_path):
    with Daemon(tmp_path, RULES + SERVER) as d:
        assert d.admin("PUT", "/v1/shadow", {"shadow": True}, headers=bearer("ch4nge")).status == 200
        line = log_line(d, "shadow.set")
        assert line["token"] == "ops-anna" and line["by"].startswith("127.0.0.1:")
        assert d.admin("PUT", "/v1/rules", {"limits": []}, headers=bearer("ch4nge", False)).status == 200
        assert log_line(d, "rules.put")["token"] == "ops-anna"
        assert d.admin("POST", "/v1/rules/reload", headers=bearer("s3cret")).status == 200
        assert log_line(d, "rules.reload")["token"] == "admin"
        # Callers that need none and show none, or a wrong one, have no name.
        d.admin("PUT", "/v1/bans", {"attributes": {"ip": "192.0.2.7"}}, headers=bearer("wrong", False))
        assert "token" not in log_line(d, "ban.set")
        assert not any(token in line for token in TOKENS.values() for line in d.log)


@pytest.mark.parametrize("command", [("AUTH",), ("HELLO", "3", "AUTH")])
def test_changes_over_resp_need_the_scope_admin(tmp_path, command):
    def reset(*name_and_token):
        with d.resp() as redis:
            redis(*command, *name_and_token)
            assert redis("RATION.TAKE", "k", "5 per hour")  # decisions need no token
            return redis("RATION.RESET", "ann", "5 per hour")

    with Daemon(tmp_path, RULES + SERVER + "  trust_local: false\n") as d:
        assert reset("ops-anna", "ch4nge") == reset("default", "ch4nge") == reset("admin", "s3cret") == 1
        for name in ("prometheus", "grafana"):
            for user in (name, "default"):
                with pytest.raises(RespError, match=f"NOPERM .*scope admin; {name} has scope"):
                    reset(user, TOKENS[name])
        for name, token in (("prometheus", "ch4nge"), ("ops-anna", "scr4pe"), ("x", "ch4nge")):
            with pytest.raises(RespError, match="WRONGPASS"):
                reset(name, token)
        with d.resp() as redis:
            assert redis("AUTH", "ch4nge") == b"OK"
            assert redis("RATION.RESET", "ann", "5 per hour") == 1
            assert redis("RESET") == b"RESET"
            with pytest.raises(RespError, match="NOAUTH"):
                redis("RATION.RESET", "ann", "5 per hour")


def test_rules_do_not_tell_tokens(tmp_path):
    with Daemon(tmp_path, RULES + SERVER) as d:
        for _ in range(2):  # rules of the file, then the same over the API
            for accept in ("application/json", "application/yaml"):
                answer = d.admin("GET", "/v1/rules", headers={"Accept": accept, **bearer("l00k")})
                assert answer.status == 200 and "/login" in answer.text
                assert not any(token in answer.text for token in TOKENS.values())
            assert d.admin("PUT", "/v1/rules", RULES + SERVER).status == 200
        assert d.admin("PUT", "/v1/rules", RULES + "# as it was given\n").status == 200
        assert "# as it was given" in d.admin("GET", "/v1/rules").json["text"]


# --- files -----------------------------------------------------------------------------------

def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


def check(folder, server, *options, env=None):
    """The end of `rationd --check`: status and stderr."""
    rules = write(folder / "rules.yaml", RULES + server)
    done = subprocess.run([RATIOND, "--check", "--config", rules, *options], capture_output=True, text=True,
                          timeout=PATIENCE, env={**os.environ, **(env or {})})
    return done.returncode, done.stderr


def test_a_token_is_rotated_without_a_restart(tmp_path):
    def status(token):
        return d.admin("GET", "/v1/rules", headers=bearer(token)).status

    anna, admin = write(tmp_path / "anna", "0ld\r\n"), write(tmp_path / "admin", "f1rst")
    server = f"server: {{tokens: {{anna: {{token_file: {anna}, scope: admin}}}}, trust_local: false}}\n"
    with Daemon(tmp_path, RULES + server, ["--admin-token-file", str(admin)]) as d, d.resp() as redis:
        def hangup():
            before = sum(" event=rules.reload " in line for line in d.log)
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: sum(" event=rules.reload " in line for line in d.log) > before)

        assert status("0ld") == status("f1rst") == 200
        assert redis("AUTH", "anna", "0ld") == b"OK"
        write(anna, "n3w\n")
        write(admin, "s3cond\n")
        assert status("0ld") == 200 and status("n3w") == 401  # until the reload
        hangup()
        assert [status(token) for token in ("0ld", "f1rst", "n3w", "s3cond")] == [401, 401, 200, 200]
        assert log_line(d, "token.changed")["file"] == str(admin)
        with pytest.raises(RespError, match="NOAUTH"):  # a client that has shown the former one must show this
            redis("RATION.RESET", "ann", "5 per hour")
        # What cannot be used leaves the former token in force, and other changes hold.
        for text in ("", "two\nlines\n", "s3cond\n"):
            write(anna, text)
            hangup()
            assert status("n3w") == status("s3cond") == 200
        anna.unlink()
        hangup()
        assert status("n3w") == 200
        kept = [line for line in d.log if " event=token.reload_failed " in line]
        assert len(kept) == 4 and all("token=anna" in line for line in kept)
        for line, why in zip(kept, ("is empty", "several lines", "the same as admin", "No such file")):
            assert why in line
        assert not any(t in line for line in d.log for t in ("0ld", "n3w", "f1rst", "s3cond"))


def test_a_world_readable_file_draws_a_warning(tmp_path):
    for mode, warned in ((0o644, True), (0o640, False)):
        token = write(tmp_path / "token", "s3cret\n", mode)
        code, log = check(tmp_path, f"server: {{admin_token_file: {token}}}\n")
        assert code == 0 and ("event=secret.exposed" in log) == warned, log


@pytest.mark.parametrize("text,why", [
    (None, "No such file"), ("", "is empty"), ("\n", "is empty"), ("a\nb\n", "several lines or control characters"),
    ("a\0b", "several lines or control characters"), ("x" * 4097, "more than 4096 bytes"),
])
def test_a_file_that_is_no_secret_is_refused(tmp_path, text, why):
    path = tmp_path / "secret"
    if text is not None:
        write(path, text)
    for server in (f"server: {{admin_token_file: {path}}}\n", f"server: {{redis_file: {path}}}\n",
                   f"server: {{redis_key_secret_file: {path}}}\n",
                   f"server: {{tokens: {{anna: {{token_file: {path}, scope: read}}}}}}\n"):
        code, log = check(tmp_path, server)
        assert code == 2 and why in log and "rules.yaml:" in log, log


def test_only_a_regular_file_is_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, why in ((tmp_path / "fifo", "a FIFO"), (tmp_path, "a directory"), ("/dev/zero", "a device")):
        code, log = check(tmp_path, f"server: {{admin_token_file: {path}}}\n")
        assert code == 2 and f"it is {why}, not a regular file" in log, log


@pytest.mark.parametrize("name,value", [("admin_token", "s3cret"), ("redis", "redis://127.0.0.1:1"),
                                        ("redis_key_secret", "s4lt")])
def test_a_secret_comes_from_one_place(tmp_path, name, value):
    path = write(tmp_path / "secret", value)
    option = name.replace("_", "-")
    for server, options, env in (
            (f"server: {{{name}: {value!r}, {name}_file: {path}}}\n", [], {}),
            (f"server: {{{name}: {value!r}}}\n", [f"--{option}-file", path], {}),
            (f"server: {{{name}: {value!r}}}\n", [], {f"RATION_{name.upper()}_FILE": str(path)}),
            (f"server: {{{name}_file: {path}}}\n", [], {f"RATION_{name.upper()}": value})):
        code, log = check(tmp_path, server, *options, env=env)
        assert code == 2 and f"{name} is given, too; keep one of them" in log and value not in log.replace(str(path), "")


def test_two_tokens_cannot_be_the_same(tmp_path):
    same = write(tmp_path / "same", "s3cret\n")
    code, log = check(tmp_path, "server:\n  admin_token: s3cret\n  tokens:\n"
                                f"    scraper: {{token_file: {same}, scope: metrics}}\n")
    assert code == 2 and ": token scraper: it is the same as admin" in log and "s3cret" not in log


def test_files_are_named_in_the_environment(tmp_path):
    token = write(tmp_path / "token", "s3cret\n")
    with RedisServer(tmp_path) as redis:
        url = write(tmp_path / "url", f"redis+unix://{redis.path}\n")
        secret = write(tmp_path / "secret", "s4lt\n")
        with Daemon(tmp_path, RULES, env={"RATION_ADMIN_TOKEN_FILE": str(token), "RATION_REDIS_FILE": str(url),
                                          "RATION_REDIS_KEY_SECRET_FILE": str(secret)}) as d:
            assert d.admin("GET", "/v1/rules", headers=bearer("s3cret")).status == 200
            assert d.admin("GET", "/v1/rules", headers=bearer("wrong")).status == 401
            assert "ration_store_up 1" in d.admin("GET", "/metrics").text
