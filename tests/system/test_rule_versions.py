# SPDX-License-Identifier: Apache-2.0
"""The versions of rules: who put which into force, going back, and the file that keeps them."""

import os
import random
import subprocess
import threading
import time

import pytest

from admin_port import RULES, log_line, refused
from daemon import BUILD, Daemon, wait_for

ENVOY = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {{unit: hour, requests_per_unit: {}}}\n"
TOKEN = "a token of the tests, thirty-two bytes"


def rules(limit, more=""):
    return f"limits: [{{name: api, key: ip, limit: {limit} per minute}}] # {limit}{more}\n"


def versions(d, query=""):
    answer = d.admin("GET", f"/v1/rules/versions{query}")
    assert answer.status == 200, answer
    return answer.json["versions"]


def text_of(d, number):
    return d.admin("GET", f"/v1/rules/versions/{number}").json["text"]


def put(d, text, **headers):
    answer = d.admin("PUT", "/v1/rules", text, headers)
    assert answer.status == 200, answer
    return answer


def roll_back(d, number, **headers):
    return d.admin("POST", "/v1/rules/rollback", f'{{"version": {number}}}', headers)


@pytest.fixture
def own(tmp_path):
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as d:
        yield d


# --- who, when and how ----------------------------------------------------------------------------


def test_each_change_is_a_version_with_its_author(tmp_path):
    guarded = RULES + f"server:\n  tokens:\n    ops-anna: {{token: '{TOKEN}', scope: admin}}\n"
    with Daemon(tmp_path, guarded, ["--state", tmp_path / "state"]) as d:
        before = time.time()
        put(d, rules(1), Authorization=f"Bearer {TOKEN}")
        put(d, rules(2))
        assert roll_back(d, 2).status == 200
        assert d.admin("DELETE", "/v1/rules").status == 200
        d.file.write_text(guarded.replace("5 per minute", "6 per minute"))
        d.reload()
        wait_for(lambda: versions(d)[0]["how"] == "files", "the version of the files")
        listed = versions(d)
        assert [(v["id"], v["how"], v["of"], v["in_force"]) for v in listed] == [
            (6, "files", None, True), (5, "delete", None, False), (4, "rollback", 2, False), (3, "put", None, False),
            (2, "put", None, False), (1, "start", None, False)]
        files, deleted, rollback, second, first, start = listed
        assert files["by"] in ("SIGHUP", "files"), "the file was seen to change, or the signal came first"
        assert (start["by"], start["token"], start["rules"]) == ("files", None, 3)
        assert (first["by"], first["token"], first["rules"]) == ("ops-anna", "ops-anna", 1)
        assert second["by"].startswith("127.0.0.1:") and second["token"] is None
        assert text_of(d, 2) == text_of(d, 4) == rules(1) and text_of(d, 3) == rules(2)
        assert second["bytes"] == len(rules(2)) and second["text_kept"]
        made = time.mktime(time.strptime(first["time"], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
        assert before - 2 < made < time.time() + 2
        assert log_line(d, "rules.rollback")["of"] == "2"


def test_the_cause_of_a_reload_is_its_author(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        assert d.admin("POST", "/v1/rules/reload").status == 200
        assert len(versions(d)) == 1, "nothing has changed"
        d.file.write_text(RULES.replace("5 per minute", "6 per minute"))
        wait_for(lambda: len(versions(d)) == 2, "the file was seen to change")
        assert (versions(d)[0]["how"], versions(d)[0]["by"]) == ("files", "files")


def test_equal_rules_are_one_version(own):
    for _ in range(3):
        put(own, rules(1))
    assert [v["id"] for v in versions(own)] == [2, 1]
    assert own.admin("DELETE", "/v1/rules").status == 200
    assert own.admin("DELETE", "/v1/rules").status == 200
    assert [v["id"] for v in versions(own)] == [3, 2, 1]


def test_versions_come_in_pages(own):
    for n in range(1, 6):
        put(own, rules(n))
    assert [v["id"] for v in versions(own, "?count=2")] == [6, 5]
    assert [v["id"] for v in versions(own, "?count=2&offset=4")] == [2, 1]
    assert versions(own, "?offset=100") == [] and own.admin("GET", "/v1/rules/versions?offset=100").json["kept"] == 6
    for bad in ("offset=-1", "count=0", "count=x", "page=2"):
        refused(own.admin("GET", f"/v1/rules/versions?{bad}"), 400, "bad_request", bad.split("=")[0])


# --- going back -----------------------------------------------------------------------------------


def test_a_rollback_is_answered_as_a_put_and_is_in_force(own):
    put(own, rules(1))
    put(own, rules(2))
    answer = roll_back(own, 2)
    assert (answer.status, answer.json["version"], answer.headers["ETag"]) == (200, 4, '"4"')
    assert answer.json["note"] == "these rules last until they are replaced or deleted"
    assert [own.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.2"}}).status for _ in range(2)] == [200, 429]
    own.kill()
    own.start()
    assert own.admin("GET", "/v1/rules").json["text"] == rules(1), "it is kept as rules that were put"
    assert own.admin("DELETE", "/v1/rules").status == 200
    assert own.admin("GET", "/v1/rules").json["source"] == "file"


def test_a_rollback_replaces_only_the_version_that_was_named(own):
    put(own, rules(1))
    put(own, rules(2))
    refused(roll_back(own, 2, **{"If-Match": '"2"'}), 412, "changed")
    assert roll_back(own, 2, **{"If-Match": '"3"'}).status == 200


@pytest.mark.parametrize("body, status, error, words", [
    ('{"version": 99}', 404, "no_version", ["99", "from 1 to 1"]),
    ('{"version": 0}', 404, "no_version", ["0"]),
    ('{"version": "1"}', 400, "bad_request", ["id of a version"]),
    ('{"version": -1}', 400, "bad_request", ["id of a version"]),
    ("{}", 400, "bad_request", ["missing"]),
    ('{"id": 1}', 400, "bad_request", ["unknown member"]),
    ("", 400, "bad_request", ["empty"])])
def test_a_bad_rollback_says_what_would_be_right(own, body, status, error, words):
    refused(own.admin("POST", "/v1/rules/rollback", body), status, error, *words)
    assert own.admin("GET", "/v1/rules").json["version"] == 1


@pytest.mark.parametrize("number", ["7", "x", "", "1x", "18446744073709551616"])
def test_an_unknown_version_is_refused(own, number):
    refused(own.admin("GET", f"/v1/rules/versions/{number}"), 404, "no_version", "/v1/rules/versions")


def test_a_reader_sees_versions_and_rolls_nothing_back(tmp_path):
    guarded = RULES + f"server:\n  tokens:\n    page: {{token: '{TOKEN}', scope: read}}\n"
    with Daemon(tmp_path, guarded) as d:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert d.admin("GET", "/v1/rules/versions", headers=headers).status == 200
        assert d.admin("GET", "/v1/rules/versions/1", headers=headers).status == 200
        refused(roll_back(d, 1, **headers), 403, "forbidden", "admin")


# --- what is kept ---------------------------------------------------------------------------------


def test_no_secret_is_in_a_version(tmp_path):
    secrets = ["first secret of thirty-two bytes!!", "second secret of thirty-two bytes!", "third secret of thirty-two bytes!!"]
    guarded = RULES + f"""
server:
  admin_token: {secrets[0]}
  tokens: {{ page: {{ token: '{secrets[1]}', scope: read }} }}
"""
    with Daemon(tmp_path, guarded, ["--state", tmp_path / "state"]) as d:
        put(d, rules(1) + f"server: {{ admin_token: {secrets[2]} }}\n")
        for number in (1, 2):
            assert "secret" not in text_of(d, number)
        assert "api" in text_of(d, 2)
        assert roll_back(d, 2).status == 200
        assert d.admin("GET", "/v1/status").status == 200
        d.stop()
    kept = (tmp_path / "state.versions").read_bytes()
    assert b"per minute" in kept and not any(secret.encode() in kept for secret in secrets)


def test_rules_of_files_in_envoys_format_have_no_text(tmp_path):
    with Daemon(tmp_path, ENVOY.format(3)) as d:
        d.file.write_text(ENVOY.format(4))
        d.reload()
        wait_for(lambda: len(versions(d)) == 2, "the other version")
        assert d.admin("POST", "/v1/rules/reload").status == 200
        assert [(v["rules"], v["text_kept"]) for v in versions(d)] == [(1, False), (1, False)]
        assert text_of(d, 1) is None
        refused(roll_back(d, 1), 409, "no_text", "Envoy")
        put(d, ENVOY.format(5))
        assert text_of(d, 3) == ENVOY.format(5), "what was put is kept as it is"
        put(d, rules(1))
        assert roll_back(d, 3).status == 200
        assert [r["name"] for r in d.admin("GET", "/v1/rules").json["rules"]] == ["shop.user"]


def test_a_hundred_versions_are_kept(own):
    for n in range(1, 131):
        put(own, rules(n))
    for _ in range(2):
        listed = versions(own)
        assert [v["id"] for v in listed] == list(range(131, 31, -1))
        assert text_of(own, 32) == rules(31)
        refused(roll_back(own, 31), 404, "no_version", "from 32 to 131")
        own.kill()
        own.start()


def test_the_oldest_texts_make_room(own):
    megabytes = 3
    texts = [rules(n, "x" * (megabytes << 20)) for n in range(1, 6)]
    for text in texts:
        put(own, text)
    for _ in range(2):
        assert [v["text_kept"] for v in versions(own)] == [True, True, False, False, False, False]
        assert text_of(own, 6) == texts[4] and text_of(own, 2) is None
        assert versions(own)[2]["bytes"] == len(texts[2])
        refused(roll_back(own, 3), 409, "no_text", "too old")
        assert (own.folder / "state.versions").stat().st_size < 2.1 * (8 << 20)
        own.kill()
        own.start()


def test_without_a_state_file_they_are_in_memory(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        put(d, rules(1))
        assert roll_back(d, 1).status == 200
        assert [v["id"] for v in versions(d)] == [3, 2, 1]
        d.stop()
        assert not list(tmp_path.glob("*.versions"))
        d.start()
        assert [v["id"] for v in versions(d)] == [1]


# --- restarts, kills, damage ----------------------------------------------------------------------


def test_a_restart_is_a_version_only_if_the_rules_are_others(own):
    put(own, rules(1))
    for stop in (own.stop, own.kill):
        stop()
        own.start()
        assert [(v["id"], v["in_force"]) for v in versions(own)] == [(2, True), (1, False)]
    own.stop()
    (own.folder / "state.rules").unlink()
    own.start()
    assert [(v["how"], v["by"]) for v in versions(own)] == [("start", "files"), ("put", versions(own)[1]["by"]), ("start", "files")]


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_amid_changes_loses_no_version_that_was_acknowledged(tmp_path, seed):
    chance = random.Random(seed)
    filler = "x" * 100_000 # many records each
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as d:
        done = []

        def change():
            try:
                for n in range(1, 1000):
                    if d.admin("PUT", "/v1/rules", rules(n, filler)).status == 200:
                        done.append(n)
            except (OSError, AttributeError, KeyError): # it was killed
                pass

        changer = threading.Thread(target=change)
        changer.start()
        wait_for(lambda: len(done) > chance.randrange(5, 25), "some changes")
        d.kill()
        changer.join()
        d.start()
        listed = versions(d)
        assert listed[0]["id"] in (len(done) + 1, len(done) + 2), "one at most was not acknowledged any more"
        for version in listed:
            if version["text_kept"] and version["id"] > 1:
                assert text_of(d, version["id"]) == rules(version["id"] - 1, filler)
        put(d, rules(2000))
        assert text_of(d, versions(d)[0]["id"]) == rules(2000)


def test_a_torn_end_is_left_out_and_the_rest_is_there(own):
    file = own.folder / "state.versions"
    for n in range(1, 4):
        put(own, rules(n, "y" * 50_000))
    whole = file.read_bytes()
    for cut in (10, 20_000, 50_100):
        own.stop()
        (own.folder / "state.rules").unlink(missing_ok=True)
        file.write_bytes(whole[:-cut])
        own.start()
        assert log_line(own, "versions.damaged")["meaning"].startswith(("versions of rules are missing", "the text of its last"))
        assert [(v["id"], v["how"]) for v in versions(own)] == [(4, "start"), (3, "put"), (2, "put"), (1, "start")]
        assert text_of(own, 3) == rules(2, "y" * 50_000)
        put(own, rules(9))
        assert text_of(own, 5) == rules(9)


def test_damage_in_the_middle_costs_one_version(own):
    file = own.folder / "state.versions"
    for n in range(1, 5):
        put(own, rules(n, "z" * 40_000))
    own.stop()
    whole = bytearray(file.read_bytes())
    whole[whole.index(rules(2).rstrip().encode()) + 1000] ^= 1
    file.write_bytes(whole)
    own.start()
    assert "damaged bytes were skipped" in log_line(own, "versions.damaged")["text"]
    assert [v["id"] for v in versions(own)] == [5, 4, 2, 1]
    assert all(text_of(own, n) == rules(n - 1, "z" * 40_000) for n in (2, 4, 5))
    assert own.admin("GET", "/v1/rules").json["text"] == rules(4, "z" * 40_000), "the rules are not affected"


@pytest.mark.parametrize("content, words", [(b"hello", "not a file of versions of rules"),
                                            (b"rnclient" + bytes(24), "version 0"),
                                            ("overrides", "cannot be taken over"),
                                            ("folder", "not a regular file"), ("fifo", "not a regular file")])
def test_a_file_that_cannot_be_read_is_left_alone_and_said(own, content, words):
    file = own.folder / "state.versions"
    put(own, rules(1))
    assert own.admin("PUT", "/v1/overrides", '{"rule": "api", "attributes": {"ip": "192.0.2.1"}, "limit": "7 per hour"}').status == 200
    own.stop()
    file.unlink()
    if content == "folder":
        file.mkdir()
    elif content == "fifo":
        os.mkfifo(file)
    else:
        file.write_bytes((own.folder / "state.overrides").read_bytes() if content == "overrides" else content)
    own.start()
    line = log_line(own, "versions.unreadable")
    assert words in line["error"] and "rules in force are not affected" in line["meaning"]
    assert own.admin("GET", "/v1/rules").json["text"] == rules(1)
    put(own, rules(2))
    assert [v["how"] for v in versions(own)] == ["put", "start"] and roll_back(own, 1).status == 200
    if isinstance(content, bytes):
        assert file.read_bytes() == content


def test_a_folder_that_cannot_be_written_to_keeps_them_in_memory(tmp_path):
    """As on a read-only file system: nothing new can be made there; root may write whatever the mode is."""
    state = tmp_path / "state"
    with Daemon(tmp_path, RULES, ["--state", state]) as d:
        d.stop()
    (tmp_path / "state.versions").unlink()
    (tmp_path / "state.versions").symlink_to("nowhere/at/all")
    with Daemon(tmp_path, RULES, ["--state", state]) as d:
        put(d, rules(1))
        assert log_line(d, "versions.unsaved")["meaning"] == "the list of versions of rules is in memory only"
        assert [v["id"] for v in versions(d)] == [2, 1]
        (tmp_path / "state.versions").unlink() # it can be written now: all go into the file
        put(d, rules(2))
        d.kill()
        d.start()
        assert [v["id"] for v in versions(d)] == [3, 2, 1] and text_of(d, 2) == rules(1)


def test_two_daemons_of_one_state_file_share_the_list(own):
    with Daemon(own.folder, None, ["--state", own.folder / "state"]) as other:
        ids = versions(other)
        put(own, rules(1))
        put(other, rules(2))
        put(own, rules(3))
        assert [v["id"] for v in versions(own)][:3] == [5, 4, 3], ids
        assert text_of(own, 4) == rules(2)


def test_the_command_lists_versions_and_goes_back(own):
    def ration(*words, status=0):
        done = subprocess.run([BUILD / "ration", "rules", *words,
                               "--admin", own.addresses["admin"]], capture_output=True, text=True)
        assert done.returncode == status, done
        return done

    put(own, rules(1))
    put(own, rules(2))
    lines = ration("versions").stdout.splitlines()
    assert lines[0].split() == ["version", "time", "how", "by", "rules", "bytes"]
    assert [line.split()[0] for line in lines[1:]] == ["3", "2", "1"] and "in force" in lines[1]
    assert ration("show", "2").stdout == rules(1)
    assert '"kept"' in ration("versions", "--json").stdout
    assert ration("rollback", "2").stdout.startswith("in force: version 4")
    assert own.admin("GET", "/v1/rules").json["text"] == rules(1)
    assert "rollback of 2" in ration("versions").stdout
    assert "is not the number of a version" in ration("show", "two", status=2).stderr
    assert "there is no version 77" in ration("rollback", "77", status=2).stderr
    assert "are no longer version 1" in ration("rollback", "2", "--if-version", "1", status=2).stderr
