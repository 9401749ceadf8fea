"""What people and programs do with captures: submit, find, retry, cancel. Pages and API share it."""

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from uuid import UUID

from apps.screenshots.access import Caller, Refusal
from apps.screenshots.app import COSTS, TAG, Screenshots
from apps.screenshots.capture import WIDEST, without_fragment
from apps.screenshots.words import was_retried
from mulligan import (
    IllegalMove,
    InsufficientCredits,
    IntakePaused,
    Job,
    JobFilter,
    JobNotFound,
    MulliganError,
    NotAllowed,
    State,
    StillRunning,
    StoreUnavailable,
    SubmitRateExceeded,
    TargetRefused,
    TooManyJobs,
)

NOT_RETRYABLE = "Job must be in FAILED status or stuck (>30 min processing)"
BUSY = "Job is currently being processed by another worker"
NARROWEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A capture that is asked for. Raises Refusal if it cannot be made."""

    url: str
    format: str = "PNG"
    width: int = 1_280
    height: int = 800
    full_page: bool = False

    def __post_init__(self) -> None:
        if self.format not in ("PNG", "PDF"):
            raise Refusal(400, "VALIDATION_ERROR", "format must be PNG or PDF")
        for side, value in (("width", self.width), ("height", self.height)):
            if not NARROWEST <= value <= WIDEST:
                raise Refusal(400, "VALIDATION_ERROR", f"viewport.{side} must be from {NARROWEST} to {WIDEST:,}")


class Captures:
    def __init__(self, screenshots: Screenshots) -> None:
        self._all = screenshots
        self._app = screenshots.app

    def submit(self, caller: Caller, order: Order, *, key: str | None = None) -> Job[Any]:
        """Reserve the credits and store the job, both or neither. The same `key` gives the same job. Raises Refusal."""
        self._check_target(order.url)
        try:
            while True:
                with self._all.database.transaction() as connection:
                    taken = None if key is None else self._all.submission_keys.take(connection, caller.owner, key)
                    if taken is None:
                        return self._store(connection, caller, order, key)
                if (job := self._repeated(caller, order, taken)) is not None:
                    return job
                with self._all.database.transaction() as connection:
                    self._all.submission_keys.free(connection, caller.owner, str(key), taken)
        except InsufficientCredits as error:
            raise _insufficient(error) from None
        except (SubmitRateExceeded, TooManyJobs) as error:
            raise Refusal(429, "TOO_MANY_JOBS", str(error)) from None
        except IntakePaused:
            raise Refusal(503, "PAUSED", "New captures are not accepted at the moment.") from None

    def _store(self, connection: Any, caller: Caller, order: Order, key: str | None) -> Job[Any]:
        task, arguments = self._call(order)
        job: Job[Any] = task.options(owner=caller.owner, tags=[TAG], connection=connection).enqueue(**arguments)
        self._all.credits.reserve(connection, caller.owner, job.id, COSTS[job.kind])
        if key is not None:
            self._all.submission_keys.name(connection, caller.owner, key, job.id)
        return job

    def _repeated(self, caller: Caller, order: Order, job_id: str) -> Job[Any] | None:
        """The job that was submitted with the same key. None if it is gone."""
        task, arguments = self._call(order)
        try:
            job = self._app.job(job_id, owner=caller.owner)
        except JobNotFound:
            return None
        if (job.kind, job.arguments) != (task.name, arguments):
            raise Refusal(409, "CONFLICT", "This Idempotency-Key was used for another capture.")
        return job

    def find(self, caller: Caller, job_id: str) -> Job[Any]:
        """Raises Refusal, also for what belongs to another owner."""
        try:
            job = self._app.job(str(UUID(job_id)), owner=caller.owner)
        except (JobNotFound, ValueError):
            job = None
        if job is None or job.kind not in COSTS:
            raise Refusal(404, "NOT_FOUND", "There is no such job.")
        return job

    def list(self, caller: Caller, *, limit: int = 50, cursor: str | None = None) -> Any:
        """One page, newest first. Raises Refusal."""
        try:
            return self._app.jobs(JobFilter(tag=TAG), owner=caller.owner, limit=limit, cursor=cursor)
        except StoreUnavailable:
            raise
        except MulliganError:
            raise Refusal(400, "VALIDATION_ERROR", "This cursor is of no page.") from None

    def retry(self, caller: Caller, job_id: str) -> Job[Any]:
        """A planned automatic retry is replaced. Raises Refusal."""
        job = self.find(caller, job_id)
        if not can_retry(job):
            raise Refusal(400, "VALIDATION_ERROR", NOT_RETRYABLE)
        try:
            return self._app.retry(job.id, owner=caller.owner, actor=caller.actor)
        except StillRunning:
            raise Refusal(409, "CONCURRENT_MODIFICATION", BUSY) from None
        except IllegalMove:
            raise Refusal(400, "VALIDATION_ERROR", NOT_RETRYABLE) from None
        except InsufficientCredits as error:
            raise _insufficient(error) from None
        except NotAllowed as error:
            raise Refusal(409, "NOT_ALLOWED", str(error)) from None

    def cancel(self, caller: Caller, job_id: str) -> Job[Any]:
        """Raises Refusal."""
        job = self.find(caller, job_id)
        try:
            return self._app.cancel(job.id, owner=caller.owner, actor=caller.actor)
        except IllegalMove:
            raise Refusal(400, "VALIDATION_ERROR", "Job is over and cannot be cancelled") from None

    def position(self, job: Job[Any]) -> int | None:
        return self._app.queue_position(job.id)

    def _call(self, order: Order) -> tuple[Any, dict[str, Any]]:
        arguments = {"url": order.url, "width": order.width, "height": order.height}
        if order.format == "PDF":
            return self._all.pdf_generation, arguments
        return self._all.screenshot, {**arguments, "full_page": order.full_page}

    def _check_target(self, url: str) -> None:
        """What can be said without asking the network; the rest is checked when the page is opened."""
        try:
            target = self._all.egress.check(without_fragment(url))
            if _is_address(target.host):
                self._all.egress.look_up(target.host, target.port)
        except TargetRefused as error:
            raise Refusal(422, "TARGET_REFUSED", str(error)) from None


def can_retry(job: Job[Any]) -> bool:
    """A job that runs may be stuck, which the engine knows. One that was retried manually already is as good as
    queued."""
    return job.state in (State.FAILED, State.RUNNING) or (job.state is State.WAITING and not was_retried(job))


def _insufficient(error: InsufficientCredits) -> Refusal:
    message = f"This needs {error.required} credits; {error.available} are left."
    fields = {"requiredCredits": error.required, "availableCredits": error.available}
    return Refusal(402, "INSUFFICIENT_CREDITS", message, **fields)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
