# SPDX-License-Identifier: Apache-2.0
"""Databases of networks: what is looked up, through every way in, and what becomes of files that are
replaced, damaged or missing. Decisions in detail: tests/contract/geography.yaml."""

import contextlib
import ipaddress
import json
import os
import random
import re
import shutil
import subprocess
import threading

import pytest

import mmdb_writer as mmdb
import rls
from daemon import RATIOND, ROOT, Daemon, wait_for
from gateway import Gateway
from ration_command import RATION

NETWORKS = ROOT / "tests" / "rules" / "networks.mmdb"
OPTIONS = ["--memory", "4M", "--workers", 1]
RULES = """
attributes:
  country: {geo: country, of: ip, database: geo.mmdb}
limits:
  - name: api
    key: ip
    limit: {by: country, IT: 100 per 52 weeks, FR: 200 per 52 weeks, default: 10 per 52 weeks}
    algorithm: fixed-window
"""
ITALY = {"5.1.0.0/16": mmdb.country("IT"), "2a00:1::/32": mmdb.country("IT")}
FRANCE = {"5.1.0.0/16": mmdb.country("FR"), "2a00:1::/32": mmdb.country("FR")}


def limit_of(daemon, ip="5.1.0.7"):
    """What a request of this address may have: it tells the country."""
    return daemon.http("POST", "/v1/check", {"attributes": {"ip": ip}, "cost": 0}).json["limit"]


def metric(daemon, name):
    found = re.search(rf"^ration_database_{name}{{database=\"[^\"]*\"}} (\S+)$", daemon.admin("GET", "/metrics").text, re.M)
    return float(found[1])


