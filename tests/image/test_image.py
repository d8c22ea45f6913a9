# SPDX-License-Identifier: Apache-2.0
"""The container image: made twice, read by skopeo and umoci, run by crun.

`./dev test-image` runs these. They need root, and packages from Debian's mirror. RATION_BUILD names
the build directory.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))
from daemon import BUILD, PATIENCE, Answer, wait_for  # noqa: E402

import http.client  # noqa: E402

SCRIPT = ROOT / "deploy/container/make_image.py"
USER = 65532
RULES = "limits: [{name: login, key: ip, limit: %d per hour}]\n"


def output(*command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    out = tmp_path_factory.mktemp("image") / "out"
    output("/usr/bin/python3", SCRIPT, BUILD, out)
    return out


@pytest.fixture(scope="module")
def unpacked(image):
    bundle = image.parent / "bundle"
    tag = json.loads((image / "oci/index.json").read_text())["manifests"][0]["annotations"]
    output("umoci", "unpack", "--image", f"{image}/oci:{tag['org.opencontainers.image.ref.name']}", bundle)
    return bundle


# --- the image at rest -----------------------------------------------------------------------------


def test_two_runs_give_the_same_bytes(image, tmp_path):
    output("/usr/bin/python3", SCRIPT, BUILD, tmp_path / "again")
    assert (tmp_path / "again/ration.tar").read_bytes() == (image / "ration.tar").read_bytes()


def test_every_blob_has_its_digest_and_the_manifest_names_all(image):
    layout = image / "oci"
    read = lambda one: json.loads((layout / "blobs/sha256" / one["digest"][7:]).read_text())  # noqa: E731
    for blob in (layout / "blobs/sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    index = json.loads((layout / "index.json").read_text())
    manifest = read(index["manifests"][0])
    named = [index["manifests"][0], manifest["config"], *manifest["layers"]]
    assert {one["digest"][7:] for one in named} == {blob.name for blob in (layout / "blobs/sha256").iterdir()}
    assert all((layout / "blobs/sha256" / one["digest"][7:]).stat().st_size == one["size"] for one in named)
    config = read(manifest["config"])["config"]
    assert config["User"] == f"{USER}:{USER}" and config["StopSignal"] == "SIGTERM"
    assert set(config["ExposedPorts"]) == {"8080/tcp", "6380/tcp", "8081/tcp", "8082/tcp"}
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"


@pytest.mark.parametrize("source", ["oci:{}/oci", "oci-archive:{}/ration.tar", "docker-archive:{}/ration.tar"])
def test_skopeo_reads_and_copies_it(image, tmp_path, source):
    source = source.format(image)
    assert json.loads(output("skopeo", "inspect", source))["Os"] == "linux"
    output("skopeo", "--insecure-policy", "copy", source, f"dir:{tmp_path}/copy")


def test_files_are_few_and_none_is_a_shell(unpacked):
    root = unpacked / "rootfs"
    assert sorted(p.name for p in (root / "usr/bin").iterdir()) == ["ration", "rationd"]
    assert not (root / "bin").exists() and not (root / "sbin").exists()
    files = [p for p in root.rglob("*") if p.is_file() and not p.is_symlink()]
    assert not [p for p in files if p.stat().st_mode & 0o6000], "a program with set-user-id"
    size = sum(p.stat().st_size for p in files)
    assert size <= 40e6, f"{size} bytes"
    assert (root / "usr/share/zoneinfo/Europe/Berlin").exists()
    assert (root / "etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") > 100
    state = (root / "var/lib/ration").stat()
    assert (state.st_uid, state.st_gid) == (USER, USER)


def test_a_folder_without_programs_is_refused_in_plain_words(tmp_path):
    done = subprocess.run(["/usr/bin/python3", SCRIPT, tmp_path, tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 1 and "has no rationd; build it first" in done.stderr


# --- the image in a container ----------------------------------------------------------------------


def without_cgroups():
    """crun refuses to start where both versions of cgroups are mounted: hide them from it, in a mount
    namespace of its own."""
    if not pathlib.Path("/sys/fs/cgroup/unified").exists() and not pathlib.Path("/sys/fs/cgroup/cpu").exists():
        return []
    return ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"]


class Container:
    """rationd by crun: as the image's user, without capabilities, on a read-only root. It shares the
    network of the test, so that a loopback address reaches it."""

    def __init__(self, unpacked, folder):
        self.folder, self.name = folder, f"ration-{uuid.uuid4().hex[:12]}"
        self.state, self.config = folder / "state", folder / "config"
        for path in (self.state, self.config):
            path.mkdir()
            path.chmod(0o755)
        os.chown(self.state, USER, USER)
        self.crun = [*without_cgroups(), "crun", "--root", str(folder / "crun"), "--cgroup-manager=disabled"]
        self.spec = self._spec(unpacked)
        (folder / "config.json").write_text(json.dumps(self.spec))

    def _spec(self, unpacked):
        spec = json.loads((unpacked / "config.json").read_text())
        process = spec["process"]
        assert process["user"]["uid"] == USER
        words = process["args"]
        for name in ("http", "resp", "grpc", "admin"):
            words[words.index(f"--{name}") + 1] = "127.0.0.1:0"
        process.update(terminal=False, noNewPrivileges=True, rlimits=[],
                       capabilities={kind: [] for kind in ("bounding", "effective", "permitted", "inheritable")})
        spec["root"] = {"path": str(unpacked / "rootfs"), "readonly": True}
        spec["mounts"] = [m for m in spec["mounts"] if m["destination"] in ("/proc", "/dev")]
        for source, target, mode in ((self.config, "/etc/ration", "ro"), (self.state, "/var/lib/ration", "rw")):
            spec["mounts"].append({"destination": target, "source": str(source), "type": "bind",
                                   "options": ["bind", mode, "nosuid", "nodev", "noexec"]})
        linux = spec["linux"]
        linux["namespaces"] = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        linux.pop("resources", None), linux.pop("cgroupsPath", None)
        return spec

    def put_rules(self, text):
        """As the kubelet updates a ConfigMap: a new folder, then the link ..data is replaced."""
        folder = f"..{uuid.uuid4().hex}"
        (self.config / folder).mkdir(mode=0o755)
        (self.config / folder / "ration.yaml").write_text(text)
        (self.config / "..new").symlink_to(folder)
        (self.config / "..new").rename(self.config / "..data")
        if not (self.config / "ration.yaml").is_symlink():
            (self.config / "ration.yaml").symlink_to("..data/ration.yaml")

    def start(self):
        self.log, self.addresses = [], {}
        self.process = subprocess.Popen([*self.crun, "run", "-b", str(self.folder), self.name], text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        wait_for(lambda: self.addresses or self.process.poll() is not None, "the ready line")
        assert self.addresses, "".join(self.log)
        self.pid = json.loads(output(*self.crun, "state", self.name))["pid"]

    def _read(self):
        for line in self.process.stderr:
            self.log.append(line)
            if line.startswith("rationd: ready"):
                self.addresses = dict(re.findall(r"(http|resp|grpc|admin)=(\S+)", line))

    def logged(self, text):
        return wait_for(lambda: any(text in line for line in self.log), f"{text} in the log")

    def run(self, *words):
        return subprocess.run([*self.crun, "exec", self.name, *words], capture_output=True, text=True, timeout=PATIENCE)

    def check(self, ip):
        host, _, port = self.addresses["http"].rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
        connection.request("POST", "/v1/check", json.dumps({"attributes": {"ip": ip}}))
        status = Answer(connection.getresponse()).status
        connection.close()
        return status

    def stop(self):
        output(*self.crun, "kill", self.name, "TERM")
        status = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stderr.close()
        return status


@pytest.fixture
def container(unpacked, tmp_path):
    made = Container(unpacked, tmp_path)
    made.put_rules(RULES % 3)
    made.start()
    yield made
    if made.process.poll() is None:
        subprocess.run([*made.crun, "delete", "--force", made.name], capture_output=True)
        made.process.wait(PATIENCE)


def test_it_refuses_the_fourth_request_and_ends_cleanly(container):
    assert [container.check("192.0.2.1") for _ in range(4)] == [200, 200, 200, 429]
    assert container.stop() == 0


def test_it_runs_without_rights_on_a_read_only_root(container):
    status = pathlib.Path(f"/proc/{container.pid}/status").read_text()
    assert re.search(rf"^Uid:\s+{USER}\s+{USER}", status, re.M)
    assert re.search(r"^CapEff:\s+0+$", status, re.M) and re.search(r"^NoNewPrivs:\s+1$", status, re.M)
    mounts = [line.split() for line in pathlib.Path(f"/proc/{container.pid}/mountinfo").read_text().splitlines()]
    assert {m[4]: m[5].split(",")[0] for m in mounts}["/"] == "ro"


def test_health_command_says_ready_and_that_nothing_listens(container):
    answer = container.run("/usr/bin/ration", "health", "--admin", container.addresses["admin"])
    assert (answer.returncode, answer.stdout) == (0, "ready\n"), answer.stderr
    assert container.run("/usr/bin/ration", "health", "--admin", "127.0.0.1:1").returncode == 2
    assert container.run("/bin/sh", "-c", "true").returncode != 0


def test_counters_on_the_volume_outlive_the_container(container):
    assert [container.check("192.0.2.1") for _ in range(3)] == [200] * 3
    assert container.stop() == 0
    container.start()
    assert container.check("192.0.2.1") == 429
    assert container.stop() == 0


def test_a_changed_config_map_is_loaded(container):
    for limit in (5, 7):  # the second swap comes after the folder of the first file is watched
        container.put_rules(RULES % limit)
        container.logged("event=rules.reload")
        admitted = wait_for(lambda: [container.check(f"198.51.100.{limit}") for _ in range(limit + 1)].count(200)
                            if count_reloads(container) >= (1 if limit == 5 else 2) else None, "a reload")
        assert admitted == limit
    assert container.stop() == 0


def count_reloads(container):
    return sum("event=rules.reload" in line for line in container.log)
