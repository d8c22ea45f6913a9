# SPDX-License-Identifier: Apache-2.0
"""Roots of Debian releases, made by mmdebstrap from the package sources of this machine, and commands in them."""

import os
import pathlib
import re
import shutil
import subprocess

SUITES = ("bookworm", "trixie")
# What a machine needs to boot, and in_machine.py to run.
PACKAGES = "systemd-sysv,linux-image-cloud-%s,initramfs-tools,python3-minimal,libpython3-stdlib,ca-certificates"
SOURCES = ("/etc/apt/sources.list", "/etc/apt/sources.list.d")


def output(*command, **more):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", timeout=3600, **more)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n" + done.stdout[-6000:]
    return done.stdout


def sources_for(suite, folder):
    """The sources of this machine that name its release, with the other release in its place."""
    own = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(), re.M).group(1)
    found = []
    for place in map(pathlib.Path, SOURCES):
        for file in sorted(place.iterdir()) if place.is_dir() else [place] if place.exists() else []:
            text = file.read_text()
            if file.suffix in (".list", ".sources") and own in re.sub(r"(?m)^\s*#.*", "", text):
                found.append(folder / f"{suite}-{file.name}")
                found[-1].write_text(text.replace(own, suite))
    assert found, f"no file in {' or '.join(SOURCES)} names {own}"
    return found


def base(suite, folder):
    """A tar archive of the release. It is made once."""
    archive = folder / f"{suite}.tar"
    if not archive.exists():
        architecture = output("dpkg", "--print-architecture").strip()
        output("mmdebstrap", "--variant=apt", "--include=" + PACKAGES % architecture, suite, archive.with_suffix(".new"),
               *sources_for(suite, folder), "--format=tar")
        archive.with_suffix(".new").rename(archive)
    return archive


class Root:
    """A folder with a root of its own. Commands run as root there, in namespaces that end with them."""

    def __init__(self, archive, folder):
        self.path = folder
        folder.mkdir(parents=True)
        output("tar", "-x", "-f", archive, "-C", folder)
        shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
        (folder / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")  # nothing is started in here
        (folder / "usr/sbin/policy-rc.d").chmod(0o755)

    def command(self, *words):
        enter = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", enter, str(self.path), *map(str, words)]

    def run(self, *words, **env):
        return output(*self.command(*words), env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                                                  "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **env})

    def install(self, *packages):
        self.run("apt-get", "update", "-q")
        self.run("apt-get", "install", "-q", "-y", "--no-install-recommends", *packages)
