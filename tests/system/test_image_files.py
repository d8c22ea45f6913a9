# SPDX-License-Identifier: Apache-2.0
"""What the two ways to make the container image say about it. tests/image makes and runs the image."""

import importlib.util
import json
import re
import subprocess

from daemon import RATIOND, ROOT

CONTAINER = ROOT / "deploy/container"


def make_image():
    spec = importlib.util.spec_from_file_location("make_image", CONTAINER / "make_image.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def instruction(name):
    """The last instruction of that name in the Containerfile, on one line."""
    text = (CONTAINER / "Containerfile").read_text().replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", text, re.M)[-1]


def test_script_and_containerfile_agree():
    settings = make_image().SETTINGS
    assert json.loads(instruction("ENTRYPOINT")) == settings["Entrypoint"]
    assert json.loads(instruction("CMD")) == settings["Cmd"]
    assert instruction("USER") == settings["User"]
    assert instruction("ENV").split() == settings["Env"]
    assert set(instruction("EXPOSE").split()) == set(settings["ExposedPorts"])
    assert {instruction("VOLUME")} == set(settings["Volumes"])
    assert instruction("STOPSIGNAL") == settings["StopSignal"]
    assert json.loads(instruction("HEALTHCHECK").split("CMD")[1]) == settings["Healthcheck"]["Test"][1:]


def test_rationd_takes_the_arguments_and_rules_of_the_image(tmp_path):
    image = make_image()
    rules = tmp_path / "ration.yaml"
    rules.write_text(image.RULES)
    words = [str(rules) if word == "/etc/ration/ration.yaml" else word for word in image.SETTINGS["Cmd"]]
    done = subprocess.run([RATIOND, *words, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_copied_path_exists_and_docker_is_sent_it():
    sent = {line[1:] for line in (CONTAINER / "Containerfile.dockerignore").read_text().splitlines()
            if line.startswith("!")}
    text = (CONTAINER / "Containerfile").read_text()
    copied = {name for line in re.findall(r"^COPY (?!--)(.*)$", text, re.M) for name in line.split()[:-1]}
    assert copied == sent and all((ROOT / name).exists() for name in copied)
