# SPDX-License-Identifier: Apache-2.0
"""examples/database: queries cost what they made the database do. A greedy tenant is refused, the others never are."""

import os
import re
import sqlite3
import subprocess

import pytest

from daemon import BUILD, PATIENCE, ROOT, Daemon, free_port

EXAMPLE = ROOT / "examples/database"
TENANTS = BUILD / "examples/tenants"
CAPACITY = 300
LIMIT = f"{CAPACITY} per day" # nothing grows back while a test runs
LIGHT = "SELECT count(*) FROM orders WHERE id < 10"
HEAVY = "SELECT count(*) FROM orders a, orders b WHERE a.total < b.total"
ENDLESS = "SELECT count(*) FROM orders a, orders b, orders c, orders d"


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA synchronous = OFF") # a busy disk may take long
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", ((n, n * 7919 % 1000) for n in range(150)))
    database.close()
    return path


class InProcess:
    """The example in C, with libration: one process."""

    def __init__(self, _, shop):
        if not TENANTS.exists():
            pytest.skip("needs SQLite's headers")
        self.command, self.env = [TENANTS, shop, LIMIT], None

    def start(self):
        return subprocess.Popen(self.command, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def ask(self, *queries):
        out, error = self.start().communicate("\n".join(queries) + "\n", timeout=PATIENCE)
        self.error = error
        return out.splitlines()

    def close(self):
        pass


class AskingRationd(InProcess):
    """The example in Python."""

    def __init__(self, folder, shop, limit=LIMIT):
        rules = re.sub(r"limit: .*", f"limit: {limit}", (EXAMPLE / "ration.yaml").read_text())
        self.rationd = Daemon(folder, rules, ["--http", f"127.0.0.1:{free_port()}"])
        self.command = ["/usr/bin/python3", EXAMPLE / "tenants.py", shop]
        self.env = {"PATH": os.environ["PATH"], "RATIOND": self.rationd.addresses["http"],
                    "ANSWER_SECONDS": str(PATIENCE)}

    def close(self):
        if self.rationd.process:
            self.rationd.thaw()
            self.rationd.stop()


@pytest.fixture(params=[InProcess, AskingRationd], ids=["C", "Python"])
def service(request, tmp_path, shop):
    made = request.param(tmp_path, shop)
    yield made
    made.close()


@pytest.fixture
def asking(tmp_path, shop):
    made = AskingRationd(tmp_path, shop)
    yield made
    made.close()


def cost(line):
    found = re.search(r"cost=(\d+)", line)
    return int(found[1]) if found else 0


def test_a_greedy_tenant_is_refused_and_the_others_are_not(service):
    lines = service.ask(*[query for n in range(30) for query in (f"greedy {HEAVY}", f"tenant-{n % 3} {LIGHT}")])
    greedy = [line for line in lines if line.startswith("greedy ")]
    assert len(lines) == 60 and all(re.fullmatch(r"tenant-\d rows=1 cost=1", line) for line in lines
                                    if line not in greedy)
    heavy = cost(greedy[0])
    assert CAPACITY / 4 < heavy < CAPACITY
    ran = [line for line in greedy if "rows=1" in line]
    # One that still finds room for a usual query runs, and is owed.
    assert ran == greedy[:len(ran)] and (len(ran) - 1) * heavy < CAPACITY <= len(ran) * heavy + 5
    assert all("refused, again in" in line for line in greedy[len(ran):])


def test_light_queries_get_back_what_they_did_not_use(service):
    lines = service.ask(*[f"alice {LIGHT}"] * CAPACITY)
    # The last ones find fewer units than a query reserves.
    assert [cost(line) for line in lines] == [1] * (CAPACITY - 4) + [0] * 4


def test_a_query_without_end_is_stopped_and_paid_for(service):
    first, second, other = service.ask(f"bob {ENDLESS}", f"bob {LIGHT}", f"alice {LIGHT}")
    assert first == "bob failed: interrupted cost=1001"
    assert second.startswith("bob refused") and other == "alice rows=1 cost=1"


def test_a_mistake_costs_a_unit_and_ends_nothing(service):
    lines = service.ask("bob SELECT nonsense", "bob", f"bob {LIGHT}", f"'; -- {LIGHT}")
    assert "no such column" in lines[0] and lines[-2:] == ["bob rows=1 cost=1", "'; rows=0 cost=1"]


def test_processes_share_what_a_tenant_has(asking):
    both = [asking.start() for _ in range(2)]
    for process in both:
        process.stdin.write(f"greedy {HEAVY}\n" * 8)
        process.stdin.close()
    lines = [line for process in both for line in process.stdout]
    assert all(process.wait(PATIENCE) == 0 for process in both)
    for process in both:
        process.stdout.close()
        process.stderr.close()
    heavy = max(map(cost, lines))
    assert len(lines) == 16 and CAPACITY <= sum(map(cost, lines)) + 5 and sum(map(cost, lines)) <= CAPACITY + 2 * heavy


@pytest.mark.parametrize("away", ["frozen", "killed"])
def test_without_rationd_queries_run_or_are_refused_as_chosen(asking, away):
    asking.env.update(ANSWER_SECONDS="0.2", WAIT_SECONDS="0.1")
    if away == "frozen":
        asking.rationd.freeze()
    else:
        asking.rationd.kill()
    lines = asking.ask(f"bob {LIGHT}", f"bob {ENDLESS}")
    assert lines == ["bob rows=1 cost=1", "bob failed: interrupted cost=1001"]
    assert asking.error.count("rationd is away") == 2
    asking.env["WITHOUT_RATIOND"] = "refuse"
    assert asking.ask(f"bob {LIGHT}") == ["bob refused, again in 1 s"]


def test_a_tenant_in_debt_waits_until_its_rate_has_paid(tmp_path, shop):
    service = AskingRationd(tmp_path, shop, f"{CAPACITY} per second")
    service.env["WAIT_SECONDS"] = "30"
    try:
        lines = service.ask(*[f"greedy {HEAVY}"] * 8)
        totals = service.rationd.admin("GET", "/metrics").text
    finally:
        service.close()
    assert len(lines) == 8 and sum(map(cost, lines)) > 2 * CAPACITY and not any("refused" in line for line in lines)
    assert int(re.search(r'^ration_waited_total{result="admitted"} (\d+)$', totals, re.M)[1]) >= 1
