"""Whatever call fails, the library says so, leaks no file and works afterwards."""

import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("RATION_BUILD", "build")).resolve()
EMBEDDER = BUILD / "tests/embedder"
PRELOAD = BUILD / "tests/libfailing.so"
MORE_THAN_ENOUGH = 500


def embed(path, *args, fail_at=0):
    env = dict(os.environ, LD_PRELOAD=str(PRELOAD), FAIL_AT=str(fail_at))
    return subprocess.run([EMBEDDER, path, *args], env=env, capture_output=True, text=True, timeout=20)


def check_every_failure(prepare, path, *args):
    """Fails the first call, then the second, ... until there are no more."""
    reported = 0
    for k in range(1, MORE_THAN_ENOUGH):
        prepare()
        run = embed(path, *args, fail_at=k)
        assert run.returncode in (0, 3, 4), f"call {k}: exit {run.returncode}: {run.stderr}"
        if run.returncode == 3:
            assert run.stderr.startswith("E") and ": " in run.stderr, f"call {k}: {run.stderr!r}"
            reported += 1
        strays = [p.name for p in path.parent.iterdir() if p != path]
        assert not strays, f"call {k} leaves {strays}"
        after = embed(path, *args)
        assert after.returncode == 0, f"after call {k} failed: {after.stderr}"
        if run.returncode == 0:
            return k, reported
    pytest.fail("the calls do not end")


def test_any_call_may_fail_while_a_state_file_is_created(tmp_path):
    path = tmp_path / "state"
    calls, reported = check_every_failure(lambda: path.unlink(missing_ok=True), path)
    assert calls > 10 and reported > 8


def test_any_call_may_fail_while_a_state_file_is_reopened(tmp_path):
    path = tmp_path / "state"
    assert embed(path).returncode == 0
    calls, reported = check_every_failure(lambda: None, path)
    assert calls > 8 and reported > 5


def test_any_call_may_fail_while_a_state_file_is_rebuilt(tmp_path):
    path = tmp_path / "state"

    def shrink():
        path.unlink(missing_ok=True)
        assert embed(path, str(8 << 20)).returncode == 0

    calls, reported = check_every_failure(shrink, path, str(16 << 20))
    assert calls > 15 and reported > 10
