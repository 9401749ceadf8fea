"""What is measured in which order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.lineup import LINEUP, Entry
from bench.parts import PARTS
from bench.sizes import Sizes

GROWTH = "growth"
# It takes minutes to fill the store, and its figures hardly vary.
ONCE = {"reading"}


@dataclass(frozen=True)
class Plan:
    entries: list[Entry]
    parts: list[str]
    rounds: int
    sizes: Sizes
    quiet_wait: float

    def steps(self, missing: dict[str, str]) -> Iterator[tuple[int, str, Entry]]:
        """Each round begins with another peer, so that none always follows the same one."""
        entries = [entry for entry in self.entries if entry.name not in missing]
        for number in range(self.rounds):
            for part in self.parts:
                taking = [entry for entry in entries if part in entry.parts and (number == 0 or part not in ONCE)]
                first = number % max(1, len(taking))
                for entry in taking[first:] + taking[:first]:
                    yield number, part, entry


def choose_entries(peers: Sequence[str], store: str | None) -> list[Entry]:
    """The named ones, and always mulligan and the raw stores to compare them with. Raises ValueError."""
    if unknown := [name for name in peers if not any(entry.name.startswith(name) for entry in LINEUP)]:
        raise ValueError(f"there is no peer {', '.join(unknown)}; there are: {' '.join(e.name for e in LINEUP)}")
    named = [
        entry for entry in LINEUP if not peers or entry.is_ours or entry.is_raw or entry.name.startswith(tuple(peers))
    ]
    return [entry for entry in named if store in (None, entry.store)]


def choose_parts(names: Sequence[str]) -> list[str]:
    """The named ones; `growth` means all parts whose names begin so. Raises ValueError."""
    if unknown := [name for name in names if name not in {*PARTS, GROWTH}]:
        raise ValueError(f"there is no part {', '.join(unknown)}; there are: {' '.join(PARTS)}")
    return [part for part in PARTS if not names or part in names or (part.startswith(GROWTH) and GROWTH in names)]
