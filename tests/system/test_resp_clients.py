# SPDX-License-Identifier: Apache-2.0
"""The RESP port as real clients use it: redis-cli, redis-benchmark, python3-redis, ioredis and node-redis."""

import json
import os
import pty
import select
import shutil
import subprocess

import pytest
import redis

from daemon import PATIENCE, ROOT
from resp_port import TOKEN, clock, daemon, guarded  # noqa: F401 (fixtures)

CLIENTS = ROOT / "tests" / "node"

without_node = pytest.mark.skipif(
    shutil.which("node") is None or not (CLIENTS / "node_modules").is_dir(),
    reason="node or its packages are missing: ./dev deps installs the packages")


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


def test_redis_cli_shows_never_as_nil(daemon):
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
