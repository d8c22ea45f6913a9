# SPDX-License-Identifier: Apache-2.0
"""Commands of the RESP port: the throttling commands of other servers, to the last number, and
handshakes."""

import re

import pytest

from daemon import ROOT, RespError
from resp_port import TOKEN, clock, daemon, guarded  # noqa: F401 (fixtures)


# --- the throttling commands of others -----------------------------------------------------

@pytest.mark.parametrize("command", ["CL.THROTTLE", "GCRA"])
def test_redis_cell_and_gcra_answer_with_the_same_five_numbers(daemon, clock, command):
    with daemon.resp() as say:
        assert say(command, "ann", 15, 30, 60) == [0, 16, 15, -1, 2]
        for left in range(14, -1, -1):
            assert say(command, "ann", 15, 30, 60) == [0, 16, left, -1, 2 * (16 - left)]
        assert say(command, "ann", 15, 30, 60) == [1, 16, 0, 2, 32]
        clock.advance(1.5)
        assert say(command, "ann", 15, 30, 60) == [1, 16, 0, 1, 31]
        clock.advance(0.5)
        assert say(command, "ann", 15, 30, 60) == [0, 16, 0, -1, 32]


def test_redis_cell_charges_a_quantity_and_looks_with_none(daemon):
    with daemon.resp() as say:
        assert say("CL.THROTTLE", "ann", 15, 30, 60, 0) == [0, 16, 16, -1, 0]
        assert say("CL.THROTTLE", "ann", 15, 30, 60, 5) == [0, 16, 11, -1, 10]
        assert say("CL.THROTTLE", "ann", 15, 30, 60, 12) == [1, 16, 11, 2, 10]
        assert say("CL.THROTTLE", "ann", 15, 30, 60, 16) == [1, 16, 11, 10, 10]
        assert say("CL.THROTTLE", "ann", 15, 30, 60, 0) == [0, 16, 11, -1, 10]
        assert say("CL.THROTTLE", "ann", 15, 30, 60, 17) == [1, 16, 11, -1, 10]


def test_gcra_takes_tokens_and_refuses_none(daemon):
    with daemon.resp() as say:
        assert say("GCRA", "ann", 15, 30, 60, "TOKENS", 4) == [0, 16, 12, -1, 8]
        assert say("GCRA", "ann", 15, 30, 60, "tokens", 13) == [1, 16, 12, 2, 8]
        assert say("GCRA", "ann", 15, 30, 60, "TOKENS", 17) == [1, 16, 12, -1, 8]
        for words in (["TOKENS", 0], ["TOKENS", -1], ["TOKENS"], ["COUNT", 1], [3]):
            with pytest.raises(RespError):
                say("GCRA", "ann", 15, 30, 60, *words)
        assert say("GCRA", "ann", 15, 30, 60) == [0, 16, 11, -1, 10]


def test_throttlecrab_answers_in_its_own_order(daemon, clock):
    with daemon.resp() as say:
        assert say("THROTTLE", "ann", 10, 100, 60) == [1, 10, 9, 1, 0]
        assert say("THROTTLE", "ann", 10, 100, 60, 9) == [1, 10, 0, 6, 0]
        assert say("THROTTLE", "ann", 10, 100, 60) == [0, 10, 0, 6, 1]
        assert say("THROTTLE", "ann", 10, 100, 60, 5) == [0, 10, 0, 6, 3]
        assert say("THROTTLE", "ann", 10, 100, 60, 0) == [1, 10, 0, 6, 0]
        clock.advance(0.6)
        assert say("THROTTLE", "ann", 10, 100, 60) == [1, 10, 0, 6, 0]


def test_the_three_commands_agree_about_a_bucket_of_the_same_size(daemon):
    with daemon.resp() as say:
        assert say("CL.THROTTLE", "ann", 15, 30, 60, 6) == [0, 16, 10, -1, 12]
        assert say("GCRA", "ann", 15, 30, 60) == [0, 16, 9, -1, 14]
        assert say("THROTTLE", "ann", 16, 30, 60) == [1, 16, 8, 16, 0]
        assert say("RATION.PEEK", "ann", "30 per minute burst 16")[7] == 8


@pytest.mark.parametrize("command, least_burst", [("CL.THROTTLE", 0), ("GCRA", 0), ("THROTTLE", 1)])
def test_bad_numbers_are_errors_that_say_so(daemon, command, least_burst):
    with daemon.resp() as say:
        for words, message in (
                (["ann"], "usage: " + command), (["ann", 15, 30], "usage: " + command),
                (["ann", "x", 30, 60], 'max_burst must be a whole number, found "x"'),
                (["ann", 15, "3.5", 60], "count must be a whole number"),
                (["ann", 15, 30, ""], "period must be a whole number"),
                (["ann", 2**63 - 1, 30, 60], 'max_burst must have at most 18 digits, found "9223372036854775807"'),
                (["ann", 15, 30, 2**63 - 1], "period must have at most 18 digits"),
                (["ann", 15, 30, 10**11], "period must be at most ten years"),
                (["ann", 15, 0, 60], "zero rates are not supported"),
                (["ann", 15, 30, 0], "zero rates are not supported"),
                (["ann", 15, -30, 60], "zero rates are not supported"),
                (["ann", least_burst - 1, 30, 60], "zero rates are not supported"),
                (["ann", 15, 30, 60, 1, 1, 1], "usage: " + command)):
            with pytest.raises(RespError, match=message):
                say(command, *words)
        assert say(command, "ann", least_burst, 30, 60)[1] == least_burst + (command != "THROTTLE")


