# SPDX-License-Identifier: Apache-2.0
"""Everything with musl, Alpine's C library: unit tests, and rationd as a system.

Debian has musl but no libraries built with it, so they are built here, from
Debian's sources. They are linked statically: programs need musl alone.
"""

import debian

# Source package: the name by which pkg-config knows it, its static library, options.
WITH_CMAKE = {
    "libyaml": ("yaml-0.1", "yaml", []),
    "libuv1": ("libuv", "uv_a", ["-DLIBUV_BUILD_TESTS=OFF"]),
    "nghttp2": ("libnghttp2", "nghttp2", ["-DENABLE_LIB_ONLY=ON", "-DENABLE_STATIC_LIB=ON",
                                          "-DENABLE_SHARED_LIB=OFF"]),
    "cmocka": ("cmocka", "cmocka-static", ["-DWITH_STATIC_LIB=ON", "-DWITH_EXAMPLES=OFF"]),
    "jansson": ("jansson", "jansson", ["-DJANSSON_BUILD_DOCS=OFF",
                                       "-DJANSSON_WITHOUT_TESTS=ON"])}
SOURCES = [*WITH_CMAKE, "hiredis", "protobuf-c", "openssl"]
PATCHED = ["nghttp2"]  # its limits on floods of resets and CONTINUATION frames
SYSTEM_TESTS = ["test_contract.py", "test_resp_commands.py", "test_grpc.py", "test_admin.py",
                "test_state_file.py", "test_processes.py", "test_tls.py", "test_cli_client.py"]


def kernel_headers(folder):
    """musl-gcc does not look where Debian has them."""
    folder.mkdir(exist_ok=True)
    for name, where in (("linux", "/usr/include/linux"),
                        ("asm", "/usr/include/x86_64-linux-gnu/asm"),
                        ("asm-generic", "/usr/include/asm-generic")):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(where)


class Prefix:
    """A folder of libraries built with musl."""

    def __init__(self, bench):
        self.bench = bench
        self.path = bench.folder / "prefix"
        self.flags = f"-O2 -fPIC -idirafter {bench.folder / 'kernel'}"

    def has(self, name):
        return (self.path / "lib/pkgconfig" / (name + ".pc")).exists()

    def describe(self, name, library):
        """Its .pc file, which names no shared library."""
        folder = self.path / "lib/pkgconfig"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / (name + ".pc")).write_text(
            f"Name: {name}\nDescription: {name}\nVersion: 0\n"
            f"Libs: -L{self.path}/lib -l{library}\nCflags: -I{self.path}/include\n")

    def cmake(self, source, name, library, options):
        into = source.with_name(source.name + ".build")
        if (into / "installed").exists():
            return
        self.bench.run("cmake", "-S", source, "-B", into, "-G", "Ninja",
                       "-DCMAKE_C_COMPILER=musl-gcc", f"-DCMAKE_C_FLAGS={self.flags}",
                       f"-DCMAKE_INSTALL_PREFIX={self.path}", "-DCMAKE_INSTALL_LIBDIR=lib",
                       "-DBUILD_SHARED_LIBS=OFF", *options)
        self.bench.run("ninja", "-C", into, "install")
        self.describe(name, library)
        (into / "installed").touch()

    def hiredis(self, source):
        self.bench.run("make", "-C", source, "static", "CC=musl-gcc", f"CFLAGS={self.flags}",
                       "OPTIMIZATION=-O2")
        into = self.path / "include/hiredis"
        into.mkdir(parents=True, exist_ok=True)
        self.bench.run("cp", *source.glob("*.h"), into)
        self.bench.run("cp", source / "libhiredis.a", self.path / "lib")
        self.describe("hiredis", "hiredis")

    def protobuf_c(self, source):
        """One file; the compiler of .proto files is the machine's own."""
        into = self.path / "include/protobuf-c"
        into.mkdir(parents=True, exist_ok=True)
        self.bench.run("cp", source / "protobuf-c/protobuf-c.h", into)
        self.bench.run("musl-gcc", *self.flags.split(), f"-I{source}", "-c",
                       source / "protobuf-c/protobuf-c.c", "-o", self.path / "protobuf-c.o")
        self.bench.run("ar", "rcs", self.path / "lib/libprotobuf-c.a", self.path / "protobuf-c.o")
        self.describe("libprotobuf-c", "protobuf-c")

    def openssl(self, source):
        self.bench.run("./Configure", "linux-x86_64", "no-shared", "no-tests", "no-engine",
                       "no-module", "no-legacy", "no-async", f"--prefix={self.path}",
                       "--libdir=lib", *self.flags.split(),
                       cwd=source, env={"CC": "musl-gcc"})
        self.bench.run("make", "-j2", "build_libs", cwd=source)
        self.bench.run("make", "install_dev", cwd=source)

    def make(self):
        kernel_headers(self.bench.folder / "kernel")
        sources = debian.fetch_sources(self.bench, self.bench.folder / "sources", "bookworm",
                                       SOURCES, PATCHED)
        for package, how in WITH_CMAKE.items():
            self.cmake(sources[package], *how)
        for name, function in (("hiredis", self.hiredis), ("libprotobuf-c", self.protobuf_c),
                               ("openssl", self.openssl)):
            if not self.has(name):
                function(sources[name.removeprefix("lib")])


def run(bench):
    prefix, build = Prefix(bench), bench.folder / "build"
    only_prefix = {"PKG_CONFIG_LIBDIR": str(prefix.path / "lib/pkgconfig")}
    native = bench.folder / "musl.ini"
    options = ["--native-file", native, "-Dnginx=disabled",
               f"-Dc_args=-idirafter {bench.folder / 'kernel'}"]

    # CMake would find libraries of the machine itself.
    native.write_text("[binaries]\nc = 'musl-gcc'\ncmake = 'none'\n")
    if not bench.step("libraries from source", prefix.make) or \
            not bench.step("build", bench.build, build, options, only_prefix):
        return
    bench.suites("unit", build, "--suite", "unit", "--suite", "concurrent")
    bench.system_tests("system", build,
                       *(f"tests/system/{name}" for name in SYSTEM_TESTS),
                       "--deselect", debian.PRELOADS_DATE)
