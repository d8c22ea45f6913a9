# SPDX-License-Identifier: Apache-2.0
"""docs/choosing.md shows what bench-algorithms prints, and its picture is the one that it draws."""

import subprocess

from daemon import BUILD, ROOT


def test_the_table_and_the_picture_are_those_of_the_program(tmp_path):
    picture = tmp_path / "algorithms.svg"
    done = subprocess.run([BUILD / "bench-algorithms", "--exact", "--svg", picture], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") >= 9
    assert done.stdout in (ROOT / "docs/choosing.md").read_text()
    assert picture.read_text() == (ROOT / "docs/algorithms.svg").read_text()


def test_an_unknown_option_is_refused():
    done = subprocess.run([BUILD / "bench-algorithms", "--exactly"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage" in done.stderr
