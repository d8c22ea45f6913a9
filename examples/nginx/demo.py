#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the gateway of this folder: nginx with our module on port 8000, a small site
behind it on port 3000, and rationd, which shares the counters, for the command line.

usage: demo.py BUILD
"""

import contextlib
import http.server
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
TEXT = """
The gateway listens on http://127.0.0.1:8000. In another terminal:

  for i in $(seq 7); do curl -s -X POST -o /dev/null -w '%{http_code}\\n' 127.0.0.1:8000/login; done
  for i in $(seq 12); do curl -s -o /dev/null -w '%{http_code}\\n' 127.0.0.1:8000/api/items; done
  curl -si -H 'X-API-Key: pro-example' 127.0.0.1:8000/api/items
  time (for i in 1 2 3; do curl -s -H 'X-API-Key: pro-example' 127.0.0.1:8000/api/search & done; wait)
  for i in 1 2 3; do curl -s -o /dev/null -w '%{http_code}\\n' -H 'X-API-Key: pro-example' 127.0.0.1:8000/api/reports/1 & done; wait

rationd shares the counters, so that the command line steers the gateway as well; its workers
hear of it within a second:

  BUILD/ration ban add ip=127.0.0.1 --for 10s; sleep 1
  curl -si 127.0.0.1:8000/

Ctrl-C ends all of it. Logs are in FOLDER.
"""


class Site(http.server.BaseHTTPRequestHandler):
    """Says what it was asked; reports take two seconds."""

    def answer(self):
        if self.path.startswith("/api/reports/"):
            time.sleep(2)
        body = f"{self.command} {self.path}\n".encode()
        with contextlib.suppress(OSError):
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


def stop(*_):
    raise KeyboardInterrupt


def main():
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    build = pathlib.Path(sys.argv[1]).resolve()
    try:
        site = http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Site)
    except OSError as error:
        sys.exit(f"demo: port 3000, where the site must be: {error.strerror}")
    threading.Thread(target=site.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="ration-demo-") as name:
        folder = pathlib.Path(name)
        (folder / "modules").symlink_to(build)
        user = "user root; " if os.geteuid() == 0 else ""
        nginx = ["nginx", "-p", name, "-c", str(HERE / "nginx.conf"), "-g", user + "daemon off;"]
        rationd = [build / "rationd", "--config", HERE / "ration.yaml",
                   "--state", folder / "ration.state"]
        running = [subprocess.Popen(nginx)]
        try:
            while not (folder / "nginx.pid").exists():
                if running[0].poll() is not None:
                    sys.exit("demo: nginx does not start")
                time.sleep(0.05)
            running.append(subprocess.Popen(list(map(str, rationd))))
            print(TEXT.replace("BUILD", sys.argv[1]).replace("FOLDER", name), flush=True)
            signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            for process in running:
                process.terminate()
            for process in running:
                process.wait(20)


main()
