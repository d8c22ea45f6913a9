# SPDX-License-Identifier: Apache-2.0
"""Requests that wait in line behind a proxy that asks rationd about them, as docs/waiting.md says."""

import contextlib
import re
import socket
import threading

from daemon import PATIENCE, wait_for
from proxies import Site, kind

RULES = """attributes: { ip: { trusted_proxies: [127.0.0.1] } }
limits:
  - { name: site, limit: 100 per second, queue: { size: 100, max_wait: 50s } }
"""
# Those that end their question when their client hangs up.
NOTICE = ("Caddy", "Nginx")


def metric(site, name):
    return int(re.search(rf"^{re.escape(name)} (\d+)$", site.daemon.admin("GET", "/metrics").text, re.M)[1])


def are_in_line(site, count):
    """Keeps a pause in force, however long requests take to arrive. Shorter than the time that they may wait."""
    assert site.daemon.http("POST", "/v1/pause", {"attributes": {"path": "/"}, "for": 20}).status == 200
    return metric(site, "ration_waiting") == count


def lift(site):
    assert site.daemon.http("DELETE", "/v1/pause?path=/").status == 200


def test_requests_wait_behind_a_proxy_that_is_patient_enough(kind, tmp_path):
    with Site(kind, tmp_path, RULES) as site: # with the proxy's deadline raised
        assert are_in_line(site, 0)
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(site.ask().status)) for _ in range(5)]
        for thread in threads:
            thread.start()
        wait_for(lambda: are_in_line(site, 5), "all wait in line")
        assert not site.app.seen
        lift(site)
        for thread in threads:
            thread.join(PATIENCE)
        assert answers == [200] * 5 and len(site.app.seen) == 5


def test_a_client_that_hangs_up_leaves_the_line_if_its_proxy_says_so(kind, tmp_path):
    with Site(kind, tmp_path, RULES) as site:
        assert are_in_line(site, 0)
        with contextlib.closing(socket.create_connection(("127.0.0.1", site.proxy.port), PATIENCE)) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            wait_for(lambda: are_in_line(site, 1), "it waits in line")
        if kind.__name__ in NOTICE:
            wait_for(lambda: metric(site, "ration_waiting") == 0, "it leaves")
            assert metric(site, 'ration_waited_total{result="left"}') == 1
        lift(site)
        wait_for(lambda: metric(site, "ration_waiting") == 0, "nobody waits")
        # On a busy machine Traefik's own 499 of the client that hung up may reach the next one, too.
        wait_for(lambda: site.ask().status == 200, "others are served")
