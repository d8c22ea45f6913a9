# SPDX-License-Identifier: Apache-2.0
"""A real API server of Kubernetes with a real etcd, on loopback ports. There are no controllers and no nodes: objects are
admitted, defaulted and kept, and nothing runs."""

import json
import os
import pathlib
import secrets
import ssl
import subprocess
import sys
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/system"))

from daemon import PATIENCE, free_port, wait_for  # noqa: E402

TOOLS = pathlib.Path(os.environ["KUBERNETES_TOOLS"]).resolve()
PLURALS = {"NetworkPolicy": "networkpolicies"}


class Answer:
    def __init__(self, response):
        self.status, self.warnings = response.status, response.headers.get_all("Warning") or []
        self.text = response.read().decode()


class ApiServer:
    def __init__(self, folder):
        self.folder, self.token, self.processes = folder, secrets.token_hex(16), []
        self.url = f"https://127.0.0.1:{free_port()}"
        self.kubeconfig = folder / "kubeconfig"

    def __enter__(self):
        peer, client = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.start("etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", client, "--advertise-client-urls", client,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                   "--unsafe-no-fsync")
        key = self.folder / "key.pem"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        (self.folder / "tokens.csv").write_text(f'{self.token},tester,1,"system:masters"\n')
        self.start(TOOLS / "bin/kube-apiserver", "--etcd-servers", client, "--bind-address", "127.0.0.1",
                   "--secure-port", self.url.rpartition(":")[2], "--cert-dir", self.folder / "certificates",
                   "--service-cluster-ip-range", "10.0.0.0/16", "--token-auth-file", self.folder / "tokens.csv",
                   "--authorization-mode", "RBAC", "--service-account-issuer", "https://test", "--service-account-key-file", key,
                   "--service-account-signing-key-file", key, "--disable-admission-plugins", "ServiceAccount")
        wait_for(self.is_ready, "the API server", 5 * PATIENCE)
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "test", "user": {"token": self.token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}]}))
        self.kubeconfig.chmod(0o600)
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.kill()
            process.wait(PATIENCE)

    def start(self, *command):
        with open(self.folder / f"{pathlib.Path(command[0]).name}.log", "wb") as log:
            self.processes.append(subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def is_ready(self):
        assert all(process.poll() is None for process in self.processes), f"one ended; see the logs in {self.folder}"
        try:
            return self.ask("GET", "/readyz").status == 200 and self.ask("GET", "/api/v1/namespaces/default").status == 200
        except OSError:
            return False

    def ask(self, method, path, content=None):
        """One request; `content` is an object, or nothing."""
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if content is None else json.dumps(content).encode(),
                                         headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE, context=trusting) as response:
                return Answer(response)
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused)

    def create(self, thing, namespace):
        """With every unknown or repeated field an error."""
        group, kind = thing["apiVersion"], thing["kind"]
        root = f"/api/{group}" if group == "v1" else f"/apis/{group}"
        place = "" if kind in ("Namespace", "CustomResourceDefinition") else f"/namespaces/{namespace}"
        return self.ask("POST", f"{root}{place}/{PLURALS.get(kind, kind.lower() + 's')}?fieldValidation=Strict", thing)
