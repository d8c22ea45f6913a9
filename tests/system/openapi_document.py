# SPDX-License-Identifier: Apache-2.0
"""The descriptions of rationd's ports, as its ports serve them, and their examples.

    document = Document(daemon.http("GET", "/openapi.json").json)
    for operation in document.operations():
        assert operation.responses["200"]
"""

import urllib.parse

class Operation:
    def __init__(self, document, path, method):
        found = document.json["paths"][path][method]
        self.document, self.path, self.method, self.id = document, path, method, found["operationId"]
        self.security = found.get("security", document.json["security"])
        self.responses = {status: document.resolve(r) for status, r in found["responses"].items()}
        self.parameters = [document.resolve(p) for p in found.get("parameters", [])]
        self.body = document.resolve(found.get("requestBody", {}))

    def __repr__(self):
        return f"{self.method.upper()} {self.path}"

    def answers(self):
        """Name, status and value of each example of an answer."""
        for status, response in self.responses.items():
            for content in response.get("content", {}).values():
                for name, example in content.get("examples", {}).items():
                    yield name, status, example["value"]

    def requests(self):
        """The bodies of the examples, by name."""
        examples = self.body.get("content", {}).get("application/json", {}).get("examples", {})
        return {name: example["value"] for name, example in examples.items()}

    def target(self, name):
        """The path and the query string of an example."""
        query = {}
        for parameter in self.parameters:
            if name in parameter.get("examples", {}):
                value = parameter["examples"][name]["value"]
                query.update(value if isinstance(value, dict) else {parameter["name"]: value})
        return self.path + ("?" + urllib.parse.urlencode(query) if query else "")

    def examples(self):
        """(name, body or None, status, answer) of each. Answers are shared by operations: an example is one of this
        operation if its body or a parameter has one of that name, or if it has neither."""
        bodies = self.requests()
        asked = {*bodies, *(name for p in self.parameters for name in p.get("examples", {}))}
        for name, status, answer in self.answers():
            if name in asked or not (self.body or self.parameters):
                yield name, bodies.get(name), status, answer


class Document:
    def __init__(self, json):
        self.json = json

    def resolve(self, node):
        """What a reference leads to; anything else is itself."""
        while "$ref" in node:
            found = self.json
            for part in node["$ref"].lstrip("#/").split("/"):
                found = found[part]
            node = found
        return node

    def operations(self):
        return [Operation(self, path, method) for path, item in self.json["paths"].items() for method in item]


def nodes(node, inside=None):
    """Every object below a node that is no example, with the keyword of the list that it is in."""
    if isinstance(node, dict):
        yield node, inside
        for key, value in node.items():
            if key not in ("example", "examples", "enum", "const"):
                for child in value if isinstance(value, list) else [value]:
                    yield from nodes(child, key if key == "allOf" else None)


def close(document):
    """Lets no answer have a member that is not described. Callers must ignore such members, so the description
    allows them; but there must be none."""
    components = document["components"]
    bases = {node["$ref"] for node, inside in nodes(document) if inside == "allOf" and "$ref" in node}
    kept = [components["schemas"][ref.rpartition("/")[2]] for ref in bases]
    operations = [operation for item in document["paths"].values() for operation in item.values()]
    for root in [components["responses"], components["schemas"], *(o["responses"] for o in operations)]:
        for node, inside in list(nodes(root)):
            if inside == "allOf" or any(node is schema for schema in kept):
                continue
            if node.get("$ref") in bases:
                node.update({"allOf": [{"$ref": node.pop("$ref")}], "unevaluatedProperties": False})
            elif "additionalProperties" not in node and ("allOf" in node or isinstance(node.get("properties"), dict)):
                node["unevaluatedProperties"] = False
