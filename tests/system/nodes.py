# SPDX-License-Identifier: Apache-2.0
"""Daemons that share limits by a Redis, and clients that ask all of them."""

import contextlib
import random
import re
import signal
import threading
import time

from concurrent_clients import check, command, http_allowed, resp_allowed
from daemon import PATIENCE, Daemon

OPTIONS = ["--memory", "2M"]


class Nodes:
    """Several at once, from `with` to the end of it. `urls`: of Redis, one for each node;
    None: they share nothing. `envs`: what each has in its environment."""

    def __init__(self, folder, rules, urls, options=(), envs=None, workers=1):
        self.all, self.killed = [], 0
        for i, url in enumerate(urls):
            place = folder / f"node{i}"
            place.mkdir()
            sharing = ["--redis", url, "--redis-nodes", len(urls)] if url else []
            self.all.append(Daemon(place, rules, [*OPTIONS, "--workers", workers, *sharing, *options],
                                   env=envs[i] if envs else None, start=False))

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for node in self.all:
                node.start()
                stack.callback(node.kill)
            stack.pop_all()
        return self

    def __exit__(self, *error):
        with contextlib.ExitStack() as stack:
            for node in self.all:
                stack.callback(node.__exit__, *error)

    def __getitem__(self, index):
        return self.all[index]

    def __len__(self):
        return len(self.all)

    def log(self, index):
        return "".join(self.all[index].log[-20:])

    def restart(self, index):
        """As after a crash."""
        self.killed += 1
        self.all[index].kill()
        self.all[index].start()

    @contextlib.contextmanager
    def stopped(self, index):
        self.all[index].process.send_signal(signal.SIGSTOP)
        yield
        self.all[index].process.send_signal(signal.SIGCONT)

    def count_logged(self, event):
        return sum(event in line for node in self.all for line in list(node.log))


def metric(node, name):
    return int(re.search(rf"^{name} (\d+)", node.admin("GET", "/metrics").text, re.M)[1])


class Decision:
    """The answer to one request, and when it came: seconds on the monotonic clock."""

    __slots__ = ("node", "user", "path", "sent", "received", "allowed")

    def __init__(self, node, user, path, sent, received, allowed):
        self.node, self.user, self.path, self.allowed = node, user, path, allowed
        self.sent, self.received = sent, received


class OverResp:
    def __init__(self, node):
        self.resp = node.resp()
        self.socket, self.close = self.resp.socket, self.resp.close

    def request(self, user, path):
        return command("RATION.CHECK", "user", user, "path", path)

    def is_allowed(self):
        return resp_allowed(self.resp.read())


class OverHttp:
    def __init__(self, node):
        self.socket = node.socket()
        self.file = self.socket.makefile("rb")

    def request(self, user, path):
        return check(user=user, path=path)

    def is_allowed(self):
        return http_allowed(self.file)

    def close(self):
        self.file.close()
        self.socket.close()


class Load:
    """Clients of all nodes, over RESP and HTTP, from `with` to the end of it: each sends
    runs of up to `depth` requests of some of the `users` for some of the `paths`, and notes the answers. A
    client whose node is gone asks it again when it is back."""

    def __init__(self, nodes, paths=("/",), clients=2, depth=8, pause=0.0, users=("ann",)):
        self.nodes, self.paths, self.users = nodes, paths, users
        self.depth, self.pause = depth, pause
        self.asked, self.decisions, self.failures = [], [], []
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(i % len(nodes), i // len(nodes)))
                        for i in range(clients * len(nodes))]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ending.set()
        for thread in self.threads:
            thread.join(PATIENCE)
        if kind is None:
            assert not self.failures, self.failures
            assert not any(thread.is_alive() for thread in self.threads), "an answer never came"

    def ask(self, index, number):
        source = random.Random(f"{index} {number}")
        try:
            while not self.ending.is_set():
                with contextlib.suppress(ConnectionError, EOFError, LookupError):
                    self.talk(index, OverHttp if number % 2 else OverResp, source)
                self.ending.wait(0.01)
        except Exception as failure:  # told by __exit__
            self.failures.append(repr(failure))

    def talk(self, index, over, source):
        """Over one connection, until it ends."""
        with contextlib.closing(over(self.nodes[index])) as client:
            while not self.ending.is_set():
                run = [(source.choice(self.users), source.choice(self.paths))
                       for _ in range(source.randint(1, self.depth))]
                self.asked.append(len(run))
                sent = time.monotonic()
                client.socket.sendall(b"".join(client.request(*words) for words in run))
                for user, path in run:
                    allowed = client.is_allowed()
                    self.decisions.append(Decision(index, user, path, sent, time.monotonic(), allowed))
                if self.pause:
                    time.sleep(self.pause * source.random())

    def lost(self):
        """Requests whose node was gone before it answered."""
        return sum(self.asked) - len(self.decisions)

    def admissions(self, path=None, ahead=0.0):
        """(asked, answered) of what was admitted, on another clock that is ahead by so much."""
        return [(t.sent + ahead, t.received + ahead) for t in self.decisions
                if t.allowed and path in (None, t.path)]

    def admitted(self):
        return sum(t.allowed for t in list(self.decisions))
