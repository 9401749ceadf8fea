"""Run a script in a network namespace of its own, where it can give itself any address."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

UNSHARE = ["unshare", "--map-root-user", "--net"]
# In seconds. Only what hangs takes as long, also on a machine with ten times as much to do as it can.
PATIENCE = 600


def run_in_own_network(script: Path, *arguments: str) -> dict[str, Any]:
    """The JSON that the script prints. The test is skipped where no namespace can be made."""
    for program, package in (("unshare", "util-linux"), ("ip", "iproute2")):
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed: 'apt-get install {package}'")
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"a network namespace cannot be made, which needs root or user namespaces: {tried.stderr.strip()}")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    command = [*UNSHARE, sys.executable, str(script), *arguments]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    result: dict[str, Any] = json.loads(done.stdout)
    return result
