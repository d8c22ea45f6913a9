# SPDX-License-Identifier: Apache-2.0
"""Decisions in the process, on the state file that a rationd shares."""

import subprocess
import threading

import pytest
from daemon import BUILD, ROOT, Daemon

from ration_client import Client, inprocess
from ration_client.inprocess import InProcess

RULES = """
limits:
  - {name: api, key: ip, limit: 5 per hour, when: {path: /api}}
  - {name: places, key: ip, limit: 1 concurrent, when: {path: /places}}
  - {name: login, key: ip, limit: 1 per hour, charge_on: status 401, when: {path: /login}}
deny: [{ip: 192.0.2.66}]
"""
STRUCTS = {"ration_charge": inprocess._Charge, "ration_options": inprocess._Options, "ration_limit": inprocess._Limit,
           "ration_verdict": inprocess._Verdict, "ration_attribute": inprocess._Attribute, "ration_request": inprocess._Request,
           "ration_outcome": inprocess._Outcome, "ration_outcome_limit": inprocess._OutcomeLimit, "ration_error": inprocess._Error}
library = str(BUILD / "libration.so.0")
needs_library = pytest.mark.skipif(not (BUILD / "libration.so.0").exists(), reason="libration.so is not built")


def test_structs_are_those_of_the_headers(tmp_path):
    """Every member that is named here, at its place, and the sizes."""
    members = [(s, f[0]) for s, kind in STRUCTS.items() for f in kind._fields_ if f[0] != "rest"]
    lines = [f'printf("%zu\\n", offsetof(struct {s}, {f}));' for s, f in members]
    lines += [f'printf("%zu\\n", sizeof(struct {s}));' for s in STRUCTS]
    (tmp_path / "layout.c").write_text("#include <stdio.h>\n#include <ration/rules.h>\nint main(void) {" + "".join(lines) + "}\n")
    subprocess.run(["cc", "-I", ROOT / "include", "-o", tmp_path / "layout", tmp_path / "layout.c"], check=True)
    numbers = [int(n) for n in subprocess.run([tmp_path / "layout"], capture_output=True, check=True).stdout.split()]
    offsets, sizes = numbers[:len(members)], numbers[len(members):]
    assert {m: getattr(STRUCTS[m[0]], m[1]).offset for m in members} == dict(zip(members, offsets))
    for (name, kind), size in zip(STRUCTS.items(), sizes):
        ours = inprocess.c.sizeof(kind)
        assert ours > size if hasattr(kind, "rest") else ours == size, name


@pytest.fixture
def both(tmp_path):
    """A client of rationd, and the library on its state file."""
    options = ["--state", str(tmp_path / "state"), "--http", "none", "--admin", "none", "--memory", "4M"]
    with Daemon(tmp_path, RULES, options) as daemon, \
            Client("ration://" + daemon.addresses["resp"], deadline=5.0) as client, \
            InProcess(str(tmp_path / "state"), [str(tmp_path / "rules.yaml")], library=library) as local:
        yield client, local


@needs_library
def test_a_cost_of_nothing_charges_nothing(both):
    client, local = both
    asked = {"ip": "192.0.2.9", "path": "/api"}
    assert [local.check(asked, cost=0).remaining for _ in range(2)] == [5, 5]
    assert local.allows(asked, cost=0) and client.check(asked, cost=0).remaining == 5
    assert local.take("eve", "2 per hour", 0).remaining == 2
    for call in (local.check, local.allows):
        with pytest.raises(ValueError, match="cost must be a whole number from 0, found -1"):
            call(asked, cost=-1)
    with pytest.raises(ValueError, match="cost must be a whole number from 0"):
        local.take("eve", "2 per hour", -1)
    with pytest.raises(ValueError, match="cost must be a whole number from 1"):
        local.check(asked, cost=0, lease=True)


@needs_library
def test_counters_are_those_of_rationd(both):
    client, local = both
    assert local.take("ann", "3 per hour").remaining == 2
    assert client.take("ann", "3 per hour").remaining == 1
    assert local.take("ann", "3 per hour", 2)[:3] == (False, 3, 1)
    asked = {"ip": "192.0.2.7", "path": "/api"}
    assert [local.check(asked).remaining, client.check(asked).remaining] == [4, 3]
    assert [local.allows(asked) for _ in range(4)] == [True, True, True, False]
    refused, same = local.check(asked), client.check(asked)
    assert (refused.status, refused.error, refused.rule) == (same.status, same.error, same.rule) == (429, "rate_limited", "api")
    assert [name for name, _ in refused.headers()] == [name for name, _ in same.headers()]
    assert dict(refused.headers())["RateLimit-Policy"] == dict(same.headers())["RateLimit-Policy"]


