#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the container image of rationd, without a registry and without a container engine.

usage: make_image.py BUILD OUT             OUT/oci is an OCI layout, OUT/ration.tar the image as one file
       make_image.py --rootfs BUILD OUT    only the files of the image, in the folder OUT

BUILD has rationd and ration, built on this Debian. The libraries that they need, the zone data and
the certificates come from Debian's packages, which apt-get fetches. The same packages and programs
give the same bytes: files have the time SOURCE_DATE_EPOCH, or that of the last commit.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("rationd", "ration")
DATA_PACKAGES = ("tzdata", "ca-certificates")
USER = 65532  # a number, so that Kubernetes can see that it is not root
PORTS = {"http": 8080, "resp": 6380, "grpc": 8081, "admin": 8082}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

SETTINGS = {
    "User": f"{USER}:{USER}",
    "ExposedPorts": {f"{port}/tcp": {} for port in PORTS.values()},
    "Env": ["PATH=/usr/bin", "STATE_DIRECTORY=/var/lib/ration"],
    "Entrypoint": ["/usr/bin/rationd"],
    "Cmd": ["--config", "/etc/ration/ration.yaml",
            *(word for name, port in PORTS.items() for word in (f"--{name}", f":{port}"))],
    "Volumes": {"/var/lib/ration": {}},
    "WorkingDir": "/",
    "StopSignal": "SIGTERM",
    # OCI has no health checks. Docker and Podman read this one from a Docker archive.
    "Healthcheck": {"Test": ["CMD", "/usr/bin/ration", "health"], "Interval": 10 * 10**9,
                    "Timeout": 3 * 10**9, "StartPeriod": 5 * 10**9, "Retries": 3},
}

RULES = (ROOT / "deploy/ration.yaml").read_text()  # of the Debian packages, too
FILES = {
    "etc/passwd": f"root:x:0:0:root:/:/nonexistent\nration:x:{USER}:{USER}:rationd:/var/lib/ration:/nonexistent\n",
    "etc/group": f"root:x:0:\nration:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
    "etc/ration/ration.yaml": RULES,
}
LINKS = {"lib": "usr/lib", "lib64": "usr/lib64", "usr/lib/ssl/cert.pem": "/etc/ssl/certs/ca-certificates.crt"}


def output(*command, **more):
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def version():
    return re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)


def git(*arguments):
    """What git says, or nothing: an unpacked archive has no history."""
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def source_time():
    return int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct") or 0)


# --- the files -----------------------------------------------------------------------------------


def needed_libraries(programs):
    """Path of each shared library, the loader included, as the loader finds it."""
    found = set()
    for program in programs:
        for line in output("ldd", program).splitlines():
            path = re.search(r"(/\S+) \(0x", line)
            if path:
                found.add(path.group(1))
            elif "not found" in line:
                sys.exit(f"make_image: {program}: {line.strip()}")
    return sorted(found)


def package_of(library):
    """The Debian package of a library. dpkg knows it by its path with or without /usr."""
    for path in (library, library.removeprefix("/usr"), "/usr" + library, os.path.realpath(library)):
        done = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    sys.exit(f"make_image: no Debian package has {library}; build on Debian with Debian's libraries")


def fetch(packages, folder):
    """Fetches the newest version of each package that apt knows, and unpacks it. Control data by name."""
    debs, files = folder / "debs", folder / "files"
    debs.mkdir(mode=0o755)
    # apt's own user may not write into a folder of ours, and need not: apt-get then fetches as the caller.
    try:
        output("apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *packages, cwd=debs)
    except subprocess.CalledProcessError:
        sys.exit("make_image: apt-get cannot fetch " + " ".join(packages) + "; run apt-get update")
    control = {}
    for deb in sorted(debs.iterdir()):
        output("dpkg-deb", "--extract", deb, files)
        control[output("dpkg-deb", "--field", deb, "Package").strip()] = output("dpkg-deb", "--field", deb)
    return files, control


def copy(source, target):
    """Copies a file, with the links replaced by what they lead to."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def in_package(files, path):
    for name in (path.lstrip("/"), path.removeprefix("/usr").lstrip("/"), "usr" + path):
        if (files / name).exists():
            return files / name
    sys.exit(f"make_image: the package has no {path}")


def add_data(files, root):
    """Zone data without its two other spellings, and all of Mozilla's certificates in one file."""
    zones = files / "usr/share/zoneinfo"
    shutil.copytree(zones, root / "usr/share/zoneinfo", symlinks=True,
                    ignore=lambda folder, names: {"right", "posix"} & set(names) if folder == str(zones) else ())
    certificates = sorted((files / "usr/share/ca-certificates/mozilla").glob("*.crt"))
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True)
    bundle.write_text("".join(one.read_text().rstrip("\n") + "\n" for one in certificates))


def add_notices(files, control, root):
    """Licences, and what scanners read to know the packages."""
    for package, text in control.items():
        copy(files / f"usr/share/doc/{package}/copyright", root / f"usr/share/doc/{package}/copyright")
        status = root / "var/lib/dpkg/status.d" / package
        status.parent.mkdir(parents=True, exist_ok=True)
        status.write_text(text)
    copy(ROOT / "LICENSE", root / "usr/share/doc/ration/copyright")


