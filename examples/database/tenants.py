#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Database queries of several tenants, each within its share of the work, which rationd keeps for all processes.

    rationd --config ration.yaml &
    ./tenants.py shop.db <<END
    alice SELECT count(*) FROM orders
    bob SELECT * FROM orders a, orders b, orders c
    END

A query reserves what most queries cost and settles what it did cost: one unit for each 1000 steps of SQLite's
virtual machine. What was used beyond the reservation is owed. A tenant in debt waits in line at rationd, WAIT_SECONDS at
most, until its rate has paid for it, and is refused if that takes longer: the database does not hear of its queries
before, and those of others do not wait for them.

With PostgreSQL, reserve by what the planner expects (`EXPLAIN (FORMAT JSON)`, "Plan Rows" or "Total Cost"), and settle
the rows or the milliseconds that it took; `statement_timeout` is its QUERY_MOST.

Without rationd, or if it does not answer in time, queries run unlimited, except for QUERY_MOST: for a
shop it is worse to be closed. Set WITHOUT_RATIOND=refuse where it is not.
"""

import http.client
import json
import os
import sqlite3
import sys

RATIOND = os.environ.get("RATIOND", "127.0.0.1:8080")
WITHOUT_RATIOND = os.environ.get("WITHOUT_RATIOND", "allow")
ANSWER_SECONDS = float(os.environ.get("ANSWER_SECONDS", "0.5")) # for rationd, beyond the time in line
WAIT_SECONDS = float(os.environ.get("WAIT_SECONDS", "1"))
STEPS_OF_UNIT = 1000
QUERY_USUAL = 5    # units; most queries cost less
QUERY_MOST = 1000  # units; at most the burst: a debt is never larger than that


class Refused(Exception):
    """`retry_after`: in so many seconds a query would be allowed."""

    def __init__(self, retry_after):
        super().__init__(f"refused, again in {retry_after} s")
        self.retry_after = retry_after


class Limiter:
    """One connection to rationd, for one thread."""

    def __init__(self):
        self.connection = http.client.HTTPConnection(RATIOND, timeout=WAIT_SECONDS + ANSWER_SECONDS)

    def ask(self, path, body):
        """Returns the answer, or None if there is none in time."""
        try:
            self.connection.request("POST", path, json.dumps(body))
            return json.loads(self.connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.connection.close() # a late answer must not be taken for that of the next question
            print(f"tenants: rationd is away: {error!r}", file=sys.stderr, flush=True)
            return None

    def reserve(self, tenant):
        """Returns what settle() wants. Raises Refused."""
        answer = self.ask("/v1/reserve", {"attributes": {"tenant": tenant}, "cost": QUERY_USUAL, "for": 60,
                                          "wait": WAIT_SECONDS})
        if answer is None or "allowed" not in answer: # no answer, or rationd could make no decision
            if WITHOUT_RATIOND == "refuse":
                raise Refused(1)
            return None
        if not answer["allowed"]:
            raise Refused(answer["retry_after"])
        return answer.get("lease") # None: no rule applies to this tenant

    def settle(self, lease, used):
        """If it fails, the reservation stands as it is: the tenant has paid for a usual query."""
        if lease:
            self.ask("/v1/commit", {"lease": lease, "cost": used})


class Database:
    def __init__(self, path):
        self.limiter, self.used = Limiter(), 0
        # No cache: a cached query would count the steps of its last run, too.
        self.connection = sqlite3.connect(path, isolation_level=None, cached_statements=0)
        self.connection.set_progress_handler(self.count_work, STEPS_OF_UNIT)

    def count_work(self):
        """Called after every STEPS_OF_UNIT steps. True stops the query."""
        self.used += 1
        return self.used >= QUERY_MOST

    def query(self, tenant, sql):
        """(rows, cost). Raises Refused, sqlite3.Error."""
        lease = self.limiter.reserve(tenant)
        self.used = 0
        try:
            rows = self.connection.execute(sql).fetchall()
        finally: # a query that failed or was stopped has made the database work, too
            used = self.used + 1
            self.limiter.settle(lease, used)
        return rows, used


def main(path):
    database = Database(path)
    for line in sys.stdin:
        tenant, _, sql = line.strip().partition(" ")
        try:
            rows, used = database.query(tenant, sql)
            print(f"{tenant} rows={len(rows)} cost={used}", flush=True)
        except Refused as refusal:
            print(f"{tenant} {refusal}", flush=True)
        except sqlite3.Error as error:
            print(f"{tenant} failed: {error} cost={database.used + 1}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: tenants.py DATABASE < QUERIES")
    main(sys.argv[1])
