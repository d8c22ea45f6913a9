# SPDX-License-Identifier: Apache-2.0
"""Requests that wait in line, over HTTP and RESP: who waits, in which order, and what they are told. How a wait ends
otherwise is in test_waiting_ends.py."""

import pytest

from concurrent_clients import command, post
from daemon import RespError
from in_line import Gateway, Line, answered, decision

RULES = """
limits:
  - {name: api, key: user, limit: 2 per 10 seconds, wait: hold, max_wait: 30s, when: {user: {present: true}}}
  - {name: refuses, key: plain, limit: 1 per 10 seconds, when: {plain: {present: true}}}
  - {name: drip, key: leaky, limit: 1 per second queue 1, queue: {size: 10, max_wait: 20s}, when: {leaky: {present: true}}}
  - {name: jobs, key: job, limit: 1 concurrent, queue: {size: 5, max_wait: 10s}, when: {job: {present: true}}}
  - {name: each, key: both, limit: 1 per second, queue: 100, when: {both: {present: true}}}
  - {name: all, limit: 3 per 10 seconds, queue: {size: 100, max_wait: 30s}, when: {both: {present: true}}}
"""
BUCKET = "1 per 10 seconds"
ALGORITHMS = ["token-bucket", "fixed-window", "sliding-window", "sliding-log"]


@pytest.fixture
def line(tmp_path):
    with Line(tmp_path, RULES) as line:
        yield line


# --- who waits ---------------------------------------------------------------------------------------


def throttle(line, algorithm, **more):
    return line.http("/v1/throttle", key=algorithm, limit="2 per 10 seconds", algorithm=algorithm, **more)


def take(line, algorithm, *more):
    return line.words("RATION.TAKE", f"{algorithm} of RESP", "2 per 10 seconds", 1, "ALGORITHM", algorithm, *more)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_limit_that_comes_along_may_be_waited_for_with_any_algorithm(line, algorithm):
    assert all(throttle(line, algorithm).answer()["allowed"] and take(line, algorithm).answer()["allowed"]
               for _ in range(2))
    assert not throttle(line, algorithm).answer()["allowed"], "without wait it is refused at once"
    waiting = []
    for i, ask in enumerate((throttle, throttle, take, take)):
        waiting.append(ask(line, algorithm, *(["WAIT", 60000] if ask is take else []),
                           **({"wait": 60} if ask is throttle else {})))
        line.stands(i + 1)
    assert not throttle(line, algorithm, wait="return").answer()["allowed"]
    line.clock.advance(20.001)
    for answer in line.admitted(*waiting):
        assert answer["waited"] <= 20.01 and answer["delay"] == 0
    line.stands(0)
    assert line.metric("ration_held_replies_total") == 4


def test_rules_say_which_requests_wait(line):
    for _ in range(2):
        assert line.check(user="ann").answer()["allowed"]
    assert line.check(plain="ann").answer()["allowed"]
    assert line.check(plain="ann").answer()["status"] == 429, "its rule has no line"
    assert line.check(user="ann", wait="return").answer()["status"] == 429, "this caller waits itself"
    by_rule = line.check(user="ann")
    line.stands(1)
    by_call = line.check(plain="ann", wait=20)
    line.stands(2)
    by_resp = line.words("RATION.CHECK", "user", "ann")
    line.stands(3)
    assert not line.check(user="ann", wait="return").answer()["allowed"], "nobody overtakes a line"
    line.clock.advance(5)
    assert line.admitted(by_rule)[0]["waited"] == 5
    assert answered([by_call, by_resp]) == []
    line.clock.advance(5)
    answers = line.admitted(by_call, by_resp)
    assert [answer["waited"] for answer in answers] == [10, 10]
    assert answers[0]["status"] == 200 and answers[0]["rule"] == "refuses"


def test_forward_auth_waits_as_the_rule_or_the_proxy_says(line):
    def auth(query="", **headers):
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return line.client("http").send(f"GET /v1/auth{query} HTTP/1.1\r\nHost: shop\r\n{lines}\r\n".encode())

    assert auth("?wait=2.5x").answer()["message"] == "wait must be return (not at all), hold (60 s), or the longest wait in seconds, above 0 and up to 60"
    assert auth("?wait=61").answer()["status"] == 400
    with Line(line.daemon.folder / "..", "limits: [{name: shop, key: host, limit: 1 per 10 seconds}]\n") as other:
        line = other
        assert auth().answer()["allowed"]
        assert auth().answer()["status"] == 429
        assert auth("?wait=9.9&deny=403").answer()["status"] == 403, "its turn would come too late"
        waits = auth("?wait=12")
        line.stands(1)
        line.clock.advance(10)
        assert waits.answer()["status"] == 200


