"""Concurrency limits as the model knows them: it keeps no counts, it looks at the jobs."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from conformance.model_jobs import ModelJob
from mulligan.lifecycle import State
from mulligan.records.limit import EVERY_OWNER, LimitBook

LIMIT = "limit"


@dataclass
class Limits:
    """`asked` is what the process wants, `book` what the store was told of it."""

    asked: LimitBook = field(default_factory=LimitBook)
    book: LimitBook = field(default_factory=LimitBook)
    unswept: set[str] = field(default_factory=set)
    """New subjects: the jobs admitted before them are still to be found."""

    def tell(self) -> None:
        before, self.book = _named(self.book), self.asked
        self.unswept = {subject for subject in _named(self.book) if subject in self.unswept or subject not in before}

    @property
    def are_any(self) -> bool:
        """Of those asked for or told, whatever they are about."""
        return any(True for book in (self.asked, self.book) for _ in book)

    def most(self, job: ModelJob) -> dict[str, int]:
        """The limits that concern this job, by what they are about."""
        return _most(self.book, job)

    def concern(self, job: ModelJob) -> bool:
        return bool(self.most(job))

    def will_concern(self, job: ModelJob) -> bool:
        """Also by those that were not announced yet."""
        return bool(self.most(job) or _most(self.asked, job))

    def is_new_to(self, job: ModelJob) -> bool:
        names = _named(self.book)
        return any(
            (subject if subject in names else f"owner/{EVERY_OWNER}") in self.unswept for subject in self.most(job)
        )

    def have_room(self, job: ModelJob, jobs: Iterable[ModelJob]) -> bool:
        admitted = [other for other in jobs if other.is_admitted and other.has_slot]
        return all(taken(subject, admitted) < most for subject, most in self.most(job).items())

    def sweep(self, jobs: Iterable[ModelJob]) -> list[ModelJob]:
        """Those who run keep their places; those who are queued without one, and need one now, go back."""
        found = [job for job in jobs if job.is_admitted and not job.has_slot and self.is_new_to(job)]
        for job in found:
            job.has_slot = job.state is State.RUNNING
        self.unswept = set()
        return [job for job in found if job.state is State.QUEUED]


def subjects_of(job: ModelJob) -> list[str]:
    own = [f"owner/{job.asked.owner}"] if job.asked.owner else []
    return [*own, f"queue/{job.asked.queue}", f"kind/{job.asked.kind}"]


def taken(subject: str, jobs: Iterable[ModelJob]) -> int:
    return sum(job.is_admitted and subject in subjects_of(job) for job in jobs)


def _most(book: LimitBook, job: ModelJob) -> dict[str, int]:
    named, default = _named(book), book.owners.get(EVERY_OWNER)
    found = {subject: named.get(subject) for subject in subjects_of(job)}
    if job.asked.owner and found[f"owner/{job.asked.owner}"] is None:
        found[f"owner/{job.asked.owner}"] = default
    return {subject: most for subject, most in found.items() if most is not None}


def _named(book: LimitBook) -> dict[str, int]:
    return {limit.subject: limit.most for limit in book if limit.most is not None}
