# SPDX-License-Identifier: Apache-2.0
"""What systemd does for a daemon: reads its notifications, stores its sockets, and passes them to the
next process. The real systemd is in tests/packages."""

import os
import socket
import threading

from daemon import Daemon, wait_for

# argv: NAME=FD..., --, the command. Puts the descriptors where the daemon expects them.
PASS_ON = """
import os, sys
cut = sys.argv.index("--")
passed = [word.rpartition("=") for word in sys.argv[1:cut]]
high = [os.dup2(int(fd), 200 + i) for i, (_, _, fd) in enumerate(passed)]
os.closerange(3, 200)
for place, fd in enumerate(high, 3):
    os.dup2(fd, place)
    os.close(fd)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(high)),
                  LISTEN_FDNAMES=":".join(name for name, _, _ in passed))
os.execv(sys.argv[cut + 1], sys.argv[cut + 1:])
"""


class ServiceManager:
    """`states` has all notifications so far, each a dictionary; `store` the sockets, [(name, socket)]."""

    def __init__(self, folder, room=64):
        path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.env = {"NOTIFY_SOCKET": str(path), "FDSTORE": str(room)}
        self.states, self.store = [], []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"END=1", self.env["NOTIFY_SOCKET"])
        self.thread.join()
        self.socket.close()
        for _, kept in self.store:
            kept.close()

    def _read(self):
        while True:
            data, fds, _, _ = socket.recv_fds(self.socket, 4096, 8)
            state = dict(line.split("=", 1) for line in data.decode().splitlines())
            if "END" in state:
                return
            if "FDSTORE" in state:
                self.store += [(state["FDNAME"], socket.socket(fileno=fd)) for fd in fds]
            elif "FDSTOREREMOVE" in state:
                for name, kept in self.store:
                    if name == state["FDNAME"]:
                        kept.close()
                self.store = [(name, kept) for name, kept in self.store if name != state["FDNAME"]]
            self.states.append(state)

    def told(self, name, count=1):
        """Waits until a state has come so often."""
        wait_for(lambda: sum(name in state for state in self.states) >= count, f"{count} times {name}")

    def stored(self):
        return sorted(name for name, _ in self.store)

    def start(self, daemon):
        """Starts the daemon with what is in the store, as systemd would, and waits for READY=1."""
        fds = [kept.fileno() for _, kept in self.store]
        daemon.pass_fds = fds
        daemon.wrapper = ["/usr/bin/python3", "-c", PASS_ON,
                          *(f"{name}={fd}" for (name, _), fd in zip(self.store, fds)), "--"] if fds else []
        readies = sum("READY" in state for state in self.states)
        daemon.start()
        self.told("READY", readies + 1)

    def daemon(self, folder, rules=None, options=(), env=None):
        daemon = Daemon(folder, rules, options, env={**self.env, **(env or {})}, start=False)
        self.start(daemon)
        return daemon
