# SPDX-License-Identifier: Apache-2.0
"""Requests that stand in line, in a worker of nginx or at the rationd that it asks. The clock of the limits
stands still until a test moves it; the order in which requests were admitted is that of the access log. A soak
has 10,000 requests in line."""

import contextlib
import os
import re
import resource
import shutil
import signal
import socket

import pytest

import http2
from daemon import PATIENCE, wait_for
from gateway import GIF, MODULE, SANITIZED, begin, is_alive, proxied, sanitizer
from nginx_rationd import PATIENT, answers
from stillclock import StillClock

pytestmark = pytest.mark.skipif(not MODULE.exists() or not shutil.which("nginx"),
                                reason="needs nginx and the module")

SOAK = bool(os.environ.get("RATION_SOAK"))
WAITS = "waits in line"
BY_USER = "ration_attribute user $arg_user; ration_attribute level $arg_level; ration_attribute cost $arg_cost;"
TOLD = ("log_format told '$status $request_uri verdict=$ration_verdict waited=$ration_waited "
        "rate=$ration_rate_status source=$ration_source'; access_log told.log told;")


def line(limit, size=300, more=""):
    return f"limits:\n  - {{name: api, key: ip, limit: {limit}, queue: {{size: {size}, max_wait: 60s}}{more}}}\n"


class Line:
    """A gateway, its clock, and the clients that wait there."""

    def __init__(self, g, clock):
        self.g, self.clock, self.sockets = g, clock, {}

    def stand(self, *paths):
        """One after the other: each waits before the next one comes."""
        for path in paths:
            before = self.waits()
            self.sockets[path] = begin(self.g, path)
            wait_for(lambda: self.waits() > before, f"{path} stands in line")

    def waits(self):
        return self.g.log("error").count(WAITS)

    def leave(self, *paths):
        gone = self.g.log().count("499 ")
        for path in paths:
            self.sockets.pop(path).close()
        self.g.wait_for_log("499 ", count=gone + len(paths))

    def admitted(self, part="/"):
        return [path for path in re.findall(r"^200 (\S+)", self.g.log(), re.M) if part in path]

    def pass_until(self, seconds, count, part="/"):
        """Time passes, and then so many have been admitted."""
        self.clock.advance(seconds)
        wait_for(lambda: len(self.admitted(part)) >= count, f"{count} are admitted, with {self.admitted(part)}")
        assert len(self.admitted(part)) == count

    def close(self):
        for s in self.sockets.values():
            s.close()


@pytest.fixture
def clocked(tmp_path):
    """Makes gateways live by a clock that stands still."""
    clock = StillClock(tmp_path / "clock")
    made = []

    def make(g):
        env = clock.env()
        if SANITIZED:
            env["LD_PRELOAD"] = sanitizer(tmp_path)["LD_PRELOAD"] + ":" + env["LD_PRELOAD"]
        made.append(Line(g.start(env=env), clock))
        return made[-1]

    make.clock = clock
    yield make
    for each in made:
        each.close()


@pytest.fixture
def here(gateway, clocked):
    def make(rules, server=GIF, http="", parameters=None, **settings):
        del parameters  # of ration_server
        return clocked(gateway(rules, server, start=False, http=BY_USER + TOLD + http, **settings))

    return make


@pytest.fixture
def there(asking, rationd, clocked):
    """The lines are at rationd; `local` are the rules of nginx."""
    all_made = []

    def make(rules, server=GIF, local="limits: []\n", http="", options=(), **settings):
        d = rationd(rules, env=clocked.clock.env(), options=options)
        made = clocked(asking(d.address, local, server, start=False, http=BY_USER + TOLD + http, **settings))
        made.rationd = d
        all_made.append(made)
        answers(made.g)
        return made

    yield make
    for each in all_made:
        each.g.stop()  # before rationd, which would let those in line wait for the clock


@pytest.fixture(params=["in nginx", "at rationd"])
def either(request, here, there):
    return here if request.param == "in nginx" else there


# --- order ---------------------------------------------------------------------------------

