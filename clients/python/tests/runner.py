# SPDX-License-Identifier: Apache-2.0
"""Executes clients/scenarios.yaml, whose head explains the grammar, with the client for threads or that for asyncio."""

import asyncio
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import threading
import time

import yaml
from daemon import Daemon, free_port, wait_for
from fake_rationd import FakeRationd
from frameworks import SITES

from ration_client import AsyncClient, Client

TABLE = yaml.safe_load((pathlib.Path(__file__).resolve().parents[2] / "scenarios.yaml").read_text())
DEFAULTS = {"deadline": 5.0, "connections": 1, "failures": 1000}
OPTIONS = ["--http", "none", "--admin", "none", "--workers", "1", "--memory", "2M"]
PATIENCE = 30


def has_requests(scenario):
    return any("request" in step for step in scenario.get("steps", ()))


# --- the two clients --------------------------------------------------------------------------


class Threads:
    def __init__(self, settings):
        self.client = Client(**settings)

    def call(self, name, *args, **kwargs):
        return getattr(self.client, name)(*args, **kwargs)

    def close(self):
        self.client.close()


class Asyncio:
    """A loop that runs all the time, in a thread of its own."""

    def __init__(self, settings):
        self.client = AsyncClient(**settings)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

    def call(self, name, *args, **kwargs):
        async def ask():
            return await getattr(self.client, name)(*args, **kwargs)
        return asyncio.run_coroutine_threadsafe(ask(), self.loop).result()

    def close(self):
        asyncio.run_coroutine_threadsafe(self.client.close(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


CLIENTS = {"threads": Threads, "asyncio": Asyncio}


class Site:
    """The middleware of a framework, asked over HTTP."""

    def __init__(self, framework, settings, app):
        self.stack = contextlib.ExitStack()
        self.port = self.stack.enter_context(SITES[framework](settings, app.get("skip"), app.get("wait")))

    def call(self, _, method, target, headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, target, headers=headers)
            response = connection.getresponse()
            return response, response.read().decode()

    def close(self):
        self.stack.close()


# --- what is expected ---------------------------------------------------------------------------


def matches(expected, found):
    if isinstance(expected, dict) and "has" in expected:
        return expected["has"] in str(found)
    if isinstance(expected, dict) and ("at_least" in expected or "at_most" in expected):
        number = None if found is None else float(found)
        return number is not None and expected.get("at_least", number) <= number <= expected.get("at_most", number)
    return expected == found and isinstance(expected, bool) == isinstance(found, bool)


def faults_of(expected, found):
    """What does not match, as a list of texts."""
    if not isinstance(expected, dict) or "at_least" in expected:
        return [] if matches(expected, found) else [f"{found!r} is not {expected!r}"]
    if isinstance(found, tuple):
        return faults_of_response(expected, *found)
    faults = []
    for name, value in expected.items():
        if name == "headers":
            faults += faults_of_headers(value, found.headers())
            continue
        seen = found.message() if name == "message" else getattr(found, name)
        seen = seen is not None if name in ("lease", "charge") else seen
        if not (value in seen if name == "why" else matches(value, seen)):
            faults.append(f"{name} is {seen!r}, not {value!r}")
    return faults + ([f"why: {found.why}"] if faults else [])


def faults_of_headers(expected, found):
    values = {name.lower(): value for name, value in found}
    return [f"{name}: {values.get(name.lower())!r} is not {value!r}" for name, value in expected.items()
            if not matches(value, values.get(name.lower()))]


def faults_of_response(expected, response, body):
    faults = faults_of_headers(expected.get("headers", {}), response.getheaders())
    members = json.loads(body) if "json" in expected else {}
    faults += [f"{name}: {members.get(name)!r} is not {value!r}" for name, value in expected.get("json", {}).items()
               if not matches(value, members.get(name))]
    if not matches(expected.get("status", response.status), response.status):
        faults.append(f"status {response.status}: {body[:200]}")
    if expected.get("body", body) != body:
        faults.append(f"body {body!r}")
    return faults


# --- steps ----------------------------------------------------------------------------------------


def arguments(step, remembered):
    """The verb, its positional and its named arguments."""
    verb = next(name for name in ("check", "take", "acquire", "reserve", "release", "renew", "commit", "refund", "report",
                                  "pause", "request") if name in step)
    what, named = step[verb], {name: step[name] for name in ("cost", "seconds", "wait", "lease") if name in step}
    if verb == "request":
        return verb, [*what, step.get("headers", {})], {}
    if verb == "report":
        return verb, [remembered[what].charge, step["status"]], {}
    if verb in ("release", "renew", "commit", "refund"):
        return verb, [remembered[what].lease], named
    if isinstance(what, dict):
        what = {name: value["repeat"] * value["count"] if isinstance(value, dict) else value for name, value in what.items()}
        return verb, [what], named
    return verb, what, named


class Run:
    def __init__(self, scenario, folder, make):
        self.scenario, self.events, self.remembered = scenario, [], {}
        self.server, address = self.start_server(folder)
        settings = {**DEFAULTS, "url": address, **scenario.get("client", {}), "on_event": lambda name, _: self.events.append(name)}
        try:
            self.subject = make(settings)
        except BaseException:
            self.stop_server()
            raise

    def start_server(self, folder):
        scenario = self.scenario
        if "fake" in scenario:
            fake = FakeRationd(scenario["fake"], TABLE["bytes"])
            return fake, f"ration://{fake.address}"
        place = f"unix:{folder}/resp.sock" if scenario.get("server") == "unix" else f"127.0.0.1:{free_port()}"
        address = place if place.startswith("unix:") else f"ration://{place}"
        if scenario.get("server") == "none" or "wrong" in scenario:
            return None, address
        rules = scenario.get("rules", TABLE["rules"])
        if "token" in scenario:
            rules += f"server: {{admin_token: {scenario['token']}, trust_local: false}}\n"
        return Daemon(folder, rules, [*OPTIONS, "--resp", place]), address

    def stop_server(self):
        if isinstance(self.server, FakeRationd):
            self.server.close()
        elif self.server is not None and self.server.process is not None:
            self.server.thaw()
            self.server.stop()

    def close(self):
        self.subject.close()
        self.stop_server()

    def take(self, step):
        for verb in ("freeze", "thaw", "kill", "start"):
            if verb in step:
                getattr(self.server, verb)()
                return
        if "events" in step:
            wait_for(lambda: is_subsequence(step["events"], list(self.events)), f"events {step['events']}, not {self.events}", PATIENCE)
            return
        verb, args, named = arguments(step, self.remembered)
        if "wrong" in step:
            message = wrong(lambda: self.subject.call(verb, *args, **named))
            assert step["wrong"] in message, message
            return
        answers = self.ask(step, lambda: self.subject.call(verb, *args, **named))
        if "expect" in step:
            faults = [fault for answer in answers for fault in faults_of(step["expect"], answer)]
            assert not faults, f"{step}: {faults}, events {self.events}"
        if "allowed" in step:
            assert sum(answer.allowed for answer in answers) == step["allowed"], (step, answers)
        if "as" in step:
            self.remembered[step["as"]] = answers[-1]

    def ask(self, step, call):
        """All answers; of `until` the last one."""
        def timed():
            began = time.monotonic()
            answer = call()
            took = time.monotonic() - began
            assert took <= step.get("within", took), f"{step} took {took:.3f} s"
            return answer

        if "together" in step:
            with concurrent.futures.ThreadPoolExecutor(step["together"]) as pool:
                return [future.result() for future in [pool.submit(timed) for _ in range(step["together"])]]
        if not step.get("until"):
            return [timed() for _ in range(step.get("times", 1))]
        until = time.monotonic() + PATIENCE
        while faults_of(step["expect"], answer := timed()) and time.monotonic() < until:
            time.sleep(0.02)
        return [answer]


def is_subsequence(wanted, found):
    rest = iter(found)
    return all(name in rest for name in wanted)


def wrong(make):
    """The message of a mistake of the program."""
    try:
        made = make()
    except ValueError as error:
        return str(error)
    raise AssertionError(f"no error but {made!r}")


def run(scenario, folder, make):
    if "wrong" in scenario:
        message = wrong(lambda: Run(scenario, folder, make))
        assert scenario["wrong"] in message, message
        return
    run = Run(scenario, folder, make)
    try:
        for step in scenario["steps"]:
            run.take(step)
    except BaseException:
        if isinstance(run.server, Daemon) and run.server.process is not None:
            run.server.kill()
        raise
    finally:
        run.close()
