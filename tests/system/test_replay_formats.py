# SPDX-License-Identifier: Apache-2.0
"""`ration replay` reads what real servers log: each serves the same requests, and the rules refuse
the same ones in its log. Formats of services that cannot run here have lines as documented."""

import csv
import gzip
import http.client
import json
import os
import re
import shutil
import subprocess

import pytest

from daemon import PATIENCE, wait_for
from proxies import PROGRAMS, Proxy, Upstream
from ration_command import run

RULES = """
limits:
  - {name: login, when: {method: POST, path: /login}, key: ip, limit: 3 per day, algorithm: fixed-window}
  - {name: keyed, when: {header.x-api-key: {present: true}}, key: header.x-api-key, limit: 2 per day}
  - {name: busy, key: ip, limit: 100 per day, algorithm: fixed-window}
"""


class Logging(Proxy):
    """A server in front of the application whose configuration is written here."""

    logged, key = "access.log", True # its log; whether that has X-Api-Key

    def write(self, name, text):
        (self.folder / name).write_text(text.replace("PORT", str(self.port)).replace("APP", self.ports["3000"])
                                        .replace("FOLDER", str(self.folder)))
        return str(self.folder / name)


class NginxLog(Logging):
    format = "log_format used '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent " \
             "\"$http_referer\" \"$http_user_agent\" $request_time \"$http_x_api_key\"';"
    expected, options = "combined", ("--map", "header.x-api-key=extra2", "--map", "duration=extra1")

    def command(self):
        user = "user root;\n" if os.getuid() == 0 else ""
        temporary = "".join(f"{n}_temp_path FOLDER/{n};\n" for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = f"""{user}daemon off;\npid FOLDER/pid;\nerror_log stderr;\nevents {{}}
http {{ {temporary} {self.format} access_log FOLDER/access.log used;
  server {{ listen 127.0.0.1:PORT; location / {{ proxy_pass http://127.0.0.1:APP; }} }} }}\n"""
        return ["nginx", "-p", str(self.folder), "-c", self.write("nginx.conf", text)]


class NginxCombined(NginxLog):
    format, options, key = "", (), False

    def write(self, name, text):
        return super().write(name, text.replace("access.log used", "access.log combined"))


class NginxJson(NginxLog):
    format = "log_format used escape=json '{\"msec\":\"$msec\",\"remote_addr\":\"$remote_addr\",\"request\":" \
             "\"$request\",\"status\":\"$status\",\"request_time\":\"$request_time\"," \
             "\"http_x_api_key\":\"$http_x_api_key\"}';"
    expected, options = "nginx-json", ()


class CaddyLog(Logging):
    expected, options = "caddy", ()

    def command(self):
        return ["caddy", "run", "--adapter", "caddyfile", "--config", self.write("Caddyfile", """
{
	admin off
	auto_https off
}
:PORT {
	log {
		output file FOLDER/access.log
	}
	reverse_proxy 127.0.0.1:APP
}
""")]


class HaproxyLog(Logging):
    expected, options, logged, key = "haproxy", (), "proxy.log", False

    def command(self):
        return ["haproxy", "-db", "-f", self.write("haproxy.cfg", """
global
    log stdout format raw local0
defaults
    mode http
    log global
    option httplog
    option accept-invalid-http-request
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend site
    bind 127.0.0.1:PORT
    default_backend app
backend app
    server app 127.0.0.1:APP
""")]


class TraefikLog(Logging):
    expected, options = "traefik", ()

    def command(self):
        self.write("site.yml", """
http:
  routers: {all: {rule: "PathPrefix(`/`)", service: app}}
  services: {app: {loadBalancer: {servers: [{url: "http://127.0.0.1:APP"}]}}}
""")
        return ["traefik", "--configFile=" + self.write("traefik.yml", """
entryPoints: {web: {address: "127.0.0.1:PORT", transport: {lifeCycle: {graceTimeOut: 1ms}}}}
providers: {providersThrottleDuration: 1ms, file: {filename: FOLDER/site.yml}}
accessLog: {filePath: FOLDER/access.log, format: json, fields: {headers: {names: {X-Api-Key: keep}}}}
""")]

    def is_listening(self):
        def answers():
            asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            asked.request("GET", "/started")
            return asked.getresponse().status != 404

        return super().is_listening() and wait_for(answers, "Traefik has read its configuration")


class EnvoyLog(Logging):
    expected, options = "envoy", ("--map", "header.x-api-key=api_key")

    def command(self):
        config = {"static_resources": {
            "listeners": [{
                "address": {"socket_address": {"address": "127.0.0.1", "port_value": self.port}},
                "filter_chains": [{"filters": [{
                    "name": "envoy.filters.network.http_connection_manager",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3"
                                 ".HttpConnectionManager",
                        "stat_prefix": "site",
                        "access_log": [{"name": "envoy.access_loggers.file", "typed_config": {
                            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                            "path": str(self.folder / "access.log"),
                            "log_format": {"json_format": {
                                "start_time": "%START_TIME%", "method": "%REQ(:METHOD)%",
                                "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%", "response_code": "%RESPONSE_CODE%",
                                "duration": "%DURATION%", "authority": "%REQ(:AUTHORITY)%",
                                "downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%",
                                "api_key": "%REQ(X-API-KEY)%"}}}}],
                        "route_config": {"virtual_hosts": [{
                            "name": "site", "domains": ["*"],
                            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "app"}}]}]},
                        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {
                            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]}}]}]}],
            "clusters": [{"name": "app", "load_assignment": {"cluster_name": "app", "endpoints": [{"lb_endpoints": [{
                "endpoint": {"address": {"socket_address": {
                    "address": "127.0.0.1", "port_value": int(self.ports["3000"])}}}}]}]}}]}}
        (self.folder / "envoy.json").write_text(json.dumps(config))
        return ["envoy", "-c", str(self.folder / "envoy.json"), "--concurrency", "1", "--disable-hot-restart",
                "--log-level", "error", "--file-flush-interval-msec", "20"]


