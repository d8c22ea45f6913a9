# SPDX-License-Identifier: Apache-2.0
"""The chart and the manifests, by real tools: Helm, kustomize, and kubeconform with Kubernetes' own schemas.

`./dev test-kubernetes` runs these. KUBERNETES_TOOLS is a folder with bin/ and schemas/.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))

from manifests import Manifests  # noqa: E402
from pods import Pod  # noqa: E402
from redis_server import RedisServer  # noqa: E402

TOOLS = pathlib.Path(os.environ["KUBERNETES_TOOLS"]).resolve()
VERSIONS = sorted(path.name for path in (TOOLS / "schemas").iterdir() if path.is_dir())
CHART = ROOT / "deploy/helm/ration"
PRODUCTION = ["-f", CHART / "values-production.yaml"]
REDIS = ["--set", "secret.redisUrl=redis://redis:6379"]
TOKENS = ["--set", "secret.adminToken=abc,secret.metricsToken=def"]

# Options of helm, and the names of what others make.
VALUES = {
    "as it is": ([], set()),
    "production": (PRODUCTION, {"ration"}),
    "three pods": ([*REDIS, *TOKENS, "--set", "replicas=3"], set()),
    "separate limits": (["--set", "replicas=2,separateLimits=true"], set()),
    "your own rules": (["--set", "existingRules=mine"], {"mine"}),
    "rules of a file": (["--set-file", f"rules={ROOT / 'examples/ration.yaml'}"], set()),
    "a volume": (["--set", "persistence.enabled=true,persistence.storageClass=fast"], set()),
    "TLS": (["--set", "tls.existingSecret=cert,tls.listeners={http,grpc}"], {"cert"}),
    "only a token for Prometheus": (["--set", "secret.existing=mine,secret.keys={metrics-token},serviceMonitor.enabled=true"],
                                    {"mine"}),
    "closed": ([*REDIS, "--set", "networkPolicy.enabled=true,networkPolicy.redisPorts={6379,26379}"], set()),
    "everything else": (["--set", "imagePullSecrets[0].name=r,priorityClassName=p,nodeSelector.disk=ssd,podLabels.team=a",
                         "--set", "podAnnotations.note=b,service.type=NodePort,service.annotations.c=d,logLevel=debug",
                         "--set", "tolerations[0].key=k,tolerations[0].operator=Exists,preStopSeconds=0,nameOverride=limiter",
                         "--set", "affinity.podAntiAffinity=null,image.tag=1.2.3,extraArgs[0]=--waiting=100",
                         "--set", "extraEnv[0].name=RATION_X,extraEnv[0].value=y,extraVolumes[0].name=geo",
                         "--set", "extraVolumes[0].configMap.name=geo,extraVolumeMounts[0].name=geo",
                         "--set", "extraVolumeMounts[0].mountPath=/var/lib/geo"], {"geo"}),
}


def run(tool, *words, text=None):
    return subprocess.run([TOOLS / "bin" / tool, *map(str, words)], input=text, capture_output=True, text=True, timeout=300)


def render(options, chart=CHART):
    return run("helm", "template", "shop", chart, "--namespace", "web", "--kube-version", VERSIONS[-1], *options)


def rendered(name):
    options, elsewhere = VALUES[name]
    done = render(options)
    assert done.returncode == 0, done.stderr
    return done.stdout, elsewhere


def faults(text, version):
    """What kubeconform has against some manifests."""
    done = run("kubeconform", "-strict", "-summary", "-kubernetes-version", version[1:],
               "-schema-location", TOOLS / "schemas/{{ .NormalizedKubernetesVersion }}/{{ .ResourceKind }}{{ .KindSuffix }}.json",
               "-schema-location", TOOLS / "schemas/{{ .ResourceKind }}.json", text=text)
    clean = done.returncode == 0 and "Invalid: 0, Errors: 0, Skipped: 0" in done.stdout and "Valid: 0" not in done.stdout
    return "" if clean else done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", VALUES)
def test_chart_fits_the_schemas(name, version):
    text, _ = rendered(name)
    assert not faults(text, version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", ["server", "sidecar"])
def test_manifests_fit_the_schemas_as_kustomize_joins_them(folder, version):
    done = run("kustomize", "build", ROOT / "deploy/kubernetes" / folder)
    assert done.returncode == 0 and not faults(done.stdout, version), done.stderr
    config_maps = Manifests.of_text(done.stdout).of_kind("ConfigMap")
    written = Manifests.of_folder(ROOT / "deploy/kubernetes" / folder).of_kind("ConfigMap")
    assert [(one["metadata"]["name"], one["data"]) for one in config_maps] == \
        [(one["metadata"]["name"], one["data"]) for one in written]
    if folder == "server":
        for file in ("secret.yaml", "service-monitor.yaml"):
            assert not faults((ROOT / "deploy/kubernetes/server" / file).read_text(), version)


@pytest.mark.parametrize("right, wrong", [("maxSurge: 1", "maxSurg: 1"), ("containerPort: 8080", "containerPort: http"),
                                          ("interval: 15s", "intervall: 15s"), ("kind: Service\n", "kind: Servce\n"),
                                          ("maxReplicas: 10", "maxReplicas: 10\n  maxReplicas: 10")])
def test_the_schemas_notice(right, wrong):
    text, _ = rendered("production")
    assert right in text and faults(text.replace(right, wrong, 1), VERSIONS[-1])


@pytest.mark.parametrize("name", VALUES)
def test_objects_of_the_chart_name_nothing_that_is_not_there(name):
    text, elsewhere = rendered(name)
    assert Manifests.of_text(text).dangling(elsewhere) == []


def test_lint_finds_nothing():
    for options in ([], PRODUCTION):
        done = run("helm", "lint", "--strict", CHART, *options)
        assert done.returncode == 0 and "[WARNING]" not in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("options, message", [
    (["--set", "replicas=3"], "several pods without a Redis have a limit each"),
    (["--set", "autoscaling.enabled=true"], "several pods without a Redis have a limit each"),
    ([*REDIS, "--set", "replicas=2,persistence.enabled=true"], "persistence.enabled is for one pod"),
    ([*REDIS, "--set", "serviceMonitor.enabled=true"], "needs a token for Prometheus"),
    (["--set", "secret.existing=mine,secret.adminToken=abc"], "would not be used"),
    (["--set", "replica=3"], "additional properties 'replica' not allowed"),
    (["--set", "memory=64X"], "'64X' does not match pattern"),
    (["--set", "secret.redisUrl=redis.example:6379"], "does not match pattern"),
    (["--set", "tls.existingSecret=cert,tls.listeners={admin}"], "value must be one of 'http', 'resp', 'grpc'"),
])
def test_settings_that_would_not_work_are_refused_with_the_reason(options, message):
    done = render(options)
    assert done.returncode != 0 and message in done.stderr


@pytest.mark.parametrize("options, said", [
    ([], "One pod, which counts by itself: counters, overrides and bans end with it."),
    (["--set", "persistence.enabled=true"], "One pod, which counts by itself. For several"),
    ([*REDIS, "--set", "replicas=3"], "All pods share their limits through Redis"),
    (["--set", "replicas=2,separateLimits=true"], "WARNING: these pods share no Redis"),
    (["--set", "existingRules=mine"], "The rules are in the ConfigMap mine."),
])
def test_notes_say_what_was_installed(options, said, tmp_path):
    """Helm shows notes only where there is a cluster. So they become an object of a copy of the chart."""
    shutil.copytree(CHART, tmp_path / "ration")
    templates = tmp_path / "ration/templates"
    (templates / "_notes.tpl").write_text('{{ define "notes" }}' + (templates / "NOTES.txt").read_text() + "{{ end }}")
    (templates / "notes.yaml").write_text('kind: Notes\ntext: {{ include "notes" . | toJson }}\n')
    done = render(options, tmp_path / "ration")
    assert done.returncode == 0, done.stderr
    text = Manifests.of_text(done.stdout).of_kind("Notes")[0]["text"]
    assert said in " ".join(text.split()) and "kubectl -n web" in text, text


@pytest.mark.parametrize("rules", ["   # further in\nlimits: []\n", "\n     \nlimits: []\n", "# {{ x }} \"'\nlimits: []\n---\n"])
def test_rules_arrive_as_they_are_written(rules, tmp_path):
    (tmp_path / "rules.yaml").write_text(rules)
    done = render(["--set-file", f"rules={tmp_path}/rules.yaml"])
    assert done.returncode == 0, done.stderr
    assert Manifests.of_text(done.stdout).of_kind("ConfigMap")[0]["data"]["ration.yaml"] == rules


@pytest.mark.parametrize("name", ["123", "1e3", "true"])
def test_names_that_look_like_numbers_stay_names(name):
    done = run("helm", "template", name, CHART, "--kube-version", VERSIONS[-1], "--set-string",
               ",".join(f"{value}={name}" for value in ("nameOverride", "priorityClassName", "existingRules",
                                                        "tls.existingSecret", "secret.existing")))
    assert done.returncode == 0, done.stderr
    for kind in ("Deployment", "Service"):
        for one in Manifests.of_text(done.stdout).of_kind(kind):
            labels = one["metadata"]["labels"]
            assert labels["app.kubernetes.io/instance"] == labels["app.kubernetes.io/name"] == name
    spec = Manifests.of_text(done.stdout).of_kind("Deployment")[0]["spec"]
    pod = spec["template"]["spec"]
    names = [spec["selector"]["matchLabels"]["app.kubernetes.io/instance"], pod["priorityClassName"],
             *(volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume),
             next(volume for volume in pod["volumes"] if volume["name"] == "rules")["projected"]["sources"][0]["configMap"]["name"],
             spec["template"]["metadata"]["labels"]["app.kubernetes.io/instance"]]
    assert names == [name] * 6


def test_rules_are_loaded_without_a_restart_and_secrets_with_one():
    def checksum(*options):
        deployment = Manifests.of_text(render([*REDIS, *options]).stdout).of_kind("Deployment")[0]
        return deployment["spec"]["template"]["metadata"]["annotations"]

    assert checksum() == checksum("--set", "rules=limits: []")
    assert checksum() != checksum("--set", "secret.adminToken=abc")


@pytest.mark.parametrize("name", ["as it is", "three pods", "rules of a file", "a volume"])
def test_rationd_runs_with_what_the_chart_says(name, tmp_path):
    """And answers the request of `helm test`."""
    objects = Manifests.of_text(rendered(name)[0])
    with RedisServer(tmp_path) as redis:
        for secret in objects.of_kind("Secret"):
            secret["stringData"]["redis-url"] = redis.url
        with Pod(tmp_path, objects) as pod:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                assert pod.probe(probe).status == 200
            _, test = next(objects.containers("check"))
            words = [word.replace("shop-ration:8080", pod.addresses["http"]) for word in test["command"][1:]]
            done = subprocess.run([ROOT / "build/ration", *words], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0 and "allowed" in done.stdout, done.stdout + done.stderr
            assert not [line for line in pod.log if '"level":"error"' in line]


def test_chart_and_manifests_run_the_same_container():
    """The manifests are the chart's production, written out."""
    chart = next(Manifests.of_text(rendered("production")[0]).containers("rationd"))
    plain = next(Manifests.of_folder(ROOT / "deploy/kubernetes/server").containers("rationd"))
    for key in ("ports", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "securityContext", "env"):
        assert chart[1][key] == plain[1][key], key
    for key in ("securityContext", "terminationGracePeriodSeconds", "automountServiceAccountToken", "enableServiceLinks"):
        assert chart[0][key] == plain[0][key], key
    assert {word for word in chart[1]["args"] if "memory" not in word} - set(plain[1]["args"]) == {"--log-level=info"}