def test_two_hundred_on_one_key_go_in_the_order_in_which_they_came(either):
    at = either(line("50 per 10 seconds"))
    assert at.g.statuses(50, "/first") == [200] * 50
    paths = [f"/{i}" for i in range(200)]
    at.stand(*paths)
    for turn in range(1, 4):
        at.pass_until(10, 50 + 50 * turn)
    at.stand("/newcomer")  # 50 wait
    at.pass_until(10, 250)
    at.pass_until(10, 251)
    assert at.admitted() == ["/first"] * 50 + paths + ["/newcomer"]
    assert at.sockets["/199"].recv(100).startswith(b"HTTP/1.1 200")


def test_newcomers_do_not_overtake(either):
    """There is room for one when the newcomer comes; somebody else waits for two."""
    at = either("limits:\n  - {name: api, key: ip, limit: 2 per 10 seconds, cost: {attribute: cost, default: 1}, "
                "queue: {size: 10, max_wait: 60s}}\n")
    assert at.g.statuses(2) == [200] * 2
    at.stand("/two?cost=2")
    at.clock.advance(5)
    at.stand("/one")
    at.pass_until(5, 3)
    at.pass_until(10, 4)
    assert at.admitted()[2:] == ["/two?cost=2", "/one"]


ALGORITHMS = ["token-bucket", "fixed-window", "sliding-window", "sliding-log"]


def test_every_algorithm_has_lines(either):
    at = either("limits:\n" + "".join(
        f"  - {{name: {a}, key: ip, limit: 3 per 2 seconds, algorithm: {a}, when: {{path: /{a}/**}}, "
        f"queue: {{size: 20, max_wait: 60s}}}}\n" for a in ALGORITHMS))
    for a in ALGORITHMS:
        assert at.g.statuses(3, f"/{a}/first") == [200] * 3
    for i in range(7):
        at.stand(*(f"/{a}/{i}" for a in ALGORITHMS))
    for done in (3, 6, 7):
        at.pass_until(4, len(ALGORITHMS) * (3 + done))  # two periods: then all of them are empty
    for a in ALGORITHMS:
        assert at.admitted(a)[3:] == [f"/{a}/{i}" for i in range(7)]


def test_a_leaky_bucket_has_a_line_before_its_own_queue(either):
    at = either("limits:\n  - {name: api, key: ip, limit: 5 per second queue 1, queue: {size: 5, max_wait: 60s}}\n")
    assert at.g.ask("/first")[0] == 200
    at.sockets["/told"] = begin(at.g, "/told")
    at.g.wait_for_log("delayed by", "error")
    at.stand("/0", "/1", "/2")
    for done in range(2, 6):
        at.g.wait_for_log("delayed by", "error", done - 1)  # the next has left the line, and is told its time
        at.pass_until(0.2, done)
    assert at.admitted() == ["/first", "/told", "/0", "/1", "/2"]


def test_those_of_higher_priority_come_first(either):
    at = either(line("5 per 2 seconds", more=", priority: {by: level, levels: {high: 0%, low: 20%}, default: low}"))
    assert at.g.statuses(5, "/?level=high") == [200] * 5
    low, high = ([f"/{i}?level={level}" for i in range(8)] for level in ("low", "high"))
    at.stand(*low)
    at.stand(*high)
    for done in (10, 14, 18, 21):  # those of low priority leave one unit
        at.pass_until(2, done)
    assert at.admitted()[5:13] == high and at.admitted()[13:] == low


LIMITS = {  # places and leaky buckets: see below
    "token-bucket": "5 per 2 seconds",
    "steps": "5 per 2 seconds in steps of 2s",
    "fixed-window": "5 per 2 seconds, algorithm: fixed-window",
    "from-first": "5 per 2 seconds, algorithm: fixed-window, align: first",
    "sliding-log": "5 per 2 seconds, algorithm: sliding-log",
    "sliding-window": "5 per 2 seconds, algorithm: sliding-window",
    "sub-windows": "5 per 2 seconds, algorithm: sliding-window, sub_windows: 10",
}


