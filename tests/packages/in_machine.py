# SPDX-License-Identifier: Apache-2.0
"""What becomes of the packages on a machine with systemd: runs as root in the machine of machine.py.

/debs/old and /debs/new have the packages in two versions. Each function is a test. Results go to the
serial port: `ok - NAME`, or `not ok - NAME` and the reason. A reboot is in the middle.
"""

import contextlib
import ctypes
import glob
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import traceback
import urllib.error
import urllib.request

sys.path.insert(0, "/test")
from restart_clients import Clients  # noqa: E402

PATIENCE = 60
FIGURE = "# figure: "  # begins lines that test_packages.py prints
RULES = pathlib.Path("/etc/ration/ration.yaml")
DROP_IN = pathlib.Path("/etc/systemd/system/rationd.service.d/test.conf")
CREDENTIAL = pathlib.Path("/etc/credstore/rationd.admin-token")


def run(*words, ok=(0,)):
    done = subprocess.run(words, capture_output=True, text=True, timeout=900,
                          env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    assert done.returncode in ok, f"{words} ended with {done.returncode}: {done.stdout[-600:]}{done.stderr[-600:]}"
    return done.stdout.strip()


def wait_for(condition, what, seconds=PATIENCE):
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"waited {seconds} s for {what}"
        time.sleep(0.02)
    return value


def install(version):
    run("apt-get", "install", "-q", "-y", "--no-install-recommends",
        *glob.glob(f"/debs/{version}/rationd_*.deb"), *glob.glob(f"/debs/{version}/ration_*.deb"))


def show(name):
    return run("systemctl", "show", "--value", "--property", name, "rationd.service")


def active():
    return show("ActiveState") == "active"


def http(path, body=None, port=8080, token=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=json.dumps(body).encode() if body else None,
                                     headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def check(ip, cost):
    return http("/v1/check", {"attributes": {"ip": ip}, "cost": cost})[0]


def take(key="kept", cost=1):
    """What is left of a limit that lasts longer than the test."""
    status, text = http("/v1/throttle", {"key": key, "limit": "1000 per 7 days", "algorithm": "fixed-window",
                                              "cost": cost})
    assert status == 200, text
    return json.loads(text)["remaining"]


def is_open(port):
    with contextlib.closing(socket.socket()) as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def set_rules(change):
    """The rules as they were installed, with more at the end."""
    if not hasattr(set_rules, "original"):
        set_rules.original = RULES.read_text()
    RULES.write_text(set_rules.original + change)


# --- tests, in the order in which they run -------------------------------------------------------------


def install_gives_a_429_within_ten_seconds():
    begun = time.monotonic()
    install("old")
    installed = time.monotonic()
    wait_for(lambda: is_open(8080) and check("192.0.2.7", 100) == 429, "a 429", 10)
    say(f"{FIGURE}{time.monotonic() - begun:.1f} s from apt install to the first 429, {installed - begun:.1f} s of them apt's, in the virtual machine")
    assert active() and run("systemctl", "is-enabled", "rationd") == "enabled"
    run("ration", "health")


def daemon_runs_as_its_user_with_few_rights():
    status = pathlib.Path(f"/proc/{show('MainPID')}/status").read_text()
    uid = run("id", "-u", "ration")
    assert re.search(rf"^Uid:\s+{uid}\s+{uid}", status, re.M), status
    assert re.search(r"^CapEff:\s+0+$", status, re.M) and re.search(r"^NoNewPrivs:\s+1$", status, re.M)
    assert re.search(r"^Seccomp:\s+2$", status, re.M)
    exposure = float(re.search(r"Overall exposure level for rationd.service: ([0-9.]+)",
                               run("systemd-analyze", "security", "--no-pager", "rationd.service")).group(1))
    assert exposure <= 1.5, exposure
    assert "warn" not in run("journalctl", "-u", "rationd", "-o", "cat"), run("journalctl", "-u", "rationd", "-o", "cat")
    assert re.search(r"Max open files +524288 +524288", pathlib.Path(f"/proc/{show('MainPID')}/limits").read_text())


def daemon_sees_the_boot_and_the_processors():
    """Or state files would seem to be of another boot to it than to nginx, and signals of the processor be unknown."""
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id")
    seen = run("nsenter", "--mount", "--target", show("MainPID"), "cat", str(boot), "/proc/stat")
    assert seen.startswith(boot.read_text().strip()) and "\ncpu " in seen, seen


def restart_under_load(act):
    left, before, ended = take(), show("MainPID"), []
    clients = Clients(8080, 6380, lambda: ended, pause=0.05)

    def answers():
        seen = [c.answered for c in clients.all]
        return lambda: min(c.answered - n for c, n in zip(clients.all, seen)) > 50 or any(c.faults for c in clients.all)

    try:
        wait_for(answers(), "answers before")
        act()
        assert show("MainPID") != before, "it was not restarted"
        wait_for(answers(), "answers after")
    finally:
        ended.append(True)
        result = clients.finish()
        say(f"# {result}")
    assert not result["faults"], result
    assert result["repeated"] > 0, "no client has noticed: was there a restart?"
    assert take() == left - 1, "counters are lost"
    return result


def restarts_under_load_lose_no_request_and_no_count():
    for _ in range(3):
        restart_under_load(lambda: run("systemctl", "restart", "rationd"))


def upgrade_under_load_loses_no_request_and_no_count():
    restart_under_load(lambda: install("new"))
    versions = {re.search(r"Version: (\S+)", run("dpkg", "-s", name)).group(1) for name in ("rationd", "ration")}
    assert versions == {re.search(r"_([^_]+)_", glob.glob("/debs/new/rationd_*.deb")[0]).group(1)}


def sockets_follow_a_changed_address():
    set_rules("\nserver: {http: 127.0.0.1:9080, resp: none}\n")
    run("rationd", "--check", "--config", str(RULES))
    run("systemctl", "restart", "rationd")
    assert is_open(9080) and not is_open(8080) and not is_open(6380)
    set_rules("")
    run("systemctl", "restart", "rationd")
    assert is_open(8080) and is_open(6380) and not is_open(9080)


def unix_sockets_outlive_a_restart():
    set_rules("\nserver: {http: 'unix:/run/ration/http'}\n")
    run("systemctl", "restart", "rationd")
    inode = os.stat("/run/ration/http").st_ino
    run("systemctl", "restart", "rationd")
    assert os.stat("/run/ration/http").st_ino == inode
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
        s.connect("/run/ration/http")
        s.sendall(b"GET /v1/check HTTP/1.0\r\n\r\n")
        assert s.recv(4) == b"HTTP"
    set_rules("")
    run("systemctl", "restart", "rationd")


def reload_takes_new_rules_without_a_restart():
    before = show("MainPID")
    set_rules("  - {name: few, key: user, limit: 1 per hour}\n")
    run("systemctl", "reload", "rationd")
    assert show("MainPID") == before and active()
    ask = {"attributes": {"user": "ann"}}
    wait_for(lambda: http("/v1/check", ask)[0] == 429, "the new rule")
    set_rules("")
    run("systemctl", "reload", "rationd")


def reap():
    """Lets go of the threads that we have frozen and others have killed."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG | 0x40000000)  # __WALL


def hung_thread_makes_the_watchdog_fire():
    DROP_IN.parent.mkdir(exist_ok=True)
    DROP_IN.write_text("[Service]\nWatchdogSec=2\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "rationd")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for number in range(2):
        pid = int(show("MainPID"))
        worker = next(int(t) for t in os.listdir(f"/proc/{pid}/task") if int(t) != pid)
        left = take()
        assert libc.ptrace(16, worker if number == 0 else pid, None, None) == 0, "PTRACE_ATTACH"
        wait_for(lambda: reap() or int(show("NRestarts")) == number + 1 and active(), "a restart by the watchdog")
        assert take() == left - 1
    assert "watchdog" in run("journalctl", "-u", "rationd", "-o", "cat").lower()
    DROP_IN.unlink()
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "rationd")


def quiet_daemon_lives_longer_than_its_watchdog():
    DROP_IN.write_text("[Service]\nWatchdogSec=1\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", "rationd")
    stamps = set()
    wait_for(lambda: stamps.add(show("WatchdogTimestampMonotonic")) or len(stamps) > 8, "signs of life")
    assert show("NRestarts") == "0"
    DROP_IN.unlink()
    run("systemctl", "daemon-reload")


def killed_daemon_comes_back_with_its_counters():
    left, pid = take(), show("MainPID")
    os.kill(int(pid), signal.SIGKILL)
    wait_for(lambda: active() and show("MainPID") not in (pid, "0"), "a restart")
    assert take() == left - 1


def token_is_a_credential():
    CREDENTIAL.parent.mkdir(exist_ok=True)
    CREDENTIAL.write_text("s3cret\n")
    CREDENTIAL.chmod(0o600)
    set_rules("\nserver: {trust_local: false}\n")
    run("systemctl", "restart", "rationd")
    assert http("/v1/rules", port=8082)[0] == 401
    assert http("/v1/rules", port=8082, token="s3cret")[0] == 200
    CREDENTIAL.unlink()
    set_rules("")
    run("systemctl", "restart", "rationd")


def first_client_starts_an_activated_daemon():
    sockets = [f"rationd-{name}.socket" for name in ("http", "resp", "grpc", "admin")]
    left = take()
    run("systemctl", "stop", "rationd")
    assert not is_open(8080)
    run("systemctl", "enable", "--now", *sockets)
    assert not active() and is_open(8080) or active()
    assert take() == left - 1
    assert active() and is_open(6380) and is_open(8082)
    restart_under_load(lambda: run("systemctl", "restart", "rationd"))
    run("systemctl", "stop", "rationd", *sockets)
    run("systemctl", "disable", *sockets)
    run("systemctl", "start", "rationd")
    assert take() == left - 4


def state_is_kept_over_a_reboot():
    pathlib.Path("/test/left").write_text(str(take()))
    say("# reboot")
    run("systemctl", "reboot")
    time.sleep(PATIENCE)


def after_the_reboot():
    wait_for(active, "a start at boot")
    assert take() == int(pathlib.Path("/test/left").read_text()) - 1


def removal_keeps_rules_and_state():
    RULES.write_text(RULES.read_text() + "# changed\n")
    run("systemctl", "stop", "rationd")
    run("systemctl", "enable", "--now", "rationd-grpc.socket")
    run("systemctl", "start", "rationd")
    run("apt-get", "remove", "-q", "-y", "rationd")
    assert not is_open(8080) and not is_open(8081)
    assert RULES.exists() and pathlib.Path("/var/lib/ration/ration.state").exists()
    install("new")
    wait_for(active, "the start after another installation")
    assert take() == int(pathlib.Path("/test/left").read_text()) - 2
    assert RULES.read_text().endswith("# changed\n")


def purge_takes_everything():
    run("apt-get", "purge", "-q", "-y", "rationd", "ration")
    left = [p for p in ("/etc/ration", "/var/lib/ration", "/run/ration", "/usr/bin/rationd", "/usr/bin/ration",
                        *glob.glob("/etc/systemd/system/*/rationd*"), *glob.glob("/var/lib/systemd/deb-systemd-helper-enabled/*ration*"))
            if os.path.exists(p)]
    assert not left and not is_open(8080), left


FIRST = [install_gives_a_429_within_ten_seconds, daemon_runs_as_its_user_with_few_rights,
         daemon_sees_the_boot_and_the_processors,
         restarts_under_load_lose_no_request_and_no_count, upgrade_under_load_loses_no_request_and_no_count,
         sockets_follow_a_changed_address, unix_sockets_outlive_a_restart, reload_takes_new_rules_without_a_restart,
         hung_thread_makes_the_watchdog_fire, quiet_daemon_lives_longer_than_its_watchdog,
         killed_daemon_comes_back_with_its_counters, token_is_a_credential, first_client_starts_an_activated_daemon,
         state_is_kept_over_a_reboot]
SECOND = [after_the_reboot, removal_keeps_rules_and_state, purge_takes_everything]


def say(line):
    with open("/dev/ttyS0", "w") as console:
        console.write(f"\n@ {line}\n")


def main():
    for test in SECOND if os.path.exists("/test/left") else FIRST:
        name = test.__name__.replace("_", " ")
        run("systemctl", "reset-failed", "rationd", ok=(0, 1, 5))  # systemd allows five starts in ten seconds
        try:
            test()
            say(f"ok - {name}")
        except Exception:  # noqa: BLE001 - told, and the next test runs
            say(f"not ok - {name}")
            for line in (traceback.format_exc() + run("journalctl", "-u", "rationd", "-o", "cat", "-n", "30")).splitlines():
                say(f"# {line}")
            set_rules("")
            DROP_IN.unlink(missing_ok=True)
            run("systemctl", "daemon-reload")
            run("systemctl", "reset-failed", "rationd", ok=(0, 1))
            run("systemctl", "restart", "rationd", ok=(0, 1, 5))
    say("done")


if __name__ == "__main__":
    try:
        main()
    finally:
        run("systemctl", "poweroff", "--no-block")