def start_refused(folder, rules=RULES):
    """What rationd says when it does not start."""
    (folder / "rules.yaml").write_text(rules)
    done = subprocess.run([RATIOND, "--config", "rules.yaml", "--check"], cwd=folder, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    return done.stderr


# --- files ----------------------------------------------------------------------------------


def test_the_example_is_what_the_writer_makes(tmp_path):
    subprocess.run(["/usr/bin/python3", mmdb.__file__, tmp_path / "made"], check=True)
    assert (tmp_path / "made").read_bytes() == NETWORKS.read_bytes()


def looked_up(folder, address):
    """What the rules of `folder` know of an address, by field."""
    done = subprocess.run([RATION, "explain", "--json", "rules.yaml", f"ip={address}"], cwd=folder,
                          capture_output=True, text=True, check=True)
    return {d["attribute"]: d["value"] for d in json.loads(done.stdout).get("derived", [])}


@pytest.mark.skipif(not shutil.which("mmdblookup"), reason="mmdb-bin is not installed")
@pytest.mark.parametrize("version, size", [(4, 24), (4, 28), (6, 24), (6, 28), (6, 32)])
def test_our_reader_finds_what_libmaxminddb_finds(tmp_path, version, size):
    chance = random.Random(version * size)
    networks = {}
    for i in range(300):
        wide = version == 6 and i % 2 == 0
        address = 0x2A << 120 | chance.getrandbits(120) if wide else 5 << 24 | chance.getrandbits(24)
        length = chance.randrange(16, 65) if wide else chance.randrange(9, 33)
        network = ipaddress.ip_network((address, length), strict=False)
        networks[str(network)] = {**mmdb.city(chance.choice(["IT", "FR", "US"]), str(chance.randrange(10, 99))),
                                  **mmdb.asn(chance.randrange(1, 1 << 32), "Org " * chance.randrange(1, 90))}
    mmdb.write(tmp_path / "geo.mmdb", networks, version=version, record_size=size)
    (tmp_path / "rules.yaml").write_text(
        "attributes:\n"
        + "".join(f"  {f}: {{geo: {f}, database: geo.mmdb}}\n" for f in ("country", "region", "asn", "org"))
        + "limits: [{name: a, key: [country, region, asn, org], limit: 1 per minute}]\n")
    found = 0
    for text in chance.sample(sorted(networks), 12):
        network = ipaddress.ip_network(text)
        for address in (network[0], network[-1], network[-1] + 1):
            def ask(*path):
                done = subprocess.run(["mmdblookup", "--file", tmp_path / "geo.mmdb", "--ip", str(address), *path],
                                      capture_output=True, text=True)
                value = re.search(r"\"(.*)\" <utf8|(\d+) <uint", done.stdout)
                return value and (value[1] or value[2])
            ours, country = looked_up(tmp_path, address), ask("country", "iso_code")
            assert ours.get("country") == country, address
            assert ours.get("asn") == ask("autonomous_system_number"), address
            org = ask("autonomous_system_organization")
            assert ours.get("org") == (org and org[:255]), address
            region = ask("subdivisions", "0", "iso_code")
            assert ours.get("region") == (region and f"{country}-{region}"), address
            found += country is not None
    assert found >= 24


def with_data(data):
    """A file with one network, whose record is at the beginning of this data section."""
    return mmdb.make({"5.0.0.0/8": {}}, version=4, data=data)


NESTED = b"\xe1\x41a" * 60000 + b"\x41a"
DAMAGED = {
    "empty": (b"", "it is empty"),
    "text": (b"country,IT\n" * 1000, "it is no MaxMind DB"),
    "only the marker": (mmdb.MARKER, "its metadata is damaged"),
    "metadata that ends early": (mmdb.make(ITALY)[:-5], "its metadata is damaged"),
    "the first half": (mmdb.make(ITALY)[:300], "there is no metadata"),
    "more nodes than bytes": (mmdb.make(ITALY, metadata={"node_count": 4_000_000_000}), "its metadata names 4000000000 nodes, more than the file has"),
    "a record size that is wrong": (mmdb.make(ITALY, metadata={"record_size": mmdb.U16(25)}), "its records have 25 bits"),
    "a record size that is too large": (mmdb.make(ITALY, metadata={"record_size": mmdb.U16(32)}), "more than the file has"),
    "another version": (mmdb.make(ITALY, metadata={"binary_format_major_version": mmdb.U16(3)}), "its format has version 3"),
    "another IP": (mmdb.make(ITALY, metadata={"ip_version": mmdb.U16(5)}), "it is for IP version 5"),
    "no node count": (mmdb.make(ITALY, metadata={"node_count": "many"}), "its metadata is damaged"),
    "fewer nodes than there are": (mmdb.make(ITALY, metadata={"node_count": 3}), "of its data is damaged"),
    "no data": (with_data(b""), "its search tree points outside of its data"),
    "a pointer to itself": (with_data(b"\x20\x00"), "the record at byte 0 of its data is damaged"),
    "a map that has itself": (with_data(b"\xe1\x47country\x20\x00" + bytes(9)), "no network in it has a country"),
    "a pointer beyond the end": (with_data(b"\xe1\x47country\x3f\xff\xff\xff\xff"), "is damaged"),
    "maps in maps in maps": (with_data(NESTED), "no network in it has a country"),
    "a map with too many items": (with_data(b"\xff\xff\xff\xff"), "is damaged"),
    "another kind of database": (mmdb.make({"5.0.0.0/8": mmdb.asn(5, "x")}, title="GeoLite2-ASN"), "no network in it has a country (it is a GeoLite2-ASN)"),
    "no networks": (mmdb.make({}), "no network in it has a country"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_an_error_at_start(tmp_path, name):
    content, problem = DAMAGED[name]
    (tmp_path / "geo.mmdb").write_bytes(content)
    report = start_refused(tmp_path)
    assert report.startswith("rules.yaml:3:45: error: cannot use \"geo.mmdb\": "), report
    assert problem in report and "give the path of a MaxMind DB (.mmdb) with a country for each network" in report


def test_a_missing_file_is_an_error_at_start(tmp_path):
    assert 'cannot use "geo.mmdb": No such file or directory' in start_refused(tmp_path)
    os.mkfifo(tmp_path / "geo.mmdb")
    assert "it is a FIFO, not a regular file" in start_refused(tmp_path)


def test_teams_use_databases_of_the_root_and_name_none(tmp_path):
    rules = tmp_path / "rules"
    (rules / "web").mkdir(parents=True)
    mmdb.write(tmp_path / "geo.mmdb", ITALY)
    (rules / "root.yaml").write_text("attributes: {country: {geo: country, database: ../geo.mmdb}}\n")
    team = rules / "web" / "web.yaml"
    team.write_text("limits: [{name: a, key: country, limit: 5 per minute}]\n")
    lint = subprocess.run([RATION, "lint", "rules"], cwd=tmp_path, capture_output=True, text=True)
    assert lint.returncode == 0, lint.stdout
    team.write_text("attributes: {land: {geo: country, database: ../../geo.mmdb}}\n"
                    "limits: [{name: a, key: land, limit: 5 per minute}]\n")
    lint = subprocess.run([RATION, "lint", "rules"], cwd=tmp_path, capture_output=True, text=True)
    assert lint.returncode == 2 and "only files at the root may name databases" in lint.stdout


# --- changes --------------------------------------------------------------------------------


def test_a_file_that_is_replaced_is_loaded(tmp_path):
    mmdb.write(tmp_path / "geo.mmdb", ITALY)
    with Daemon(tmp_path, RULES, OPTIONS) as daemon:
        assert (limit_of(daemon), limit_of(daemon, "2a00:1::1"), limit_of(daemon, "9.9.9.9")) == (100, 100, 10)
        assert (metric(daemon, "loads_total"), metric(daemon, "current")) == (1, 1)
        assert metric(daemon, "built_timestamp_seconds") == 1_700_000_000
        mmdb.write(tmp_path / "geo.mmdb", FRANCE, metadata={"build_epoch": mmdb.U64(1_800_000_000)})
        wait_for(lambda: limit_of(daemon) == 200, "the new database")
        line = daemon.logged("database.loaded")
        assert "geo.mmdb" in line and "networks=2" in line
        assert metric(daemon, "loads_total") == 2
        assert metric(daemon, "built_timestamp_seconds") == 1_800_000_000
        assert daemon.admin("GET", "/v1/rules").json["version"] == 1  # the rules are the same


def test_a_file_that_is_rewritten_in_place_is_loaded(tmp_path):
    mmdb.write(tmp_path / "geo.mmdb", ITALY)
    with Daemon(tmp_path, RULES, OPTIONS) as daemon:
        assert limit_of(daemon) == 100
        (tmp_path / "geo.mmdb").write_bytes(mmdb.make(FRANCE))
        wait_for(lambda: limit_of(daemon) == 200, "the new database")


def test_a_change_without_a_new_time_is_noticed(tmp_path):
    """Of the same size, in the same moment: only the bytes tell."""
    file = tmp_path / "geo.mmdb"
    mmdb.write(file, ITALY)
    with Daemon(tmp_path, RULES, OPTIONS) as daemon:
        before = file.stat()
        with open(file, "r+b") as f:
            f.write(mmdb.make(FRANCE))
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert file.stat().st_size == before.st_size
        wait_for(lambda: limit_of(daemon) == 200, "the new database")


def test_a_damaged_or_missing_file_leaves_the_former_one_in_use(tmp_path):
    file = tmp_path / "geo.mmdb"
    mmdb.write(file, ITALY)
    with Daemon(tmp_path, RULES, OPTIONS) as daemon:
        os.truncate(file, 100)  # in place: a mapping of it would be gone
        assert "no metadata" in daemon.logged("database.refused")
        assert limit_of(daemon) == 100
        assert (metric(daemon, "current"), metric(daemon, "failures_total")) == (0, 1)
        file.unlink()
        daemon.logged("database.refused", "No such file or directory")
        assert (limit_of(daemon), metric(daemon, "failures_total")) == (100, 2)
        mmdb.write(file, {"5.0.0.0/8": mmdb.asn(5, "x")}, title="Test-ASN")
        daemon.logged("database.refused", "has a country")
        # Rules may be changed meanwhile.
        daemon.file.write_text(RULES.replace("IT: 100", "IT: 300"))
        wait_for(lambda: limit_of(daemon) == 300, "the new rules")
        assert "stays in use" in daemon.logged("rules.", "cannot use")
        mmdb.write(file, FRANCE)
        wait_for(lambda: limit_of(daemon) == 200, "the new database")
        assert (metric(daemon, "current"), limit_of(daemon)) == (1, 200)


def test_a_huge_file_that_is_no_database_is_not_read(tmp_path):
    file = tmp_path / "geo.mmdb"
    mmdb.write(file, ITALY)
    with Daemon(tmp_path, RULES, OPTIONS) as daemon:
        os.truncate(file, 3 << 30)  # zeros that take no room on the disk
        assert "no metadata" in daemon.logged("database.refused")
        status = open(f"/proc/{daemon.process.pid}/status").read()
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
        assert peak < 1 << 20, "less than 1 GiB"
        assert limit_of(daemon) == 100


def test_files_are_replaced_torn_and_truncated_under_load(tmp_path):
    """Every decision is by one of the good files, and none fails."""
    file = tmp_path / "geo.mmdb"
    mmdb.write(file, ITALY)
    seen, stop = set(), threading.Event()
    with Daemon(tmp_path, RULES, [*OPTIONS[:2], "--workers", 2]) as daemon:
        def ask():
            with daemon.resp() as redis:
                while not stop.is_set():
                    answer = redis("RATION.CHECK", "ip", "5.1.0.7", "COST", "0")
                    seen.add(dict(zip(answer[::2], answer[1::2]))[b"limit"])
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for i in range(4):
                good = mmdb.make(FRANCE if i % 2 == 0 else ITALY)
                file.write_bytes(good[:len(good) // 2])
                os.truncate(file, 10)
                mmdb.replace(file, good[:-1])
                mmdb.replace(file, good)
                wait_for(lambda: limit_of(daemon) == (200 if i % 2 == 0 else 100), "the new database")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert seen == {100, 200}


def test_a_file_is_loaded_once_however_many_attributes_use_it(tmp_path):
    shutil.copy(NETWORKS, tmp_path / "geo.mmdb")
    fields = ("country", "continent", "region", "asn", "org")
    rules = ("attributes:\n" + "".join(f"  {f}: {{geo: {f}, database: geo.mmdb}}\n" for f in fields)
             + f"limits: [{{name: a, key: [{', '.join(fields)}], limit: 5 per minute}}]\n")
    with Daemon(tmp_path, rules, OPTIONS) as daemon:
        assert metric(daemon, "loads_total") == 1
        daemon.file.write_text(rules.replace("5 per", "6 per"))
        wait_for(lambda: limit_of(daemon) == 6, "the new rules")
        assert metric(daemon, "loads_total") == 1


# --- ways in --------------------------------------------------------------------------------


def test_explain_shows_what_was_looked_up(tmp_path):
    shutil.copy(NETWORKS, tmp_path / "geo.mmdb")
    with Daemon(tmp_path, RULES, OPTIONS) as daemon:
        told = daemon.admin("POST", "/v1/explain", {"attributes": {"ip": "::ffff:5.1.0.7"}}).json
        [country] = [d for d in told["derived"] if d["attribute"] == "country"]
        assert country == {"attribute": "country", "value": "IT", "geo": "country", "of": "5.1.0.7",
                           "database": str(tmp_path / "geo.mmdb")}
        assert told["rules"][0]["tier"] == "IT"
    shown = subprocess.run([RATION, "explain", "rules.yaml", "ip=5.1.0.7"], cwd=tmp_path, capture_output=True,
                           text=True, check=True).stdout
    assert 'country "IT"  from database geo.mmdb' in shown


def test_forward_auth_and_proxies_that_are_trusted(tmp_path):
    shutil.copy(NETWORKS, tmp_path / "geo.mmdb")
    rules = RULES.replace("attributes:", "attributes:\n  ip: {trusted_proxies: [127.0.0.0/8]}")
    with Daemon(tmp_path, rules, OPTIONS) as daemon:
        def limit(client):
            answer = daemon.http("GET", "/v1/auth", headers={"X-Forwarded-For": client, "X-Forwarded-Uri": "/"})
            return int(answer.headers["X-RateLimit-Limit"])
        assert [limit("5.1.0.7"), limit("5.2.0.7"), limit("10.0.0.1"), limit("2a00:1::5")] == [100, 200, 10, 100]


def test_native_rules_for_envoy(tmp_path):
    shutil.copy(NETWORKS, tmp_path / "geo.mmdb")
    options = [*OPTIONS, "--grpc", "127.0.0.1:0", "--resp", "none"]
    with Daemon(tmp_path, "apply_to_envoy: true\n" + RULES, options) as daemon, \
            rls.Client(daemon.addresses["grpc"]) as client:
        def limit(ip):
            return client.ask("shop", {"ip": ip}).statuses[0].limit_remaining + 1
        assert [limit("5.1.0.7"), limit("5.2.0.7"), limit("9.9.9.9")] == [100, 200, 10]


def test_bans_by_country(tmp_path):
    shutil.copy(NETWORKS, tmp_path / "geo.mmdb")
    with Daemon(tmp_path, RULES, OPTIONS) as daemon:
        assert daemon.admin("PUT", "/v1/bans", {"attributes": {"country": "FR"}, "reason": "x"}).status in (200, 201)

        def status(ip):
            return daemon.http("POST", "/v1/check", {"attributes": {"ip": ip}}).status
        assert [status("5.2.0.1"), status("5.1.0.1"), status("9.9.9.9")] == [429, 200, 200]


def test_workers_of_nginx_load_a_file_that_changes(tmp_path):
    mmdb.write(tmp_path / "geo.mmdb", {"5.1.0.0/16": mmdb.country("IT")})
    rules = RULES.replace("of: ip", "of: header.x-client").replace("key: ip", "key: header.x-client")
    g = Gateway(tmp_path, rules, "ration on; location / { empty_gif; }", workers=2)
    g.start()
    with contextlib.closing(contextlib.ExitStack()) as stack:
        stack.callback(g.stop)

        def limit():
            return int(g.ask("/", X_Client="5.1.0.7")[1]["X-RateLimit-Limit"])
        assert {limit() for _ in range(8)} == {100}
        mmdb.write(tmp_path / "geo.mmdb", {"5.1.0.0/16": mmdb.country("FR")})
        g.wait_for_log("ration: loaded", "error", count=2)
        wait_for(lambda: {limit() for _ in range(8)} == {200}, "the new database in each worker")
        os.truncate(tmp_path / "geo.mmdb", 50)
        g.wait_for_log("what was loaded from it before stays in use", "error", count=2)
        assert {limit() for _ in range(8)} == {200}
        assert g.test()[0] != 0  # another nginx would not start
        g.reload()
        wait_for(lambda: limit() == 200, "the master has the former one")


def test_lookups_need_a_rule(tmp_path):
    """A rule that its path excludes does not look up: the address is not even read."""
    shutil.copy(NETWORKS, tmp_path / "geo.mmdb")
    rules = RULES.replace("    key: ip\n", "    when: {path: /geo/**, country: [IT, FR]}\n    key: ip\n")
    with Daemon(tmp_path, rules, OPTIONS) as daemon:
        def ask(path, ip):
            return daemon.http("POST", "/v1/check", {"attributes": {"ip": ip, "path": path}, "cost": 0}).json
        assert ask("/other", "5.1.0.7")["rule"] is None
        assert ask("/geo/x", "5.1.0.7")["limit"] == 100
        assert ask("/geo/x", "8.8.8.8")["rule"] is None
