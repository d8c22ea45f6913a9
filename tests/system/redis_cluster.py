# SPDX-License-Identifier: Apache-2.0
"""A real Redis Cluster for tests: three masters, each with a replica, on free ports."""

import pathlib

from daemon import free_port, wait_for
from redis_server import RedisServer

SLOTS = 16384
SOON_MS, HARDLY_EVER_MS = 500, 60000


class Member(RedisServer):
    """A server of the cluster; `config` for those that need more than the usual."""

    def __init__(self, folder, config=()):
        folder.mkdir()
        port = free_port()
        super().__init__(folder, port=port, options=[
            "--cluster-enabled", "yes", "--cluster-port", str(free_port()),
            "--cluster-node-timeout", str(SOON_MS), "--cluster-require-full-coverage", "no",
            "--repl-diskless-sync-delay", "0", "--appendonly", "no", *config])

    def ask(self, *words):
        """A word to the cluster; text as text."""
        reply = self.client().execute_command("CLUSTER", *words)
        return reply.decode() if isinstance(reply, bytes) else reply

    def flags(self):
        """Of every node that this one knows."""
        return [line.split()[2] for line in self.ask("NODES").splitlines()]

    @property
    def id(self):
        return self.ask("MYID")

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def is_master(self):
        return self.client().execute_command("ROLE")[0] == b"master"

    def slots(self):
        """Those that this server thinks it holds."""
        return {slot for first, last, master, *_ in self.ask("SLOTS")
                if master[1] == self.port for slot in range(first, last + 1)}


class RedisCluster:
    """From `with` to its end. `members` are three masters, then their replicas."""

    def __init__(self, folder, config=()):
        self.members = [Member(pathlib.Path(folder) / str(i), config) for i in range(6)]

    def __enter__(self):
        try:
            for member in self.members:
                member.start()
            self.join()
        except BaseException:
            self.__exit__()
            raise
        return self

    def fail_over(self, soon):
        """Whether replicas take over from a master that is silent. Not while a test does not
        need it: on a busy machine any of them is, for a while."""
        for member in self.members:
            if member.process.poll() is None:
                member.client().config_set("cluster-node-timeout", SOON_MS if soon else HARDLY_EVER_MS)

    def __exit__(self, *_):
        for member in self.members:
            member.stop()

    def join(self):
        masters, replicas = self.members[:3], self.members[3:]
        bounds = [0, 5461, 10923, SLOTS]
        first = masters[0]
        for i, master in enumerate(masters):
            master.ask("ADDSLOTSRANGE", bounds[i], bounds[i + 1] - 1)
            master.ask("SET-CONFIG-EPOCH", i + 1)
        for member in self.members[1:]:
            bus = member.options[member.options.index("--cluster-port") + 1]
            first.ask("MEET", "127.0.0.1", member.port, bus)
        wait_for(lambda: all(self.knows_all(m) for m in self.members))
        for master, replica in zip(masters, replicas):
            replica.ask("REPLICATE", master.id)
        self.settle()

    def knows_all(self, member):
        flags = member.flags()
        return len(flags) == 6 and not any("handshake" in words for words in flags)

    def settle(self):
        """Waits until all slots are served, and every replica is in step."""
        self.fail_over(soon=True)  # members hear of each other as often

        def settled(member):
            state = member.ask("INFO").splitlines()
            if "cluster_state:ok" not in state or f"cluster_slots_ok:{SLOTS}" not in state:
                return False
            role = member.client().execute_command("ROLE")
            return role[0] == b"master" or role[3] == b"connected"

        wait_for(lambda: all(settled(m) for m in self.members))
        wait_for(lambda: all(len(m.client().execute_command("ROLE")[2]) >= 1 for m in self.masters()))
        # Every member knows the replicas: a failover needs their votes.
        wait_for(lambda: all(sum("slave" in words for words in m.flags()) == 3 for m in self.members))
        self.fail_over(soon=False)

    def masters(self):
        return [m for m in self.members if m.process.poll() is None and m.is_master()]

    def url(self):
        seeds = ",".join(m.address for m in self.members[:3])
        return f"redis+cluster://{seeds}"

    def owner(self, slot):
        return next(m for m in self.masters() if slot in m.slots())

    def replica_of(self, master):
        port = master.port
        return next(m for m in self.members if m.process.poll() is None and not m.is_master()
                    and m.client().execute_command("ROLE")[2] == port)

    def move_slot(self, slot, source, target, pause=lambda: None):
        """The way redis-cli does it, with a pause after each key."""
        target.ask("SETSLOT", slot, "IMPORTING", source.id)
        source.ask("SETSLOT", slot, "MIGRATING", target.id)
        while keys := source.ask("GETKEYSINSLOT", slot, 1):
            source.client().execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 30000, "KEYS", *keys)
            pause()
        for member in (target, source, *(m for m in self.masters() if m not in (target, source))):
            member.ask("SETSLOT", slot, "NODE", target.id)
