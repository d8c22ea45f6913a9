# SPDX-License-Identifier: Apache-2.0
"""Kubernetes objects, and whether what they name is there.

Schemas know nothing of that: a Service whose selector has a typo is a valid one without pods.
"""

import yaml

WORKLOADS = {"Deployment", "Pod"}


class Manifests(list):
    """The objects of some YAML."""

    @classmethod
    def of_text(cls, text):
        return cls(one for one in yaml.safe_load_all(text) if one)

    @classmethod
    def of_folder(cls, folder):
        """With the ConfigMaps that kustomize makes of files."""
        made = cls(one for path in sorted(folder.glob("*.yaml")) if path.name != "kustomization.yaml"
                   for one in cls.of_text(path.read_text()))
        for generator in yaml.safe_load((folder / "kustomization.yaml").read_text())["configMapGenerator"]:
            files = [folder / name for name in generator["files"]]
            made.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]},
                         "data": {path.name: path.read_text() for path in files}})
        return made

    def of_kind(self, kind):
        return [one for one in self if one["kind"] == kind]

    def named(self, kind, name):
        return next((one for one in self.of_kind(kind) if one["metadata"]["name"] == name), None)

    def pods(self):
        """(labels, spec) of the pods of each workload."""
        for one in self:
            if one["kind"] in WORKLOADS:
                template = one if one["kind"] == "Pod" else one["spec"]["template"]
                yield template["metadata"].get("labels", {}), template["spec"]

    def containers(self, name):
        """(spec of the pod, container) of all containers with that name."""
        for _, spec in self.pods():
            for container in spec.get("initContainers", []) + spec["containers"]:
                if container["name"] == name:
                    yield spec, container

    # --- what leads nowhere -------------------------------------------------------------------------

    def dangling(self, elsewhere=()):
        """A line for each thing that is named and not there. `elsewhere` are names of Secrets, ConfigMaps and
        claims that others make."""
        faults = [*self._workload_faults(elsewhere), *self._selector_faults()]
        for scaler in self.of_kind("HorizontalPodAutoscaler"):
            target = scaler["spec"]["scaleTargetRef"]
            if not self.named(target["kind"], target["name"]):
                faults.append(f"autoscaler: no {target['kind']} {target['name']}")
        return faults + list(self._monitor_faults(elsewhere))

    def _ports_of(self, selector):
        """The ports' names of the pods that a selector chooses; None if it chooses none."""
        chosen = [spec for labels, spec in self.pods() if selector and selector.items() <= labels.items()]
        if not chosen:
            return None
        return {port["name"] for spec in chosen for container in spec.get("initContainers", []) + spec["containers"]
                for port in container.get("ports", [])}

    def _selector_faults(self):
        for one in self:
            spec, name = one.get("spec", {}), f"{one['kind']} {one['metadata']['name']}"
            if one["kind"] == "Service":
                selector, ports = spec["selector"], [port["targetPort"] for port in spec["ports"]]
            elif one["kind"] == "NetworkPolicy":
                selector = spec["podSelector"]["matchLabels"]
                ports = [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
            elif one["kind"] in ("PodDisruptionBudget", "Deployment"):
                selector, ports = spec["selector"]["matchLabels"], []
            else:
                continue
            known = self._ports_of(selector)
            if known is None:
                yield f"{name}: selects no pods"
            else:
                yield from (f"{name}: no port {port}" for port in ports if port not in known)

    def _workload_faults(self, elsewhere):
        for _, spec in self.pods():
            volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
            mounted = set()
            for container in spec.get("initContainers", []) + spec["containers"]:
                mounted |= {mount["name"] for mount in container.get("volumeMounts", [])}
                ports = {port["name"] for port in container.get("ports", [])}
                for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                    if probe in container and container[probe]["httpGet"]["port"] not in ports:
                        yield f"{container['name']}: {probe} asks a port that is not there"
            yield from (f"no volume {name}" for name in mounted - set(volumes))
            yield from (f"nothing mounts the volume {name}" for name in set(volumes) - mounted)
            for volume in volumes.values():
                for source in volume.get("projected", {}).get("sources", [volume]):
                    yield from self._source_faults(source, elsewhere)

    def _source_faults(self, source, elsewhere):
        for key, kind in (("configMap", "ConfigMap"), ("secret", "Secret"),
                          ("persistentVolumeClaim", "PersistentVolumeClaim")):
            said = source.get(key)
            if not said:
                continue
            name = said.get("name") or said.get("secretName") or said["claimName"]
            made = self.named(kind, name)
            if not made and name not in elsewhere:
                yield f"no {kind} {name}"
            content = {**made.get("data", {}), **made.get("stringData", {})} if made else {}
            yield from (f"{kind} {name}: no key {item['key']}" for item in said.get("items", [])
                        if made and item["key"] not in content)

    def _monitor_faults(self, elsewhere):
        for monitor in self.of_kind("ServiceMonitor"):
            wanted = monitor["spec"]["selector"]["matchLabels"].items()
            services = [one for one in self.of_kind("Service") if wanted <= one["metadata"]["labels"].items()]
            if len(services) != 1:
                yield f"ServiceMonitor selects {len(services)} Services"
            for endpoint in monitor["spec"]["endpoints"]:
                if services and endpoint["port"] not in {port["name"] for port in services[0]["spec"]["ports"]}:
                    yield f"ServiceMonitor: no port {endpoint['port']}"
                credentials = endpoint["authorization"]["credentials"]
                secret = self.named("Secret", credentials["name"])
                if secret and credentials["key"] not in secret["stringData"]:
                    yield f"ServiceMonitor: no key {credentials['key']}"
                if not secret and credentials["name"] not in elsewhere:
                    yield f"ServiceMonitor: no Secret {credentials['name']}"
