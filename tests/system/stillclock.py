# SPDX-License-Identifier: Apache-2.0
"""A clock that stands still until it is moved, for daemons (tests/programs/stillclock.c)."""

import datetime
import struct

from daemon import BUILD

START = datetime.datetime(2030, 1, 1)


class StillClock:
    """A file that tells daemons the time; `env` is for those that read it."""

    def __init__(self, path, at=START):
        if at.tzinfo is None:  # older versions of the YAML reader leave out that it is UTC
            at = at.replace(tzinfo=datetime.timezone.utc)
        self.path, self.wall_ns = path, int(at.timestamp()) * 10**9
        self.boot_ns = 10**15
        self._write()

    def _write(self):
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("=qq", self.boot_ns, self.wall_ns))

    def advance(self, seconds):
        self.boot_ns += round(seconds * 10**9)
        self.set_wall(seconds)

    def set_wall(self, seconds):
        self.wall_ns += round(seconds * 10**9)
        self._write()

    def env(self):
        library = BUILD / "tests" / "libstillclock.so"
        assert library.exists(), f"{library} is missing: without it daemons would follow the real clock"
        return {"STILLCLOCK": str(self.path), "LD_PRELOAD": str(library)}
