# SPDX-License-Identifier: Apache-2.0
"""The RESP port as real clients use it: redis-cli, redis-benchmark, python3-redis,
ioredis and node-redis; the throttling commands of others, to the last number; and
what no client would send."""

import json
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import threading

import pytest
import redis

from daemon import PATIENCE, ROOT, Daemon, RespError
from stillclock import StillClock

RULES = """
limits:
  - {name: api, key: user, limit: 5 per hour, when: {user: {present: true}}}
  - {name: jobs, key: job, limit: 2 concurrent, when: {job: {present: true}}}
"""
TOKEN = "open-sesame-open"
CLIENTS = ROOT / "tests" / "node"

without_node = pytest.mark.skipif(
    shutil.which("node") is None or not (CLIENTS / "node_modules").is_dir(),
    reason="node or its packages are missing: ./dev deps installs the packages")


@pytest.fixture
def clock(tmp_path):
    return StillClock(tmp_path / "clock")


@pytest.fixture
def daemon(tmp_path, clock):
    options = ["--workers", "1", "--memory", "2M", "--admin", "none", "--http", "none"]
    with Daemon(tmp_path, RULES, options, env=clock.env()) as daemon:
        yield daemon


@pytest.fixture
def guarded(tmp_path, clock):
    """One that has a token."""
    options = ["--workers", "1", "--memory", "2M", "--admin", "none", "--http", "none"]
    rules = RULES + f"server: {{admin_token: {TOKEN}}}\n"
    with Daemon(tmp_path, rules, options, env=clock.env()) as daemon:
        yield daemon


def port_of(daemon):
    return int(daemon.addresses["resp"].rpartition(":")[2])


def run(*words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True,
                          timeout=PATIENCE, **options)
    assert done.returncode == 0, done.stderr
    return done


def cli(daemon, *words, **options):
    return run("redis-cli", "-p", port_of(daemon), *words, **options).stdout


@pytest.fixture
def client(daemon):
    with redis.Redis(port=port_of(daemon), socket_timeout=PATIENCE) as client:
        yield client


# --- redis-cli and redis-benchmark ---------------------------------------------------

def test_redis_cli_gets_pairs_in_resp2(daemon):
    assert cli(daemon, "RATION.CHECK", "user", "ann").split() == [
        "allowed", "1", "rule", "api", "limit", "5", "remaining", "4", "reset_after", "720",
        "retry_after", "0", "delay", "0",
        "limits", "rule", "api", "limit", "5", "remaining", "4", "reset_after", "720"]


def test_redis_cli_gets_a_map_with_types_in_resp3(daemon):
    lines = cli(daemon, "-3", "--no-raw", "RATION.TAKE", "ann", "100 per minute").splitlines()
    assert lines[:7] == ['1# "allowed" => (true)', '2# "rule" => (nil)',
                         '3# "limit" => (integer) 100', '4# "remaining" => (integer) 99',
                         '5# "reset_after" => (double) 0.6', '6# "retry_after" => (double) 0',
                         '7# "delay" => (double) 0']


def test_redis_cli_tells_never_as_nil(daemon):
    for options in ([], ["-3"]):
        lines = cli(daemon, *options, "--no-raw", "RATION.TAKE", "ann", "5 per minute", 6)
        assert "(nil)" in lines.split('"retry_after"')[1].splitlines()[1 if not options else 0]


def test_redis_cli_reads_the_commands_at_its_prompt_and_can_explain_them(daemon):
    master, slave = pty.openpty()
    process = subprocess.Popen(["redis-cli", "-p", str(port_of(daemon))], stdin=slave,
                               stdout=slave, stderr=slave, close_fds=True,
                               env={**os.environ, "TERM": "dumb", "HOME": "/nonexistent"})
    os.close(slave)
    try:
        seen = b""
        for line, until in ((b"help RATION.TAKE\n", b"charge a limit that is given as text"),
                            (b"RATION.TAKE ann '5 per hour' 2\n", b"1440"),
                            (b"ECHO done\n", b'"done"'), (b"quit\n", None)):
            os.write(master, line)
            while until and until not in seen:
                ready, _, _ = select.select([master], [], [], PATIENCE)
                assert ready, seen
                seen += os.read(master, 65536)
            seen = b""
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_redis_cli_lines_may_be_piped_in(daemon):
    answers = cli(daemon, input='PING\nECHO "a b\\n\\"c\\""\nRATION.RESET k "5 per hour"\n')
    assert answers.splitlines() == ["PONG", "a b", '"c"', "1"]


