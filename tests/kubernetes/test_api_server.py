# SPDX-License-Identifier: Apache-2.0
"""A real API server takes the manifests and the chart, in a namespace where Pod Security is "restricted"."""

import itertools
import json
import subprocess

import pytest
import yaml

from api_server import PATIENCE, ROOT, TOOLS, ApiServer, wait_for
from manifests import Manifests

NUMBERS = itertools.count(1)
CHART = ROOT / "deploy/helm/ration"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with ApiServer(tmp_path_factory.mktemp("api")) as made:
        definition = yaml.safe_load((TOOLS / "servicemonitors.yaml").read_text())
        assert made.create(definition, None).status == 201
        path = "/apis/monitoring.coreos.com/v1/servicemonitors"
        wait_for(lambda: made.ask("GET", path).status == 200, "the API of ServiceMonitors")
        yield made


@pytest.fixture
def namespace(server):
    name = f"test-{next(NUMBERS)}"
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}}
    assert server.create(made, None).status == 201
    return name


def built(folder, namespace):
    """As kustomize joins the manifests of a folder, with those that it leaves out, in another namespace."""
    folder = ROOT / "deploy/kubernetes" / folder
    done = subprocess.run([TOOLS / "bin/kustomize", "build", folder], capture_output=True, text=True, check=True)
    things = Manifests.of_text(done.stdout)
    for name in ("secret.yaml", "service-monitor.yaml"):
        if (folder / name).exists():
            things += Manifests.of_text((folder / name).read_text())
    for thing in things:
        if thing["kind"] == "Namespace":
            thing["metadata"]["name"] += "-" + namespace
        else:
            thing["metadata"]["namespace"] = namespace
    return things


def helm(server, *words):
    return subprocess.run([TOOLS / "bin/helm", "--kubeconfig", server.kubeconfig, *map(str, words)],
                          capture_output=True, text=True, timeout=5 * PATIENCE)


def pod_of(template):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "labels": template["metadata"]["labels"]},
            "spec": template["spec"]}


@pytest.mark.parametrize("folder", ["server", "sidecar"])
def test_manifests_are_taken_without_a_warning_and_their_pods_too(server, namespace, folder):
    for thing in built(folder, namespace):
        answer = server.create(thing, namespace)
        assert (answer.status, answer.warnings) == (201, []), answer.text
        if thing["kind"] == "Deployment":
            answer = server.create(pod_of(thing["spec"]["template"]), namespace)
            assert (answer.status, answer.warnings) == (201, []), answer.text


@pytest.mark.parametrize("path, value, status", [
    (("securityContext", "runAsNonRoot"), False, 403),                     # Pod Security
    (("securityContext", "seccompProfile"), {"type": "Unconfined"}, 403),
    (("containers", 0, "securityContext", "allowPrivilegeEscalation"), True, 403),
    (("containers", 0, "ports", 0, "name"), "much-too-long-a-name", 422),   # beyond what schemas say
    (("containers", 0, "volumeMounts", 0, "name"), "gone", 422),
    (("containers", 0, "livenessProb"), {}, 400),                          # an unknown field
])
def test_the_server_would_notice(server, namespace, path, value, status):
    deployment = built("server", namespace).of_kind("Deployment")[0]
    inner = deployment["spec"]["template"]["spec"]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert server.create(pod_of(deployment["spec"]["template"]), namespace).status == status


def test_chart_is_installed_upgraded_and_removed(server, namespace):
    where = ["--namespace", namespace]
    done = helm(server, "install", "ration", CHART, *where)
    assert done.returncode == 0 and "One pod, which counts by itself" in done.stdout, done.stdout + done.stderr
    assert "warn" not in done.stderr.lower(), done.stderr
    deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments/ration"
    first = json.loads(server.ask("GET", deployments).text)["spec"]
    assert first["replicas"] == 1

    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"},
              "stringData": {"redis-url": "redis://redis:6379", "admin-token": "a", "metrics-token": "b"}}
    assert server.create(secret, namespace).status == 201
    done = helm(server, "upgrade", "ration", CHART, *where, "-f", CHART / "values-production.yaml", "--set", "secret.existing=mine")
    assert done.returncode == 0 and "All pods share their limits through Redis" in done.stdout, done.stdout + done.stderr
    assert "warn" not in done.stderr.lower(), done.stderr
    for kind in ("apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers", "apis/policy/v1/namespaces/{}/poddisruptionbudgets",
                 "apis/monitoring.coreos.com/v1/namespaces/{}/servicemonitors", "apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"):
        assert server.ask("GET", f"/{kind.format(namespace)}/ration").status == 200, kind

    done = helm(server, "upgrade", "ration", CHART, *where, "--set", "persistence.enabled=true")
    assert done.returncode == 0, done.stderr
    assert json.loads(server.ask("GET", deployments).text)["spec"]["strategy"] == {"type": "Recreate"}
    assert helm(server, "uninstall", "ration", *where).returncode == 0
    assert server.ask("GET", deployments).status == 404
    assert server.ask("GET", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/ration").status == 200


def test_pod_of_helm_test_is_taken(server, namespace):
    done = subprocess.run([TOOLS / "bin/helm", "template", "ration", CHART, "--kube-version", "1.34.0"],
                          capture_output=True, text=True, check=True)
    answer = server.create(Manifests.of_text(done.stdout).of_kind("Pod")[0], namespace)
    assert (answer.status, answer.warnings) == (201, []), answer.text
