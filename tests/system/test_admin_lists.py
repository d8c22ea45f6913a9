# SPDX-License-Identifier: Apache-2.0
"""Lists of overrides and bans that are longer than one answer: pages over HTTP, and how `ration`
follows them."""

import json

import pytest

from admin_port import pages, refused
from daemon import Daemon
from ration_command import run

RULES = """
limits:
  - {name: api, key: user, limit: 100 per minute}
  - {name: login, key: user, limit: 5 per minute}
"""
MANY = 16000 # with values of a kilobyte, more than the 8 MB that may wait to be sent


def put_many(d, path, bodies):
    """All of them, one behind the other on one connection."""
    with d.socket("admin") as s, s.makefile("rb") as answers:
        for at in range(0, len(bodies), 50):
            batch = [json.dumps(b).encode() for b in bodies[at:at + 50]]
            s.sendall(b"".join(b"PUT %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" %
                               (path.encode(), len(b), b) for b in batch))
            for _ in batch:
                head = b"".join(iter(answers.readline, b"\r\n"))
                assert head.startswith(b"HTTP/1.1 200 "), head
                answers.read(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))


def user(number):
    return f"{number:06}-" + "x" * 1000


def override(number, rule="api"):
    return {"rule": rule, "attributes": {"user": user(number)}, "limit": "7 per minute"}


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("crowded"), RULES) as d:
        put_many(d, "/v1/overrides", [override(i, "login" if i % 10 == 0 else "api") for i in range(MANY)])
        put_many(d, "/v1/bans", [{"attributes": {"user": user(i)}} for i in range(MANY)])
        yield d


@pytest.mark.parametrize("path, name", [("/v1/overrides", "overrides"), ("/v1/bans", "bans")])
def test_the_pages_of_a_long_list_are_all_of_it(crowded, path, name):
    found = list(pages(crowded, path, name))
    assert all(0 < len(page) <= 1000 for page in found) and len(found) >= MANY / 1000
    entries = [entry for page in found for entry in page]
    assert [e["attributes"]["user"] for e in entries] == [user(i) for i in range(MANY)]
    assert [e["id"] for e in entries] == sorted({e["id"] for e in entries})


def test_a_page_has_as_many_as_were_asked_for(crowded):
    found = list(pages(crowded, "/v1/overrides", "overrides", limit=400, rule="login"))
    assert [len(page) for page in found] == [400, 400, 400, 400]
    assert {e["rule"] for page in found for e in page} == {"login"}


def test_a_page_ends_early_where_it_would_get_too_long(crowded):
    page = crowded.admin("GET", "/v1/bans?limit=10000")
    assert 500 < len(page.json["bans"]) < 10000 and "next" in page.json
    assert len(page.body) < 2 << 20


def test_the_last_page_has_no_next(crowded):
    last = [page for page in pages(crowded, "/v1/bans", "bans", limit=300)][-1][-1]["id"]
    assert crowded.admin("GET", f"/v1/bans?limit=1&after={last - 1}").json.keys() == {"bans"}
    assert crowded.admin("GET", f"/v1/bans?after={last}").json == {"bans": []}
    assert crowded.admin("GET", f"/v1/bans?after={2**64 - 1}").json == {"bans": []}


def test_a_change_between_two_pages_moves_no_other_entry(tmp_path):
    with Daemon(tmp_path, RULES) as d:
        put_many(d, "/v1/overrides", [override(i) for i in range(10)])
        first = d.admin("GET", "/v1/overrides?limit=4").json
        # The one the next page begins behind, one before it, one on it; and one that is new.
        for number in (3, 0, 5):
            assert d.admin("DELETE", "/v1/overrides", {k: v for k, v in override(number).items()
                                                       if k != "limit"}).json["deleted"]
        assert d.admin("PUT", "/v1/overrides", override(1)).status == 200 # again: it moves to the end
        assert d.admin("PUT", "/v1/overrides", override(99)).status == 200
        rest = [e for page in pages(d, "/v1/overrides", "overrides", limit=4, after=first["next"])
                for e in page]
        assert [e["attributes"]["user"] for e in rest] == [user(i) for i in (4, 6, 7, 8, 9, 1, 99)]


@pytest.mark.parametrize("path, words", [
    ("/v1/overrides?limit=0", 'limit must be a number from 1 to 10000, found "0"'),
    ("/v1/overrides?limit=10001", 'limit must be a number from 1 to 10000, found "10001"'),
    ("/v1/bans?limit=ten", 'limit must be a number from 1 to 10000, found "ten"'),
    ("/v1/bans?limit=", "limit must be a number from 1 to 10000, found nothing"),
    ("/v1/overrides?after=-1", 'after must be an id, such as the number behind "next", found "-1"'),
    ("/v1/overrides?after=18446744073709551616", "after must be an id"),
    ("/v1/overrides?after=", "after must be an id"),
    ("/v1/overrides?afte=1", 'unknown parameter "afte"; did you mean after?'),
    ("/v1/bans?rule=api", 'unknown parameter "rule"'),
])
def test_parameters_that_make_no_sense(crowded, path, words):
    assert refused(crowded.admin("GET", path), 400, "bad_request", words)


def test_ids_are_listed_and_delete_also_among_many(crowded):
    listed = crowded.admin("PUT", "/v1/bans", {"attributes": {"user": "late"}}).json
    assert crowded.admin("GET", f"/v1/bans?after={listed['id'] - 1}").json["bans"][0] == listed
    assert crowded.admin("DELETE", f"/v1/bans/{listed['id']}").json == {"deleted": True}
    assert crowded.admin("DELETE", f"/v1/bans/{listed['id']}").json == {"deleted": False}


# --- ration ---------------------------------------------------------------------------


@pytest.mark.parametrize("what, name", [("override", "overrides"), ("ban", "bans")])
def test_ration_follows_the_pages(crowded, what, name):
    answer = run(what, "list", "--admin", crowded.addresses["admin"])
    assert answer.status == 0, answer.err
    lines = answer.out.splitlines()
    assert len(lines) == 1 + MANY
    assert lines[0].split()[:2] == (["rule", "client"] if what == "override" else ["client", "ends"])
    assert [f"user={user(i)}" in line for i, line in enumerate(lines[1:])] == [True] * MANY
    answer = run(what, "list", "--json", "--admin", crowded.addresses["admin"])
    assert [e["attributes"]["user"] for e in answer.json[name]] == [user(i) for i in range(MANY)]


def test_ration_lists_the_overrides_of_one_rule(crowded):
    answer = run("override", "list", "--rule", "login", "--admin", crowded.addresses["admin"])
    assert len(answer.out.splitlines()) == 1 + MANY / 10
    answer = run("override", "list", "--rule", "log in&x", "--admin", crowded.addresses["admin"])
    assert (answer.status, answer.out) == (0, "no overrides\n")
