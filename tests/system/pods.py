# SPDX-License-Identifier: Apache-2.0
"""Containers of Kubernetes manifests, run as processes: with the arguments and variables of the manifest, and
its volumes as the kubelet fills them. Paths of volumes become folders of the test, and addresses free ports.

    objects = Manifests.of_folder(ROOT / "deploy/kubernetes/server")
    with Pod(tmp_path, objects, "rationd", secrets={"ration": {"admin-token": "..."}}) as pod:
        assert pod.probe("readinessProbe").status == 200
        pod.volumes["rules"].put({"ration.yaml": "limits: []"})
"""

import itertools
import json
import os
import shutil

from daemon import Daemon

ADDRESSES = {"--http", "--resp", "--grpc", "--admin"}


class MountedVolume:
    """A folder that is updated as the kubelet updates a ConfigMap or Secret: each file is a link through the link
    ..data, which is replaced by rename; the folder that it led to is removed afterwards."""

    versions = itertools.count(1)

    def __init__(self, folder, files, mode):
        self.folder, self.mode, self.files = folder, mode, {}
        folder.mkdir()
        self.put(files)

    def put(self, files):
        data = self.folder / f"..2026_11_18_12_00_00.{next(self.versions)}"
        data.mkdir(mode=0o755)
        for name, text in files.items():
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            (data / name).write_text(text)
            (data / name).chmod(self.mode)
        former = self.folder / os.readlink(self.folder / "..data") if (self.folder / "..data").is_symlink() else None
        (self.folder / "..data_tmp").symlink_to(data.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")
        shown, known = ({name.split("/")[0] for name in some} for some in (files, self.files))
        for name in shown - known:
            (self.folder / name).symlink_to(f"..data/{name}")
        for name in known - shown:
            (self.folder / name).unlink()
        if former:
            shutil.rmtree(former)
        self.files = files


class Pod(Daemon):
    """One container of rationd. `secrets` are the Secrets that are no objects of the manifests, by name."""

    DEFAULTS = {}  # of Daemon: the container says everything itself

    def __init__(self, folder, objects, container="rationd", secrets=None, start=True):
        self.objects, self.secrets, self.volumes = objects, secrets or {}, {}
        self.spec, self.container = next(objects.containers(container))
        mounts = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        self.folders = {path: str(folder / name) for name, path in mounts.items()}
        for volume in self.spec["volumes"]:
            if volume["name"] in mounts and not (folder / volume["name"]).exists():
                self.add_volume(folder / volume["name"], volume)
        env = {"STATE_DIRECTORY": "/var/lib/ration"}  # as the image has it
        env.update((one["name"], one["value"]) for one in self.container.get("env", []))
        super().__init__(folder, options=self.arguments(), start=start,
                         env={name: self.local(value) for name, value in env.items()})

    def add_volume(self, folder, volume):
        if "emptyDir" in volume or "persistentVolumeClaim" in volume:
            folder.mkdir()
            return
        kind = next(kind for kind in volume if kind != "name")
        sources = volume[kind]["sources"] if kind == "projected" else [volume]
        files = {name: text for source in sources for name, text in self.content(source).items()}
        self.volumes[volume["name"]] = MountedVolume(folder, files, volume[kind].get("defaultMode", 0o644))

    def content(self, source):
        """The files of a ConfigMap or Secret, those that were picked."""
        kind = "configMap" if "configMap" in source else "secret"
        name = source[kind].get("secretName") or source[kind]["name"]
        if kind == "configMap":
            files = self.objects.named("ConfigMap", name)["data"]
        else:
            files = self.secrets.get(name) or self.objects.named("Secret", name)["stringData"]
        picked = {item["key"]: item["path"] for item in source[kind].get("items", [])}
        return {picked.get(key, key): self.local(text) for key, text in files.items() if key in picked or not picked}

    def local(self, text):
        """With the folders of the test instead of the paths in the container."""
        for path, folder in self.folders.items():
            text = text.replace(path, folder)
        return text

    def arguments(self):
        for word in self.container["args"]:
            name, equals, value = word.partition("=")
            assert equals, f"{word}: arguments are written as --name=value"
            is_port = name in ADDRESSES and value.rpartition(":")[2].isdigit()
            yield f"{name}=127.0.0.1:0" if is_port else self.local(word)

    def _read(self):
        """The ready line is JSON with --log-format=json."""
        for line in self.process.stderr:
            self.log.append(line)
            if "daemon.ready" in line:
                self.addresses = {name: text for name, text in json.loads(line).items() if f"--{name}" in ADDRESSES}
                self.ready.set()
        self.ready.set()

    def probe(self, name):
        """What the probe of the container is answered."""
        get = self.container[name]["httpGet"]
        port = next(one["containerPort"] for one in self.container["ports"] if one["name"] == get["port"])
        listener = next(word.partition("=")[0][2:] for word in self.container["args"] if word.endswith(f":{port}"))
        return self.http("GET", get["path"], port=listener)