def test_a_leaky_bucket_delays_after_the_line(line):
    first = line.check(leaky="ann").answer()
    assert first["allowed"] and first["delay"] == 0
    delayed = line.check(leaky="ann", wait="return").answer()
    assert delayed["delay"] == 1, "it has the one place in the queue of the bucket"
    waits = line.check(leaky="ann", wait="hold")
    line.stands(1)
    line.clock.advance(1)
    line.stands(0)
    answer = waits.answer()  # after a second of the loop's own clock, too
    assert answer["allowed"] and answer["waited"] == 1 and answer["held"] == 1


def test_places_are_waited_for_until_one_is_released(line):
    held = line.http("/v1/acquire", attributes={"job": "a"}).answer()
    waiting = [line.http("/v1/acquire", attributes={"job": "a"})]
    line.stands(1)
    waiting.append(line.words("RATION.ACQUIRE", "RULES", "job", "a", "WAIT", 5000))
    line.stands(2)
    line.clock.advance(1)
    assert line.daemon.http("POST", "/v1/release", {"lease": held["lease"]}).json["released"]
    held = line.admitted(waiting[0])[0]
    assert answered(waiting) == []
    assert line.daemon.http("POST", "/v1/release", {"lease": held["lease"]}).json["released"]
    assert line.admitted(waiting[1])[0]["lease"]

    ad_hoc = line.http("/v1/acquire", key="b", limit="1 concurrent").answer()
    waits = line.http("/v1/acquire", key="b", limit="1 concurrent", wait=3)
    line.stands(1)
    line.clock.advance(1)
    assert line.daemon.http("POST", "/v1/release", {"lease": ad_hoc["lease"]}).json["released"]
    assert line.admitted(waits)[0]["lease"]


def test_a_reservation_waits_and_can_be_settled(line):
    assert line.http("/v1/reserve", key="a", limit=BUCKET).answer()["allowed"]
    waiting = [line.http("/v1/reserve", key="a", limit=BUCKET, wait=30)]
    line.stands(1)
    waiting.append(line.words("RATION.RESERVE", "a", BUCKET, 1, "WAIT", "hold"))
    line.stands(2)
    line.clock.advance(10)
    lease = line.admitted(waiting[0])[0]["lease"]
    assert answered(waiting) == []
    assert line.daemon.http("POST", "/v1/refund", {"lease": lease}).json["refunded"]
    assert line.admitted(waiting[1])[0]["lease"], "what was given back is the next one's"


# --- in which order ------------------------------------------------------------------------------------


def test_two_hundred_connections_are_answered_in_the_order_of_their_arrival(line):
    limit = "100 per 10 seconds"
    assert line.http("/v1/throttle", key="a", limit=limit, cost=100).answer()["allowed"]
    waiting = []
    for i in range(200):
        if i % 2:
            waiting.append(line.http("/v1/throttle", key="a", limit=limit, wait=60))
        else:
            waiting.append(line.words("RATION.TAKE", "a", limit, 1, "WAIT", 60000))
        if i % 10 == 9:  # each ten have arrived before the next
            line.stands(i + 1)
    for begin in range(0, 200, 10):
        line.clock.advance(1)
        line.admitted(*waiting[begin:begin + 10])
        assert answered(waiting[begin + 10:]) == []
    line.stands(0)


def test_pipelined_requests_behind_one_that_waits_wait_with_it(line):
    def request(key, **more):
        return post("/v1/throttle", {"key": key, "limit": BUCKET, **more})

    assert line.http("/v1/throttle", key="a", limit=BUCKET).answer()["allowed"]
    http = line.client("http").send(request("b") + request("a", wait=30) + request("c") + request("a", wait=30))
    assert http.answer()["allowed"], "the one before is answered"
    line.stands(1)
    resp = line.client("resp").send(command("RATION.TAKE", "d", BUCKET) + command("RATION.TAKE", "a", BUCKET, 1, "WAIT", 60000) +
                                    command("PING") + command("RATION.TAKE", "c", BUCKET))
    assert resp.answer()["allowed"]
    line.stands(2)
    assert answered([http, resp]) == []
    line.clock.advance(10)
    assert [http.answer()["allowed"] for _ in range(2)] == [True, True]
    line.stands(2)
    line.clock.advance(10)
    assert resp.answer()["allowed"] and resp.resp.read() == b"PONG" and resp.answer()["allowed"]
    line.clock.advance(10)
    assert http.answer()["allowed"]


