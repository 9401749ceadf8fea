"""Programs that give their rights away: root may write anywhere."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory


def run_as_no_one(program: str) -> list[str]:
    """What a program prints that becomes another user once it has loaded everything. Its argument is a new folder."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        command = [sys.executable, "-c", program, folder]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
    return done.stdout.splitlines() or done.stderr.splitlines()
