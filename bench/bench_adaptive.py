#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An adaptive limit in nginx, in front of a small service with a knee, beside fixed limits.

usage: bench_adaptive.py BUILD [--quick] [--svg FILE]

The service works on 16 requests at a time, for 50 ms each; more of them make each other slower. 48 clients
always want more. Printed are the requests served per second and how long they took; --svg draws them.
"""

import asyncio
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from knee import Clients, Service
from measure import free_port, wait_for

BUILD = pathlib.Path(sys.argv[1]).resolve()
QUICK = "--quick" in sys.argv
SVG = pathlib.Path(sys.argv[sys.argv.index("--svg") + 1]) if "--svg" in sys.argv else None
KNEE, SERVICE_TIME, CLIENTS = 16, 0.05, 48
FIXED = (16, 48) if QUICK else (4, 8, 12, 16, 20, 24, 32, 48)
LEARN, SECONDS = (12, 5) if QUICK else (25, 8)


class Nginx:
    def __init__(self, home, limit, upstream):
        self.port = free_port()
        (home / "rules.yaml").write_text(f"limits:\n  - {{name: backend, limit: {limit}}}\n")
        (home / "nginx.conf").write_text(f"""
            load_module {BUILD}/ngx_http_ration_module.so;
            daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/error.log crit;
            {"user root;" if os.geteuid() == 0 else ""}
            events {{ worker_connections 1024; }}
            http {{
              access_log off; keepalive_requests 1000000000;
              client_body_temp_path {home}; proxy_temp_path {home}; fastcgi_temp_path {home};
              uwsgi_temp_path {home}; scgi_temp_path {home};
              ration_rules {home}/rules.yaml; ration_zone 8m;
              upstream service {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 1000000000; }}
              server {{
                listen 127.0.0.1:{self.port};
                location / {{ ration on; proxy_pass http://service; proxy_http_version 1.1;
                              proxy_set_header Connection ""; }}
              }}
            }}""")
        self.process = subprocess.Popen(["nginx", "-p", str(home), "-c", str(home / "nginx.conf")],
                                        stdin=subprocess.DEVNULL)
        wait_for(("127.0.0.1", self.port))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)


async def measure(limit, warm_up=2):
    service = await Service(KNEE, SERVICE_TIME).start()
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        nginx = Nginx(pathlib.Path(folder), limit, service.port)
        clients = Clients(nginx.port, CLIENTS)
        try:
            return await clients.run(warm_up, SECONDS)
        finally:
            nginx.stop()
            service.server.close()
            if clients.unexpected:
                sys.exit(f"bench_adaptive: unexpected answers {clients.unexpected}")


STYLE = """<style>
  text { fill: #24292f; } .back { fill: #ffffff; } .axis { stroke: #57606a; }
  polyline, line { stroke-width: 2; }
  .served { fill: #1f6feb; stroke: #1f6feb; } .latency { fill: #cf222e; stroke: #cf222e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .back { fill: #0d1117; } .axis { stroke: #8b949e; }
    .served { fill: #58a6ff; stroke: #58a6ff; } .latency { fill: #ff7b72; stroke: #ff7b72; }
  }
  text.served, text.latency { stroke: none; } polyline { fill: none; }
</style>
"""


def draw(rows, adaptive):
    """Throughput and latency by the number of places; the adaptive limit as a line across."""
    width, height, left, base = 640, 300, 60, 250
    most, longest = 1.15 * max(r[1] for r in rows), 1.1 * max(r[2] for r in rows)

    def x(places):
        return left + (width - 2 * left) * places / CLIENTS

    def y(share):
        return base - 200 * share

    def curve(name, values):
        points = " ".join(f"{x(r[0]):.0f},{y(v):.0f}" for r, v in zip(rows, values))
        dots = "".join(f'<circle cx="{x(r[0]):.0f}" cy="{y(v):.0f}" r="3"/>'
                       for r, v in zip(rows, values))
        return f'<g class="{name}"><polyline points="{points}"/>{dots}</g>'

    def across(name, share):
        return (f'<line class="{name}" x1="{left}" y1="{y(share):.0f}" x2="{width - left}" y2="{y(share):.0f}" '
                'stroke-dasharray="6 4"/>')

    ticks = "".join(f'<text x="{x(r[0]):.0f}" y="{base + 18}" text-anchor="middle">{r[0]}</text>' for r in rows)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
            f'font-size="12">\n{STYLE}<rect class="back" width="{width}" height="{height}"/>\n'
            f'<line x1="{left}" y1="{base}" x2="{width - left}" y2="{base}" class="axis"/>{ticks}\n'
            f'<text x="{width / 2:.0f}" y="{base + 38}" text-anchor="middle">places of a fixed limit; dashed: '
            'adaptive, 4 to 48</text>\n'
            f'<text x="{left}" y="20" class="served">requests per second (top: {most:.0f})</text>\n'
            f'<text x="{left}" y="38" class="latency">mean latency (top: {1000 * longest:.0f} ms)</text>\n'
            + curve("served", [r[1] / most for r in rows]) + "\n" + across("served", adaptive[0] / most) + "\n"
            + curve("latency", [r[2] / longest for r in rows]) + "\n" + across("latency", adaptive[1] / longest)
            + "\n</svg>\n")


def main():
    rows = []
    print("limit                  requests/s   latency")
    for places in FIXED:
        rate, latency = asyncio.run(measure(f"{places} concurrent"))
        rows.append((places, rate, latency))
        print(f"{places:3d} concurrent         {rate:8.1f}   {1000 * latency:6.1f} ms", flush=True)
    rate, latency = asyncio.run(measure(f"{{concurrent: adaptive, min: 4, max: {CLIENTS}}}", LEARN))
    print(f"adaptive, 4 to {CLIENTS}      {rate:8.1f}   {1000 * latency:6.1f} ms")
    best, worst = max(r[1] for r in rows), min(r[1] for r in rows)
    print(f"adaptive: {100 * rate / best:.0f} % of the best fixed limit, {100 * rate / worst:.0f} % of the worst, "
          f"{latency / SERVICE_TIME:.2f} times the latency without load")
    if SVG:
        SVG.write_text(draw(rows, (rate, latency)))


if __name__ == "__main__":
    main()