def test_redis_cli_sends_its_password_and_says_if_it_is_wrong(guarded):
    right = run("redis-cli", "-p", port_of(guarded), "--no-auth-warning", "-a", TOKEN, "PING")
    assert right.stdout == "PONG\n" and right.stderr == ""
    wrong = run("redis-cli", "-p", port_of(guarded), "--no-auth-warning", "-a", "nonsense", "PING")
    assert "WRONGPASS" in wrong.stderr


@pytest.mark.parametrize("options", [[], ["-3"], ["-P", "16"]])
def test_redis_benchmark_runs_without_a_complaint(daemon, options):
    done = run("redis-benchmark", "-p", port_of(daemon), "-n", 2000, "-c", 10, "-q",
               *options, "RATION.TAKE", "key:__rand_int__", "5 per hour")
    assert "requests per second" in done.stdout
    assert "rror" not in done.stdout + done.stderr and "WARNING" not in done.stdout + done.stderr


# --- python3-redis ---------------------------------------------------------------------

def test_python_redis_asks_and_is_answered(client):
    assert client.ping() is True
    assert client.echo("héllo") == "héllo".encode()
    assert client.info()["redis_version"]
    assert client.client_setname("me")
    assert client.config_get("save") == {"save": ""}
    answer = client.execute_command("RATION.CHECK", "user", "ann")
    assert dict(zip(answer[::2], answer[1::2]))[b"remaining"] == 4
    assert "RATION.TAKE" in {name.upper() for name in client.command()}


def test_python_redis_gets_errors_as_exceptions(client):
    with pytest.raises(redis.ResponseError, match='unknown command "GET"'):
        client.get("key")
    with pytest.raises(redis.ResponseError, match="at byte 3"):
        client.execute_command("RATION.TAKE", "ann", "5 pre minute")
    assert client.ping()


def test_python_redis_pipelines_get_their_answers_in_order(client):
    pipeline = client.pipeline(transaction=False)
    for i in range(1000):
        pipeline.execute_command("RATION.TAKE", f"k{i}", f"{i + 1} per hour")
        pipeline.echo(str(i))
    answers = pipeline.execute()
    assert [a[5] for a in answers[::2]] == list(range(1, 1001))
    assert answers[1::2] == [str(i).encode() for i in range(1000)]


def test_a_transaction_is_an_error_that_the_client_understands(client):
    pipeline = client.pipeline(transaction=True)
    pipeline.ping()
    with pytest.raises(redis.ResponseError, match="unknown command"):
        pipeline.execute()
    assert client.ping()


def test_python_redis_authenticates_with_the_token(guarded):
    with redis.Redis(port=port_of(guarded), password=TOKEN) as client:
        assert client.ping()
    with redis.Redis(port=port_of(guarded), username="default", password=TOKEN) as client:
        assert client.ping()
    with redis.Redis(port=port_of(guarded), password="nonsense") as client:
        with pytest.raises(redis.ResponseError, match="WRONGPASS"):
            client.ping()


def test_there_is_one_database(daemon):
    with redis.Redis(port=port_of(daemon), db=0) as client:
        assert client.ping()
    with redis.Redis(port=port_of(daemon), db=1) as client:
        with pytest.raises(redis.ResponseError, match="out of range"):
            client.ping()


def test_keys_are_bytes(client):
    for key in (b"\x00\xff\r\n", b"\x00\xff\r\n\x00", b" "):
        assert client.execute_command("RATION.TAKE", key, "5 per hour")[7] == 4
    assert client.execute_command("RATION.TAKE", b"\x00\xff\r\n", "5 per hour")[7] == 3


