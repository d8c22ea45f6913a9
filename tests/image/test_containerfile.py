# SPDX-License-Identifier: Apache-2.0
"""The Containerfile, built by buildah on a Debian that mmdebstrap makes: no registry is asked.

The test gives mmdebstrap the sources of packages in debian.sources, as this machine has them.
"""

import json
import pathlib
import subprocess

from test_image import BUILD, ROOT, SCRIPT, output

SOURCES = pathlib.Path("/etc/apt/sources.list.d/debian.sources")


def names(folder):
    return {path.relative_to(folder).as_posix() for path in pathlib.Path(folder).rglob("*")}


def test_containerfile_has_the_files_of_the_script(tmp_path):
    codename = output("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip()
    output("mmdebstrap", "--variant=apt", "--include=ca-certificates", codename, tmp_path / "base.tar",
           *([SOURCES] if SOURCES.exists() else []))
    (tmp_path / "Base").write_text("FROM scratch\nADD base.tar /\n")
    buildah = ["buildah", "--root", tmp_path / "images", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
    build = [*buildah, "build", "--isolation", "chroot"]
    output(*build, "-t", "localhost/base", "-f", tmp_path / "Base", tmp_path)
    output(*build, "--network", "host", "--format", "docker", "--build-arg", "BASE=localhost/base",
           "-f", ROOT / "deploy/container/Containerfile", "-t", "localhost/ration", ROOT)
    try:
        container = output(*buildah, "from", "localhost/ration").strip()
        mounted = output(*buildah, "mount", container).strip()
        output("/usr/bin/python3", SCRIPT, "--rootfs", BUILD, tmp_path / "files")
        assert names(mounted) == names(tmp_path / "files")
        state = (pathlib.Path(mounted) / "var/lib/ration").stat()
        assert (state.st_uid, state.st_mode & 0o777) == (65532, 0o750)
        config = json.loads(output(*buildah, "inspect", "--type", "image", "localhost/ration"))["Docker"]["config"]
        assert config["Healthcheck"]["Test"] == ["CMD", "/usr/bin/ration", "health"]
        assert config["User"] == "65532:65532"
    finally:
        subprocess.run([*map(str, buildah), "rm", "--all"], capture_output=True)
        subprocess.run([*map(str, buildah), "rmi", "--all", "--force"], capture_output=True)
