# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes and deploy/helm: what they say agrees with the image and with itself, and rationd runs with
exactly that. ./dev test-kubernetes compares them with Kubernetes' schemas, and has Helm render the chart."""

import json
import re
import secrets
import subprocess

import jsonschema
import pytest
import yaml

from daemon import PATIENCE, RATIOND, ROOT, wait_for
from manifests import Manifests
from pods import Pod
from redis_server import RedisServer
from test_image_files import make_image

IMAGE = make_image()
VERSION = IMAGE.version()
FOLDERS = {name: ROOT / "deploy/kubernetes" / name for name in ("server", "sidecar")}
TOKENS = {"admin-token": secrets.token_hex(16), "metrics-token": secrets.token_hex(16)}


def manifests(name):
    return Manifests.of_folder(FOLDERS[name])


def secrets_of(name, url):
    return {"ration": {**TOKENS, "redis-url": url}} if name == "server" else {"shop-redis": {"url": url}}


@pytest.fixture(params=FOLDERS)
def pod(request, tmp_path):
    """The container of rationd, with a Redis of its own."""
    with RedisServer(tmp_path) as redis:
        redis.flush_and_vouch()
        with Pod(tmp_path, manifests(request.param), secrets=secrets_of(request.param, redis.url)) as made:
            yield made


# --- what is written ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOLDERS)
def test_container_is_that_of_the_image_and_has_no_rights(name):
    spec, container = next(manifests(name).containers("rationd"))
    assert container["image"] == f"ration:{VERSION}"
    assert {one["name"]: one["containerPort"] for one in container["ports"]}.items() <= IMAGE.PORTS.items()
    assert IMAGE.SETTINGS["Env"][-1] == "STATE_DIRECTORY=/var/lib/ration"
    assert "/var/lib/ration" in {one["mountPath"] for one in container["volumeMounts"]}
    context = {**spec["securityContext"], **container["securityContext"]}
    assert (context["runAsUser"], context["runAsGroup"]) == (IMAGE.USER, IMAGE.USER) and context["runAsNonRoot"]
    assert context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]} and context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", FOLDERS)
def test_kustomization_names_every_file_and_the_version(name):
    listed = yaml.safe_load((FOLDERS[name] / "kustomization.yaml").read_text())
    files = {path.name for path in FOLDERS[name].glob("*.yaml")}
    assert set(listed["resources"]) == files - {"kustomization.yaml", "secret.yaml", "service-monitor.yaml"}
    generated = {name for generator in listed["configMapGenerator"] for name in generator["files"]}
    assert generated == {f"rules/{path.name}" for path in (FOLDERS[name] / "rules").iterdir()}
    assert listed["images"] == [{"name": "ration", "newTag": VERSION}]


@pytest.mark.parametrize("name", FOLDERS)
def test_objects_name_nothing_that_is_not_there(name):
    assert manifests(name).dangling(elsewhere={"shop-redis"}) == []


@pytest.mark.parametrize("kind, path, wrong, fault", [
    ("Service", ("spec", "selector"), {"app": "ratoin"}, "Service ration: selects no pods"),
    ("NetworkPolicy", ("spec", "ingress"), [{"ports": [{"port": "htpp"}]}], "NetworkPolicy ration: no port htpp"),
    ("HorizontalPodAutoscaler", ("spec", "scaleTargetRef", "name"), "x", "autoscaler: no Deployment x"),
    ("ConfigMap", ("metadata", "name"), "rules", "no ConfigMap ration-rules"),
    ("ServiceMonitor", ("spec", "selector", "matchLabels"), {}, "ServiceMonitor selects 2 Services"),
])
def test_a_name_that_leads_nowhere_is_noticed(kind, path, wrong, fault):
    """What the test above can find."""
    objects = manifests("server")
    inner = objects.of_kind(kind)[0]
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = wrong
    assert fault in objects.dangling()


# --- what runs --------------------------------------------------------------------------------------


def test_probes_are_answered(pod):
    probes = [name for name in pod.container if name.endswith("Probe")]
    assert {"startupProbe", "livenessProbe"} <= set(probes)
    for probe in probes:
        assert pod.probe(probe).status == 200
    assert not [line for line in pod.log if '"level":"warn"' in line or '"level":"error"' in line]


def test_pod_is_given_more_time_to_end_than_rationd_takes(pod):
    pause = pod.container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    grace = pod.spec.get("terminationGracePeriodSeconds", 30)
    pod.stop()
    drain = next(json.loads(line)["drain_seconds"] for line in pod.log if "daemon.stopping" in line)
    assert grace >= pause + drain + 5