SERVERS = {"nginx": NginxLog, "nginx combined": NginxCombined, "nginx json": NginxJson, "caddy": CaddyLog,
           "haproxy": HaproxyLog, "traefik": TraefikLog, "envoy": EnvoyLog}


def serve(proxy):
    for _ in range(5):
        assert proxy.ask("POST", "/login?from=here", "127.0.0.2", body="user=ada").status == 200
    for _ in range(2):
        assert proxy.ask("POST", "/login", "127.0.0.3", body="user=ada").status == 200
    for _ in range(3):
        assert proxy.ask("GET", "/api", "127.0.0.4", {"X-Api-Key": "k-1"}).status == 200
    proxy.send(b"\x16\x03\x01 no http\r\n\r\n", "127.0.0.5")
    proxy.ask("GET", "/last", "127.0.0.6")


@pytest.mark.parametrize("name", SERVERS)
def test_the_log_of(tmp_path, name):
    kind, app = SERVERS[name], Upstream()
    if not shutil.which(name.split()[0], path=PROGRAMS):
        pytest.skip(f"{name} is not installed: ./dev deps")
    try:
        proxy = kind(tmp_path, {"3000": str(app.port)})
        log = tmp_path / kind.logged
        try:
            serve(proxy)
            wait_for(lambda: log.exists() and "/last" in log.read_text(errors="replace"), "the last line")
        finally:
            proxy.close()
    finally:
        app.shutdown()
        app.server_close()
    check(tmp_path, log, kind.expected, kind.options, kind.key)


