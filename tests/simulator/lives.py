"""The state of each job as the log records it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from mulligan.records.job import Fence
from simulator.broken import require
from simulator.server import COLUMNS

FINAL = ("succeeded", "failed", "cancelled")


@dataclass(slots=True, eq=False)
class Life:
    id: str
    name: str
    kind: str
    owner: str
    priority: int
    rank: int
    max_attempts: int
    state: str
    due: int
    deadline: int | None
    key: str | None
    ready_at: int
    """Since when it has been where it is, by the timeline."""
    queue: str = "default"
    batch: str | None = None
    is_followed: bool = False
    """Another job follows when it is cancelled."""
    service: str = ""
    attempt: int = 0
    holder: tuple[str, int] | None = None
    lease_until: int | None = None
    failures: int = 0
    crashes: int = 0
    losses: int = 0
    snoozes: int = 0
    returns: int = 0
    """Failed calls that its service was charged for while it was closed."""
    manual_retries: int = 0
    wish_at: int | None = None
    """When a cancel of the running attempt was requested, by the timeline."""
    settled: dict[int, str] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)
    started_at: int = 0
    claimed_at: int = 0
    """When its last attempt began, by the store's clock."""
    over_at: int = 0
    """When it was over last, by the store's clock."""
    lost_at: int | None = None
    """When the lease ended that was taken back, by the store's clock; until anything else happens to it."""

    gate: str = ""
    """The gate that blocks it, as last read."""
    is_unpaid: bool = False
    """A retry that the budget of its owner, if there is one, has not admitted yet."""

    subjects: tuple[str, ...] = field(init=False)
    """What limits may be about that concern it."""

    def __post_init__(self) -> None:
        own = (f"owner/{self.owner}",) if self.owner else ()
        self.subjects = (*own, f"queue/{self.queue}", f"kind/{self.kind}")

    @property
    def is_over(self) -> bool:
        return self.state in FINAL

    def is_late(self, now: int) -> bool:
        """Its deadline is over: no worker begins it any more."""
        return self.deadline is not None and self.deadline <= now

    def start_again(self, now: int) -> None:
        """As manually: counters at zero, due at once."""
        self.failures = self.crashes = self.losses = self.snoozes = self.returns = 0
        self.manual_retries += 1
        self.due_at_once(now)

    def due_at_once(self, now: int) -> None:
        self.due, self.is_unpaid = now, False
        if self.is_late(now):
            self.deadline = None

    def is_held_by(self, fence: Fence) -> bool:
        holder = (fence.incarnation, fence.claim)
        return self.state == "running" and self.attempt == fence.attempt and self.holder == holder

    @property
    def order(self) -> tuple[int, int, str]:
        return (self.priority, self.rank, self.id)

    def row(self) -> tuple[Any, ...]:
        """What its row must hold, in the order of `server.COLUMNS`."""
        leased_by, claim = self.holder or (None, None)
        last = max(self.settled, default=None)
        return (
            self.state,
            self.attempt,
            self.failures,
            self.crashes,
            self.losses,
            self.snoozes,
            self.manual_retries,
            leased_by,
            claim,
            self.lease_until,
            int(self.wish_at is not None),
            self.due,
            self.deadline,
            last,
            None if last is None else self.settled[last],
        )

    def compare(self, row: tuple[Any, ...] | None) -> None:
        """Raises Broken, if the row holds anything else."""
        expected = self.row()
        if row == expected:
            return
        names = COLUMNS.split(", ")
        wrong = row and {
            name: (is_, should)
            for name, is_, should in zip(names, row, expected, strict=True)
            if is_ != should and not (name == "due_at" and self.state != "waiting")
        }
        require(row is not None and not wrong, f"{self.name}: row and log differ (is, should be): {wrong}")


class Lives:
    """All jobs of a world, those that are not over at hand by where they are."""

    def __init__(self) -> None:
        self.by_id: dict[str, Life] = {}
        self.deleted: dict[str, Life] = {}
        """With their owner."""
        self.waiting: dict[str, Life] = {}
        self.queued: dict[str, Life] = {}
        self.running: dict[str, Life] = {}

    def known(self, job: str) -> Life:
        """Also one that is deleted: a worker may not know."""
        return self.by_id.get(job) or self.deleted[job]

    @property
    def number(self) -> int:
        return len(self.by_id) + len(self.deleted)

    def delete(self, life: Life) -> None:
        self.deleted[life.id] = self.by_id.pop(life.id)

    def add(self, life: Life) -> None:
        self.by_id[life.id] = life
        self._place(life)

    def move(self, life: Life, state: str) -> None:
        for place in (self.waiting, self.queued, self.running):
            place.pop(life.id, None)
        life.state = state
        self._place(life)

    def _place(self, life: Life) -> None:
        places = {"waiting": self.waiting, "queued": self.queued, "running": self.running}
        if life.state in places:
            places[life.state][life.id] = life

    def held_by(self, incarnation: str, claim: int | None = None) -> Iterator[Life]:
        for life in self.running.values():
            assert life.holder is not None
            if life.holder[0] == incarnation and claim in (None, life.holder[1]):
                yield life
