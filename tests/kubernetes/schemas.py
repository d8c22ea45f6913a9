#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the schemas that kubeconform compares manifests with, from packages of registries.

usage: schemas.py WHEEL DEFINITION OUT VERSION...

WHEEL is kubernetes-validate of PyPI: Kubernetes' own schemas, of VERSIONs such as v1.37.0, whose references
kubeconform cannot follow. DEFINITION is the file of the Prometheus Operator that defines ServiceMonitors.
Each schema in OUT stands alone, and knows no properties but those it names.
"""

import json
import pathlib
import re
import sys
import zipfile

import yaml

INSIDE = re.compile(r"kubernetes_validate/kubernetes-json-schema/(v[\d.]+)-local-strict/([\w.-]+)\.json")
REFERENCE = re.compile(r'"(?:/api/_definitions\.json)?#/\$defs/([^"]+)"')


def references(schema):
    """Names of the definitions that a schema refers to."""
    return set(REFERENCE.findall(json.dumps(schema)))


def stand_alone(schema, definitions):
    """The schema with the definitions that it needs, directly or not."""
    needed, found = references(schema), set()
    while needed - found:
        name = (needed - found).pop()
        found.add(name)
        needed |= references(definitions[name])
    whole = {**schema, "$defs": {name: definitions[name] for name in sorted(found)}}
    whole.pop("$id", None)  # or kubeconform looks for the definitions elsewhere
    return json.loads(REFERENCE.sub(r'"#/$defs/\1"', json.dumps(whole)))


def from_wheel(wheel, out, versions):
    with zipfile.ZipFile(wheel) as archive:
        found = [match for match in map(INSIDE.fullmatch, archive.namelist()) if match]
        for version in versions:
            read = {match[2]: match[0] for match in found if match[1] == version}
            definitions = json.loads(archive.read(read.pop("_definitions")))["$defs"]
            (out / version).mkdir(parents=True)
            for name, path in read.items():
                schema = json.loads(archive.read(path))
                # Objects that one can send to a server; the rest are parts of them.
                if "kind" in schema.get("properties", {}):
                    (out / version / f"{name}.json").write_text(json.dumps(stand_alone(schema, definitions)))


def strict(schema):
    """Without other properties than those that are named."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


def from_operator(file, out):
    definition = yaml.safe_load(file.read_text())
    schema = strict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    (out / "servicemonitor.json").write_text(json.dumps(schema))


def main(words):
    if len(words) < 4:
        sys.exit(__doc__.split("\n\n")[1])
    wheel, definition, out = map(pathlib.Path, words[:3])
    out.mkdir(parents=True)
    from_wheel(wheel, out, words[3:])
    from_operator(definition, out)


if __name__ == "__main__":
    main(sys.argv[1:])