def test_places_and_reservations_go_through_a_real_client(client):
    place = client.execute_command("RATION.ACQUIRE", "RULES", "job", "a", "FOR", "5")
    lease = dict(zip(place[::2], place[1::2]))[b"lease"]
    assert client.execute_command("RATION.RENEW", lease, "FOR", 30) == 1
    assert client.execute_command("RATION.RELEASE", lease) == 1
    assert client.execute_command("RATION.RELEASE", lease) == 0
    held = client.execute_command("RATION.RESERVE", "ann", "100 per minute", 50)
    lease = dict(zip(held[::2], held[1::2]))[b"lease"]
    assert client.execute_command("RATION.COMMIT", lease, 20) == 1
    assert client.execute_command("RATION.REFUND", lease) == 0
    assert client.execute_command("RATION.PEEK", "ann", "100 per minute")[7] == 80


# --- node --------------------------------------------------------------------------------

@without_node
def test_ioredis_and_node_redis_speak_both_versions(daemon):
    answers = json.loads(run("node", CLIENTS / "clients.js", port_of(daemon)).stdout)
    assert sorted(answers) == ["ioredis2", "ioredis3", "redis2", "redis3"]
    for name, answer in answers.items():
        assert answer["ping"] == "PONG", name
        assert "unknown command" in answer["multi"], name
        decision = answer["decision"]
        if isinstance(decision, list):
            decision = dict(zip(decision[::2], decision[1::2]))
        assert (decision["rule"], decision["limit"], decision["remaining"]) == ("api", 5, 4), name
        assert float(decision["reset_after"]) == 720, name
        assert decision["allowed"] == 1, name  # ioredis makes numbers of RESP3's booleans
    assert answers["redis3"]["decision"]["allowed"] is True
    for name in ("redis2", "redis3"):
        assert answers[name]["throttle"] == [0, 16, 15, -1, 2]
        assert answers[name]["many"] == [str(i) for i in range(1000)]
        assert "unknown command" in answers[name]["error"]
    for name in ("ioredis2", "ioredis3"):
        taken, ping, throttle, error = answers[name]["pipeline"]
        assert ping == "PONG" and throttle == [0, 16, 15, -1, 2] and "unknown command" in error
        assert answers[name]["throttle"] == [0, 16, 14, -1, 4]


def test_the_lockfile_names_no_registry_and_pins_what_is_asked_for():
    lock = json.loads((CLIENTS / "package-lock.json").read_text())
    wanted = json.loads((CLIENTS / "package.json").read_text())["dependencies"]
    assert "://" not in json.dumps(lock)
    for name, version in wanted.items():
        entry = lock["packages"][f"node_modules/{name}"]
        assert entry["version"] == version and entry["integrity"].startswith("sha512-")


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

def test_hello_chooses_the_version_and_tells_about_the_server(daemon):
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


def test_the_token_is_compared_and_wrong_ones_are_told(guarded):
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


def test_what_clients_ask_about_commands_is_answered(daemon):
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


# --- what no client would send -------------------------------------------------------------------

NO_COMMANDS = [
    ("an inline command of 16 KiB", b"PING " + b"x" * 16384, "too big inline request"),
    ("quotes that do not end", b'ECHO "x\r\n', "unbalanced quotes in request"),
    ("too many arguments", b"*321\r\n", "invalid multibulk length"),
    ("an argument above 64 KiB", b"*2\r\n$4\r\nECHO\r\n$65537\r\n", "invalid bulk length"),
    ("an array within an array", b"*1\r\n*1\r\n$4\r\nPING\r\n", r"expected '\$', got '\*'"),
    ("a number for an argument", b"*2\r\n$4\r\nECHO\r\n:1\r\n", r"expected '\$', got ':'"),
    ("a negative length", b"*2\r\n$4\r\nECHO\r\n$-1\r\n", "invalid bulk length"),
    ("a length of letters", b"*x\r\n", "invalid multibulk length"),
    ("an argument that is longer than its length", b"*1\r\n$4\r\nPINGS\r\n", "expected CR LF"),
    ("too much in all", b"*5\r\n$4\r\nECHO\r\n" + (b"$65536\r\n" + b"x" * 65536 + b"\r\n") * 4,
     "too big"),
]


