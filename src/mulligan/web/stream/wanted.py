"""What one stream wants of the log."""

from dataclasses import dataclass

from mulligan.records.event import Event
from mulligan.records.progress import Progress

PROGRESS = "job.progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Every given field must match. `owner` is that of the caller; None is an administrator, who sees all."""

    owner: str | None
    job: str | None = None
    batch: str | None = None
    kind: str | None = None
    types: frozenset[str] | None = None

    def fits(self, event: Event) -> bool:
        return (
            (self.owner is None or event.owner == self.owner)
            and (self.job is None or event.job == self.job)
            and (self.kind is None or event.kind == self.kind)
            and (self.types is None or event.type in self.types)
            and (self.batch is None or self._is_of_batch(event))
        )

    def _is_of_batch(self, event: Event) -> bool:
        """An event of a member, or of the batch itself, which has no job."""
        return event.batch == self.batch and (bool(event.job) or event.type.startswith("batch."))

    def fits_progress(self, progress: Progress) -> bool:
        return (
            self.wants_progress
            and (self.owner is None or progress.owner == self.owner)
            and (self.job is None or progress.job == self.job)
            and (self.kind is None or progress.kind == self.kind)
            and (self.batch is None or progress.batch == self.batch)
        )

    @property
    def wants_progress(self) -> bool:
        return self.types is None or PROGRESS in self.types
