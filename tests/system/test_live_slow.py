# SPDX-License-Identifier: Apache-2.0
"""Readers of a stream that do not read."""

import contextlib
import http.client
import json
import socket

from daemon import Daemon
from live_stream import Stream, metric, names


def test_a_reader_that_does_not_read_holds_no_memory(tmp_path):
    """It loses lines, and others go on; when it reads again it gets whole lines. One that never does loses its place."""
    rules = "limits:\n" + "".join(f"  - {{name: a-rule-with-a-name-{n}, key: ip, limit: 1 per hour}}\n" for n in range(200))
    listed = [f"a-rule-with-a-name-{n}" for n in range(200)]
    with Daemon(tmp_path, rules) as d, contextlib.ExitStack() as stack:
        def rest():
            return int(next(line.split()[1] for line in open(f"/proc/{d.process.pid}/status") if line.startswith("VmRSS"))) * 1024

        stuck = []
        for _ in range(40):
            s = stack.enter_context(socket.socket())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, _, port = d.addresses["admin"].rpartition(":")
            s.connect((host, int(port)))
            s.sendall(f"GET /v1/live?rules={names(listed)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            stuck.append(s)
        with Stream(d, listed) as reader:
            reader.until(lambda line: metric(d, "ration_live_lines_skipped_total") > 40)
            before, skipped = rest(), metric(d, "ration_live_lines_skipped_total")
            lines = reader.until(lambda line: metric(d, "ration_live_lines_skipped_total") >= skipped + 120)
            assert all(len(line["rules"]) == 200 for line in lines)
            assert [line["time"] for line in lines] == list(range(lines[0]["time"], lines[0]["time"] + len(lines)))
            assert rest() < before + 2 * 2**20
            answer = http.client.HTTPResponse(stuck[0])
            answer.begin()
            times = []
            while not times or times[-1] < lines[-1]["time"]:
                times.append(json.loads(answer.readline())["time"])
            assert times == sorted(set(times)) and times[-1] - times[0] >= len(times) # some are missing
            reader.until(lambda line: metric(d, "ration_live_streams") == 2) # the reader, and the one that reads again
            answer.close()