def test_several_rules_are_charged_together_when_all_have_room(line):
    def user(name):
        return line.check(both=name)

    for name in "abc":
        assert user(name).answer()["allowed"]
    waiting = []
    for i, name in enumerate("aad"):
        waiting.append(user(name))
        line.stands(i + 1)
    line.clock.advance(3.4)
    assert line.admitted(waiting[0])[0]["waited"] == 3.4
    assert answered(waiting) == []
    line.clock.advance(3.4)
    line.admitted(waiting[1])
    line.clock.advance(3.4)
    line.admitted(waiting[2])
    state = {name: line.check(both=name, wait="return").answer() for name in "ad"}
    assert not state["a"]["allowed"] and state["a"]["rule"] == "all"


# --- what cannot be met ----------------------------------------------------------------------------------


def test_a_wait_that_cannot_be_met_is_refused_at_once(line):
    assert line.http("/v1/throttle", key="a", limit=BUCKET).answer()["allowed"]
    answer = line.http("/v1/throttle", key="a", limit=BUCKET, wait=9).answer()
    assert answer["status"] == 429 and answer["retry_after"] == 10 and "waited" not in answer
    first = line.http("/v1/throttle", key="a", limit=BUCKET, wait=15)
    line.stands(1)
    assert line.http("/v1/throttle", key="a", limit=BUCKET, wait=15).answer()["status"] == 429, "one is ahead of it"
    assert not line.words("RATION.TAKE", "a", BUCKET, 1, "WAIT", 19999).answer()["allowed"]
    line.clock.advance(10)
    line.admitted(first)
    assert line.http("/v1/throttle", key="a", limit=BUCKET, cost=2, wait=60).answer()["retry_after"] is None


def test_nobody_waits_longer_than_it_said(line):
    held = line.http("/v1/acquire", attributes={"job": "a"}).answer()
    short = line.http("/v1/acquire", attributes={"job": "a"}, wait=2)
    line.stands(1)
    long = line.words("RATION.ACQUIRE", "RULES", "job", "a", "WAIT", 60000)
    line.stands(2)
    line.clock.advance(2)
    answer = short.answer()
    assert answer["status"] == 429 and answer["waited"] == 2
    line.clock.advance(8)
    answer = long.answer()
    assert not answer["allowed"] and answer["waited"] == 10, "the rule's max_wait is shorter"
    assert line.daemon.http("POST", "/v1/release", {"lease": held["lease"]}).json["released"]


def test_a_full_line_refuses(line):
    held = line.http("/v1/acquire", attributes={"job": "a"}).answer()
    waiting = []
    for i in range(5):
        waiting.append(line.http("/v1/acquire", attributes={"job": "a"}))
        line.stands(i + 1)
    assert line.http("/v1/acquire", attributes={"job": "a"}).answer()["status"] == 429
    line.daemon.http("POST", "/v1/release", {"lease": held["lease"]})
    line.clock.advance(0.1)
    lease = line.admitted(waiting[0])[0]["lease"]
    waiting.append(line.http("/v1/acquire", attributes={"job": "a"}))
    line.stands(5)
    assert lease and answered(waiting) == []


# --- what is asked wrongly ---------------------------------------------------------------------------------


def test_a_request_with_too_much_text_is_refused_where_others_wait(line):
    assert line.http("/v1/throttle", key="x" * 16384, limit=BUCKET).answer()["allowed"]
    assert line.http("/v1/throttle", key="x" * 16385, limit=BUCKET).answer()["allowed"]
    fits = line.http("/v1/throttle", key="x" * 16384, limit=BUCKET, wait=60)
    line.stands(1)
    assert line.http("/v1/throttle", key="x" * 16385, limit=BUCKET, wait=60).answer()["status"] == 429
    line.clock.advance(10)
    line.admitted(fits)
    many = {f"header.name-{i}": "v" * 100 for i in range(100)}
    for _ in range(2):
        assert line.check(user="ann", **many).answer()["allowed"]
    fits = line.check(user="ann", **many)
    line.stands(1)
    line.clock.advance(10)
    assert line.admitted(fits)[0]["rule"] == "api"