def check(folder, log, expected, options=(), key=True):
    """Two logins of 127.0.0.2 are too many, and the third request with one key."""
    (folder / "replayed.yaml").write_text(RULES)
    done = run("replay", "--rules", folder / "replayed.yaml", "--json", *options, log)
    assert done.status == 0, done
    summary = done.json
    assert [f["format"] for f in summary["logs"]] == [expected], summary
    rules = {rule["rule"]: rule for rule in summary["replayed"]["rules"]}
    assert (rules["login"]["requests"], rules["login"]["refused"]) == (7, 2), summary
    assert (rules["keyed"]["requests"], rules["keyed"]["refused"]) == ((3, 1) if key else (0, 0)), summary
    top = {(c["rule"], c["client"]): c["refused"] for c in summary["replayed"]["top"]}
    assert top == {("login", "127.0.0.2"): 2, **({("keyed", "k-1"): 1} if key else {})}
    if not key:
        assert any("keyed needs header.x-api-key" in note for note in summary["notes"]), summary["notes"]
    return summary


# --- formats of services ------------------------------------------------------------------

REQUESTS = [("POST", "/login?from=here", "127.0.0.2", "-")] * 5 + [("POST", "/login", "127.0.0.3", "-")] * 2 + \
    [("GET", "/api", "127.0.0.4", "k-1")] * 3 + [("GET", "/last", "127.0.0.6", "-")]


def alb_line(number, method, path, ip, key):
    """As in the User Guide for Application Load Balancers, section Access logs."""
    return (f'http 2026-11-19T08:00:{number:02}.186641Z app/my-loadbalancer/50dc6c495c0c9188 {ip}:2817 10.0.0.1:80 '
            f'0.000 0.001 0.000 200 200 34 366 "{method} http://www.example.com:80{path} HTTP/1.1" "curl/7.46.0" - - '
            f'arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 '
            f'"Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2026-11-19T08:00:{number:02}.185000Z '
            f'"forward" "-" "-" "10.0.0.1:80" "200" "-" "-"')


def test_the_log_of_a_load_balancer(tmp_path):
    log = tmp_path / "alb.log.gz"
    log.write_bytes(gzip.compress(("\n".join(alb_line(i, *r) for i, r in enumerate(REQUESTS)) + "\n").encode()))
    summary = check(tmp_path, log, "alb", key=False)
    assert summary["from"] == "2026-11-19T08:00:00Z" and summary["to"] == "2026-11-19T08:00:10Z"


def test_the_common_format_of_apache(tmp_path):
    log = tmp_path / "common.log"
    log.write_text("".join(f'{ip} - ada [19/Nov/2026:09:00:{i:02} +0100] "{method} {path} HTTP/1.1" 200 12\r\n'
                           for i, (method, path, ip, _) in enumerate(REQUESTS)))
    assert check(tmp_path, log, "combined", key=False)["from"] == "2026-11-19T08:00:00Z"
    assert check(tmp_path, log, "apache", ("--format", "apache"), key=False)["logs"][0]["format"] == "apache"


def test_the_server_before_the_address(tmp_path):
    """Apache's vhost_combined, as Debian logs other_vhosts_access.log."""
    log = tmp_path / "other_vhosts_access.log"
    log.write_text("".join(f'www.example.org:443 {ip} - ada [19/Nov/2026:09:00:{i:02} +0100] "{method} {path} HTTP/1.1" 200 12 "-" "curl"\n'
                           for i, (method, path, ip, _) in enumerate(REQUESTS)))
    check(tmp_path, log, "combined", key=False)
    (tmp_path / "rules.yaml").write_text("limits: [{name: a, when: {host: www.example.org}, key: host, limit: 1 per day}]")
    done = run("replay", "--rules", tmp_path / "rules.yaml", "--json", log).json
    assert done["replayed"]["top"][0]["client"] == "www.example.org"


