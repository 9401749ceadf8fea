"""The failure of an attempt, the verdict on it, and the engine's own verdicts, which need no exception."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from signal import Signals

from mulligan.errors import FinalError, RateLimitedError, RetryableError, Snooze, TaskError
from mulligan.failure import evidence
from mulligan.failure.error_codes import DEFAULT, Catalogue, ErrorClass
from mulligan.failure.fingerprint import fingerprint
from mulligan.failure.redact import clip, first_line, sanitize
from mulligan.values.duration import describe


class Ledger(StrEnum):
    """The count that a failure is charged to."""

    FAILURES = "failures"
    CRASHES = "crashes"
    LOSSES = "losses"
    MISFITS = "misfits"
    """Counted among the failures by code. They have no counter of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong in an attempt, as plain values. Strings are bounded and without secrets from the start.

    `types` are the names of the exception's classes, `causes` those of the exceptions it was raised from or wraps. The
    numbers, `sqlstate` and the hint are the exception's own, or those of the nearest cause.
    """

    type: str
    types: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    message: str = ""
    detail: str = ""
    status: int | None = None
    exit: int | None = None
    errno: int | None = None
    sqlstate: str | None = None
    code: str | None = None
    error_class: ErrorClass | None = None
    retry_after: timedelta | None = None
    holds_service: bool = False
    exception: BaseException | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, exception: BaseException) -> "Failure":
        """The failure that an exception describes. Never raises, whatever the exception does."""
        raised = evidence.representative(exception)
        chain = evidence.chain(raised)
        types = evidence.type_names(raised)
        error_class = _own_class(raised)
        return cls(
            type=types[0],
            types=types,
            causes=evidence.cause_names(chain),
            message=evidence.message_of(raised),
            detail=evidence.detail_of(exception),
            status=evidence.status_of(chain),
            exit=evidence.first(evidence.exit_of, chain),
            errno=evidence.first(evidence.errno_of, chain),
            sqlstate=evidence.first(evidence.sqlstate_of, chain),
            code=_own_code(raised) if error_class else None,
            error_class=error_class,
            retry_after=evidence.first(evidence.hint_of, chain),
            holds_service=_holds_service(raised),
            exception=raised,
        )

    @property
    def compact(self) -> "Failure":
        """The part that is stored for reclassification: small, without the exception and the traceback."""
        message = clip(self.message, evidence.KEPT_LIMIT)
        return replace(self, types=self.types[: evidence.KEPT_TYPES], message=message, detail="", exception=None)

    @property
    def line(self) -> str:
        """Its type and the first line of its message: `ValueError: no such page`."""
        said = first_line(self.message)
        return f"{self.type}: {said}" if said else self.type

    def group(self, kind: str) -> str:
        """The fingerprint, which equal failures of other jobs of this kind share."""
        return fingerprint(self.type, self.message, self.status, self.errno, self.exit, kind=kind)


_OWN_CLASSES: tuple[tuple[type[BaseException], ErrorClass], ...] = (
    (FinalError, ErrorClass.FINAL),
    (RetryableError, ErrorClass.RETRYABLE),
    (RateLimitedError, ErrorClass.RATE_LIMITED),
    (Snooze, ErrorClass.RATE_LIMITED),
    (TaskError, ErrorClass.RETRYABLE),
)


def _own_class(exception: BaseException) -> ErrorClass | None:
    return next((said for kind, said in _OWN_CLASSES if evidence.is_a(exception, kind)), None)


def _own_code(exception: BaseException) -> str | None:
    if evidence.is_a(exception, Snooze):
        return "SNOOZED"
    code = evidence.attribute(exception, "code")
    return sanitize(code, 200) if type(code) is str else None


def _holds_service(exception: BaseException) -> bool:
    return evidence.is_a(exception, RateLimitedError) and evidence.attribute(exception, "scope") == "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The classification of a failure. Your own rule may leave out everything but code and class.

    `message` is the line for users while a retry is pending, `final_message` the line when none is; `detail` is for
    developers. `notes` report problems of the classification itself. `blames_service` is True if the service of the
    task is at fault, False if it answered in good health, None if that is unknown. `holds_service`: all jobs of the
    service must wait for `retry_after`.
    """

    code: str
    error_class: ErrorClass
    message: str = ""
    rule: str = ""
    group: str = ""
    detail: str = ""
    retry_after: timedelta | None = None
    ledger: Ledger = Ledger.FAILURES
    final_message: str = ""
    notes: tuple[str, ...] = ()
    blames_service: bool | None = None
    holds_service: bool = False
    has_begun: bool = True
    """The task's code ran, or may have run. False only if it certainly did not."""
    failure: Failure | None = field(default=None, compare=False, repr=False)
    """The stored part of the failure; None for a verdict of the engine."""

    @property
    def technical_line(self) -> str:
        """What happened, in one line for developers; `message` is the line for users."""
        return self.failure.line if self.failure else first_line(self.detail)


