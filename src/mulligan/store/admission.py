"""Who of those that wait for a place gets one: a decision about values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mulligan.records.limit import EVERY_OWNER

GATE = "limit/"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that waits under `gate`."""

    id: str
    gate: str
    kind: str
    queue: str
    owner: str
    service: str
    priority: int
    rank: int

    @property
    def subjects(self) -> tuple[str, ...]:
        """What limits may be about, in the order in which they are asked. The owner's first: whose share is used up
        stands in nobody else's way."""
        own = (f"owner/{self.owner}",) if self.owner else ()
        return (*own, f"queue/{self.queue}", f"kind/{self.kind}")

    @property
    def pauses(self) -> tuple[tuple[str, str], ...]:
        return ("queue", self.queue), ("kind", self.kind), ("service", self.service)


@dataclass(slots=True)
class Rooms:
    """How many more may be let in. What is in neither is not limited."""

    places: dict[str, int] = field(default_factory=dict)
    """Of a subject."""
    services: dict[str, int] = field(default_factory=dict)
    """Of a service that is not simply closed: what a claim could take now, less what was let in already."""
    paused: frozenset[tuple[str, str]] = frozenset()
    new: frozenset[str] = frozenset()
    """Limits that do not count yet who came before them: they have no room."""

    def obstacle(self, job: Candidate) -> str | None:
        """The gate that this job has to wait under; None: it may pass."""
        for what, name in job.pauses:
            if (what, name) in self.paused:
                return f"{GATE}pause/{what}/{name}"
        if self.services.get(job.service, 1) <= 0:
            return f"{GATE}service/{job.service}"
        full = (subject for subject in job.subjects if self.places.get(subject, 1) <= 0)
        subject = next(full, None)
        return None if subject is None else GATE + subject

    def take(self, job: Candidate) -> bool:
        """Whether it holds a place from now on: no limit may be left that concerns it."""
        limited = [subject for subject in job.subjects if subject in self.places]
        for subject in limited:
            self.places[subject] -= 1
        if job.service in self.services:
            self.services[job.service] -= 1
        return bool(limited)


@dataclass(frozen=True, slots=True)
class Admission:
    """`admitted` with whether each holds a place; `moved` to wait under another gate."""

    admitted: Mapping[str, bool]
    moved: Mapping[str, str]


def admission(candidates: Iterable[Candidate], rooms: Rooms) -> Admission:
    """By priority and rank, whatever the gate. Each needs room everywhere, or waits where there is none."""
    admitted: dict[str, bool] = {}
    moved: dict[str, str] = {}
    for job in sorted(candidates, key=lambda one: (one.priority, one.rank, one.id)):
        obstacle = rooms.obstacle(job)
        if obstacle is None:
            admitted[job.id] = rooms.take(job)
        elif obstacle != job.gate:
            moved[job.id] = obstacle
    return Admission(admitted, moved)


def limits_for(subjects: Iterable[str], found: Mapping[str, int]) -> dict[str, int]:
    """The limit of each subject that has one. An owner who is not named has that of everybody."""
    everybody = found.get(f"owner/{EVERY_OWNER}")
    limits = {}
    for subject in subjects:
        most = found.get(subject, everybody if subject.startswith("owner/") else None)
        if most is not None:
            limits[subject] = most
    return limits


def subjects_of(candidates: Sequence[Candidate]) -> list[str]:
    return sorted({subject for job in candidates for subject in job.subjects})
