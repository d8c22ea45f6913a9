# SPDX-License-Identifier: Apache-2.0
"""The other end of the examples: a real HTTP server that takes calls, notes when they came, and answers by plan.

    with Receiver() as receiver:
        ...
        assert [call.key for call in receiver.calls] == ["a", "b"]
"""

import contextlib
import http.server
import threading
import time

from daemon import PATIENCE


class Call:
    """One request: when it came, and what of it tests look at. `answered` is its status, once it has one."""

    def __init__(self, handler, body):
        self.at = time.monotonic()
        self.path, self.headers, self.body = handler.path, handler.headers, body
        self.key = handler.headers.get("Idempotency-Key")
        self.answered = None


class Receiver(http.server.ThreadingHTTPServer):
    """`plan` is asked with the receiver and each call, and returns (status, headers); it may take its time. `open` can be
    cleared: calls are noted then, and answered when it is set again."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, plan=lambda receiver, call: (200, {})):
        super().__init__(("127.0.0.1", 0), ReceiverHandler)
        self.plan, self.calls, self.lock, self.open = plan, [], threading.Lock(), threading.Event()
        self.open.set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.open.set()
        self.shutdown()
        self.server_close()

    def keys(self):
        return [call.key for call in self.calls]


class ReceiverHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1 # one write for each answer

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.lock:
            call = Call(self, body)
            self.server.calls.append(call)
        self.server.open.wait(PATIENCE)
        status, headers = self.server.plan(self.server, call)
        call.answered = status
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def handle(self):
        with contextlib.suppress(ConnectionError): # callers may be killed
            super().handle()

    def log_message(self, *_):
        pass


def assert_rate(calls, amount, seconds, burst, callers):
    """No span of time has more calls than the limit allows. Each of `callers` makes one call at a time. So a span has
    at most those that were allowed in it, and of each caller one that was allowed before and came later."""
    times = sorted(call.at for call in calls)
    for first, begin in enumerate(times):
        for count, end in enumerate(times[first:], 1):
            most = burst + callers + (end - begin + 0.001) * amount / seconds
            assert count <= most, (count, most, end - begin)
