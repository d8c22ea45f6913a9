# SPDX-License-Identifier: Apache-2.0
"""Everything for arm64: compiled here, run by qemu-user.

The libraries are those of Debian for arm64, unpacked and not installed, so that
nothing of that root must run. qemu-user runs a program as a process of this
kernel, with its memory, signals and sockets. It does not reorder memory
accesses as an arm64 processor may: that is reasoned about where it matters
(src/store/layout.h), and not tested.
"""

import os
import re
import subprocess

import debian

LIBRARIES = ["libc6-dev", "libgcc-12-dev", "libcmocka-dev", "libhiredis-dev", "libjansson-dev",
             "libnghttp2-dev", "libprotobuf-c-dev", "libssl-dev", "libsqlite3-dev", "libuv1-dev",
             "libyaml-dev"]
SYSTEM_TESTS = ["test_contract.py", "test_resp_commands.py", "test_admin.py", "test_processes.py",
                "test_cli_client.py"]
# A processor of 2012, without the instruction for swaps of 16 bytes: ldxp and stlxp instead.
WITHOUT_SWAP = "cortex-a53"
SLOWER = "10"  # times, at most, than the machine itself

CROSS = """[binaries]
c = '{compiler}'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
pkg-config = 'pkg-config'
exe_wrapper = ['qemu-aarch64-static', '-L', '{root}']
[built-in options]
c_args = {flags}
c_link_args = {flags}
[properties]
sys_root = '{root}'
pkg_config_libdir = '{root}/usr/lib/aarch64-linux-gnu/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


def make_root(bench, root):
    """Its absolute links lead out of it, also libm.so: the linker would take libm.a, which needs more."""
    debian.make_root(bench, root, "bookworm", "extract", LIBRARIES, "arm64")
    for link in (root / "usr/lib").rglob("*"):
        if link.is_symlink() and link.readlink().is_absolute():
            target = root / link.readlink().relative_to("/")
            link.unlink()
            link.symlink_to(os.path.relpath(target, link.parent))


def write_cross_file(bench, root, compiler, *flags):
    path = bench.folder / f"{compiler}.ini"
    name = "aarch64-linux-gnu-gcc" if compiler == "gcc" else compiler
    path.write_text(CROSS.format(root=root, compiler=name, flags=[f"--sysroot={root}", *flags]))
    return path


def wrap(programs, build, root):
    """A folder with the programs of a build folder as scripts, for tests that start them."""
    programs.mkdir(exist_ok=True)
    (programs / "tests").mkdir(exist_ok=True)
    for name in ("rationd", "ration", "tests/hammer", "tests/spender"):
        script = programs / name
        script.write_text("#!/bin/sh\n"
                          f"exec qemu-aarch64-static -L {root} {build / name} \"$@\"\n")
        script.chmod(0o755)
    for library in (build / "tests").glob("lib*.so"):
        link = programs / "tests" / library.name
        if not link.is_symlink():
            link.symlink_to(library)


def check_swaps(build):
    """Neither libatomic nor its calls: locks of it would not be seen by other processes."""
    for program in ("libration.so", "rationd", "ration"):
        names = subprocess.run(["aarch64-linux-gnu-nm", "-u", build / program], check=True,
                               capture_output=True, text=True).stdout
        called = re.findall(r"\b__atomic_\w+", names)
        if called:
            raise ValueError(f"{program} calls {called[0]} of libatomic")


def run(bench):
    root, build, programs = bench.folder / "root", bench.folder / "build", bench.folder / "bin"

    if not bench.step("libraries of Debian for arm64", make_root, bench, root):
        return
    gcc = write_cross_file(bench, root, "gcc")
    clang = write_cross_file(bench, root, "clang", "--target=aarch64-linux-gnu")
    if bench.step("build", bench.build, build, ["--cross-file", gcc, "-Dnginx=disabled"]):
        bench.step("swaps without libatomic", check_swaps, build)
        bench.suites("unit", build, "--suite", "unit", "-t", SLOWER)
        bench.suites("concurrent without caspal", build, "--suite", "concurrent", "-t", SLOWER,
                     env={"QEMU_CPU": WITHOUT_SWAP})
        wrap(programs, build, root)
        bench.system_tests("system", programs, *(f"tests/system/{f}" for f in SYSTEM_TESTS),
                           "--deselect", debian.PRELOADS_DATE)
    by_clang = bench.folder / "build-clang"
    if bench.step("build with clang", bench.build, by_clang,
                  ["--cross-file", clang, "-Dnginx=disabled"]):
        bench.step("swaps of clang without libatomic", check_swaps, by_clang)
        bench.suites("concurrent with clang", by_clang, "--suite", "concurrent", "-t", SLOWER)
