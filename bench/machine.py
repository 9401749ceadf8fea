"""What the machine is, and whether something else uses it while it measures."""

import os
import platform
import resource
import sqlite3
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

CORES = os.cpu_count() or 1
QUIET_IDLE = 0.85
QUIET_FOREIGN = 0.2
SYNCS_SECONDS = 0.5
BLOCK = bytes(8_192)


@dataclass(frozen=True)
class Times:
    """CPU seconds since the machine started, by what they were spent on."""

    busy: float
    stolen: float
    idle: float

    @classmethod
    def now(cls) -> "Times":
        line = Path("/proc/stat").read_text().split("\n", 1)[0]
        user, nice, system, idle, waited, interrupts, soft, stolen, *_ = (int(field) for field in line.split()[1:])
        tick = os.sysconf("SC_CLK_TCK")
        return cls((user + nice + system + interrupts + soft) / tick, stolen / tick, (idle + waited) / tick)


def idle(seconds: float = 0.4) -> float:
    """The fraction of the CPUs that nothing uses."""
    before = Times.now()
    time.sleep(seconds)
    after = Times.now()
    spent = after.busy - before.busy + after.stolen - before.stolen
    rested = after.idle - before.idle
    return rested / max(spent + rested, 0.01)


def wait_until_quiet(seconds: float) -> float:
    """Return the idle fraction that the measurement starts with, quiet or not."""
    end = time.monotonic() + seconds
    while (found := idle()) < QUIET_IDLE and time.monotonic() < end:
        time.sleep(0.5)
    return found


def own_seconds() -> float:
    """CPU time of this process and of all its children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def syncs(folder: Path) -> float:
    """Writes of 8 KiB a second, each confirmed by the disk."""
    with tempfile.TemporaryFile(dir=folder) as file:
        count, start = 0, time.monotonic()
        while time.monotonic() - start < SYNCS_SECONDS:
            file.seek(0)
            file.write(BLOCK)
            file.flush()
            os.fdatasync(file.fileno())
            count += 1
        return count / (time.monotonic() - start)


def describe(folder: Path) -> dict[str, str]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{CORES} cores, {_processor()}",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "file system": _file_system(folder),
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "mulligan": _commit(),
    }


def _commit() -> str:
    """Of the tree that is measured; `dirty` if it has changes beside."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    ended = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return f"commit {ended.stdout.strip()}" if ended.returncode == 0 else "not of a repository"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    """Of the mount that the folder is on. Figures from `tmpfs` say nothing about a disk."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    around = [(point, kind) for point, kind in mounts if folder.resolve().is_relative_to(point)]
    return max(around, key=lambda found: len(found[0]))[1] if around else "unknown"
