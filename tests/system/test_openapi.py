# SPDX-License-Identifier: Apache-2.0
"""The descriptions of both ports at /openapi.json: complete, sound, and true of the server."""

import contextlib
import functools
import http.client
import json
import os
import re
import subprocess

import jsonschema
import pytest

from daemon import PATIENCE, ROOT, Daemon
from openapi_document import Document, close, nodes

TOOLS = ROOT / "build" / "openapi" / "bin" # ./dev deps
FILES = ROOT / "tests" / "openapi"
RULES = (FILES / "rules.yaml").read_text()
PORTS = {"http": "src/front/http/routes.c", "admin": "src/front/admin/routes.c"}
TOKEN = "a token of the tests, thirty-two bytes"
OPTIONS = ["--waiting", "0", "--trust-local", "false"] # a request that waits in line would hold the test for 60 s
# Where callers need a token only for some bodies: those that give units back.
TOKEN_FOR_SOME = ("/v1/check", "/v1/throttle", "/json")
SOAK = "RATION_SOAK" in os.environ
EXAMPLES = 300 if SOAK else 12 # of schemathesis, for each operation and phase


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openapi")
    with Daemon(folder, RULES, ["--state", folder / "state"]) as d:
        yield d


@pytest.fixture(params=PORTS)
def port(request):
    return request.param


def described(daemon, port):
    return Document(daemon.http("GET", "/openapi.json", port=port).json)


