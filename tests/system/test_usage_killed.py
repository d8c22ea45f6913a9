# SPDX-License-Identifier: Apache-2.0
"""Usage is exact although the daemon is killed: what was told is in it, and besides that only what was being answered.

Clients send requests over several connections and note what they were told. The daemon is killed at random moments, or
stopped for a while. RATION_SOAK=1 kills it a hundred times.
"""

import csv
import io
import os
import random
import signal
import threading
import time

from daemon import Daemon, Resp, free_port, wait_for
from ration_command import run

KILLS = 100 if os.environ.get("RATION_SOAK") == "1" else 30
LONG = "a client whose name is longer than the ninety-six bytes that an entry of usage has room for"
CLIENTS = ["ann", "bob", LONG + " 1 of 2", LONG + " 2 of 2"]
COSTS = [1, 3, 20]
# The second rule refuses some of what is sent.
RULES = """
server: {usage_memory: 1M}
limits:
  - {name: open, when: {path: /open}, key: user, limit: 1000000000 per hour, cost: {attribute: units}, usage: {per: year}}
  - {name: tight, when: {path: /tight}, key: user, limit: 100 per second, cost: {attribute: units}, usage: {per: year}}
"""


class Caller(threading.Thread):
    """Sends one request at a time; counts the units that it was told about, and those whose answer never came."""

    def __init__(self, port, seed):
        super().__init__(daemon=True)
        self.port, self.random = port, random.Random(seed)
        self.units = {}  # by rule, client, and "admitted", "refused" or "unanswered"
        self.answers, self.ending, self.error = 0, False, None

    def add(self, *what, units):
        self.units[what] = self.units.get(what, 0) + units

    def run(self):
        while not self.ending:
            try:
                with Resp(f"127.0.0.1:{self.port}") as resp:
                    self.ask_on(resp)
            except OSError:  # the daemon is being started again
                time.sleep(0.005)
            except Exception as error:  # pylint: disable=broad-except
                self.error = error
                return

    def ask_on(self, resp):
        while not self.ending:
            rule, client = self.random.choice(["open", "tight"]), self.random.choice(CLIENTS)
            units = self.random.choice(COSTS)
            try:
                allowed = resp("RATION.CHECK", "path", "/" + rule, "user", client, "units", units)[1] == 1
            except (OSError, EOFError):
                self.add(rule, client, "unanswered", units=units)
                return
            self.add(rule, client, "admitted" if allowed else "refused", units=units)
            self.answers += 1


class Callers:
    """As many as keep the daemon busy."""

    def __init__(self, port, count=4):
        self.callers = [Caller(port, seed) for seed in range(count)]
        for caller in self.callers:
            caller.start()

    def wait_for_more(self, number):
        target = sum(caller.answers for caller in self.callers) + number
        wait_for(lambda: sum(caller.answers for caller in self.callers) >= target, "more answers")

    def stop(self):
        for caller in self.callers:
            caller.ending = True
        for caller in self.callers:
            caller.join(60)
            assert not caller.is_alive() and caller.error is None

    def sum(self, *what):
        return sum(caller.units.get(what, 0) for caller in self.callers)


def exported(state, client):
    """Units admitted and refused by rule, from the file itself."""
    done = run("usage", "--state", state, "--client", client, "--csv")
    assert done.status == 0, done
    rows = list(csv.DictReader(io.StringIO(done.out)))
    found = {row["rule"]: (int(row["admitted"]), int(row["refused"])) for row in rows}
    assert len(found) == len(rows)  # one row for each
    return found


def check(callers, state):
    """Returns the units that were told, and those whose answer never came."""
    told, unanswered = 0, 0
    for client in CLIENTS:
        found = exported(state, client)
        for rule in ("open", "tight"):
            admitted, refused = found.get(rule, (0, 0))
            yes, no = callers.sum(rule, client, "admitted"), callers.sum(rule, client, "refused")
            lost = callers.sum(rule, client, "unanswered")
            assert yes <= admitted <= yes + lost and no <= refused <= no + lost
            assert admitted + refused <= yes + no + lost
            told, unanswered = told + yes + no, unanswered + lost
    return told, unanswered


def start(folder, port):
    return Daemon(folder, RULES, ["--state", folder / "state", "--resp", f"127.0.0.1:{port}", "--workers", "2"])


def test_usage_has_what_was_told_after_kills_at_random_moments(tmp_path):
    port, chance = free_port(), random.Random(16)
    daemon = start(tmp_path, port)
    callers = Callers(port)
    try:
        for kill in range(KILLS):
            callers.wait_for_more(chance.randrange(1, 400))
            if kill % 4 == 3:  # stopped in the middle of whatever it does, and killed before it goes on
                daemon.process.send_signal(signal.SIGSTOP)
                time.sleep(chance.random() / 50)
            daemon.kill()
            daemon.start()
        callers.wait_for_more(100)
    finally:
        callers.stop()
        daemon.kill()
    told, unanswered = check(callers, tmp_path / "state")
    print(f"{KILLS} kills: {told} units told, {unanswered} unanswered")
    assert told > 0


def test_usage_is_equal_to_what_was_told_if_the_daemon_is_only_stopped_for_a_while(tmp_path):
    port, chance = free_port(), random.Random(17)
    with start(tmp_path, port) as daemon:
        callers = Callers(port)
        try:
            for _ in range(KILLS):
                callers.wait_for_more(chance.randrange(1, 200))
                daemon.process.send_signal(signal.SIGSTOP)
                time.sleep(chance.random() / 50)
                daemon.process.send_signal(signal.SIGCONT)
        finally:
            callers.stop()
        assert check(callers, tmp_path / "state")[1] == 0


def test_two_daemons_on_one_state_file_count_together_although_one_is_killed(tmp_path):
    ports, chance = (free_port(), free_port()), random.Random(18)
    folders = tmp_path / "a", tmp_path / "b"
    daemons = []
    for folder, port in zip(folders, ports):
        folder.mkdir()
        daemons.append(Daemon(folder, RULES, ["--state", tmp_path / "state", "--resp", f"127.0.0.1:{port}"]))
    callers = [Callers(port, 2) for port in ports]
    try:
        for _ in range(KILLS // 2):
            callers[0].wait_for_more(chance.randrange(1, 200))
            callers[1].wait_for_more(1)
            daemons[0].kill()
            daemons[0].start()
    finally:
        for some in callers:
            some.stop()
        for daemon in daemons:
            daemon.kill()
    callers[0].callers += callers[1].callers
    check(callers[0], tmp_path / "state")