def test_json_with_spaces_is_no_log_of_a_load_balancer(tmp_path):
    log = tmp_path / "requests.jsonl"
    log.write_text("".join(json.dumps({"when": f"2026-11-19T08:00:{i:02}Z", "who": {"addr": ip}, "verb": method, "target": path,
                                       "more": [1, 2, 3, 4, 5, 6]}) + "\n" for i, (method, path, ip, _) in enumerate(REQUESTS)))
    maps = [word for pair in ("time=when", "ip=who.addr", "method=verb", "path=target") for word in ("--map", pair)]
    check(tmp_path, log, "json", maps, key=False)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv(tmp_path, delimiter):
    log = tmp_path / "requests.csv"
    with open(log, "w", newline="") as file:
        rows = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        rows.writerow(["when", "client", "method", "target", "key"])
        rows.writerows([1795075200 + i, ip, method, path, "" if key == "-" else key]
                       for i, (method, path, ip, key) in enumerate(REQUESTS))
    maps = [word for pair in ("time=when", "ip=2", "path=target", "header.x-api-key=key") for word in ("--map", pair)]
    check(tmp_path, log, "csv", maps)


def test_json_lines_with_objects_within(tmp_path):
    log = tmp_path / "requests.jsonl"
    log.write_text("".join(json.dumps({
        "at": {"ms": 1795075200000 + i}, "who": {"addr": ip}, "http": {"verb": method, "target": path},
        "headers": {} if key == "-" else {"X-Api-Key": [key, "other"]}, "note": "\"\u00e9\\"}) + "\n"
        for i, (method, path, ip, key) in enumerate(REQUESTS)))
    maps = [word for pair in ("time=at.ms", "ip=who.addr", "method=http.verb", "path=http.target",
                              "header.x-api-key=headers.x-api-key") for word in ("--map", pair)]
    check(tmp_path, log, "json", maps)


def test_bytes_that_are_not_utf_8_are_read_in_json(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"".join(b'{"time": 179507520%d, "ip": "127.0.0.1", "path": "/a\xff\xc3\xa9"}\n' % i for i in range(3)))
    (tmp_path / "rules.yaml").write_text("limits: [{name: a, key: path, limit: 1 per day}]")
    done = run("replay", "--rules", tmp_path / "rules.yaml", log, "--json").json
    assert done["logs"][0]["requests"] == 3 and done["replayed"]["top"][0]["client"] == "/a_\u00e9"


def test_zstd_and_standard_input(tmp_path):
    plain = "".join(f'{ip} - - [19/Nov/2026:09:00:{i:02} +0100] "{method} {path} HTTP/1.1" 200 12 "-" "curl"\n'
                    for i, (method, path, ip, _) in enumerate(REQUESTS))
    halves = [plain[:300].encode(), plain[300:].encode()] # two frames, as log rotation appends them
    log = tmp_path / "log" # no name tells what is in it
    log.write_bytes(b"".join(subprocess.run(["zstd", "-qc"], input=half, capture_output=True, check=True).stdout
                             for half in halves))
    check(tmp_path, log, "combined", key=False)
    log.write_bytes(b"".join(map(gzip.compress, halves)))
    check(tmp_path, log, "combined", key=False)
    done = run("replay", "--rules", tmp_path / "replayed.yaml", "-", stdin=plain)
    assert done.status == 0 and "2 of 11 requests (18 %) refused" in done.out, done


def test_escapes_in_requests_are_undone(tmp_path):
    """nginx writes quotes as \\x22, Apache as \\"."""
    log = tmp_path / "log"
    for escaped in (r'a\x22b\x5Cc', r'a\"b\\c'):
        log.write_text(f'127.0.0.1 - - [19/Nov/2026:09:00:00 +0100] "GET /{escaped}?x=1 HTTP/1.1" 200 12 "-" "a"\n')
        (tmp_path / "rules.yaml").write_text("limits: [{name: a, key: path, limit: 1 per day, when: {path: {prefix: /a}}}]")
        log.write_text(log.read_text() * 2)
        done = run("replay", "--rules", tmp_path / "rules.yaml", log, "--json").json
        assert done["replayed"]["refused"] == 1
        assert re.fullmatch(r'/a"b[\\/]c(\?x=1)?', done["replayed"]["top"][0]["client"]), done["replayed"]["top"]
