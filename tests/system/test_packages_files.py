# SPDX-License-Identifier: Apache-2.0
"""The files that Debian packages are made of agree with the tree. `./dev test-packages` makes and installs them."""

import re
import shutil
import subprocess

import pytest

from daemon import RATIOND, ROOT

DEBIAN = ROOT / "debian"
NAMES = ("http", "resp", "grpc", "admin")


def test_version_is_that_of_the_tree():
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)
    assert re.match(r"ration \(([^)]+)\)", (DEBIAN / "changelog").read_text()).group(1) == version


def test_every_exported_function_is_in_the_list_of_symbols():
    exported = re.findall(r"^\s+(ration_\w+);", (ROOT / "src/libration.map").read_text(), re.M)
    listed = re.findall(r"^ (ration_\w+)@RATION_0 ", (DEBIAN / "libration0.symbols").read_text(), re.M)
    assert sorted(exported) == listed and len(set(listed)) == len(listed) > 50


def test_each_package_has_its_list_of_files():
    packages = re.findall(r"^Package: (\S+)", (DEBIAN / "control").read_text(), re.M)
    assert sorted(packages) == ["libnginx-mod-http-ration", "libration-dev", "libration0", "ration", "rationd"]
    assert all((DEBIAN / f"{name}.install").exists() for name in packages)


def test_all_pages_and_pictures_are_installed():
    listed = (DEBIAN / "rationd.docs").read_text().split()
    installed = {path for pattern in listed for found in ROOT.glob(pattern) for path in (found, *found.rglob("*"))}
    assert [path for path in sorted((ROOT / "docs").rglob("*")) if path.is_file() and path not in installed] == []


def test_rules_that_are_installed_are_in_order():
    assert "deploy/ration.yaml etc/ration" in (DEBIAN / "rationd.install").read_text()
    done = subprocess.run([RATIOND, "--check", "--config", ROOT / "deploy/ration.yaml"], capture_output=True, text=True)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr


def test_sockets_listen_where_rationd_would():
    text = subprocess.run([RATIOND, "--help"], capture_output=True, text=True, check=True).stdout
    for name in NAMES:
        unit = (DEBIAN / f"rationd.rationd-{name}.socket").read_text()
        default = re.search(rf"--{name} ADDR .*\((.*)\)", text).group(1)
        assert f"\nListenStream={default}\n" in unit and f"\nFileDescriptorName={name}\n" in unit


@pytest.fixture
def units(tmp_path):
    """The units under the names that they are installed by, with a program that is there."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is missing")
    for name in NAMES:
        shutil.copy(DEBIAN / f"rationd.rationd-{name}.socket", tmp_path / f"rationd-{name}.socket")
    text = (DEBIAN / "rationd.service").read_text()
    (tmp_path / "rationd.service").write_text(text.replace("/usr/bin/rationd", str(RATIOND)).replace(
        "Documentation=file:///usr/share/doc/rationd/", f"Documentation=file://{ROOT}/docs/"))
    return tmp_path


def test_systemd_takes_the_units_without_a_warning(units):
    paths = [units / "rationd.service", *(units / f"rationd-{name}.socket" for name in NAMES)]
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *paths],
                          capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if str(units) in line or "rationd" in line]
    assert done.returncode == 0 and not said, done.stderr


def test_service_is_confined(units):
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=15", "--no-pager",
                           units / "rationd.service"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout.splitlines()[-1]


def test_a_purge_does_not_fail_where_the_state_has_a_disk_of_its_own(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "rules").mkdir()
    script = (DEBIAN / "rationd.postrm").read_text().replace("/var/lib/ration", f"{tmp_path}/state")
    (tmp_path / "postrm").write_text(script.replace("/etc/ration", f"{tmp_path}/rules"))
    mounted = ["unshare", "-rm", "sh", "-ec",
               'mount -t tmpfs none "$1/state"; touch "$1/state/ration.state"; shift; exec sh -c "$1" sh "$2"',
               "sh", str(tmp_path)]
    if subprocess.run([*mounted, "true", ""], capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
    done = subprocess.run([*mounted, 'sh "$1/postrm" purge && test ! -e "$1/rules" && test -z "$(ls -A "$1/state")"',
                           str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
