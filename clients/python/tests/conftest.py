# SPDX-License-Identifier: Apache-2.0
"""The client under test is the installed package, or else that of this tree. rationd is started by tests/system/daemon.py."""

import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tests" / "system"))
if importlib.util.find_spec("ration_client") is None:
    sys.path.insert(0, str(HERE.parent / "src"))
