# SPDX-License-Identifier: Apache-2.0
"""A virtual machine from the folder of a Debian root: boots it with its own kernel and systemd, runs
in_machine.py there, and reads what that writes to the serial port.

The processor is emulated, which takes minutes but works everywhere; RATION_ACCEL=kvm uses the real one."""

import os
import pathlib
import re
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = 1800  # seconds for all tests, on a machine without KVM

UNIT = """\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /test/in_machine.py
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
[Install]
WantedBy=default.target
"""


def prepare(root):
    """Puts the tests into the root. They start by themselves, and the last of them powers off."""
    (root / "test").mkdir()
    for script in (HERE / "in_machine.py", HERE.parent / "system/restart_clients.py"):
        shutil.copy(script, root / "test")
    (root / "etc/systemd/system/packages-test.service").write_text(UNIT)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / "packages-test.service").symlink_to("../packages-test.service")
    (root / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")


def boot(root, folder):
    """Names of the tests that passed, and all lines that the tests wrote."""
    disk, log = folder / "disk.ext4", folder / "serial.log"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, disk, "3G"], check=True, capture_output=True)
    kernel, initrd = (max((root / "boot").glob(name)) for name in ("vmlinuz-*", "initrd.img-*"))
    command = ["qemu-system-x86_64", "-accel", os.environ.get("RATION_ACCEL", "tcg"), "-cpu", "max", "-smp", "2", "-m", "1024",
               "-kernel", kernel, "-initrd", initrd, "-append", "root=/dev/vda rw console=ttyS0 quiet panic=-1",
               "-drive", f"file={disk},if=virtio,format=raw,cache=unsafe", "-nic", "none", "-display", "none",
               "-monitor", "none", "-serial", "stdio"]
    with open(log, "wb") as out:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, timeout=PATIENCE)
    text = log.read_text(errors="replace")
    assert done.returncode == 0, f"qemu ended with {done.returncode}: {text[-2000:]}"
    said = re.findall(r"^@ (.*?)\r?$", text, re.M)
    disk.unlink()
    return [line[5:] for line in said if line.startswith("ok - ")], said
