# SPDX-License-Identifier: Apache-2.0
"""What the admin port has for its page: files, who asks, and the header that changes of a page need."""

import gzip
import hashlib
import json
import re
import subprocess

import pytest

from admin_port import RULES, daemon, log_line, refused  # noqa: F401 (fixtures)
from daemon import ROOT, Daemon

FILES = sorted(path.relative_to(ROOT / "web").as_posix() for path in (ROOT / "web").rglob("*") if path.is_file())
TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
         "svg": "image/svg+xml", "png": "image/png", "ico": "image/x-icon", "json": "application/json"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
          "form-action 'none'; base-uri 'none'; frame-ancestors 'none'")
TOKENS = "server: {tokens: {anna: {token: ann, scope: admin}, ben: {token: benn, scope: read}, prom: {token: pr0m, scope: metrics}}}\n"


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


# --- files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", *FILES])
def test_a_file_is_served_as_it_is_in_the_tree(daemon, name):
    path, source = (f"/web/{name}", ROOT / "web" / name) if name else ("/", ROOT / "web/index.html")
    plain = daemon.admin("GET", path)
    assert plain.status == 200 and plain.body == source.read_bytes()
    zipped = daemon.admin("GET", path, headers={"Accept-Encoding": "br, gzip;q=0.5"})
    assert zipped.headers["Content-Encoding"] == "gzip" and gzip.decompress(zipped.body) == plain.body
    assert "Content-Encoding" not in plain.headers
    for answer in (plain, zipped):
        headers = answer.headers
        assert headers["Content-Type"] == TYPES[source.suffix[1:]]
        assert headers["Cache-Control"] == "no-cache" and headers["Vary"] == "Accept-Encoding"
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Referrer-Policy"] == "no-referrer"
    assert plain.headers["ETag"] != zipped.headers["ETag"]
    for coding, tag in (({}, plain.headers["ETag"]), ({"Accept-Encoding": "gzip"}, zipped.headers["ETag"])):
        for known in (tag, f'"x", W/{tag}', "*"):
            again = daemon.admin("GET", path, headers={**coding, "If-None-Match": known})
            assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
        assert daemon.admin("GET", path, headers={**coding, "If-None-Match": '"x"'}).status == 200
        head = daemon.admin("HEAD", path, headers=coding)
        assert (head.status, head.body, head.headers["ETag"]) == (200, b"", tag)
    assert daemon.admin("POST", path).status == 405


def test_every_file_of_web_is_in_the_program():
    """meson.build lists them: the list and the folder must agree."""
    listed = re.search(r"^dashboard = \[(.*?)\]", (ROOT / "meson.build").read_text(), re.S | re.M)[1]
    assert sorted(re.findall(r"'([^']+)'", listed)) == FILES


def test_the_same_files_make_the_same_bytes(tmp_path):
    """Compression writes no time: two builds of one version are alike."""
    digests = set()
    for run in range(2):
        out = tmp_path / f"{run}.c"
        subprocess.run(["/usr/bin/python3", ROOT / "src/front/admin/embed_dashboard.py", out, ROOT / "web", *FILES], check=True)
        digests.add(hashlib.sha256(out.read_bytes()).hexdigest())
    assert len(digests) == 1
    done = subprocess.run(["/usr/bin/python3", ROOT / "src/front/admin/embed_dashboard.py", out, ROOT / "web", "x.exe"], capture_output=True, text=True)
    assert done.returncode != 0 and "x.exe: there is no content type for this ending" in done.stderr


@pytest.mark.parametrize("accepted, zipped", [
    ("gzip", True), ("GZIP", True), ("x-gzip", True), ("deflate, gzip", True), ("*", True), ("gzip;q=0.001", True),
    ("gzip ; q=1", True), ("gzip;q=0", False), ("gzip; q=0.000", False), ("*;q=0", False), ("gzip;q=0, *", False),
    ("*;q=0, gzip", True), ("identity", False), ("br", False), ("gzipped", False), ("", False), (",,;;=", False), (";q=0", False)])
def test_gzip_is_for_those_that_take_it(daemon, accepted, zipped):
    answer = daemon.admin("GET", "/", headers={"Accept-Encoding": accepted})
    assert answer.status == 200 and ("Content-Encoding" in answer.headers) == zipped


@pytest.mark.parametrize("path", [
    "/web/", "/web/nothing.js", "/web/../x", "/web/../web/index.html", "/web/./index.html", "/web//index.html", "/web/index.html/",
    "/web/%69ndex.html", "/web/%2e%2e/rules.yaml", "/web/..%2frules.yaml", "/web/..\\x", "/web/index.html%00", "/web/INDEX.html",
    "/web/" + "a" * 7000, "/web/%", "/web/..;/x", "/web"])
def test_other_names_are_not_found(daemon, path):
    answer = daemon.admin("GET", path)
    assert refused(answer, 404, "not_found") and b"limits:" not in answer.body


def test_a_query_does_not_matter(daemon):
    assert daemon.admin("GET", "/?x=1").body == daemon.admin("GET", "/web/index.html?y").body


@pytest.mark.parametrize("headers", [{}, {"X-Forwarded-For": "192.0.2.7"}, {"Origin": "http://evil.example"},
                                     {"Host": "evil.example"}, {"Authorization": "Bearer wrong"}])
