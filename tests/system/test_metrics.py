# SPDX-License-Identifier: Apache-2.0
"""The page of metrics: what it counts, its form, how many series it has; alerts and dashboard."""

import json
import re
import shutil
import subprocess

import pytest

import mmdb_writer as mmdb
from concurrent_clients import post, read_http
from daemon import PATIENCE, ROOT, Daemon, wait_for
from redis_server import RedisServer

RULES = """
limits:
  - name: api
    when: { path: /api }
    key: user
    limit: 5 per day
    algorithm: fixed-window
  - name: soft
    when: { path: /soft }
    key: user
    limit: 4 per day
    algorithm: fixed-window
    soft: 50%
  - name: queue
    when: { path: /queue }
    key: user
    limit: 5 per second queue 5
  - name: line
    when: { path: /line }
    key: user
    limit: 1 per 7 days queue 5
    mode: shadow
  - name: trial
    when: { path: /trial }
    key: user
    limit: 1 per day
    mode: shadow
  - name: login
    when: { path: /login }
    key: user
    limit: 5 per minute
    charge_on: status 401
"""

SAMPLE = re.compile(r'^([a-zA-Z_:]\w*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Page:
    def __init__(self, text):
        self.text, self.types, self.helps, self.samples = text, {}, {}, {}
        for line in text.splitlines():
            if line.startswith("# HELP "):
                _, _, name, self.helps[name] = line.split(" ", 3)
                assert self.helps[name], line
            elif line.startswith("# TYPE "):
                _, _, name, self.types[name] = line.split(" ")
            else:
                name, labels, value = SAMPLE.match(line).groups()
                series = name, tuple(sorted(LABEL.findall(labels or "")))
                assert series not in self.samples, f"twice: {line}"
                self.samples[series] = float(value)

    def family(self, name):
        return name if name in self.types else re.sub("_(bucket|sum|count)$", "", name)

    def labels(self):
        """Family: the names of its labels."""
        found = {name: set() for name in self.types}
        for name, labels in self.samples:
            found[self.family(name)] |= {label for label, _ in labels if label != "le"}
        return found

    def __call__(self, name, **labels):
        return self.samples[name, tuple(sorted(labels.items()))]


def page(d):
    answer = d.admin("GET", "/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Page(answer.text)


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, RULES, options=["--workers", "2"]) as d:
        yield d


def check(d, path, user="ada", **more):
    return d.http("POST", "/v1/check", {"attributes": {"path": path, "user": user}, **more})


def need(program):
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")


def test_decisions_are_counted_in_all_and_by_rule(daemon):
    for _ in range(8):
        check(daemon, "/api")
    check(daemon, "/elsewhere")
    m = page(daemon)
    assert m("ration_decisions_total", decision="allowed") == 6
    assert m("ration_decisions_total", decision="refused") == 3
    assert m("ration_rule_decisions_total", rule="api", decision="allowed") == 5
    assert m("ration_rule_decisions_total", rule="api", decision="refused") == 3
    assert m("ration_rule_near_limit_total", rule="api") == m("ration_near_limit_total") == 1
    assert m("ration_rule_decisions_total", rule="soft", decision="allowed") == 0


def test_admissions_of_an_unlimited_rule_are_counted(tmp_path):
    rules = """
limits:
  - {name: open, when: {path: /open}, key: user, limit: unlimited}
  - name: tiers
    when: {path: /tiers}
    key: user
    limit: {by: tier, free: 1 per hour, gold: unlimited, default: free}
  - {name: given, when: {path: /given}, key: user, limit: 1 per hour}
"""
    with Daemon(tmp_path, rules) as d, d.resp() as redis:
        d.admin("PUT", "/v1/overrides", {"rule": "given", "attributes": {"user": "ada"}, "limit": "unlimited"})
        gold = {"attributes": {"path": "/tiers", "user": "ada", "tier": "gold"}}
        for _ in range(3): # over HTTP alone and in a batch, over RESP, held in reserve
            assert check(d, "/open").status == check(d, "/given").status == 200
            assert d.http("POST", "/v1/check", {"checks": [gold, gold]}).json["results"][1]["allowed"]
            assert redis("RATION.CHECK", "path", "/open", "user", "ada")[1] == 1
            assert d.http("POST", "/v1/reserve", {**gold, "cost": 5}).status == 200
        assert check(d, "/open", peek=True).status == 200 # which is not counted
        m = page(d)
        for rule, count in ("open", 6), ("tiers", 9), ("given", 3):
            assert m("ration_rule_decisions_total", rule=rule, decision="allowed") == count
            assert m("ration_rule_near_limit_total", rule=rule) == 0
        assert m("ration_decisions_total", decision="allowed") == 18
        told = {r["name"]: r["allowed"] for r in d.admin("GET", "/v1/rules").json["rules"]}
        assert told == {"open": 6, "tiers": 9, "given": 3}
        assert d.admin("GET", "/v1/status").json["decisions"]["allowed"] == 18 # as ration top tells it


def test_unusual_decisions_have_counters_of_their_kind(daemon):
    for _ in range(6):
        assert check(daemon, "/soft").status == 200
    for _ in range(3):
        assert check(daemon, "/trial").status == 200
        assert check(daemon, "/line").status == 200
    delays = [check(daemon, "/queue", wait="return").json["delay"] for _ in range(3)]
    with daemon.socket() as s, s.makefile("rb") as file: # one right behind the other
        s.sendall(post("/v1/check", {"attributes": {"path": "/queue", "user": "bob"}, "wait": "hold"}) * 2)
        assert read_http(file)[0] == 200
        held = json.loads(read_http(file)[2])
    m = page(daemon)
    assert m("ration_rule_soft_admissions_total", rule="soft") == 2
    assert m("ration_rule_shadow_refusals_total", rule="trial") == 2
    assert m("ration_shadow_refusals_total") == 2
    assert m("ration_rule_shadow_delays_total", rule="line") == 2
    assert m("ration_shadow_delays_total") == 2
    assert m("ration_rule_delays_total", rule="queue") == sum(d > 0 for d in delays) + (
        "held" in held)
    assert m("ration_held_replies_total") == ("held" in held) == 1


def test_charged_outcomes_are_counted_over_every_protocol(daemon):
    for status in (200, 401, 401):
        charge = check(daemon, "/login").json["charge"]
        daemon.http("POST", "/v1/charge", {"charge": charge, "status": status})
        daemon.http("POST", "/v1/charge", {"charge": charge, "status": status})
    with daemon.resp() as redis:
        reply = redis("RATION.CHECK", "path", "/login", "user", "ada")
        assert redis("RATION.CHARGE", reply[reply.index(b"charge") + 1], 401) == 1
    check(daemon, "/api")
    m = page(daemon)
    assert m("ration_rule_decisions_total", rule="login", decision="allowed") == 4
    assert m("ration_rule_charged_outcomes_total", rule="login") == 3
    assert m("ration_rule_charged_outcomes_total", rule="api") == 0
    assert m("ration_charged_outcomes_total") == 3


def test_counters_outlive_a_reload_that_keeps_the_rule(daemon):
    check(daemon, "/api")
    daemon.file.write_text(RULES.replace("name: soft", "name: other"))
    assert daemon.admin("POST", "/v1/rules/reload").status == 200
    check(daemon, "/api")
    m = page(daemon)
    assert m("ration_rule_decisions_total", rule="api", decision="allowed") == 2
    rules = {dict(labels)["rule"] for _, labels in m.samples if "rule" in dict(labels)}
    assert rules == {"api", "other", "queue", "line", "trial", "login"}
    assert m("ration_rules_version") >= 2 and m("ration_rules") == 6


def test_requests_are_counted_by_protocol(daemon):
    before = page(daemon)
    check(daemon, "/api")
    daemon.http("POST", "/v1/check", "{")
    with daemon.resp() as redis:
        redis("PING")
        redis("RATION.CHECK", "path", "/api", "user", "ada")
    m = page(daemon)

    def more(name, **labels):
        return m(name, **labels) - before(name, **labels)

    assert more("ration_requests_total", protocol="http") == 2
    assert more("ration_bad_requests_total", protocol="http") == 1
    assert more("ration_requests_total", protocol="resp") == 2
    assert more("ration_requests_total", protocol="admin") == 1
    assert more("ration_request_duration_seconds_count", protocol="http") == 2
    assert more("ration_connections_accepted_total", listener="resp") == 1
    assert more("ration_received_bytes_total", listener="http") > 100
    assert m("ration_connections", listener="admin") >= 1


def test_histograms_are_cumulative(daemon):
    for _ in range(20):
        check(daemon, "/api")
    m = page(daemon)
    buckets = sorted((float(dict(labels)["le"]), value) for (name, labels), value in m.samples.items()
                     if name == "ration_request_duration_seconds_bucket" and
                     dict(labels)["protocol"] == "http")
    values = [value for _, value in buckets]
    assert values == sorted(values) and values[-1] == 20 and buckets[-1][0] == float("inf")
    assert 0 < m("ration_request_duration_seconds_sum", protocol="http") < 20 * PATIENCE


def test_changes_by_operators_are_counted(daemon):
    daemon.admin("PUT", "/v1/overrides", {"rule": "api", "attributes": {"user": "eve"},
                                          "limit": "unlimited"})
    daemon.admin("PUT", "/v1/bans", {"attributes": {"user": "mallory"}})
    daemon.admin("PUT", "/v1/shadow", {"shadow": True})
    daemon.admin("PUT", "/v1/rules", "limits: 5")
    daemon.admin("POST", "/v1/rules/reload")
    m = page(daemon)
    assert (m("ration_overrides"), m("ration_bans"), m("ration_shadow_mode")) == (1, 1, 1)
    assert m("ration_rules_reloads_total", source="api", result="failure") == 1
    assert m("ration_rules_reloads_total", source="api", result="success") == 0
    assert m("ration_rules_reloads_total", source="files", result="success") == 1
    assert m("ration_rules_last_reload_successful") == 1


def test_metrics_of_the_process_are_reported(daemon):
    m = page(daemon)
    assert m("ration_build_info", version=daemon.admin("GET", "/v1/status").json["version"]) == 1
    assert m("ration_workers") == 2 and m("process_open_fds") > 5
    assert m("process_resident_memory_bytes") > 1 << 20
    assert m("process_start_time_seconds") > 1e9 and m("process_cpu_seconds_total") >= 0


def test_clients_make_no_series(daemon):
    before = set(page(daemon).samples)
    with daemon.resp() as redis:
        for i in range(300):
            redis("RATION.CHECK", "path", f"/api/{i}", "user", f"u{i}", f"name{i}", "x")
            redis("RATION.TAKE", f"key{i}", f"{i + 1} per minute")
    daemon.http("GET", "/nothing/at/all?x=y")
    assert set(page(daemon).samples) == before


DETAILED = """
domain: shop
descriptors:
  - key: user
    detailed_metric: true
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: client
    descriptors:
      - key: path
        value: /api/*
        value_to_metric: true
        rate_limit: {unit: year, requests_per_unit: 1000000}
  - key: plain
    rate_limit: {unit: year, requests_per_unit: 2}
"""


def ask_envoy(d, **entries):
    pairs = [{"key": key, "value": value} for key, value in entries.items()]
    return d.http("POST", "/json", {"domain": "shop", "descriptors": [{"entries": pairs}]}).status


def test_values_of_descriptors_are_counted_where_a_file_says_so(tmp_path):
    with Daemon(tmp_path, DETAILED) as d:
        for _ in range(3):
            ask_envoy(d, user="ann")
        ask_envoy(d, client="bob", path="/api/x")
        ask_envoy(d, client="cem", path="/api/x")
        ask_envoy(d, plain="ann")
        m = page(d)
        rows = {dict(labels)["descriptor"] for name, labels in m.samples if "_value_" in name}
        assert rows == {"shop.user_ann", "shop.client.path_/api/x"}
        for name in ("decisions", "hits"):
            said = {decision: m(f"ration_rule_value_{name}_total", rule="shop.user",
                                descriptor="shop.user_ann", decision=decision)
                    for decision in ("allowed", "refused")}
            assert said == {"allowed": 2, "refused": 1}
        assert m("ration_rule_value_decisions_total", rule="shop.client.path_/api/*",
                 descriptor="shop.client.path_/api/x", decision="allowed") == 2


def test_hostile_values_make_a_bounded_number_of_series(tmp_path):
    need("promtool")
    with Daemon(tmp_path, DETAILED) as d:
        nasty = ['"', "\\", "\n", "{}", "é" * 500, "x" * 3000, "%00"]
        for i in range(400):
            assert ask_envoy(d, client="c", path=f"/api/{nasty[i % len(nasty)]}{i}") == 200
        m = page(d)
        rows = [dict(labels) for name, labels in m.samples
                if name == "ration_rule_value_decisions_total"]
        assert len(rows) == 2 * 101
        assert all(len(row["descriptor"]) <= 300 for row in rows)
        counted = sum(value for (name, labels), value in m.samples.items()
                      if name == "ration_rule_value_decisions_total")
        assert counted == 400
        assert m("ration_rule_value_decisions_total", rule="shop.client.path_/api/*",
                 descriptor="other", decision="allowed") > 0
        done = subprocess.run(["promtool", "check", "metrics"], input=m.text,
                              capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (0, "")


SIGNALS = """
attributes:
  country: { geo: country, database: country.mmdb }
signals:
  backlog: { source: push }
  db: { source: prometheus, url: "http://127.0.0.1:1", query: up }
"""
FOLLOWED = """
  - name: followed
    when: { path: /followed, country: IT }
    key: user
    limit: 5 per day
    adapt: [{ when: backlog above 10, to: 50%, scope: fleet }, { when: db above 10, to: 50% }]
"""
LEARNT = """
  - { name: backend, when: { path: /backend }, limit: 5 to 50 concurrent }
  - { name: reports, when: { path: /backend }, key: user, limit: 3 to 30 concurrent }
"""


@pytest.fixture
def sharing(tmp_path):
    """A daemon that shares its limits, with a team, a detailed metric, signals and a database, and so has
    all metrics."""
    team = tmp_path / "more/team"
    team.mkdir(parents=True)
    (team / "a.yaml").write_text("limits: []")
    (team.parent / "shop.yaml").write_text(DETAILED)
    mmdb.write(tmp_path / "country.mmdb", {"5.1.0.0/16": mmdb.country("IT")})
    with RedisServer(tmp_path) as server:
        options = ["--redis", server.url, "--config", team.parent]
        with Daemon(tmp_path, SIGNALS + RULES + FOLLOWED + LEARNT, options) as sharing:
            sharing.admin("PUT", "/v1/signals/backlog", {"value": 1})
            wait_for(lambda: "query_failures_total{" in page(sharing).text, "the first question")
            wait_for(lambda: "fleet_factor{" in page(sharing).text, "the first answer about factors")
            check(sharing, "/api")
            check(sharing, "/backend")
            ask_envoy(sharing, user="ann")
            yield sharing


def test_promtool_finds_nothing_to_complain_about(sharing):
    need("promtool")
    done = subprocess.run(["promtool", "check", "metrics"], input=page(sharing).text,
                          capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


def test_learnt_places_are_shown_for_rules_without_a_key(sharing):
    labels = {"rule": "backend", "tier": "", "limit": "5 to 50 concurrent"}
    m = page(sharing)
    assert m("ration_rule_places", **labels) == 5
    assert m("ration_rule_limit", **labels) == 50
    assert [labels for name, labels in m.samples if name == "ration_rule_places"] == [tuple(sorted(labels.items()))]


def test_the_page_of_the_docs_lists_all_metrics(sharing):
    m = page(sharing)
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$",
                      (ROOT / "docs/metrics.md").read_text(), re.M)
    listed = {name: (kind, set(re.findall(r"`(\w+)`", labels)), text)
              for name, kind, labels, text in rows}
    labels = m.labels()
    assert listed == {name: (m.types[name], labels[name], m.helps[name]) for name in m.types}
    assert len(listed) == len(rows)


def test_alerts_are_tested():
    need("promtool")
    done = subprocess.run(["promtool", "test", "rules", "ration.test.yml"], capture_output=True,
                          cwd=ROOT / "deploy/prometheus", text=True, timeout=4 * PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    alerts = set(re.findall(r"alert: (\w+)", (ROOT / "deploy/prometheus/ration.rules.yml").read_text()))
    tested = set(re.findall(r"alertname: (\w+)",
                            (ROOT / "deploy/prometheus/ration.test.yml").read_text()))
    assert alerts == tested


def metrics_named(text):
    return {re.sub("_(bucket|sum|count)$", "", name)
            for name in re.findall(r"\b((?:ration|process)_\w+)", text)}


def test_alerts_and_dashboard_name_metrics_that_exist(sharing):
    known = set(page(sharing).types)
    dashboard = json.loads((ROOT / "deploy/grafana/ration.json").read_text())
    expressions = [t["expr"] for p in dashboard["panels"] for t in p.get("targets", [])]
    expressions += [v["query"]["query"] for v in dashboard["templating"]["list"][1:]]
    named = set().union(*map(metrics_named, expressions))
    assert len(named) > 20 and named <= known, named - known
    rules = (ROOT / "deploy/prometheus/ration.rules.yml").read_text()
    assert metrics_named(rules) <= known, metrics_named(rules) - known


def test_promtool_can_read_what_the_dashboard_asks(tmp_path):
    """As the expressions of rules, with what Grafana puts in for its variables."""
    need("promtool")
    panels = json.loads((ROOT / "deploy/grafana/ration.json").read_text())["panels"]
    expressions = [t["expr"] for p in panels for t in p.get("targets", [])]
    rules = [{"record": f"panel:{n}", "expr": re.sub(r"\$__(rate_)?interval", "5m", e).replace("$job", ".*").replace("$instance", ".*")}
             for n, e in enumerate(expressions)]
    assert len(rules) > 80 and not any("$" in rule["expr"] for rule in rules)
    (tmp_path / "panels.json").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", "panels.json"], capture_output=True, cwd=tmp_path, text=True,
                          timeout=PATIENCE)
    assert done.returncode == 0 and f"{len(rules)} rules found" in done.stdout, done.stdout + done.stderr


def test_the_dashboard_shows_store_leases_nodes_and_signals():
    text = (ROOT / "deploy/grafana/ration.json").read_text()
    for name in ("ration_store_up", "ration_store_breaker_opened_total", "ration_store_fallbacks_total", "ration_leased_keys",
                 "ration_fleet_synced", "ration_signal_stale", "ration_rule_factor"):
        assert name in text, name


def test_panels_of_the_dashboard_have_their_own_place():
    panels = json.loads((ROOT / "deploy/grafana/ration.json").read_text())["panels"]
    assert len({p["id"] for p in panels}) == len(panels)
    taken = set()
    for p in panels:
        at = p["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"])
                 for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, p["title"]
        taken |= cells
