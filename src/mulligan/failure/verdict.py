"""The two records of a failure: what went wrong, and what it is. And the verdicts that need no exception."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from signal import Signals

from mulligan.errors import FinalError, RateLimitedError, RetryableError, Snooze, TaskError
from mulligan.failure import evidence
from mulligan.failure.catalogue import DEFAULT, Catalogue, ErrorClass
from mulligan.failure.fingerprint import fingerprint
from mulligan.failure.redact import kept
from mulligan.failure.text import clipped, first_line
from mulligan.values.duration import describe


class Ledger(StrEnum):
    """Which allowance a failure is charged to."""

    FAILURES = "failures"
    CRASHES = "crashes"
    LOSSES = "losses"
    MISFITS = "misfits"
    """Counted under their code, with the failures of each code: there is no counter for them alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong in an attempt, as plain values. Text is bounded, and rid of secrets, when it is taken in.

    `types` are the names of the exception's classes, `causes` of those of what it was raised from or wraps. The
    numbers, `sqlstate` and the hint are the exception's own, or the nearest cause's.
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
        """What the exception tells. Never raises, whatever the exception does."""
        speaker = evidence.speaker(exception)
        chain = evidence.chain(speaker)
        types = evidence.type_names(speaker)
        error_class = _own_class(speaker)
        return cls(
            type=types[0],
            types=types,
            causes=evidence.cause_names(chain),
            message=evidence.message_of(speaker),
            detail=evidence.detail_of(exception),
            status=evidence.status_of(chain),
            exit=evidence.first(evidence.exit_of, chain),
            errno=evidence.first(evidence.errno_of, chain),
            sqlstate=evidence.first(evidence.sqlstate_of, chain),
            code=_own_code(speaker) if error_class else None,
            error_class=error_class,
            retry_after=evidence.first(evidence.hint_of, chain),
            holds_service=_holds_service(speaker),
            exception=speaker,
        )

    @property
    def kept(self) -> "Failure":
        """What is kept of it, so that it can be judged again: without the exception and the traceback, and small."""
        message = clipped(self.message, evidence.KEPT_LIMIT)
        return replace(self, types=self.types[: evidence.KEPT_TYPES], message=message, detail="", exception=None)

    @property
    def line(self) -> str:
        """Its type and the first line of what it says: `ValueError: no such page`."""
        said = first_line(self.message)
        return f"{self.type}: {said}" if said else self.type

    def group(self, kind: str) -> str:
        """The fingerprint it shares with the same failure of other jobs of this kind."""
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
    return kept(code, 200) if type(code) is str else None


def _holds_service(exception: BaseException) -> bool:
    return evidence.is_a(exception, RateLimitedError) and evidence.attribute(exception, "scope") == "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a failure is. A rule of your own may leave out all but code and class.

    `message` is the line for people while a retry is coming, `final_message` when none is; `detail` is
    for those who mend it. `notes` say what went wrong while judging. `blames_service` is True when the service of the
    task is at fault, False when it answered in good health, None when nothing is known of it; `holds_service`, when all
    of that service wants the quiet of `retry_after`.
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
    """The task's code ran, or may have; False only where it is certain that it did not."""
    failure: Failure | None = field(default=None, compare=False, repr=False)
    """What was judged, as far as it is kept; None when the engine itself knew."""

    @property
    def seen(self) -> str:
        """What happened, in one line for those who mend it; `message` is the line for everybody else."""
        return self.failure.line if self.failure else first_line(self.detail)


def engine_verdict(
    code: str,
    *,
    kind: str = "",
    detail: str = "",
    ledger: Ledger = Ledger.FAILURES,
    catalogue: Catalogue = DEFAULT,
) -> Verdict:
    """What the engine itself knows about an attempt; the class is the catalogue's."""
    entry = catalogue.get(code)
    return Verdict(
        code=entry.code,
        error_class=entry.error_class,
        message=entry.message,
        final_message=entry.last_word,
        rule="engine",
        group=fingerprint(entry.code, "", kind=kind),
        detail=kept(detail, evidence.DETAIL_LIMIT),
        ledger=ledger,
        blames_service=entry.blames_service,
    )


def worker_lost(
    *,
    kind: str = "",
    detail: str = "the lease expired without a word from the worker",
    has_begun: bool = True,
    catalogue: Catalogue = DEFAULT,
) -> Verdict:
    """The lease ran out and nobody knows why: the process, the machine or the network went away."""
    verdict = engine_verdict("WORKER_LOST", kind=kind, detail=detail, ledger=Ledger.LOSSES, catalogue=catalogue)
    return replace(verdict, has_begun=has_begun)


def crashed(
    *,
    exit: int | None = None,  # noqa: A002
    kind: str = "",
    detail: str = "",
    catalogue: Catalogue = DEFAULT,
) -> Verdict:
    """The job's own process died under it, seen by its parent."""
    seen = f"the process of this job {_ended(exit)}"
    return engine_verdict(
        _DEATHS.get(exit, "CRASHED"),
        kind=kind,
        detail=f"{seen}\n{detail}" if detail else seen,
        ledger=Ledger.CRASHES,
        catalogue=catalogue,
    )


# The kernel's killer of last resort sends 9, and it is nearly always the one who did.
_DEATHS: dict[int | None, str] = {
    -Signals.SIGKILL: "OUT_OF_MEMORY",
    -Signals.SIGSEGV: "SEGFAULT",
    -Signals.SIGBUS: "SEGFAULT",
}


def misfit(problem: str, *, kind: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """Its arguments are those of another version of the task, so it was not run here."""
    verdict = engine_verdict("VERSION_MISMATCH", kind=kind, detail=problem, ledger=Ledger.MISFITS, catalogue=catalogue)
    return replace(verdict, notes=(verdict.detail,), has_begun=False)


def timed_out(timeout: timedelta, *, kind: str = "", detail: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """It ran longer than it may."""
    seen = f"the attempt had not ended after {describe(timeout)}"
    return engine_verdict("TIMEOUT", kind=kind, detail=f"{seen}\n{detail}" if detail else seen, catalogue=catalogue)


def deadline_passed(*, kind: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """The deadline came while the job was still waiting for its turn."""
    return engine_verdict("DEADLINE", kind=kind, catalogue=catalogue)


def budget_exhausted(*, kind: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """Its owner has no retries left in this period, and is set to fail then."""
    return engine_verdict("BUDGET_EXHAUSTED", kind=kind, catalogue=catalogue)


def _ended(exit: int | None) -> str:  # noqa: A002
    if exit is None:
        return "died"
    if exit >= 0:
        return f"ended with exit status {exit}"
    return f"was ended by signal {-exit} ({_signal_name(-exit)})"


def _signal_name(number: int) -> str:
    return evidence.tried(lambda: Signals(number).name, "unknown")