def many(either, rules, parameters=PATIENT, **settings):
    """Thousands may wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 30_000)), hard))
    return either(rules, http="ration_waiting 20000;", connections=25_000, top="worker_rlimit_nofile 30000;",
                  parameters=parameters, **settings)


def turns_by_user(at, users, skip):
    """The names of those that were admitted, of each user, without the first ones of all."""
    by_user = {user: [] for user in users}
    for path in at.admitted()[skip:]:
        name, _, query = path.partition("?")
        by_user["?" + query.partition("&")[0]].append(name)
    return by_user


@pytest.mark.parametrize("algorithm", list(LIMITS) if SOAK else list(LIMITS)[:1])
def test_lines_of_many_keys_do_not_touch_each_other(either, algorithm):
    """A soak has 10,000 in 1,000 lines. At rationd they come over one connection, which keeps their order.
    Every other request is of the higher level; those of the lower one leave one unit."""
    keys, each, openings = (1000, 10, (5, 9, 10)) if SOAK else (100, 4, (4,))
    at = many(either, "limits:\n  - {name: api, key: user, queue: {size: 10, max_wait: 60s}, limit: "
                + LIMITS[algorithm]
                + ", priority: {by: level, levels: {high: 0%, low: 20%}, default: low}}\n")
    users = [f"?user={k}" for k in range(keys)]
    with contextlib.closing(at.g.connection()) as connection:
        for user in users:
            assert [at.g.ask_on(connection, f"/first{user}&level=high")[0] for _ in range(5)] == [200] * 5
    for i in range(each):
        level = "&level=high" if i % 2 else "&level=low"
        for user in users:
            at.sockets[f"/{i}{user}"] = begin(at.g, f"/{i}{user}{level}")
        wait_for(lambda: at.waits() == (i + 1) * keys, f"{i + 1} of each key wait")
    for done in openings:
        at.pass_until(4, keys * (5 + done))
    names = [f"/{i}" for i in range(each)]
    for user, turns in turns_by_user(at, users, 5 * keys).items():
        assert turns == names[1::2] + names[0::2], user


def fill_lines(at, users, each):
    for i in range(each):
        for user in users:
            at.sockets[f"/{i}{user}"] = begin(at.g, f"/{i}{user}")
        wait_for(lambda: at.waits() == (i + 1) * len(users), f"{i + 1} of each key wait")


def test_several_connections_have_the_same_lines(there):
    """Those of one opening may come in another order than they were decided, but nobody of a later one."""
    keys, each = (1000, 10) if SOAK else (100, 4)
    at = many(there, "limits:\n  - {name: api, key: user, limit: 2 per 2 seconds, queue: {size: 10, max_wait: 60s}}\n",
              parameters=PATIENT + " connections=4")
    users = [f"?user={k}" for k in range(keys)]
    with contextlib.closing(at.g.connection()) as connection:
        for user in users:
            assert [at.g.ask_on(connection, f"/first{user}")[0] for _ in range(2)] == [200] * 2
    fill_lines(at, users, each)
    for done in range(2, each + 1, 2):
        at.pass_until(4, keys * (2 + done))
    for user, turns in turns_by_user(at, users, 2 * keys).items():
        pairs = [sorted(turns[i:i + 2]) for i in range(0, each, 2)]
        assert pairs == [[f"/{i}", f"/{i + 1}"] for i in range(0, each, 2)], user


USERS, EACH = ([f"?user={k}" for k in range(1000)], 10) if SOAK else ([f"?user={k}" for k in range(50)], 4)


def test_places_of_many_keys_go_to_the_next_in_their_lines(either, upstream):
    """Each request has the place of its key until the server behind nginx has answered it."""
    at = many(either, "limits:\n  - {name: api, key: user, limit: 1 concurrent, lease: 1h, "
                      "queue: {size: 10, max_wait: 60s}}\n", server=proxied(upstream))
    for user in USERS:
        at.sockets[f"/hold{user}"] = begin(at.g, f"/hold{user}")
    wait_for(lambda: upstream.count("/hold") == len(USERS), "all places are taken")
    fill_lines(at, USERS, EACH)
    upstream.release.set()
    wait_for(lambda: len(at.admitted()) == len(USERS) * (1 + EACH), "all are admitted")
    for user, turns in turns_by_user(at, USERS, 0).items():
        assert turns == ["/hold"] + [f"/{i}" for i in range(EACH)], user


def test_queues_of_many_keys_have_lines_before_them(either):
    """One of each key gets a time, and the next leaves the line when that one has gone."""
    at = many(either, "limits:\n  - {name: api, key: user, limit: 5 per second queue 1, "
                      "queue: {size: 10, max_wait: 60s}}\n")
    with contextlib.closing(at.g.connection()) as connection:
        assert {at.g.ask_on(connection, f"/first{user}")[0] for user in USERS} == {200}
    for user in USERS:
        at.sockets[f"/told{user}"] = begin(at.g, f"/told{user}")
    for done in range(1, EACH + 2):
        at.g.wait_for_log("delayed by", "error", done * len(USERS))
        if done == 1:
            fill_lines(at, USERS, EACH)
        at.pass_until(0.2, (1 + done) * len(USERS))
    for user, turns in turns_by_user(at, USERS, len(USERS)).items():
        assert turns == ["/told"] + [f"/{i}" for i in range(EACH)], user


# --- what a request is told ------------------------------------------------------------------

def test_variables_and_the_log_tell_how_long_it_waited(either):
    at = either(line("1 per 2 seconds"))
    assert at.g.ask("/0")[0] == 200
    at.stand("/1")
    at.pass_until(3, 2)
    source = "zone" if not hasattr(at, "rationd") else "rationd"
    at.g.wait_for_log("200 /0 verdict=allowed waited=0.000 rate=PASSED", "told")
    at.g.wait_for_log(f"200 /1 verdict=delayed waited=3.000 rate=DELAYED source={source}", "told")
    at.g.wait_for_log('ration: waited 3000 ms in line of "api"', "error")


def test_a_full_line_refuses(either):
    at = either(line("1 per 2 seconds", 2))
    assert at.g.ask()[0] == 200
    at.stand("/1", "/2")
    status, headers, _ = at.g.ask("/3")
    assert status == 429 and int(headers["retry-after"]) > 0
    at.leave("/1")
    at.stand("/4")
    at.pass_until(2, 2)
    at.pass_until(2, 3)
    assert at.admitted()[1:] == ["/2", "/4"]


def test_those_that_cannot_have_their_turn_in_time_are_refused_at_once(either):
    at = either("limits:\n  - {name: api, key: ip, limit: 1 per 10 seconds, queue: {size: 9, max_wait: 25s}}\n")
    assert at.g.ask()[0] == 200
    at.stand("/1", "/2")
    assert at.g.ask("/3")[0] == 429


def test_a_wait_ends_after_max_wait(either, upstream):
    at = either("limits:\n  - {name: places, key: ip, limit: 1 concurrent, lease: 1h, when: {path: /hold}, "
                "queue: {size: 9, max_wait: 5s}}\n", server=proxied(upstream))
    with begin(at.g, "/hold"):
        wait_for(lambda: upstream.count("/hold") == 1, "the place is taken")
        at.stand("/hold")
        at.clock.advance(6)
        assert at.sockets["/hold"].recv(100).startswith(b"HTTP/1.1 429")
    upstream.release.set()


def test_a_place_that_comes_free_goes_to_the_next(either, upstream):
    at = either("limits:\n  - {name: places, key: ip, limit: 1 concurrent, lease: 1h, when: {path: /hold}, "
                "queue: {size: 9, max_wait: 60s}}\n", server=proxied(upstream))
    first = begin(at.g, "/hold")
    wait_for(lambda: upstream.count("/hold") == 1, "the place is taken")
    at.stand(*(f"/hold?{i}" for i in range(4)))
    first.close()
    wait_for(lambda: upstream.count("/hold") == 2, "the next has it")
    upstream.release.set()
    wait_for(lambda: len(at.admitted("/hold")) == 4, "all of them")
    assert at.admitted("/hold") == [f"/hold?{i}" for i in range(4)]


def test_a_worker_has_so_many_in_line_and_no_more(here):
    at = here(line("1 per 2 seconds"), http="ration_waiting 2;")
    assert at.g.ask()[0] == 200
    at.stand("/1", "/2")
    assert at.g.ask()[0] == 429


def test_nobody_waits_in_line_if_nobody_may(here):
    at = here(line("1 per 2 seconds"), http="ration_waiting 0;")
    assert at.g.statuses(3) == [200, 429, 429]


def test_how_many_may_wait_must_be_a_number(gateway):
    g = gateway(line("1 per 2 seconds"), http="ration_waiting many;", start=False)
    status, text = g.test()
    assert status != 0 and "invalid number" in text


# --- clients that go away --------------------------------------------------------------------

def test_clients_that_leave_are_not_charged(either):
    at = either(line("25 per 10 seconds"))
    assert at.g.statuses(25, "/first") == [200] * 25
    paths = [f"/{i}" for i in range(50)]
    at.stand(*paths)
    at.leave(*paths[::2])
    at.pass_until(10, 50)
    assert at.admitted()[25:] == paths[1::2]
    assert "200 /49 verdict=delayed rule=api remaining=0 " in at.g.log()


def test_the_whole_line_may_leave(either):
    at = either(line("1 per second"))
    assert at.g.ask("/first")[0] == 200
    for turn in range(3):
        paths = [f"/{turn}/{i}" for i in range(50)]
        at.stand(paths[0])
        for path in paths[1:]:
            at.sockets[path] = begin(at.g, path)
        wait_for(lambda: at.waits() == 50 * (turn + 1), "all stand in line")
        at.leave(*paths)
    at.clock.advance(2)
    assert at.g.ask("/last")[0] == 200
    at.g.wait_for_log("200 /last verdict=allowed")
    assert at.admitted() == ["/first", "/last"]


def test_streams_that_are_reset_leave(either):
    at = either(line("1 per 2 seconds"), listen="http2")
    with http2.Peer(socket.create_connection(("127.0.0.1", at.g.port), PATIENCE)) as peer:
        peer.send(http2.get(1, "/first"))
        at.g.wait_for_log("200 /first")
        for stream in range(3, 43, 2):
            peer.send(http2.get(stream, f"/{stream}"))
            at.g.wait_for_log(WAITS, "error", stream // 2)
        peer.send(*(http2.frame(http2.RST_STREAM, 0, stream, http2.CANCEL) for stream in range(3, 23, 2)))
        at.g.wait_for_log("verdict=error", count=10)
        at.pass_until(2, 2)
        assert at.admitted()[1:] == ["/23"]
    at.g.wait_for_log("verdict=error", count=19)  # the others went with their connection
    at.clock.advance(2)
    with http2.Peer(socket.create_connection(("127.0.0.1", at.g.port), PATIENCE)) as peer:
        peer.send(http2.get(1, "/last"))
        at.g.wait_for_log("200 /last verdict=allowed")


# --- workers that end ------------------------------------------------------------------------

def test_a_worker_serves_its_line_after_a_reload(either):
    at = either(line("1 per 2 seconds"))
    assert at.g.ask()[0] == 200
    at.stand("/0", "/1", "/2")
    at.g.reload()
    for done in range(2, 5):
        at.pass_until(2, done)
    assert at.admitted()[1:] == ["/0", "/1", "/2"]


def test_a_worker_answers_its_line_before_it_must_end(decided, upstream):
    """By the clock of the machine, as worker_shutdown_timeout is."""
    g = decided("limits:\n  - {name: places, key: ip, limit: 1 concurrent, lease: 1h, "
                "queue: {size: 99, max_wait: 1h}}\n", server=proxied(upstream), top="worker_shutdown_timeout 4s;")
    with contextlib.ExitStack() as clients:
        clients.enter_context(begin(g, "/hold"))
        wait_for(lambda: upstream.count("/hold") == 1, "the place is taken")
        waiting = [clients.enter_context(begin(g, f"/{i}")) for i in range(20)]
        g.wait_for_log(WAITS, "error", 20)
        os.kill(g.master, signal.SIGHUP)
        for s in waiting:  # an answer, not the end of the connection; of the rules of nginx if rationd has the line
            assert s.recv(100).startswith(b"HTTP/1.1 ")


def test_a_line_ends_with_a_worker_that_is_stopped(either):
    at = either(line("1 per 2 seconds"))
    assert at.g.ask()[0] == 200
    at.stand(*(f"/{i}" for i in range(20)))
    at.g.stop()  # which looks for complaints of the sanitizer
    assert all(s.recv(100) == b"" for s in at.sockets.values())


def test_a_killed_worker_leaves_nothing_in_line_and_nothing_charged(either):
    at = either(line("5 per 10 seconds"), killed=True)
    assert at.g.statuses(5, "/first") == [200] * 5
    at.stand(*(f"/{i}" for i in range(20)))
    (worker,) = at.g.workers()
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: not is_alive(worker) and at.g.workers(), "another worker")
    for s in at.sockets.values():
        with contextlib.suppress(ConnectionResetError):
            assert s.recv(100) == b""
    at.clock.advance(10)
    assert at.g.statuses(5, "/after") == [200] * 5


# --- rationd has the line, and fails -----------------------------------------------------------

OWN = "limits:\n  - {name: own, key: ip, limit: 50 per 10 seconds, queue: {size: 300, max_wait: 60s}%s}\n"


def lose_by_kill(at):
    at.rationd.kill()


def lose_by_freeze(at):
    """Five questions without an answer, and nginx gives the connection up."""
    at.rationd.freeze()
    with contextlib.ExitStack() as clients:
        for i in range(5):
            clients.enter_context(begin(at.g, f"/question/{i}"))
        at.g.wait_for_log("does not answer in time", "error")


@pytest.mark.parametrize("lose", [lose_by_kill, lose_by_freeze])
def test_two_hundred_in_line_at_a_lost_rationd_are_let_through(there, lose):
    at = there(line("50 per 10 seconds"), local=OWN % ", on_store_failure: allow", parameters="timeout=2s")
    assert at.g.statuses(50, "/first") == [200] * 50
    paths = [f"/{i}" for i in range(200)]
    at.stand(*paths)
    lose(at)
    wait_for(lambda: set(paths) <= set(at.admitted()), "all are admitted")
    assert [path for path in at.admitted() if path in paths] == paths
    assert "/199 verdict=delayed waited=0.000" not in at.g.log("told")


@pytest.mark.parametrize("lose", [lose_by_kill, lose_by_freeze])
def test_two_hundred_in_line_at_a_lost_rationd_are_refused(there, lose):
    at = there(line("50 per 10 seconds"), local=OWN % ", on_store_failure: refuse", parameters="timeout=2s")
    assert at.g.statuses(50, "/first") == [200] * 50
    at.stand(*(f"/{i}" for i in range(200)))
    lose(at)
    for s in at.sockets.values():
        assert s.recv(100).startswith(b"HTTP/1.1 429")


def test_those_in_line_at_a_killed_rationd_go_on_in_the_line_of_nginx(there):
    at = there(line("50 per 10 seconds"), local=OWN % "")
    assert at.g.statuses(50, "/first") == [200] * 50
    paths = [f"/{i}" for i in range(200)]
    at.stand(*paths)
    at.rationd.kill()
    at.g.wait_for_log(WAITS, "error", 350)  # 50 go at once, by the rules of nginx
    for turn in range(2, 5):
        at.pass_until(10, 50 + 50 * turn)
    assert at.admitted()[50:] == paths


def test_a_frozen_rationd_that_comes_back_has_nobody_in_line(there):
    at = there(line("5 per 10 seconds"), local=OWN % ", on_store_failure: refuse", parameters="timeout=2s")
    assert at.g.statuses(5, "/first") == [200] * 5
    at.stand(*(f"/{i}" for i in range(20)))
    lose_by_freeze(at)
    at.rationd.thaw()
    wait_for(lambda: "\nration_waiting 0\n" in at.rationd.admin("GET", "/metrics").text, "all have left")
    at.g.wait_for_log('" answers\n', "error", 2)
    at.clock.advance(10)
    assert at.g.statuses(5, "/after") == [200] * 5  # nothing was charged meanwhile
    at.g.wait_for_log("200 /after verdict=allowed waited=0.000 rate=PASSED source=rationd", "told", 5)


# --- what rationd may say ------------------------------------------------------------------------

def number(data):
    """Of the last question."""
    return re.findall(rb"LINE\r\n\$\d+\r\n(\d+)\r\n", data)[-1]


def waiting_server(fake, **more):
    """Lets everybody stand in line."""
    return fake(lambda data: b"".join(b"*3\r\n$4\r\nWAIT\r\n:%s\r\n:60000\r\n" % n for n in
                                      re.findall(rb"LINE\r\n\$\d+\r\n(\d+)\r\n", data)), **more)


@pytest.mark.parametrize("value", [b"-STORE no answer of Redis\r\n", b"-ERR no\r\n"])
def test_an_error_at_the_end_of_the_line_is_no_answer(asking, fake, value):
    server = waiting_server(fake)
    g = answers(asking(server.address))
    with begin(g, "/") as s:
        g.wait_for_log(WAITS, "error")
        server.push(b">3\r\n$11\r\nration.turn\r\n:%s\r\n%s" % (number(b"".join(server.seen)), value))
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    g.wait_for_log("200 / verdict=delayed rule=own source=zone", "source")
    assert server.connections == 1


@pytest.mark.parametrize("push", [b">3\r\n$11\r\nration.turn\r\n:%s\r\n+OK\r\n", b">3\r\n$11\r\nration.turn\r\n:%s\r\n*0\r\n",
                                  b":1\r\n", b">3\r\n\0\0"])
def test_nonsense_at_the_end_of_the_line_ends_the_connection(asking, fake, push):
    server = waiting_server(fake)
    g = answers(asking(server.address))
    with begin(g, "/") as s:
        g.wait_for_log(WAITS, "error")
        server.push(push % number(b"".join(server.seen)) if b"%s" in push else push)
        assert s.recv(100).startswith(b"HTTP/1.1 200")
    g.wait_for_log("sent what is not a reply", "error")
    g.wait_for_log("200 / verdict=delayed rule=own source=zone", "source")


def test_other_pushes_are_passed_over(asking, fake):
    server = waiting_server(fake)
    g = answers(asking(server.address))
    with begin(g, "/"):
        g.wait_for_log(WAITS, "error")
        server.push(b">2\r\n$10\r\ninvalidate\r\n*0\r\n" + b">3\r\n$11\r\nration.turn\r\n:999999\r\n-ERR nobody\r\n")
    g.wait_for_log("499 /")
    wait_for(lambda: b"RATION.LEAVE\r\n$1\r\n" in b"".join(server.seen[1:]), "it leaves")
    assert server.connections == 1


def test_a_turn_that_is_never_announced_is_waited_for_in_vain(asking, fake):
    server = fake(lambda data: b"*3\r\n$4\r\nWAIT\r\n:%s\r\n:10\r\n" % number(data) if b"LINE" in data else b":0\r\n")
    g = answers(asking(server.address, parameters="timeout=100ms"))
    assert g.ask()[0] == 200
    g.wait_for_log("200 / verdict=delayed rule=own source=zone", "source")
    wait_for(lambda: b"RATION.LEAVE" in server.seen[-1], "it leaves")


def test_a_rationd_that_is_older_than_lines_is_asked_as_before(asking, fake):
    server = fake(lambda data: b"-ERR not now\r\n" * data.count(b"RATION.CHECK"), lines=False)
    g = answers(asking(server.address))
    assert g.ask()[0] == 200
    wait_for(lambda: b"WAIT\r\n$6\r\nreturn\r\n" in server.seen[-1], "no line")
    assert b"LINE" not in server.seen[-1]