def test_a_changed_config_map_is_loaded_also_when_files_come_and_go(pod):
    volume = next(one for one in pod.volumes.values() if "ration.yaml" in one.files)
    kept = {name: text for name, text in volume.files.items() if name != "ration.yaml"}
    rule = "limits: [{name: %s, key: ip, limit: 2 per hour}]\n"
    for files, names in (({"ration.yaml": rule % "second"}, {"second"}),
                         ({"ration.yaml": rule % "third", "more.yaml": rule % "fourth"}, {"third", "fourth"}),
                         ({"more.yaml": rule % "fifth"}, {"fifth"}),
                         ({"more.yaml": "limits: [{name: wrong}]\n"}, {"fifth"})):
        volume.put({**kept, **files})
        wait_for(lambda: set(rule_names(pod)) == names, f"{names} in force")
    pod.logged("rules.refused")


def rule_names(pod):
    return [rule["name"] for rule in pod.admin("GET", "/v1/rules").json["rules"]]


@pytest.mark.parametrize("pod", ["server"], indirect=True)
def test_tokens_of_the_secret_hold_and_a_new_one_after_a_reload(pod):
    def status(method, path, token):
        return pod.admin(method, path, headers={"Authorization": f"Bearer {token}", "X-Forwarded-For": "192.0.2.1"}).status

    assert status("GET", "/metrics", TOKENS["metrics-token"]) == 200
    assert status("GET", "/v1/rules", TOKENS["metrics-token"]) == 403
    assert status("GET", "/v1/rules", TOKENS["admin-token"]) == 200
    volume = pod.volumes["secrets"]
    volume.put({**volume.files, "admin-token": "another"})
    assert status("POST", "/v1/rules/reload", TOKENS["admin-token"]) == 200
    assert status("GET", "/v1/rules", TOKENS["admin-token"]) == 401 and status("GET", "/v1/rules", "another") == 200


def test_the_secret_as_it_is_committed_stops_the_start(tmp_path):
    pod = Pod(tmp_path, manifests("server"), start=False)
    done = subprocess.run([RATIOND, *pod.options], env=pod.env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and "the file is empty; write the secret into it" in done.stderr


def test_pods_share_their_limits_through_the_redis_of_the_secret(tmp_path):
    """Two pods, of which one is killed and comes back."""
    with RedisServer(tmp_path) as redis:
        redis.flush_and_vouch()
        folders = [tmp_path / "a", tmp_path / "b"]
        for folder in folders:
            folder.mkdir()
        with (Pod(folders[0], manifests("server"), secrets=secrets_of("server", redis.url)) as a,
              Pod(folders[1], manifests("server"), secrets=secrets_of("server", redis.url)) as b):
            assert [login(one) for one in (a, b, a, b)] == [200] * 4
            a.kill()
            a.start()
            assert [login(one) for one in (b, a, b)] == [200, 429, 429]


def login(pod):
    body = {"attributes": {"method": "POST", "path": "/login", "ip": "192.0.2.7"}}
    return pod.http("POST", "/v1/check", body).status


# --- the chart --------------------------------------------------------------------------------------


CHART = ROOT / "deploy/helm/ration"


def chart(name):
    return yaml.safe_load((CHART / name).read_text())


def joined(values, others):
    """As Helm joins two files of values."""
    return {**values, **{key: joined(values[key], value) if isinstance(value, dict) and isinstance(values.get(key), dict)
                         else value for key, value in others.items()}}


def names(values):
    """Of all values that the chart has, as in `image.tag`; below free-form ones there are none."""
    free = {"resources", "nodeSelector", "affinity", "podLabels", "podAnnotations"}
    for key, value in values.items():
        yield key
        if isinstance(value, dict) and key not in free:
            yield from (f"{key}.{name}" for name in value)


def test_chart_has_the_version_of_the_image():
    about = chart("Chart.yaml")
    assert about["version"] == about["appVersion"] == VERSION
    assert chart("values.yaml")["image"] == {"repository": "ration", "tag": "", "pullPolicy": "IfNotPresent"}


def test_values_fit_their_schema_which_knows_no_others():
    schema, values = json.loads((CHART / "values.schema.json").read_text()), chart("values.yaml")
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    jsonschema.validate(joined(values, chart("values-production.yaml")), schema)
    properties = schema["properties"]
    known = {f"{key}.{name}" for key, one in properties.items() for name in one.get("properties", {})} | set(properties)
    assert set(names(values)) == known - {"global"}
    for wrong in ({"replica": 3}, {"workers": 0}, {"image": {"name": "x"}}, {"memory": "10x"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(joined(values, wrong), schema)


def test_templates_use_every_value_and_no_other():
    text = "".join(path.read_text() for path in (CHART / "templates").rglob("*") if path.is_file())
    used = {name.split(".")[0] for name in re.findall(r"\.Values\.(\w+)", text)}
    assert used == set(chart("values.yaml"))


def test_rules_of_the_chart_are_in_order(tmp_path):
    (tmp_path / "ration.yaml").write_text(chart("values.yaml")["rules"])
    done = subprocess.run([RATIOND, "--config", tmp_path, "--check"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