@pytest.mark.parametrize("path, body, message", [
    ("/v1/acquire", {"key": "a", "limit": "1 concurrent", "wait": 61}, "up to 60"),
    ("/v1/reserve", {"key": "a", "limit": BUCKET, "wait": "soon"}, '"wait" must be "return" (not at all), "hold" (60 s), or'),
    ("/v1/reserve", {"key": "a", "limit": BUCKET, "wait": "5"}, '"wait" must be'),
    ("/v1/throttle", {"key": "a", "limit": BUCKET, "wait": -1}, '"wait" must be'),
    ("/v1/throttle", {"key": "a", "limit": BUCKET, "wait": True}, '"wait" must be'),
    ("/v1/throttle", {"key": "a", "limit": BUCKET, "wait": {"a": 1}}, '"wait" must be'),
    ("/v1/throttle", {"key": "a", "limit": BUCKET, "wait": 1, "drain": True}, "drain takes what is left"),
    ("/v1/throttle", {"key": "a", "limit": BUCKET, "wait": 0}, "above 0 and up to 60"),
    ("/v1/check", {"checks": [{"key": "a", "limit": BUCKET, "wait": 1}]}, '"wait" has no meaning here'),
    ("/v1/renew", {"lease": "x", "wait": 1}, '"wait" has no meaning here'),
    ("/v1/renew", {"lease": "x", "wiat": 1}, 'unknown member "wiat"; allowed here: for, lease'),
])
def test_a_wrong_wait_is_refused_over_http(line, path, body, message):
    answer = line.http(path, **body).answer()
    assert answer["status"] == 400 and message in answer["message"], answer


@pytest.mark.parametrize("words, message", [
    (("RATION.ACQUIRE", "a", "1 concurrent", "WAIT", "0"), "WAIT must be"),
    (("RATION.RESERVE", "a", BUCKET, 1, "WAIT", "60001"), "WAIT must be"),
    (("RATION.RESERVE", "a", BUCKET, 1, "WAIT"), "usage"),
    (("RATION.TAKE", "a", BUCKET, "WAIT"), "usage"),
    (("RATION.CHECK", "user", "a", "LINE", 1), "needs FULL"),
    (("RATION.CHECK", "user", "a", "FULL", "LINE", "x"), "must be a whole number"),
    (("RATION.CHECK", "user", "a", "FULL", "LINE", -1), "from 0 to 2.53"),
    (("RATION.CHECK", "user", "a", "FULL", "LINE", 2**53 + 1), "from 0 to 2.53"),
    (("RATION.CHECK", "user", "a", "FULL", "LINE", 1, "LINE", 2), "given twice"),
    (("RATION.CHECK", "user", "a", "FULL", "LINE", 1, "WAIT", "return"), "do not go with"),
    (("RATION.CHECK", "user", "a", "FULL", "LINE", 1, "PEEK"), "do not go with"),
    (("RATION.CHECK", "user", "a", "LEASE", "WAIT", 5), "LEASE goes with neither"),
    (("RATION.LEAVE",), "usage"),
    (("RATION.LEAVE", "x"), "must be a whole number"),
])
def test_a_wrong_wait_is_refused_over_resp(line, words, message):
    with pytest.raises(RespError, match=message):
        line.words(*words).resp.read()


# --- gateways ----------------------------------------------------------------------------------------------


def ask(gateway, id, *more, user="ann"):
    return gateway("RATION.CHECK", "user", user, "LEASE", "FULL", "LINE", id, *more)


