# SPDX-License-Identifier: Apache-2.0
"""Debian packages: made, looked at, installed, upgraded under load, removed and purged, in clean roots of
Debian 12 and 13.

`./dev test-packages` runs these. They need root, and packages from Debian's mirrors. RATION_TREE is a clean
export of the tree; roots are kept beside it for the next time.
"""

import functools
import http.client
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))
import in_machine  # noqa: E402
import machine  # noqa: E402
from daemon import free_port, wait_for  # noqa: E402
from roots import SUITES, Root, base  # noqa: E402

TREE = pathlib.Path(os.environ["RATION_TREE"])
PROGRAMS = ("rationd", "ration")


class Packages:
    """The root that they were made in, and folders of this release: `old`, `again` and `new`."""

    def __init__(self, suite, folder):
        self.suite, self.folder = suite, folder
        self.base = base(suite, TREE.parent)
        self.root = Root(self.base, folder / "builder")
        self.root.run("apt-get", "update", "-q")
        self.old = self.make("first", "old")
        changelog = self.root.path / "build/first/ration/debian/changelog"
        text = changelog.read_text()
        changelog.write_text(re.sub(r"\((\S+)\)", r"(\1+newer)", text, count=1))
        self.new = self.make("first", "new", "-nc")

    @functools.cached_property
    def again(self):
        return self.make("elsewhere/and/deeper", "again")

    def make(self, place, name, *options):
        """Makes all packages of a copy of the tree."""
        place = pathlib.Path("build") / place
        tree = self.root.path / place / "ration"
        if not tree.exists():
            shutil.copytree(TREE, tree, symlinks=True)
        self.root.run("apt-get", "build-dep", "-q", "-y", "--no-install-recommends", f"/{place}/ration")
        self.root.run("sh", "-c", 'cd "$1" && shift && dpkg-buildpackage -us -uc -b "$@"', "sh", f"/{place}/ration", *options,
                      DEB_BUILD_OPTIONS=f"nocheck parallel={os.cpu_count()}")
        made = self.folder / name
        made.mkdir()
        for file in tree.parent.glob("*"):
            if file.is_file():
                shutil.move(file, made)
        return made

    def deb(self, folder, name):
        return next(folder.glob(f"{name}_*.deb"))


@pytest.fixture(scope="module", params=SUITES)
def packages(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    yield Packages(request.param, folder)
    shutil.rmtree(folder)


def test_two_builds_in_different_folders_give_the_same_bytes(packages):
    names = sorted(deb.name for deb in packages.old.glob("*.deb"))
    assert names == sorted(deb.name for deb in packages.again.glob("*.deb")) and len(names) == 9
    different = [n for n in names if (packages.old / n).read_bytes() != (packages.again / n).read_bytes()]
    assert not different


def test_lintian_has_nothing_to_say(packages):
    packages.root.install("lintian")
    shutil.copytree(packages.old, packages.root.path / "old")
    changes = next(packages.old.glob("*.changes")).name
    said = packages.root.run("lintian", "--allow-root", "--fail-on", "error,warning", f"/old/{changes}")
    assert not re.search(r"^[EW]:", said, re.M), said


def test_programs_are_hardened(packages):
    unpacked = packages.folder / "unpacked"
    for name in ("rationd", "ration", "libration0", "libnginx-mod-http-ration"):
        subprocess.run(["dpkg-deb", "--extract", packages.deb(packages.old, name), unpacked], check=True)
    programs = [p for p in unpacked.rglob("*") if p.is_file() and not p.is_symlink() and p.read_bytes()[:4] == b"\x7fELF"]
    assert len(programs) == 4
    for program in programs:
        said = subprocess.run(["readelf", "-lhdW", program], capture_output=True, text=True, check=True).stdout
        assert "DYN (" in said and "GNU_RELRO" in said and "BIND_NOW" in said and "GNU_STACK" in said, program
        assert not re.search(r"GNU_STACK.* RWE ", said), program
        assert "SHSTK" not in subprocess.run(["readelf", "-nW", program], capture_output=True, text=True).stdout, \
            f"{program} asks for a shadow stack, on which fibers cannot switch"
        symbols = subprocess.run(["readelf", "--dyn-syms", "-W", program], capture_output=True, text=True).stdout
        assert "__stack_chk_fail" in symbols and re.search(r"__\w+_chk\b", symbols), program


def test_a_program_is_compiled_and_linked_with_the_library(packages):
    root = packages.root
    shutil.copytree(packages.new, root.path / "new")
    root.install(*(f"/new/{packages.deb(packages.new, name).name}" for name in ("libration0", "libration-dev")), "pkgconf")
    (root.path / "new/use.c").write_text(
        '#include <ration/ration.h>\n#include <stdio.h>\n'
        'int main(void) { printf("%s\\n", ration_version()); return 0; }\n')
    version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)
    for more in ("", "--static"):
        root.run("sh", "-c", f"cd /new && gcc use.c -o use $(pkg-config --cflags --libs {more} ration)")
        assert root.run("/new/use").strip() == version
    assert root.run("pkg-config", "--modversion", "ration").strip() == version