@needs_library
def test_places_and_outcomes_are_settled_by_either(both):
    client, local = both
    place = local.check({"ip": "192.0.2.7", "path": "/places"}, lease=True)
    assert place.allowed and not client.check({"ip": "192.0.2.7", "path": "/places"}, lease=True).allowed
    assert client.release(place.lease) is True and local.release(place.lease) is False
    login = local.check({"ip": "192.0.2.7", "path": "/login"})
    assert local.report(login.charge, 200) is False and client.report(login.charge, 401) is True
    assert not local.check({"ip": "192.0.2.7", "path": "/login"}).allowed


@needs_library
def test_a_deny_list_and_no_rule(both):
    _, local = both
    denied = local.check({"ip": "192.0.2.66", "path": "/api"})
    assert (denied.status, denied.error, denied.retry_after, denied.limit) == (403, "denied", None, None)
    free = local.check({"ip": "192.0.2.7", "path": "/other"})
    assert free.allowed and free.headers() == []


@needs_library
def test_threads_are_admitted_no_more_than_the_limit(both):
    _, local = both
    admitted = []

    def work():
        for i in range(300):
            admitted.append(local.take("crowd", "500 per 7 days").allowed)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == 500


@needs_library
def test_the_policy_decides_where_the_library_cannot(tmp_path):
    """More limits apply than can be decided together."""
    rules = "".join(f"  - {{name: r{i}, key: ip, limit: 5 per hour}}\n" for i in range(70))
    (tmp_path / "rules.yaml").write_text("limits:\n" + rules)
    with InProcess(str(tmp_path / "state"), [str(tmp_path / "rules.yaml")], policy="refuse", library=library) as local:
        decision = local.check({"ip": "192.0.2.7"})
        assert (decision.by, decision.status, decision.allowed) == ("policy", 503, False) and "invalid" in decision.why
        with pytest.raises(OSError, match="invalid"):
            local.allows({"ip": "192.0.2.7"})


@needs_library
@pytest.mark.parametrize("site", ["wsgi", "flask"])
def test_middleware_takes_it_in_the_place_of_a_client(site, both):
    _, local = both
    if site == "wsgi":
        from ration_client.wsgi import RationMiddleware
        app = RationMiddleware(lambda environ, start: start("200 OK", []) or [b"ok"], local)
    else:
        flask = pytest.importorskip("flask")
        from ration_client.flask import Ration
        app = flask.Flask("site")
        app.add_url_rule("/<path>", view_func=lambda path: "ok")
        Ration(app, local)
    statuses = []
    for path in ["/places"] * 3 + ["/api"] * 6:
        environ = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "REMOTE_ADDR": "192.0.2.7", "SERVER_NAME": "test",
                   "SERVER_PORT": "80", "wsgi.url_scheme": "http", "HTTP_HOST": "test"}
        body = app(environ, lambda status, headers, *_: statuses.append(status[:3]))
        assert b"".join(body)
        getattr(body, "close", int)()
    assert statuses == ["200"] * 8 + ["429"]


@needs_library
def test_mistakes_have_messages(both, tmp_path):
    _, local = both
    with pytest.raises(ValueError, match="fortnight"):
        local.take("ann", "2 per fortnight")
    with pytest.raises(ValueError, match="lower case"):
        local.allows({"User": "ann"})
    with pytest.raises(ValueError, match="wait"):
        local.check({"ip": "192.0.2.7"}, wait=1)
    (tmp_path / "bad.yaml").write_text("limits: 7\n")
    with pytest.raises(ValueError, match="bad.yaml:1"):
        local.load([str(tmp_path / "bad.yaml")])
    (tmp_path / "foreign").write_text("nothing of ours\n" * 500)
    with pytest.raises(OSError, match="foreign"):
        InProcess(str(tmp_path / "foreign"), library=library)
    with pytest.raises(ValueError, match=r"a list of files, such as \['bad.yaml'\]"):
        InProcess(str(tmp_path / "state"), "bad.yaml", library=library)
    with pytest.raises(ValueError, match="bad.yaml:1"):
        InProcess(str(tmp_path / "state"), [str(tmp_path / "bad.yaml")], library=library)
    with pytest.raises(OSError, match="install libration0"):
        InProcess(str(tmp_path / "state"), library="libration.so.none")


@needs_library
def test_a_closed_limiter_says_so(tmp_path):
    limiter = InProcess(str(tmp_path / "state"), library=library)
    limiter.close()
    limiter.close()
    for call in (lambda: limiter.take("ann", "2 per hour"), lambda: limiter.allows({"ip": "192.0.2.7"}),
                 lambda: limiter.check({"ip": "192.0.2.7"}), lambda: limiter.check({"ip": "192.0.2.7"}, lease=True),
                 lambda: limiter.report("it", 200), lambda: limiter.release("it"), lambda: limiter.load(["rules.yaml"])):
        with pytest.raises(ValueError, match="the limiter is closed"):
            call()
