# SPDX-License-Identifier: Apache-2.0
"""gcc and clang of Debian 13: warnings are errors, and the unit tests.

Those of Debian 12 are what ./dev test uses there. The root is one of its own, in which
nothing of this machine is used but its kernel. The module for nginx is built, too,
and llhttp is Debian's library of version 9.
"""

import debian

TOOLS = ["gcc", "clang", "meson", "ninja-build", "pkg-config", "libc6-dev", "python3", "tzdata",
         "libcmocka-dev", "libhiredis-dev", "libjansson-dev", "libllhttp-dev", "libnghttp2-dev",
         "libprotobuf-c-dev", "libsqlite3-dev", "libssl-dev", "libuv1-dev", "libyaml-dev",
         "nginx-dev", "protobuf-c-compiler", "scdoc"]
RELEASE = "trixie"


def inside(bench, root, *command):
    """In the root; the tree is at its own address there. Mounts go with the process."""
    script = ('mount --bind "$1" "$2$1" && mount -t proc proc "$2/proc" && '
              'mount --rbind /dev "$2/dev" && root=$2 tree=$1 && shift 2 && '
              'exec chroot "$root" env -C "$tree" "$@"')
    (root / str(bench.root).lstrip("/")).mkdir(parents=True, exist_ok=True)
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
            bench.root, root, *command]


def build(bench, root, into, compiler):
    if not (into / "build.ninja").exists():
        bench.run(*inside(bench, root, "env", f"CC={compiler}", "meson", "setup", into))
    bench.run(*inside(bench, root, "ninja", "-C", into))


def run(bench):
    root = bench.folder / RELEASE
    if not bench.step(f"Debian {RELEASE}", debian.make_root, bench, root, RELEASE, "apt", TOOLS):
        return
    for compiler in ("gcc", "clang"):
        into = bench.folder / f"{RELEASE}-{compiler}"
        if bench.step(f"build with {compiler}", build, bench, root, into, compiler):
            bench.suites(f"unit-{compiler}", into, "--suite", "unit", within=inside(bench, root))