def make_root(build, root):
    root.mkdir(parents=True)
    for program in PROGRAMS:
        copy(build / program, root / "usr/bin" / program)
        output("strip", root / "usr/bin" / program)
    libraries = needed_libraries(build / program for program in PROGRAMS)
    with tempfile.TemporaryDirectory() as folder:
        packages = {package_of(library) for library in libraries} | set(DATA_PACKAGES)
        files, control = fetch(sorted(packages), pathlib.Path(folder))
        for library in libraries:
            copy(in_package(files, library), root / "usr" / library.removeprefix("/usr").lstrip("/"))
        add_data(files, root)
        add_notices(files, control, root)
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, target in LINKS.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target)
    (root / "usr/lib64").mkdir(exist_ok=True)
    (root / "tmp").mkdir()
    (root / "var/lib/ration").mkdir()
    for path in [root, *root.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    (root / "tmp").chmod(0o1777)
    (root / "var/lib/ration").chmod(0o750)


# --- the image -----------------------------------------------------------------------------------


def entry(path, name, seconds):
    info = tarfile.TarInfo(name)
    stat = path.lstat()
    info.mode, info.mtime = stat.st_mode & 0o7777, seconds
    if path.is_symlink():
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, os.readlink(path), 0o777
    elif path.is_dir():
        info.type = tarfile.DIRTYPE
    else:
        info.size = stat.st_size
    if name == "var/lib/ration":
        info.uid = info.gid = USER
    return info


def pack(root, seconds):
    """A tar archive of the folder, whose bytes depend on names, modes and contents only."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            info = entry(path, path.relative_to(root).as_posix(), seconds)
            with open(path, "rb") if info.isreg() else io.BytesIO() as content:
                tar.addfile(info, content if info.isreg() else None)
    return archive.getvalue()


class Layout:
    """A folder of blobs, each under its digest."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "blobs/sha256").mkdir(parents=True)

    def add(self, kind, content):
        if not isinstance(content, bytes):
            content = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs/sha256" / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": "sha256:" + digest, "size": len(content)}

    def write(self, name, content):
        (self.folder / name).write_text(json.dumps(content, sort_keys=True))


def labels(created):
    named = {"title": "rationd", "description": "Rate limiter: HTTP, gRPC (Envoy) and the Redis protocol",
             "licenses": "Apache-2.0", "version": version(), "created": created, "revision": git("rev-parse", "HEAD")}
    return {f"org.opencontainers.image.{name}": text for name, text in named.items() if text}


def make_image(root, out):
    seconds = source_time()
    created = output("date", "-u", "-d", f"@{seconds}", "+%Y-%m-%dT%H:%M:%SZ").strip()
    plain = pack(root, seconds)
    layout = Layout(out / "oci")
    layer = layout.add("layer.v1.tar+gzip", gzip.compress(plain, 9, mtime=0))
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    config = layout.add("config.v1+json", {
        "architecture": architecture, "os": "linux", "created": created,
        "config": {**SETTINGS, "Labels": labels(created)},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]},
        "history": [{"created": created, "created_by": "deploy/container/make_image.py"}]})
    manifest = layout.add("manifest.v1+json", {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
        "layers": [layer], "annotations": labels(created)})
    manifest |= {"platform": {"architecture": architecture, "os": "linux"},
                 "annotations": {"org.opencontainers.image.ref.name": version()}}
    layout.write("oci-layout", {"imageLayoutVersion": "1.0.0"})
    layout.write("index.json", {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                                "manifests": [manifest]})
    # Older versions of Docker read this and no index.
    blob = {one["digest"]: "blobs/" + one["digest"].replace(":", "/") for one in (config, layer)}
    layout.write("manifest.json", [{"Config": blob[config["digest"]], "RepoTags": [f"ration:{version()}"],
                                    "Layers": [blob[layer["digest"]]]}])
    (out / "ration.tar").write_bytes(pack(out / "oci", seconds))
    return len(plain)


def main(words):
    only_root = words[:1] == ["--rootfs"]
    if len(words) != 2 + only_root or words[-1].startswith("-"):
        sys.exit(__doc__.split("\n\n")[1])
    build, out = map(pathlib.Path, words[only_root:])
    missing = [name for name in PROGRAMS if not (build / name).is_file()]
    if missing:
        sys.exit(f"make_image: {build} has no {missing[0]}; build it first, with ./dev build")
    if out.exists() and any(out.iterdir()):
        sys.exit(f"make_image: {out} is not empty; name a new folder")
    os.umask(0o022)
    if only_root:
        if out.exists():
            out.rmdir()
        make_root(build, out)
        return
    make_root(build, out / "rootfs")
    size = make_image(out / "rootfs", out)
    print(f"{out}/ration.tar: {size / 1e6:.1f} MB unpacked, {(out / 'ration.tar').stat().st_size / 1e6:.1f} MB packed")


if __name__ == "__main__":
    main(sys.argv[1:])
