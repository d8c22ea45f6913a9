# SPDX-License-Identifier: Apache-2.0
"""Rules files in an editor: the YAML language server, which VS Code, Neovim, Helix and others use, finds
the schema by the first line of a file, completes keys, explains them and marks mistakes."""

import json
import shutil
import subprocess
import threading

import pytest

from daemon import PATIENCE, ROOT, Daemon
from ration_command import RATION

NODE = ROOT / "tests" / "node"
SERVER = NODE / "node_modules/yaml-language-server/bin/yaml-language-server"
EXAMPLES = sorted([ROOT / "examples/ration.yaml", *(ROOT / "examples").glob("*/ration.yaml")])
SCHEMA = json.loads((ROOT / "schema/ration.schema.json").read_text())


class Editor:
    """Speaks LSP with a language server of its own, over its standard input and output."""

    def __init__(self):
        self.process = subprocess.Popen(["node", SERVER, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.watchdog = threading.Timer(5 * PATIENCE, self.process.kill) # a server that hangs
        self.watchdog.start()
        self.count, self.diagnostics, self.settings = 0, {}, {}
        self.ask("initialize", processId=None, rootUri=None, capabilities={
            "textDocument": {"hover": {"contentFormat": ["plaintext"]}, "completion": {}}, "workspace": {"configuration": True}})
        self.tell("initialized")

    def close(self):
        self.watchdog.cancel()
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()

    def send(self, **message):
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self.process.stdin.flush()

    def read(self):
        length = 0
        while (line := self.process.stdout.readline()) != b"\r\n":
            if not line:
                raise EOFError("the language server has ended, or has said nothing for too long")
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        message = json.loads(self.process.stdout.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif "method" in message and "id" in message: # it asks for settings, or wants to register something
            items = message["params"]["items"] if message["method"] == "workspace/configuration" else None
            self.send(id=message["id"], result=items and [self.settings.get(item["section"]) for item in items])
        return message

    def tell(self, method, **params):
        self.send(method=method, params=params)

    def ask(self, method, **params):
        self.count += 1
        self.send(id=self.count, method=method, params=params)
        while (answer := self.read()).get("id") != self.count or "method" in answer:
            pass
        return answer["result"]

    def open(self, path, text=None):
        """Its diagnostics, as texts."""
        uri = path.as_uri()
        self.diagnostics.pop(uri, None)
        self.tell("textDocument/didOpen", textDocument={
            "uri": uri, "languageId": "yaml", "version": 1, "text": text or path.read_text()})
        while uri not in self.diagnostics:
            self.read()
        return [f"{d['range']['start']['line'] + 1}: {d['message']}" for d in self.diagnostics[uri]]

    def at(self, method, path, line, character):
        return self.ask(f"textDocument/{method}", textDocument={"uri": path.as_uri()},
                        position={"line": line - 1, "character": character})


@pytest.fixture(scope="module")
def editor():
    if not shutil.which("node") or not SERVER.exists():
        pytest.skip("the language server is not installed: ./dev deps")
    editor = Editor()
    yield editor
    editor.close()


def rules(folder, text):
    """A file with the first line that docs/rules.md recommends."""
    folder.mkdir(exist_ok=True)
    path = folder / "rules.yaml"
    path.write_text(f"# yaml-language-server: $schema={ROOT}/schema/ration.schema.json\n{text}")
    return path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.relative_to(ROOT / "examples").as_posix())
def test_examples_name_the_schema_and_suit_it(editor, path):
    first = path.read_text().splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    assert (path.parent / first.partition("=")[2]).resolve() == ROOT / "schema/ration.schema.json"
    assert editor.open(path) == []
    wrong = path.read_text().replace("limits:\n", "limts:\n", 1)
    assert any("limts" in text for text in editor.open(path.with_name("wrong.yaml"), wrong)) # so the schema was found


def test_mistakes_are_marked_where_they_are(editor, tmp_path):
    path = rules(tmp_path, "limits:\n  - name: a\n    lmit: 5 per minute\n    limit: 5 per fortnight\n    mode: on\n")
    marks = "\n".join(editor.open(path))
    assert "4: Property lmit is not allowed" in marks, marks
    assert "5: " in marks and "6: " in marks and '"enforce"' in marks


def test_keys_and_values_are_completed(editor, tmp_path):
    path = rules(tmp_path, "limits:\n  - name: a\n    limit: 5 per minute\n    on_\n")
    editor.open(path)
    keys = {item["label"] for item in editor.at("completion", path, 5, 7)["items"]}
    assert {"on_full", "on_store_failure"} <= keys
    path = rules(tmp_path / "other", "limits:\n  - name: a\n    limit: 5 per minute\n    algorithm: \n")
    editor.open(path)
    values = {item["label"] for item in editor.at("completion", path, 5, 15)["items"]}
    assert set(SCHEMA["$defs"]["rule"]["properties"]["algorithm"]["enum"]) <= values


def test_the_settings_of_the_editor_find_the_schema(editor, tmp_path):
    """The setting `yaml.schemas`, which VS Code, Neovim and Helix each write in their own files."""
    path = tmp_path / "ration.yaml"
    path.write_text("limts: []\n")
    assert editor.open(path) == []
    editor.settings["yaml"] = {"schemas": {str(ROOT / "schema/ration.schema.json"): "ration.yaml"},
                               "completion": True, "hover": True, "validate": True}
    del editor.diagnostics[path.as_uri()]
    editor.tell("workspace/didChangeConfiguration", settings={})
    while not editor.diagnostics.get(path.as_uri()): # which the new settings bring
        editor.read()
    assert "limts" in editor.diagnostics[path.as_uri()][0]["message"]


def test_keys_are_explained(editor, tmp_path):
    path = rules(tmp_path, "limits:\n  - name: a\n    limit: 5 per minute\n    on_full: refuse\n    escalate: "
                           "{after: 3 refusals within 1m, ban: 1m}\nserver: {redis_deadline: 10ms}\n")
    editor.open(path)

    def shown(line, character):
        return str(editor.at("hover", path, line, character)["contents"]).replace("\\", "")
    assert "When there is no memory for another key" in shown(5, 6)
    assert "How long the first ban lasts" in shown(6, 45)
    assert "How long a decision waits for Redis" in shown(7, 12)


# --- the schema itself ---------------------------------------------------------------------------

def described(schema):
    target = SCHEMA["$defs"].get(schema.get("$ref", "").rpartition("/")[2], {})
    return bool(schema.get("description") or target.get("description"))


def undescribed(schema, path=""):
    """Paths of properties without a description. What only forbids or narrows, needs none."""
    for key, value in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if key in ("if", "then", "else", "not", "dependentSchemas"):
            continue
        if key == "properties":
            yield from (f"{path}/{name}" for name, one in value.items() if one is not False and not described(one))
        if isinstance(value, (dict, list)):
            yield from undescribed(value, f"{path}/{key}")


def test_every_property_is_described():
    assert list(undescribed(SCHEMA)) == []
    assert list(undescribed({"properties": {"a": {"type": "string"}}})) == ["/a"]


def test_the_programs_have_the_schema_in_them(tmp_path):
    file = (ROOT / "schema/ration.schema.json").read_text()
    assert subprocess.run([RATION, "schema"], capture_output=True, text=True).stdout == file
    with Daemon(tmp_path, "limits: []") as d:
        answer = d.admin("GET", "/schema.json")
        assert (answer.status, answer.text, answer.headers["Cache-Control"]) == (200, file, "max-age=3600")
        assert answer.headers["Content-Type"] == "application/schema+json"
        head = d.admin("HEAD", "/schema.json")
        assert (head.status, head.text, head.headers["Content-Length"]) == (200, "", str(len(file.encode())))
