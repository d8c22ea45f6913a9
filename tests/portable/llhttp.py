# SPDX-License-Identifier: Apache-2.0
"""The HTTP tests with the parser llhttp in versions 6 and 9.

Debian 12 has version 8 and Debian 13 version 9. Others are in the source
archives of aiohttp on PyPI, as the C files that llhttp's own generator made.
"""

import os
import sys

# Version of llhttp: a version of aiohttp that brings it.
BROUGHT_BY = {"6": "3.8.4", "9": "3.11.11"}
TESTS = ["tests/test_wire_http", "tests/test_cli_response_reader", "rationd", "ration",
         "tests/libstillclock.so"]  # a clock that the contract tests move
SYSTEM_TESTS = ["tests/system/test_contract.py", "tests/system/test_hostile.py",
                "tests/system/test_forward_auth.py"]


def fetch(bench, version, into):
    if (into / "llhttp.h").exists():
        return
    aiohttp, scratch = BROUGHT_BY[version], bench.folder / "aiohttp"
    scratch.mkdir(exist_ok=True)
    bench.run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:",
              "--dest", scratch, f"aiohttp=={aiohttp}")
    bench.run("tar", "-xf", scratch / f"aiohttp-{aiohttp}.tar.gz", "-C", scratch)
    made = scratch / f"aiohttp-{aiohttp}/vendor/llhttp"
    into.mkdir(exist_ok=True)
    bench.run("cp", made / "build/c/llhttp.c", made / "src/native/api.c",
              made / "src/native/http.c", into)
    bench.run("cp", made / "build/llhttp.h", into)


def compile_library(bench, version, into):
    """A static library and its .pc file, where pkg-config finds it before Debian's."""
    fetch(bench, version, into)
    if f"#define LLHTTP_VERSION_MAJOR {version}\n" not in (into / "llhttp.h").read_text():
        raise ValueError(f"{into}/llhttp.h is not of llhttp {version}")
    objects = []
    for name in ("llhttp", "api", "http"):
        objects.append(into / (name + ".o"))
        bench.run("gcc", "-O2", "-g", "-fPIC", "-w", "-DLLHTTP_STRICT_MODE=1", f"-I{into}", "-c",
                  into / (name + ".c"), "-o", objects[-1])
    bench.run("ar", "rcs", into / "libllhttp.a", *objects)
    (into / "libllhttp.pc").write_text(
        f"Name: libllhttp\nDescription: llhttp\nVersion: {version}\n"
        f"Libs: -L{into} -lllhttp\nCflags: -I{into}\n")


def build(bench, into, source):
    path = os.pathsep.join(filter(None, [str(source), os.environ.get("PKG_CONFIG_PATH")]))
    if not (into / "build.ninja").exists():
        bench.run("meson", "setup", into, "-Dnginx=disabled",
                  env={"CC": "gcc", "PKG_CONFIG_PATH": path})
    bench.run("ninja", "-C", into, *TESTS)


def run(bench):
    for version in BROUGHT_BY:
        source, into = bench.folder / f"llhttp-{version}", bench.folder / f"build-{version}"
        if bench.step(f"llhttp {version}", compile_library, bench, version, source) and \
                bench.step(f"build with llhttp {version}", build, bench, into, source):
            bench.suites(f"unit-{version}", into, "wire/http", "cli/response_reader")
            bench.system_tests(f"system-{version}", into, *SYSTEM_TESTS)
