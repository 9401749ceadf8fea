"""Reclassify failed jobs: what the current rules and policies decide about their last failure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from msgspec import structs

from mulligan.console.arguments import FILTER, FLAG, MOST_FAILURES, NAME, REQUEST_ID, STRING, check
from mulligan.console.jobs import Jobs
from mulligan.errors import BadFilter, MulliganError
from mulligan.failure.decision import Decision, Fail, Postpone, Retry
from mulligan.failure.verdict import Verdict
from mulligan.judge import Judge
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.document import Shape
from mulligan.records.event import Event
from mulligan.records.job import Job, JobFilter, Page
from mulligan.store.requests import AnswerFormat, answer_format, to_once
from mulligan.store.settle import read_failure
from mulligan.store.store import Store

# Jobs whose complete histories are held in memory at a time.
PAGE = 100
FAILED = TABLE[Move.FAIL, State.RUNNING].event


@dataclass(frozen=True, slots=True)
class Reclassified:
    """One failed job: the stored class of its last failure, its class by the current rules, and the decision."""

    id: str
    kind: str
    owner: str
    old_code: str
    old_class: str
    new_code: str
    new_class: str
    rule: str
    decision: str
    """`retry`, `snooze` or `fail`."""
    because: str = ""

    @property
    def is_retried(self) -> bool:
        return self.decision != "fail"


@dataclass(frozen=True, slots=True)
class ReclassifiedCount:
    """How many jobs change in this way."""

    kind: str
    old_code: str
    new_code: str
    new_class: str
    decision: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Reclassification:
    """`unjudged` are jobs without a stored failure: the engine failed them, or an earlier version of mulligan did."""

    _shape: ClassVar = Shape(adds=("would_retry", "counts"), given={"is_applied": bool})

    jobs: tuple[Reclassified, ...]
    unjudged: tuple[str, ...] = ()
    policies: str | None = None
    """The version of the policies file that was in force."""
    is_complete: bool = True
    """False if the limit was reached: there may be more."""
    retried: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Jobs that could not be retried, each with the reason."""

    @property
    def would_retry(self) -> tuple[str, ...]:
        return tuple(job.id for job in self.jobs if job.is_retried)

    @property
    def counts(self) -> tuple[ReclassifiedCount, ...]:
        """The jobs by what changes, the most frequent first."""
        changes = Counter((job.kind, job.old_code, job.new_code, job.new_class, job.decision) for job in self.jobs)
        return tuple(ReclassifiedCount(*change, number) for change, number in changes.most_common())

    def with_retries(self, retry: Callable[[str], object]) -> "Reclassification":
        retried, skipped = [], {}
        for job_id in self.would_retry:
            try:
                retry(job_id)
                retried.append(job_id)
            except MulliganError as error:
                skipped[job_id] = str(error)
        return replace(self, retried=tuple(retried), skipped=skipped)


RECLASSIFICATION: AnswerFormat[Reclassification] = answer_format(Reclassification)


@dataclass(frozen=True, slots=True)
class Reclassifier:
    store: Callable[[], Store]
    judge: Judge
    jobs: Jobs

    @check(
        wanted=FILTER, dry_run=FLAG, owner=NAME, actor=STRING, reason=STRING, limit=MOST_FAILURES, request_id=REQUEST_ID
    )
    def reclassify(
        self,
        wanted: JobFilter | None = None,
        *,
        dry_run: bool = True,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        limit: int = 1_000,
        request_id: str | None = None,
    ) -> Reclassification:
        chosen = wanted or JobFilter()
        if dry_run:
            return self._judge_again(chosen, owner=owner, limit=limit)
        terms = {"filter": chosen, "actor": actor, "reason": reason, "limit": limit}
        once = to_once(request_id, "reclassify", RECLASSIFICATION, owner, **terms)
        return self.store().in_parts(once, lambda: self._retry(chosen, owner, actor, reason or "reclassified", limit))

    def _retry(
        self, wanted: JobFilter, owner: str | None, actor: str | None, reason: str, limit: int
    ) -> Reclassification:
        found = self._judge_again(wanted, owner=owner, limit=limit)
        return found.with_retries(
            lambda job_id: self.jobs.move(Move.MANUAL_RETRY, job_id, owner=owner, actor=actor, reason=reason)
        )

    def _judge_again(self, wanted: JobFilter, *, owner: str | None, limit: int) -> Reclassification:
        if wanted.state is not None and wanted.states != (State.FAILED,):
            raise BadFilter("state", wanted.state, "failed: only failed jobs are reclassified")
        answers: dict[str, Reclassified | None] = {}
        is_complete = True
        for page in self._pages(replace(wanted, state=State.FAILED), owner, limit):
            histories = self.store().histories([job.id for job in page.jobs])
            answers |= {job.id: self._judge_job(job, histories.get(job.id, ())) for job in page.jobs}
            is_complete = page.cursor is None
        return Reclassification(
            jobs=tuple(answer for answer in answers.values() if answer is not None),
            unjudged=tuple(job_id for job_id, answer in answers.items() if answer is None),
            policies=self.judge.in_force("").version,
            is_complete=is_complete,
        )

    def _pages(self, wanted: JobFilter, owner: str | None, limit: int) -> Iterator[Page[Any]]:
        cursor = None
        while limit > 0:
            page = self.store().jobs(wanted, owner=owner, limit=min(PAGE, limit), cursor=cursor)
            yield page
            limit, cursor = limit - len(page.jobs), page.cursor
            if cursor is None:
                return

    def _judge_job(self, job: Job[Any], history: Sequence[Event]) -> Reclassified | None:
        event = next((event for event in reversed(history) if event.type == FAILED), None)
        failure = read_failure(event.data) if event else None
        if event is None or failure is None:
            return None
        verdict = self.judge.verdict(failure, job.kind, job.owner)
        # As of the failure: a deadline that has passed since does not count, because a manual retry lifts it.
        decision = self.judge.decide_job(verdict, _before(job), now=event.at)
        return _compare(job, verdict, decision)


def _before(job: Job[Any]) -> Job[Any]:
    """The job as it was before its last failure was counted."""
    counts = dict(job.code_failures)
    if job.error_code in counts:
        counts[job.error_code] -= 1
    return structs.replace(job, failures=max(job.failures - 1, 0), code_failures=counts)


def _compare(job: Job[Any], verdict: Verdict, decision: Decision) -> Reclassified:
    reasons = decision.reasons if isinstance(decision, Fail | Retry | Postpone) else {}
    judged = decision.verdict if isinstance(decision, Fail) else verdict
    return Reclassified(
        id=job.id,
        kind=job.kind,
        owner=job.owner,
        old_code=job.error_code or "",
        old_class=job.error_class or "",
        new_code=judged.code,
        new_class=str(judged.error_class),
        rule=verdict.rule,
        decision=type(decision).__name__.lower(),
        because=str(reasons.get("because", "")),
    )