def test_files_need_no_token(tmp_path, headers):
    """They have no data. What has data needs one."""
    with Daemon(tmp_path, RULES + TOKENS.replace("{tokens", "{trust_local: false, tokens")) as d:
        for name in ["/", *(f"/web/{name}" for name in FILES)]:
            assert d.admin("GET", name, headers=headers).status == 200
        for path in ("/v1/whoami", "/v1/history", "/v1/live", "/v1/activity", "/v1/status", "/metrics", "/schema.json", "/web"):
            assert d.admin("GET", path, headers=headers).status == 401


# --- who asks ----------------------------------------------------------------------------------------


def test_whoami(tmp_path):
    with Daemon(tmp_path, RULES + TOKENS) as d:
        version = d.admin("GET", "/v1/status").json["version"]
        assert d.admin("GET", "/v1/whoami").json == {"token": None, "scope": "admin", "node": None, "version": version}
        for token, name, scope in (("ann", "anna", "admin"), ("benn", "ben", "read"), ("pr0m", "prom", "metrics")):
            for where in ({}, {"X-Forwarded-For": "192.0.2.7"}):
                answer = d.admin("GET", "/v1/whoami", headers={**where, **bearer(token)})
                assert answer.json == {"token": name, "scope": scope, "node": None, "version": version}
        away = {"X-Forwarded-For": "192.0.2.7"}
        assert refused(d.admin("GET", "/v1/whoami", headers=away), 401, "unauthorized", "Authorization: Bearer")
        assert refused(d.admin("GET", "/v1/whoami", headers={**away, **bearer("x")}), 401, "unauthorized", "not known")


# --- changes of a page -------------------------------------------------------------------------------

CHANGES = [("PUT", "/v1/shadow", {"shadow": True}), ("PUT", "/v1/rules", {"limits": []}), ("DELETE", "/v1/rules", None),
           ("POST", "/v1/rules/validate", {"limits": []}), ("POST", "/v1/rules/reload", None), ("POST", "/v1/explain", {"attributes": {"ip": "192.0.2.7"}}),
           ("POST", "/v1/state/reset", {"attributes": {"ip": "192.0.2.7"}}), ("PUT", "/v1/bans", {"attributes": {"ip": "192.0.2.7"}}),
           ("DELETE", "/v1/bans/1", None), ("POST", "/v1/pause", {"rule": "login"}), ("PUT", "/v1/signals/x", {"value": 1})]


@pytest.mark.parametrize("method, path, body", CHANGES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_change_by_a_page_needs_the_header(daemon, method, path, body):
    host = daemon.addresses["admin"]
    own = {"Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    for page in (own, {"Origin": own["Origin"]}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
        for wrong in ({}, {"X-Ration": ""}, {"X-Ration": "0"}, {"X-Ration": "1, 1"}, {"X-Ration": "true"}):
            assert refused(daemon.admin(method, path, body, headers={**page, **wrong}), 403, "forbidden", "X-Ration: 1")
    # Pages of other sites need a token, with the header or without.
    for page in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
                 {"Origin": f"https://{host}"}, {"Origin": f"http://{host}.evil.example"}, {"Origin": "http://evil.example", "Host": "evil.example"},
                 {"Host": "evil.example:8082"}):
        for header in ({}, {"X-Ration": "1"}):
            assert daemon.admin(method, path, body, headers={**page, **header}).status == 401
    assert daemon.admin("GET", "/v1/shadow").json == {"shadow": False} and daemon.admin("GET", "/v1/rules").json["version"] == 1
    assert log_line(daemon, "admin.denied")["path"]


def test_with_the_header_a_page_changes(tmp_path):
    with Daemon(tmp_path, RULES + TOKENS) as d:
        own = {"Origin": f"http://{d.addresses['admin']}", "Sec-Fetch-Site": "same-origin", "X-Ration": "1"}
        assert d.admin("PUT", "/v1/shadow", {"shadow": True}, headers=own).json == {"shadow": True}
        assert d.admin("POST", "/v1/explain", {"attributes": {"ip": "192.0.2.7"}}, headers=own).status == 200
        assert d.admin("PUT", "/v1/shadow", {"shadow": False}).json == {"shadow": False} # no page: curl
        other = {"Origin": "http://evil.example", "Authorization": "Bearer ann"}
        assert refused(d.admin("PUT", "/v1/shadow", {"shadow": True}, headers=other), 403, "forbidden", "X-Ration: 1")
        assert d.admin("PUT", "/v1/shadow", {"shadow": True}, headers={**other, "X-Ration": "1"}).status == 200
        reader = {**own, **bearer("benn")}
        assert refused(d.admin("PUT", "/v1/shadow", {"shadow": False}, headers=reader), 403, "forbidden", "scope admin")
        for path in ("/v1/status", "/v1/history", "/v1/activity", "/v1/rules"):
            assert d.admin("GET", path, headers={"Origin": own["Origin"], **bearer("benn")}).status == 200
        assert d.admin("GET", "/v1/shadow").json == {"shadow": True}


def test_a_form_cannot_change_anything(daemon):
    """What a browser sends for <form method=post enctype=text/plain>, also from the page's own origin."""
    host = daemon.addresses["admin"]
    for origin in (f"http://{host}", "http://evil.example", "null"):
        answer = daemon.admin("POST", "/v1/state/reset", json.dumps({"attributes": {"ip": "192.0.2.7"}}),
                              {"Origin": origin, "Content-Type": "text/plain", "Sec-Fetch-Mode": "navigate"})
        assert answer.status in (401, 403)
    # A preflight of another site is refused: it gets no leave to send the header.
    preflight = daemon.admin("OPTIONS", "/v1/shadow", headers={
        "Origin": "http://evil.example", "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "x-ration"})
    assert preflight.status in (401, 403) and not any("access-control" in name.lower() for name in preflight.headers)
