# SPDX-License-Identifier: Apache-2.0
"""What RATION.CHECK does for gateways: LEASE, SHADOW and FULL."""

import pytest

from daemon import Daemon, RespError

RULES = """limits:
  - {name: api, key: user, limit: 2 per minute burst 4, when: {path: /api},
     response: {status: 418, message: Tea only., headers: ietf}}
  - {name: places, key: user, limit: 2 concurrent, lease: 30s, when: {path: /hold}}
  - {name: line, key: user, limit: 1 per 7 days queue 5, wait: hold, when: {path: /line}}
deny:
  - {user: eve}
allow:
  - {user: root}
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("rationd"), RULES) as made:
        yield made


@pytest.fixture(params=[2, 3])
def redis(request, daemon):
    """Answers with dictionaries, in either version of the protocol."""
    def unfold(value):
        return dict(zip(value[::2], value[1::2])) if isinstance(value, list) else value

    with daemon.resp() as resp:
        resp("HELLO", request.param)

        def ask(*words):
            answer = unfold(resp(*words))
            if isinstance(answer, dict) and b"limits" in answer:
                answer[b"limits"] = [unfold(limit) for limit in answer[b"limits"]]
            return answer

        ask.user = f"user-{request.param}-{request.node.name}"
        yield ask


def check(redis, path, *options, user=None):
    return redis("RATION.CHECK", "user", user or redis.user, "path", path, *options)


def test_full_says_how_to_answer(redis):
    told = check(redis, "/api", "FULL")
    assert (told[b"by"], told[b"decided_by"], told[b"status"]) == (b"limits", 0, 418)
    assert (told[b"headers"], told[b"message"]) == (b"ietf", b"Tea only.")
    limit = told[b"limits"][0]
    assert limit[b"allowed"] in (1, True) and limit[b"amount"] == 2 and float(limit[b"period"]) == 60


def test_without_full_nothing_is_added(redis):
    told = check(redis, "/api")
    assert not told.keys() & {b"by", b"decided_by", b"status", b"headers", b"message"}
    assert told[b"limits"][0].keys() == {b"rule", b"limit", b"remaining", b"reset_after"}


@pytest.mark.parametrize("user, by", [("eve", b"deny"), ("root", b"allow"), ("ann", b"none")])
def test_full_says_what_decided(redis, user, by):
    told = check(redis, "/free", "FULL", user=user)
    assert told[b"by"] == by and told[b"decided_by"] == -1


def test_lease_keeps_places_until_they_are_released(redis):
    first = check(redis, "/hold", "LEASE", "FULL")
    second = check(redis, "/hold", "LEASE", "FULL")
    refused = check(redis, "/hold", "LEASE", "FULL")
    assert first[b"lease"] != second[b"lease"] and float(first[b"lease_for"]) == 30
    assert refused[b"allowed"] in (0, False) and b"lease" not in refused
    assert redis("RATION.RELEASE", first[b"lease"]) == 1
    assert check(redis, "/hold", "LEASE")[b"allowed"] in (1, True)


def test_lease_reports_delays_and_delays_no_reply(redis):
    check(redis, "/line", "LEASE")
    told = check(redis, "/line", "LEASE")
    assert float(told[b"delay"]) > 600_000 and b"held" not in told and b"lease" not in told


@pytest.mark.parametrize("options", [("LEASE", "FULL"), ("WAIT", "return", "FULL")])
def test_a_turn_that_is_waited_for_elsewhere_can_be_left_once(redis, options):
    assert b"turn" not in check(redis, "/line", *options)  # it need not wait
    first, last = check(redis, "/line", *options), check(redis, "/line", *options)
    assert redis("RATION.REFUND", last[b"turn"]) == 1
    assert redis("RATION.REFUND", last[b"turn"]) == 0
    assert redis("RATION.REFUND", first[b"turn"]) == 1
    again = check(redis, "/line", *options)
    assert again[b"remaining"] == first[b"remaining"]
    with pytest.raises(RespError, match="this rationd did not sign it"):
        redis("RATION.COMMIT", again[b"turn"])


def test_only_a_client_that_waits_itself_gets_a_ticket_for_its_turn(redis):
    check(redis, "/line", "LEASE")
    assert b"turn" not in check(redis, "/line", "LEASE")
    assert b"turn" not in check(redis, "/line", "WAIT", "return")
    assert b"turn" not in check(redis, "/line", "WAIT", "return", "FULL", "PEEK")


@pytest.mark.parametrize("options", [("PEEK",), ("WAIT", "hold"), ("WAIT", "50")])
def test_lease_goes_with_nothing_that_looks_or_holds(redis, options):
    with pytest.raises(RespError, match="LEASE goes with neither PEEK nor a WAIT that holds"):
        check(redis, "/hold", "LEASE", *options)


def test_shadow_counts_and_refuses_no_request(redis):
    told = [check(redis, "/api", "SHADOW") for _ in range(5)]
    assert all(answer[b"allowed"] in (1, True) for answer in told)
    assert [b"shadow" in answer for answer in told] == [False] * 4 + [True]
    assert check(redis, "/api")[b"allowed"] in (0, False)
