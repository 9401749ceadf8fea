"""Results as JSON lines: one `Run` first, then one `Record` for each measurement."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Run:
    """Under which conditions everything that follows was measured."""

    started: str
    machine: dict[str, str]
    versions: dict[str, dict[str, str]]
    """By environment, and of the servers."""
    settings: dict[str, dict[str, str]]
    sizes: dict[str, float]
    rounds: int
    troubles: dict[str, str]
    """Peers that could not be measured at all, and why."""


@dataclass(frozen=True)
class Record:
    """One part of one peer in one round."""

    run: str
    round: int
    part: str
    peer: str
    figures: dict[str, float] = field(default_factory=dict)
    trouble: str | None = None
    seconds: float = 0.0
    idle: float = 1.0
    """The fraction of the CPUs that nothing used before it began."""
    foreign: float = 0.0
    """CPUs that other processes used while it ran."""
    stolen: float = 0.0
    """CPUs that the host gave to other machines meanwhile."""
    syncs: float = 0.0
    """Confirmed writes a second that the disk took before it began."""


def write(path: Path, line: Run | Record) -> None:
    with path.open("a") as file:
        file.write(encode(line) + "\n")


def encode(line: Run | Record) -> str:
    return json.dumps({"is": "run" if isinstance(line, Run) else "measurement", **asdict(line)}, ensure_ascii=False)


def read(paths: Iterable[Path]) -> tuple[list[Run], list[Record]]:
    lines = list(_lines(paths))
    runs = [line for line in lines if isinstance(line, Run)]
    return runs, [line for line in lines if isinstance(line, Record)]


def _lines(paths: Iterable[Path]) -> Iterator[Run | Record]:
    for path in paths:
        for line in path.read_text().splitlines():
            values: dict[str, Any] = json.loads(line)
            yield Run(**values) if values.pop("is") == "run" else Record(**values)