def test_a_gateway_goes_on_while_its_requests_wait(line):
    gateway = Gateway(line)
    for id in range(2):
        assert decision(ask(gateway, id))["allowed"], "an id is used only by a request that waits"
    assert ask(gateway, 0) == [b"WAIT", 0, 30000]
    assert ask(gateway, 1, "WAIT", 20000) == [b"WAIT", 1, 20000]
    assert ask(gateway, 2**53) == [b"WAIT", 2**53, 30000]
    assert decision(ask(gateway, 9, user="bob"))["allowed"], "the connection is not held"
    with pytest.raises(RespError, match="LINE 1 stands in line already"):
        ask(gateway, 1)
    assert gateway("PING") == b"PONG"
    line.stands(3)
    assert gateway("RATION.LEAVE", 1) == 1
    assert gateway("RATION.LEAVE", 1) == 0
    line.stands(2)
    line.clock.advance(5)
    push = gateway.read()
    told = decision(push[3])
    assert push[:3] == [b">", b"ration.turn", 0] and told["allowed"] and told["waited"] == 5
    assert told["turn"], "with which the gateway can give it back"
    assert gateway("RATION.LEAVE", 0) == 0
    assert gateway("RATION.REFUND", told["turn"]) == 1
    assert gateway.read()[2] == 2**53, "what was given back is the next one's"
    line.stands(0)


def test_a_gateway_is_told_of_a_refusal_when_time_is_over(line):
    gateway = Gateway(line)
    lease = decision(gateway("RATION.CHECK", "job", "a", "LEASE", "FULL", "LINE", 1))["lease"]
    assert gateway("RATION.CHECK", "job", "a", "LEASE", "FULL", "LINE", 1) == [b"WAIT", 1, 10000]
    line.clock.advance(10)
    push = gateway.read()
    told = decision(push[3])
    assert push[2] == 1 and not told["allowed"] and told["waited"] == 10 and told["status"] == 429
    assert gateway("RATION.RELEASE", lease) == 1
    assert decision(gateway("RATION.CHECK", "job", "a", "LEASE", "FULL", "LINE", 1))["allowed"]


def test_a_gateway_that_is_gone_leaves_all_its_lines(line):
    gateway = Gateway(line)
    for id in range(2):
        assert decision(ask(gateway, id))["allowed"]
    for id in range(6):
        assert ask(gateway, id) == [b"WAIT", id, 30000]
    line.stands(6)
    gateway.client.leave()
    line.clients.remove(gateway.client)
    line.stands(0)
    line.clock.advance(10)
    for _ in range(2):
        assert line.check(user="ann", wait="return").answer()["allowed"], "those that left were not charged"
    assert not line.check(user="ann", wait="return").answer()["allowed"]


MOST = 16384  # requests of a connection in line


def test_a_gateway_has_as_many_requests_in_line_as_a_connection_may(tmp_path):
    rules = "limits: [{name: jobs, limit: 1 concurrent, queue: {size: 20000, max_wait: 1h}}]\n"
    with Line(tmp_path, rules, ["--waiting", "20000"]) as line:
        gateway = Gateway(line)
        ask_place = ("RATION.CHECK", "job", "a", "LEASE", "FULL", "LINE")
        lease = decision(gateway(*ask_place, 1))["lease"]
        gateway.client.send(b"".join(command(*ask_place, id) for id in range(MOST + 1)))
        for id in range(MOST):
            assert gateway.read() == [b"WAIT", id, 60000], "no reply is held for longer, whatever the rule says"
        assert not decision(gateway.read())["allowed"]
        line.stands(MOST)
        line.clock.advance(1)
        assert gateway("RATION.RELEASE", lease) == 1
        push = gateway.read()
        assert push[2] == 0 and decision(push[3])["allowed"]
        gateway.client.send(b"".join(command("RATION.LEAVE", id) for id in range(1, MOST)))
        for _ in range(1, MOST):
            assert gateway.read() == 1
        line.stands(0)


def test_a_line_that_no_rule_describes_has_room_for_1000(tmp_path):
    """Callers say that they would wait: one client that does not stop asking leaves room for others."""
    with Line(tmp_path, "limits: [{name: plain, key: user, limit: 100 per second}]\n") as line:
        gateway = Gateway(line)
        for user in "ann", "bob":
            assert decision(gateway("RATION.CHECK", "user", user, "COST", 100, "FULL"))["allowed"]
        wait = ("FULL", "WAIT", 60000, "LINE")
        gateway.client.send(b"".join(command("RATION.CHECK", "user", "ann", *wait, id) for id in range(1001)))
        for id in range(1000):
            assert gateway.read() == [b"WAIT", id, 60000]
        assert not decision(gateway.read())["allowed"]
        assert gateway("RATION.CHECK", "user", "bob", *wait, 1001) == [b"WAIT", 1001, 60000]
        line.stands(1001)
