"""How long the command takes that prints the help."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from bench.measurement import Figures, Measurement


async def startup(measurement: Measurement) -> Figures:
    program, *options = measurement.entry.help
    command = [str(Path(sys.executable).with_name(program)), *options]
    return {"ms": _milliseconds(command, measurement.sizes.starts)}


def _milliseconds(command: list[str], starts: int) -> float:
    subprocess.run(command, check=True, capture_output=True)
    times = []
    for _ in range(starts):
        start = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.monotonic() - start)
    return median(times) * 1_000