def test_nginx_loads_the_module_and_refuses(packages):
    root, port = Root(packages.base, packages.folder / "nginx"), free_port()
    shutil.copytree(packages.new, root.path / "new")
    root.install("nginx", "/new/" + packages.deb(packages.new, "libnginx-mod-http-ration").name)
    (root.path / "etc/ration.yaml").write_text("limits: [{name: few, key: ip, limit: 2 per hour}]\n")
    (root.path / "etc/nginx/sites-enabled/default").unlink()
    (root.path / "etc/nginx/conf.d/ration.conf").write_text(
        "ration_zone 16m state=/var/lib/nginx/ration;\nration_rules /etc/ration.yaml;\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ ration on; try_files /none =204; }} }}\n")
    root.run("nginx", "-t")
    nginx = subprocess.Popen(root.command("nginx", "-g", "daemon off;"), stdin=subprocess.DEVNULL)
    try:
        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                connection.request("GET", "/")
                return connection.getresponse().status
            except ConnectionRefusedError:
                return None
            finally:
                connection.close()

        assert [wait_for(ask, "nginx"), ask(), ask()] == [204, 204, 429]
    finally:
        nginx.kill()  # unshare does not mind SIGTERM; what it has started ends with it
        nginx.wait(60)


def test_a_clean_root_refuses_soon_after_the_installation(packages, capsys):
    """The machine below has an emulated processor. This is how long it takes with a real one."""
    root, port = Root(packages.base, packages.folder / "clean"), free_port()
    install = install_programs(packages, root)
    daemon = ["setpriv", "--reuid", "ration", "--regid", "ration", "--clear-groups", "rationd", "--config", "/etc/ration/ration.yaml",
              "--http", f"127.0.0.1:{port}", "--resp", "none", "--grpc", "none", "--admin", "none", "--state", "none"]
    begun = time.monotonic()
    root.run(*install)
    installed = time.monotonic()
    rationd = subprocess.Popen(root.command(*daemon), stdin=subprocess.DEVNULL)
    try:
        ask = {"attributes": {"ip": "192.0.2.7"}, "cost": 100}
        wait_for(lambda: in_machine.is_open(port) and in_machine.http("/v1/check", ask, port)[0] == 429, "a 429")
        print_figure(packages, capsys, f"{time.monotonic() - begun:.1f} s from apt install to the first 429, "
                                       f"{installed - begun:.1f} s of them apt's, on the real processor")
    finally:
        rationd.kill()
        rationd.wait(60)


def install_programs(packages, root):
    """Puts the packages and what they depend on into the root, and returns the command that installs them without a network."""
    for version in ("old", "new"):
        (root.path / "debs" / version).mkdir(parents=True)
        for name in PROGRAMS:
            shutil.copy(packages.deb(getattr(packages, version), name), root.path / "debs" / version)
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends",
               *(f"/debs/old/{packages.deb(packages.old, name).name}" for name in PROGRAMS)]
    root.run("apt-get", "update", "-q")
    root.run(*install, "--download-only")
    return install


def print_figure(packages, capsys, text):
    with capsys.disabled():
        print(f"\n{packages.suite}: {text}")


def test_a_machine_installs_upgrades_reboots_and_purges(packages, capsys):
    """See in_machine.py, whose functions are the tests."""
    root = Root(packages.base, packages.folder / "machine")
    install_programs(packages, root)
    (root.path / "usr/sbin/policy-rc.d").unlink()
    machine.prepare(root.path)
    passed, said = machine.boot(root.path, packages.folder)
    for line in said:
        if line.startswith(in_machine.FIGURE):
            print_figure(packages, capsys, line.removeprefix(in_machine.FIGURE))
    wanted = [test.__name__.replace("_", " ") for test in in_machine.FIRST + in_machine.SECOND]
    assert [name for name in wanted if name not in passed] == ["state is kept over a reboot"], "\n".join(said)
    assert "done" in said, "\n".join(said)