def test_quantities_that_are_none_are_errors(daemon):
    with daemon.resp() as say:
        for command in ("CL.THROTTLE", "THROTTLE"):
            for quantity in ("-1", "x", "1.5", "", "18446744073709551616"):
                with pytest.raises(RespError, match="quantity must be a whole number"):
                    say(command, "ann", 15, 30, 60, quantity)
            assert say(command, "ann", 15, 30, 60, "18446744073709551615")[2] in (15, 16)


@pytest.mark.parametrize("option, words", [
    ("COST", ("RATION.CHECK", "user", "ann", "COST", -5, "COST", 3)),
    ("WAIT", ("RATION.CHECK", "user", "ann", "WAIT", "return", "WAIT", 5)),
    ("PEEK", ("RATION.CHECK", "user", "ann", "PEEK", "PEEK")),
    ("DRAIN", ("RATION.CHECK", "user", "ann", "DRAIN", "COST", 1, "DRAIN")),
    ("WAIT", ("RATION.TAKE", "ann", "5 per hour", 1, "WAIT", "hold", "WAIT", "return")),
    ("ALGORITHM", ("RATION.PEEK", "ann", "5 per hour", "ALGORITHM", "sliding-log", "ALGORITHM", "token-bucket")),
    ("FOR", ("RATION.ACQUIRE", "ann", "5 concurrent", "FOR", 1, "FOR", 2)),
    ("COST", ("RATION.RESERVE", "RULES", "user", "ann", "COST", 1, "COST", 1))])
def test_an_option_that_is_given_twice_is_an_error(daemon, option, words):
    with daemon.resp() as say, pytest.raises(RespError, match=f'"{option}" is given twice'):
        say(*words)


# --- handshakes ------------------------------------------------------------------------------

def test_hello_chooses_the_version_and_describes_the_server(daemon):
    with daemon.resp() as say:
        pairs = say("HELLO")
        assert pairs[:2] == [b"server", b"ration"] and pairs[4:6] == [b"proto", 2]
        assert say("HELLO", 3)[b"proto"] == 3
        assert say("RATION.CHECK", "user", "ann")[b"allowed"] is True
        assert say("HELLO", 2)[5] == 2
        with pytest.raises(RespError, match="NOPROTO"):
            say("HELLO", 4)
        assert say("HELLO", 3, "SETNAME", "me")[b"proto"] == 3
        assert say("RESET") == b"RESET"
        assert say("HELLO")[5] == 2


def test_the_token_is_compared_and_wrong_ones_are_refused(guarded):
    with guarded.resp() as say:
        for words in (["AUTH", "nonsense"], ["AUTH", "default", "nonsense"], ["AUTH", TOKEN + "x"],
                      ["AUTH", TOKEN[:-1]], ["AUTH", ""],
                      ["HELLO", 3, "AUTH", "default", "nonsense"]):
            with pytest.raises(RespError, match="^WRONGPASS "):
                say(*words)
        assert say("HELLO")[5] == 2  # a HELLO that failed changes nothing
        assert say("AUTH", TOKEN) == b"OK"
        assert say("HELLO", 3, "AUTH", "default", TOKEN, "SETNAME", "me")[b"proto"] == 3


def test_without_a_token_auth_is_an_error_that_says_why(daemon):
    with daemon.resp() as say:
        with pytest.raises(RespError, match="no token is set"):
            say("AUTH", "anything")


def test_a_local_peer_may_reset_a_key_without_a_token(guarded):
    with guarded.resp() as say:
        say("RATION.TAKE", "ann", "5 per hour", 5)
        assert say("RATION.RESET", "ann", "5 per hour") == 1
        assert say("RATION.PEEK", "ann", "5 per hour")[7] == 5
        say("RATION.TAKE", "ann", "5 per hour", 5, "ALGORITHM", "sliding-log")
        assert say("RATION.RESET", "ann", "5 per hour", "ALGORITHM", "sliding-log") == 1
        assert say("RATION.PEEK", "ann", "5 per hour", "ALGORITHM", "sliding-log")[7] == 5


def test_questions_of_clients_about_commands_are_answered(daemon):
    with daemon.resp() as say:
        count = say("COMMAND", "COUNT")
        assert len(say("COMMAND")) == len(say("COMMAND", "LIST")) == count
        assert say("COMMAND", "INFO", "nonsense", "PING")[0] is None
        assert say("COMMAND", "INFO", "nonsense", "PING")[1][0] == b"ping"
        docs = say("COMMAND", "DOCS", "ration.take", "nonsense")
        assert docs[0] == b"ration.take" and b"summary" in docs[1] and len(docs) == 2
        assert len(say("RATION.HELP")) == count
        say("HELLO", 3)
        assert b"ration.take" in say("COMMAND", "DOCS")


def documented_commands():
    """The first column of the tables of docs/resp.md: `NAME arguments`."""
    page = (ROOT / "docs" / "resp.md").read_text()
    rows = re.findall(r"^\| `([A-Z][A-Z.]+(?: (?:\\\||[^`|])*)?)` \|", page, re.M)
    return [row.replace("\\|", "|") for row in rows]


def test_the_page_about_resp_has_each_command_with_its_arguments(daemon):
    with daemon.resp() as say:
        usages = [line.decode().split(": ")[0] for line in say("RATION.HELP")]
    # Those that take either a limit or rules have a row for each.
    known = []
    for usage in usages:
        name = usage.split()[0]
        direct, by_rules, rules = usage.partition(" | RULES ")
        known += [direct, f"{name} RULES {rules}"] if by_rules else [usage]
    assert sorted(documented_commands()) == sorted(known)


def test_replies_cannot_be_switched_off(daemon):
    with daemon.resp() as say:
        with pytest.raises(RespError):  # OK would be one reply more than the client awaits
            say("CLIENT", "REPLY", "OFF")
        assert say("CLIENT", "SETINFO", "LIB-NAME", "x") == b"OK"
