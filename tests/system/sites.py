# SPDX-License-Identifier: Apache-2.0
"""Small sites in several frameworks, from tests/apps/, for tests.

Each has `POST /login` and `POST /items/<item>/buy`, and `GET /calls` tells what their handlers
were called with. `./dev deps` builds them.
"""

import contextlib
import http.client
import json
import os
import socket
import subprocess
import time

from daemon import PATIENCE, ROOT, free_port

APPS, BUILT = ROOT / "tests/apps", ROOT / "build/apps"
COMMANDS = {
    "flask": ["/usr/bin/python3", APPS / "flask/app.py"],
    "express": ["node", APPS / "express/app.js"],
    "go": [BUILT / "go-site"],
    "spring": ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-cp",
               f"{BUILT}/spring/classes:{BUILT}/spring/lib/*", "site.Site"],
}
NEEDS = {
    "flask": APPS / "flask/app.py", "express": ROOT / "tests/node/node_modules/express",
    "go": BUILT / "go-site", "spring": BUILT / "spring/built",
}


def is_built(name):
    return NEEDS[name].exists()


class App:
    """One of them, running. ready() waits for it, so that several can start at a time."""

    def __init__(self, name, folder):
        self.name, self.port = name, free_port()
        self.log = open(folder / f"{name}.log", "w+")
        self.process = subprocess.Popen(
            [*COMMANDS[name], str(self.port)], stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=self.log, env={**os.environ, "NODE_PATH": str(ROOT / "tests/node/node_modules")})

    def ready(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            time.sleep(0.05)
        self.log.seek(0)
        raise RuntimeError(f"{self.name} did not start:\n" + self.log.read())

    def calls(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", "/calls")
            return json.loads(connection.getresponse().read())

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
