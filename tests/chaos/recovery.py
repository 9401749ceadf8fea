"""How long lost jobs stayed lost, by the store's own timestamps."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from chaos.evidence_index import EvidenceIndex
from chaos.plan import LEASE
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.event import Event

# A new worker waits for one beat without trouble before it reclaims the leases of others.
QUIET_BEAT = LEASE / 3 + 2 * LEASE / 10
PROMISE = LEASE + 2.0
STALL = 0.25
RELEASED = TABLE[Move.RELEASE, State.RUNNING].event


@dataclass(frozen=True, slots=True)
class Recovery:
    """A job held by a worker when it was killed, until it was claimed again."""

    job: str
    killed: float
    claimed: float
    stalled: float
    slowest_start: float

    @property
    def seconds(self) -> float:
        return self.claimed - self.killed

    @property
    def allowed(self) -> float:
        return PROMISE + self.slowest_start + QUIET_BEAT + self.stalled


def recoveries(index: EvidenceIndex) -> list[Recovery]:
    stalls, slowest_start = _stalls(index), _slowest_start(index)
    return [
        Recovery(job, killed, claimed, _stalled(stalls, killed, claimed), slowest_start)
        for job, killed, claimed in _lost_and_found(index)
    ]


def _lost_and_found(index: EvidenceIndex) -> Iterator[tuple[str, float, float]]:
    for (job, attempt), start in index.starts.items():
        life, following = index.lives.get(start.data["worker"]), index.starts.get((job, attempt + 1))
        if life is None or life.killed is None or following is None:
            continue
        # What a service holds back is not lost.
        if job in index.counters.epochs:
            continue
        # Nor is what was failed by its last loss and retried manually.
        if not any(settle.type == RELEASED and not index.is_own(settle) for settle in index.settles[job, attempt]):
            continue
        if life.killed < _at(following):
            yield job, life.killed, _at(following)


def _stalls(index: EvidenceIndex) -> list[tuple[float, float]]:
    """When no process could write: an outage, a lock held by another program, a machine that stood still.

    The load never pauses while recovery is measured, so that the log itself tells.
    """
    moments = sorted(event.at.timestamp() for event in index.evidence.events)
    return [(before, after) for before, after in pairwise(moments) if after - before > STALL]


def _stalled(stalls: list[tuple[float, float]], begin: float, end: float) -> float:
    """The time that was lost to all, and a quiet beat after each."""
    met = [min(end, after) - max(begin, before) for before, after in stalls if before < end and begin < after]
    return sum(met) + QUIET_BEAT * len(met)


def _slowest_start(index: EvidenceIndex) -> float:
    """From the start of a process to its first claim: how slow this machine was today."""
    firsts = {worker: signs[0] for worker, signs in index.signs.items() if signs}
    return max(first - index.lives[worker].started for worker, first in firsts.items() if worker in index.lives)


def _at(event: Event) -> float:
    return event.at.timestamp()


def told(found: list[Recovery]) -> str:
    if not found:
        return "nothing was held by any worker that was killed"
    found = sorted(found, key=lambda recovery: recovery.seconds)
    worst = found[-1]
    return (
        f"{len(found)} lost attempts claimed again: median {found[len(found) // 2].seconds:.2f} s after the kill, "
        f"worst {worst.seconds:.2f} s ({worst.job}; lease {LEASE:g} s, stalls {worst.stalled:.2f} s, "
        f"slowest start {worst.slowest_start:.2f} s)"
    )
