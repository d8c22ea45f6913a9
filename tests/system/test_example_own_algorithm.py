# SPDX-License-Identifier: Apache-2.0
"""examples/own-algorithm: what the program shows is what its guide says."""

import subprocess

from daemon import BUILD, ROOT

PROGRAM = BUILD / "examples/own-algorithm"


def run(*words):
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True)


def test_the_counter_decays_beside_a_bucket_and_a_window():
    lines = run("100 per minute").stdout.splitlines()
    rows = {int(seconds): [int(n) for n in rest] for seconds, *rest in map(str.split, lines[1:])}

    assert lines[0].split() == ["seconds", "decay", "token-bucket", "fixed-window"]
    assert rows[0] == [100, 100, 100]
    assert rows[10][2] == 0 and rows[20][2] == 0
    # A sixth of a half-life later 1 - 2^(-1/6) of what was spent has faded, of a bucket a sixth.
    assert all(row[0] in (10, 11) and row[1] in (16, 17) for s, row in rows.items() if s > 0)
    guide = (ROOT / "docs/extending.md").read_text()
    for line in lines[:4]:
        assert line in guide


def test_a_limit_that_cannot_be_is_explained():
    done = run("100 per year of 400 days")
    assert done.returncode == 2 and done.stderr.startswith("own-algorithm: ")
    assert run().returncode == 2