@pytest.mark.parametrize("sent, message", [case[1:] for case in NO_COMMANDS],
                         ids=[case[0] for case in NO_COMMANDS])
def test_what_is_no_command_is_an_error_and_the_end(daemon, sent, message):
    with daemon.resp() as say:
        say.send("PING")
        say.socket.sendall(sent)
        assert say.read() == b"PONG"
        with pytest.raises(RespError, match="Protocol error: " + message):
            say.read()
        with pytest.raises((EOFError, ConnectionResetError)):
            say.read()
    with daemon.resp() as say:
        assert say("PING") == b"PONG"


def test_what_is_just_small_enough_is_answered(daemon):
    with daemon.resp() as say:
        assert say("ECHO", b"x" * 65536) == b"x" * 65536
        say.socket.sendall(b"ECHO " + b"x" * (16384 - 7) + b"\r\n")
        assert say.read() == b"x" * (16384 - 7)
        say.socket.sendall(b"\r\n*0\r\n*-1\r\nPING\n")
        assert say.read() == b"PONG"
        with pytest.raises(RespError, match="usage: PING"):
            say("PING", *["x"] * 318)


def test_a_command_may_arrive_byte_by_byte(daemon):
    with daemon.resp() as say:
        say.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"*3\r\n$11\r\nRATION.TAKE\r\n$3\r\nann\r\n$10\r\n5 per hour\r\n":
            say.socket.sendall(bytes([byte]))
        assert say.read()[7] == 4


def test_ten_thousand_mixed_commands_are_answered_in_order(daemon):
    def command(i):
        return [("ECHO", str(i)),
                ("CL.THROTTLE", "cell", 19999, 1, 60),
                ("RATION.TAKE", f"own-{i}", f"{i + 1} per hour"),
                ("NONSENSE", i),
                ("THROTTLE", f"crab-{i}", i + 1, 1, 60),
                ("RATION.CHECK", "user", f"u{i}", "COST", 2),
                ("RATION.TAKE", f"log-{i}", "9 per hour", 3, "ALGORITHM", "sliding-log"),
                ("CL.THROTTLE", "cell", 19999, "x", 60),
                ("RATION.TAKE", "shared", "20000 per hour"),
                ("PING",)][i % 10]

    def reply(i):
        turn = i // 10
        return [str(i).encode(), [0, 20000, 19999 - turn, -1, 60 * (turn + 1)], i + 1,
                'ERR unknown command "NONSENSE"; RATION.HELP lists what there is', i + 1,
                3, 6, 'ERR count must be a whole number, found "x"', 19999 - turn,
                b"PONG"][i % 10]

    def brief(i, found):
        """Of a decision the number that tells it from others."""
        if i % 10 in (2, 4):
            return found[5] if i % 10 == 2 else found[1]
        return found[7] if i % 10 in (5, 6, 8) else found

    with daemon.resp() as say:
        def send():
            for i in range(10000):
                say.send(*command(i))

        sender = threading.Thread(target=send)
        sender.start()
        for i in range(10000):
            try:
                found = brief(i, say.read())
            except RespError as error:
                found = str(error)
            assert found == reply(i), f"reply {i} to {command(i)}"
        sender.join(PATIENCE)