def test_a_document_is_served_with_its_tag(daemon, port):
    answer = daemon.http("GET", "/openapi.json", port=port)
    tag = answer.headers["ETag"]
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "public, max-age=3600"
    assert answer.json["info"]["version"] == daemon.admin("GET", "/v1/status").json["version"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = daemon.http("GET", "/openapi.json", headers={"If-None-Match": known}, port=port)
        assert (again.status, again.headers["ETag"], again.body) == (304, tag, b"")
    assert daemon.http("GET", "/openapi.json", headers={"If-None-Match": '"other"'}, port=port).status == 200
    head = daemon.http("HEAD", "/openapi.json", port=port)
    assert (head.status, head.headers["Content-Length"], head.body) == (200, str(len(answer.body)), b"")


def test_it_needs_no_token(tmp_path, port):
    with Daemon(tmp_path, options=OPTIONS, env={"RATION_ADMIN_TOKEN": TOKEN}) as d:
        assert d.http("GET", "/openapi.json", port=port).status == 200
        assert d.admin("GET", "/v1/status").status == 401


def test_it_is_sound(daemon, port, tmp_path):
    """Also its schemas; and it has no component that nothing refers to."""
    file = tmp_path / "openapi.json"
    file.write_bytes(daemon.http("GET", "/openapi.json", port=port).body)
    subprocess.run([TOOLS / "openapi-spec-validator", "--schema", "3.1", file], check=True, capture_output=True)
    document = json.loads(file.read_text())
    for node, _ in nodes(document):
        if isinstance(node.get("schema"), dict):
            jsonschema.Draft202012Validator.check_schema(node["schema"])
    used = {node["$ref"] for node, _ in nodes(document) if "$ref" in node}
    used |= {f"#/components/securitySchemes/{name}" for o in Document(document).operations() for s in o.security for name in s}
    there = {f"#/components/{kind}/{name}" for kind, parts in document["components"].items() for name in parts}
    assert there == used
    ids = [operation.id for operation in Document(document).operations()]
    assert len(ids) == len(set(ids)) and all(not key.startswith("x-") for key in document)


# --- every route, and no other ---------------------------------------------------------------------

ANY = {"get", "head", "post", "put", "patch", "delete", "options", "trace"}


def test_it_has_the_routes_of_the_table(daemon, port):
    """A path that ends in / stands for all that begin with it: a parameter follows. HEAD goes with GET."""
    table = {}
    for methods, path in re.findall(r'^    \{(RN_\w+), "([^"]+)", ', (ROOT / PORTS[port]).read_text(), re.M):
        table.setdefault(path, set()).update(ANY if methods == "RN_ANY" else {methods.removeprefix("RN_").lower()})
    items = {re.sub(r"(?<=/)\{\w+\}$", "", path): set(item) for path, item in described(daemon, port).json["paths"].items()}
    assert len(table) > 15
    assert items == table


def test_allow_names_the_methods_of_the_description(daemon, port):
    for path, item in described(daemon, port).json["paths"].items():
        others = ANY - set(item) - ({"head"} if "get" in item else set())
        target = re.sub(r"\{\w+\}", "1", path)
        for method in sorted(others):
            answer = daemon.http(method.upper(), target, port=port)
            assert answer.status == 405, (method, path)
            allowed = {m.lower() for m in answer.headers["Allow"].split(", ")}
            assert allowed - {"head"} == set(item) - {"head"}, path


# --- tokens ------------------------------------------------------------------------------------------

SCOPES = ["metrics", "read", "admin"]
GUARDED_RULES = RULES + "server:\n  tokens:\n" + "".join(
    f"    for-{scope}: {{ token: {scope} has thirty-two bytes at least, scope: {scope} }}\n" for scope in SCOPES)


def ask_from(d, address, port, operation, token):
    """The status of a request from one of the many addresses of this machine: each may try ten wrong tokens."""
    host, _, number = d.addresses[port].rpartition(":")
    connection = http.client.HTTPConnection(host, int(number), timeout=PATIENCE, source_address=(address, 0))
    with contextlib.closing(connection):
        connection.request(operation.method.upper(), re.sub(r"\{\w+\}", "1", operation.path),
                           headers={"Authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status


def test_tokens_are_needed_where_it_says(tmp_path, port):
    tokens = {scope: f"{scope} has thirty-two bytes at least" for scope in SCOPES}
    with Daemon(tmp_path, GUARDED_RULES, [*OPTIONS, "--state", tmp_path / "state"]) as d:
        for number, operation in enumerate(described(d, port).operations()):
            address = f"127.0.1.{number + 1}"
            ask = functools.partial(ask_from, d, address, port, operation)
            needed = [way["token"][0] for way in operation.security if "token" in way]
            if not needed or operation.path in TOKEN_FOR_SOME:
                assert ask(None) not in (401, 403) and ask("a wrong one") not in (401, 403), operation
                continue
            assert (ask(None), ask("a wrong one")) == (401, 401), operation
            least = SCOPES.index(needed[0])
            for scope in SCOPES:
                enough = SCOPES.index(scope) >= least
                assert (ask(tokens[scope]) not in (401, 403)) == enough, (operation, scope)
                assert enough or ask(tokens[scope]) == 403, (operation, scope)


# --- examples ---------------------------------------------------------------------------------------

# What differs from run to run, with all that is in it.
VARIES = {"reset_after", "retry_after", "reset", "rest", "lease", "charge", "expires_after", "uptime", "loaded_at", "workers",
          "version", "id", "file", "decisions", "memory", "listeners", "connections", "last"}


def alike(described, answered, varies=False):
    """Whether two answers are the same but for what varies, of which the types are."""
    if isinstance(described, dict) and isinstance(answered, dict):
        return described.keys() == answered.keys() and all(
            alike(value, answered[key], varies or key in VARIES) for key, value in described.items())
    if isinstance(described, list) and isinstance(answered, list):
        return len(described) == len(answered) and all(alike(*pair, varies) for pair in zip(described, answered))
    if isinstance(described, str) and isinstance(answered, str) and not varies:
        return re.sub(r"\d+ seconds", "", described) == re.sub(r"\d+ seconds", "", answered)
    if varies and isinstance(described, (int, float)) and isinstance(answered, (int, float)):
        return True
    return type(described) is type(answered) if varies else described == answered


def replace(body, leases):
    return {key: leases.get(value, value) if key == "lease" else value for key, value in body.items()} if body else body


def test_examples_are_answers_of_the_server(tmp_path):
    """One after the other, as they stand in the descriptions; a lease is settled that an example before has answered."""
    leases, count = {}, 0
    with Daemon(tmp_path, RULES, ["--state", tmp_path / "state"]) as d:
        for port in PORTS:
            for operation in described(d, port).operations():
                for name, body, status, value in operation.examples():
                    answer = d.http(operation.method.upper(), operation.target(name), replace(body, leases), port=port)
                    assert answer.status == int(status), (operation, name, answer)
                    assert alike(value, answer.json), (operation, name, answer)
                    leases[value.get("lease")] = answer.json.get("lease")
                    count += 1
    assert count > 25


def test_examples_agree_with_their_schemas(daemon, port):
    """Those of answers also when no member may be there that is not described."""
    document = described(daemon, port)
    close(document.json)

    def agrees(value, schema):
        whole = {"components": document.json["components"], **schema}
        jsonschema.Draft202012Validator(whole).validate(value)

    for operation in document.operations():
        for parameter in operation.parameters:
            for example in [*parameter.get("examples", {}).values(), *([{"value": parameter["example"]}] if "example" in parameter else [])]:
                agrees(example["value"], parameter["schema"])
        schema = operation.body.get("content", {}).get("application/json", {}).get("schema")
        for name, value in operation.requests().items():
            agrees(value, schema)
            assert name in [n for n, *_ in operation.examples()], (operation, name)
        for response in operation.responses.values():
            for content in response.get("content", {}).values():
                for example in content.get("examples", {}).values():
                    agrees(example["value"], content["schema"])


def test_an_empty_answer_has_no_type(daemon):
    answer = daemon.http("GET", "/v1/auth", headers={"X-Forwarded-Uri": "/"})
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (200, b"", None)


# --- schemathesis -----------------------------------------------------------------------------------


def tickets(d):
    """Leases of reservations and places, and charges: some of each for an hour."""
    def ask(path, body, name):
        return [d.http("POST", path, body).json[name] for _ in range(8)]

    user = {"user": "ann", "path": "/v1/completions"}
    return {"lease": ask("/v1/reserve", {"attributes": user, "for": 3600}, "lease"),
            "place": ask("/v1/acquire", {"key": "x", "limit": "20 concurrent", "for": 3600}, "lease"),
            "charge": ask("/v1/check", {"attributes": user}, "charge")}


def demand_token(document):
    """As it is with trust_local: false. For some bodies it cannot be told."""
    for path, item in document["paths"].items():
        for operation in item.values():
            if path not in TOKEN_FOR_SOME and "security" in operation:
                operation["security"] = [way for way in operation["security"] if way]


def tighten(document, leases):
    """What a test may demand beyond the description: no member that is not described, no status of a rule's own
    choice (there is no such rule), leases that are known."""
    close(document)
    for path, item in document["paths"].items():
        for operation in item.values():
            operation["responses"].pop("default", None)
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for example in content.get("examples", {}).values():
                if "lease" in example["value"]:
                    example["value"]["lease"] = leases["lease" if path == "/v1/commit" else "place"][0]


def run_schemathesis(d, port, document, *args):
    """Its exit status and what it printed."""
    known = tickets(d)
    tighten(document, known)
    file = d.folder / "openapi.json"
    file.write_text(json.dumps(document))
    done = subprocess.run(
        [TOOLS / "schemathesis", "--config-file", FILES / "schemathesis.toml", "run", file, "--no-color",
         "--url", f"http://{d.addresses[port]}", "-H", f"Authorization: Bearer {TOKEN}", *args], cwd=d.folder,
        env={**os.environ, "PYTHONPATH": str(FILES), "PYTHONDONTWRITEBYTECODE": "1", "RATION_TICKETS": json.dumps(known),
             "RATION_RULES": RULES},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


@pytest.fixture
def guarded(tmp_path):
    """A daemon that trusts nobody without a token."""
    with Daemon(tmp_path, RULES, [*OPTIONS, "--state", tmp_path / "state"], env={"RATION_ADMIN_TOKEN": TOKEN}) as d:
        yield d


def test_schemathesis_finds_nothing(guarded, port):
    document = described(guarded, port).json
    demand_token(document)
    seed = [] if SOAK else ["--seed", "1"]
    status, text = run_schemathesis(guarded, port, document, "--max-examples", str(EXAMPLES), *seed)
    assert status == 0, text
    generated, passed = map(int, re.search(r"(\d+) generated, (\d+) passed", text).groups())
    assert generated == passed > 1000, text
    operations = sum(len(item) for item in document["paths"].values())
    assert f"Tested: {operations}\n" in text, text


def test_schemathesis_finds_what_is_wrong(guarded):
    """So that an empty report means something: a description with four faults of different kinds."""
    document = described(guarded, "admin").json
    paths = document["paths"]
    paths["/healthz"]["get"]["security"] = [{"token": []}]
    del paths["/v1/rules"]["get"]["responses"]["200"]["content"]["application/json"]
    del document["components"]["schemas"]["Status"]["properties"]["uptime"]
    paths["/v1/top"]["get"]["parameters"][0]["schema"]["maximum"] = 2000
    only = [word for path in ("/healthz", "/v1/rules", "/v1/status", "/v1/top") for word in ("--include-path", path)]
    status, text = run_schemathesis(guarded, "admin", document, "--seed", "1", "--max-examples", "5", "--phases",
                                    "examples,coverage", "--include-method", "GET", *only)
    assert status == 1, text
    for finding in ("ST401", "ST105", "ST108", "ST202"): # as they are called in its report
        assert finding in text, text


# --- a client that is made from it ------------------------------------------------------------------

USE = """
from rationd_http import AuthenticatedClient
from rationd_http.api.decisions import check
from rationd_http.models import Attributes, Check, Decision, Refusal
import sys
client = AuthenticatedClient(sys.argv[1], token="none")
item = Attributes.from_dict({"ip": "192.0.2.77", "path": "/api/items"})
first = check.sync(client=client, body=Check(attributes=item, cost=100))
assert isinstance(first, Decision) and first.allowed and first.rule == "api" and first.remaining == 0, first
second = check.sync(client=client, body=Check(attributes=item))
assert isinstance(second, Refusal) and not second.allowed and second.retry_after > 0, second
"""


def test_a_generator_makes_a_client_of_it(daemon, port, tmp_path):
    file, package = tmp_path / "openapi.json", tmp_path / f"rationd_{port}"
    document = daemon.http("GET", "/openapi.json", port=port)
    file.write_bytes(document.body)
    (tmp_path / "config.yaml").write_text("post_hooks: []\n") # it would format the code
    made = subprocess.run([TOOLS / "openapi-python-client", "generate", "--path", file, "--output-path", package, "--meta", "none",
                           "--config", tmp_path / "config.yaml"], capture_output=True, text=True, check=True)
    complaints = set(re.findall(r"^WARNING.*\n\n(.*)", made.stdout + made.stderr, re.M))
    of_streams = {text for text in complaints if "application/x-ndjson" in text}
    assert complaints - of_streams <= {"Unsupported content type application/yaml"}, made.stdout # the generator's limits
    functions = {path.stem.replace("_", "") for path in (package / "api").glob("*/*.py")}
    assert {operation.id.lower() for operation in Document(document.json).operations()} <= functions
    if port == "http":
        (tmp_path / "use.py").write_text(USE)
        subprocess.run([TOOLS / "python", "use.py", f"http://{daemon.addresses['http']}"], cwd=tmp_path, check=True)