def engine_verdict(
    code: str,
    *,
    kind: str = "",
    detail: str = "",
    ledger: Ledger = Ledger.FAILURES,
    catalogue: Catalogue = DEFAULT,
) -> Verdict:
    """The engine's own verdict on an attempt. The class is the catalogue's."""
    entry = catalogue.get(code)
    return Verdict(
        code=entry.code,
        error_class=entry.error_class,
        message=entry.message,
        final_message=entry.last_message,
        rule="engine",
        group=fingerprint(entry.code, "", kind=kind),
        detail=sanitize(detail, evidence.DETAIL_LIMIT),
        ledger=ledger,
        blames_service=entry.blames_service,
    )


def worker_lost(
    *,
    kind: str = "",
    detail: str = "the lease expired, and the worker sent no heartbeat",
    has_begun: bool = True,
    catalogue: Catalogue = DEFAULT,
) -> Verdict:
    """The lease expired for an unknown reason: the process, the machine or the network was lost."""
    verdict = engine_verdict("WORKER_LOST", kind=kind, detail=detail, ledger=Ledger.LOSSES, catalogue=catalogue)
    return replace(verdict, has_begun=has_begun)


def crashed(
    *,
    exit: int | None = None,  # noqa: A002
    kind: str = "",
    detail: str = "",
    catalogue: Catalogue = DEFAULT,
) -> Verdict:
    """The child process of the job died, as its parent saw."""
    seen = f"the process of this job {_ended(exit)}"
    return engine_verdict(
        _DEATHS.get(exit, "CRASHED"),
        kind=kind,
        detail=f"{seen}\n{detail}" if detail else seen,
        ledger=Ledger.CRASHES,
        catalogue=catalogue,
    )


# A SIGKILL nearly always comes from the kernel's out-of-memory killer.
_DEATHS: dict[int | None, str] = {
    -Signals.SIGKILL: "OUT_OF_MEMORY",
    -Signals.SIGSEGV: "SEGFAULT",
    -Signals.SIGBUS: "SEGFAULT",
}


def misfit(problem: str, *, kind: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """The arguments belong to another version of the task, so the job did not run."""
    verdict = engine_verdict("VERSION_MISMATCH", kind=kind, detail=problem, ledger=Ledger.MISFITS, catalogue=catalogue)
    return replace(verdict, notes=(verdict.detail,), has_begun=False)


def timed_out(timeout: timedelta, *, kind: str = "", detail: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """The attempt ran longer than its timeout."""
    seen = f"the attempt had not ended after {describe(timeout)}"
    return engine_verdict("TIMEOUT", kind=kind, detail=f"{seen}\n{detail}" if detail else seen, catalogue=catalogue)


def deadline_passed(*, kind: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """The deadline passed before the job ran."""
    return engine_verdict("DEADLINE", kind=kind, catalogue=catalogue)


def budget_exhausted(*, kind: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """The owner's retry budget for this period is used up, and `over_budget` is "fail"."""
    return engine_verdict("BUDGET_EXHAUSTED", kind=kind, catalogue=catalogue)


def _ended(exit: int | None) -> str:  # noqa: A002
    if exit is None:
        return "died"
    if exit >= 0:
        return f"ended with exit status {exit}"
    return f"was ended by signal {-exit} ({_signal_name(-exit)})"


def _signal_name(number: int) -> str:
    return evidence.try_or(lambda: Signals(number).name, "unknown")