def test_a_long_run_of_charges_is_answered_one_by_one(daemon):
    """Charges in a row are decided together, up to 64 of limits known by heart; these
    are more, and the limits change."""
    def command(i):
        more = i // 500
        return [("CL.THROTTLE", f"a{i}", 9 + more, 1, 60), ("GCRA", "d", 9999, 1, 60),
                ("RATION.TAKE", f"b{i}", f"{20 + more} per hour"),
                ("THROTTLE", f"c{i}", 40 + more, 1, 60)][i % 4]

    def limit_and_left(i, found):
        return (found[5], found[7]) if i % 4 == 2 else (found[1], found[2])

    with daemon.resp() as say:
        sender = threading.Thread(target=lambda: [say.send(*command(i)) for i in range(8000)])
        sender.start()
        for i in range(8000):
            limit = [10 + i // 500, 10000, 20 + i // 500, 40 + i // 500][i % 4]
            left = 9999 - i // 4 if i % 4 == 1 else limit - 1
            assert limit_and_left(i, say.read()) == (limit, left), f"reply {i} to {command(i)}"
        sender.join(PATIENCE)


def test_what_follows_a_held_reply_is_answered_behind_it(daemon):
    with daemon.resp() as say:
        say.send("RATION.TAKE", "ann", "20 per second queue 5")
        say.send("RATION.TAKE", "ann", "20 per second queue 5", "WAIT", "hold")
        say.send("RATION.TAKE", "ann", "20 per second queue 5")
        say.send("PING")
        assert say.read()[13] == b"0"
        assert say.read()[13:] == [b"0.05", b"limits", [[b"rule", None, b"limit", 6, b"remaining",
                                   4, b"reset_after", b"0.1"]], b"held", b"0.05"]
        assert say.read()[13] == b"0.1"
        assert say.read() == b"PONG"


# --- other protocols ------------------------------------------------------------------------------

def spend_one(say):
    assert say("RATION.TAKE", "ann", "5 per hour")[7] == 4


def left(say):
    return say("RATION.PEEK", "ann", "5 per hour")[7]


@pytest.mark.parametrize("start", [
    b"POST / HTTP/1.1\r\nContent-Type: text/plain\r\n", b"GET / HTTP/1.0\n", b"host: a\r\n",
    b"PING / HTTP/1.1\r\nHost: a\r\n", b"\r\n\r\nPUT /x HTTP/1.1\r\nAccept: */*\r\n",
], ids=["post", "get", "host", "a method that is a command", "empty lines"])
@pytest.mark.parametrize("body", [
    b'RATION.RESET ann "5 per hour"\r\n',
    b"*3\r\n$12\r\nRATION.RESET\r\n$3\r\nann\r\n$10\r\n5 per hour\r\n",
], ids=["inline", "array"])
def test_commands_in_the_body_of_an_http_request_are_not_executed(tmp_path, start, body):
    with Daemon(tmp_path, RULES) as daemon, daemon.resp() as say:
        spend_one(say)
        with daemon.socket("resp") as s:
            s.sendall(start + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            with s.makefile("rb") as file:
                said = file.read()
        assert b"-ERR Protocol error: this port speaks the Redis protocol, not HTTP\r\n" in said
        assert b":1\r\n" not in said
        assert left(say) == 4
        assert "ration_resp_http_total 1\n" in daemon.admin("GET", "/metrics").text
        daemon.logged("resp.http")


@pytest.mark.parametrize("start", [b"GET /\r\n", b"OPTIONS * RTSP/1.0\r\n", b"EHLO a\r\n", b"USER a\n",
                                   b"post / http/1.1\r\n"])
def test_nothing_behind_a_line_that_is_no_command_is_executed(daemon, start):
    with daemon.resp() as say:
        say("RATION.RESET", "ann", "5 per hour")
        spend_one(say)
        with daemon.socket("resp") as s:
            s.sendall(start + b"*3\r\n$12\r\nRATION.RESET\r\n$3\r\nann\r\n$10\r\n5 per hour\r\n")
            with s.makefile("rb") as file:
                assert file.read().startswith(b'-ERR unknown command "')
        assert left(say) == 4


def test_inline_commands_change_nothing(daemon):
    with daemon.resp() as say:
        say("RATION.RESET", "ann", "5 per hour")
        spend_one(say)
        for line in (b'RATION.RESET ann "5 per hour"', b'RATION.TAKE ann "5 per hour"',
                     b"cl.throttle ann 4 5 3600", b"RATION.CHECK user ann",
                     b'RATION.ACQUIRE ann "2 concurrent"', b'"RATION.RESET" ann "5 per hour"'):
            say.socket.sendall(line + b"\r\n")
            with pytest.raises(RespError, match="changes state, which no inline command may; send it as an array"):
                say.read()
        say.socket.sendall(b'RATION.PEEK ann "5 per hour"\r\nPING\r\n')
        assert say.read()[7] == 4
        assert say.read() == b"PONG"
