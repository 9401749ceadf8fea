"""What settled attempts tell of services: one word each, or what their tasks reported."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from mulligan.failure.decision import Fail, Park, Postpone, Retry, Succeed
from mulligan.records.job import Lease, ReportedCall
from mulligan.service import BreakerState, ServiceCall, ServiceState
from mulligan.service.records import PROBE_KIND
from mulligan.store.messages import Outcome


class Word(NamedTuple):
    """`epoch` is the service's when the job was claimed; None: the task called another one than its own."""

    ok: bool
    is_retry: bool
    epoch: int | None


class Quiet(NamedTuple):
    """The whole service is to be left alone for so long."""

    length: timedelta
    epoch: int


@dataclass(slots=True)
class Hearsay:
    """Of one service."""

    words: list[Word] = field(default_factory=list)
    quiet: list[Quiet] = field(default_factory=list)

    @property
    def is_reported(self) -> bool:
        """No job of its own tells of it: others called it."""
        return not self.quiet and all(word.epoch is None for word in self.words)

    def calls_in(self, standing: ServiceState, now: int) -> list[ServiceCall]:
        """Whoever called a service that is not his job's may have done so before its last change: that counts only
        while it is closed."""
        other = standing.epoch if standing.breaker is BreakerState.CLOSED else -1
        return [
            ServiceCall(now, word.ok, is_retry=word.is_retry, epoch=other if word.epoch is None else word.epoch)
            for word in self.words
        ]


def hearsay(outcomes: Iterable[Outcome]) -> dict[str, Hearsay]:
    heard: dict[str, Hearsay] = {}
    for outcome in outcomes:
        lease = outcome.lease
        for called in outcome.calls:
            name, epoch = (lease.service, lease.service_epoch) if _is_own(called, lease) else (called.service, None)
            heard.setdefault(name, Hearsay()).words.append(Word(called.ok, lease.is_retry, epoch))
        if lease.service:
            _hear(heard, outcome)
    return heard


def merged(heard: Mapping[str, Hearsay], shared: Mapping[str, str]) -> Mapping[str, Hearsay]:
    """What was heard, of services that share a name under that."""
    if not shared:
        return heard
    together: dict[str, Hearsay] = {}
    for name, each in heard.items():
        one = together.setdefault(shared.get(name, name), Hearsay())
        one.words += each.words
        one.quiet += each.quiet
    return together


def told_of(outcome: Outcome) -> dict[str, dict[str, int]]:
    """What one attempt tells of services, for the log: good calls and failed ones by name."""
    told = {}
    for name, heard in hearsay([outcome]).items():
        good = sum(word.ok for word in heard.words)
        told[name] = {"ok": good, "failed": len(heard.words) - good}
    return told


def _hear(heard: dict[str, Hearsay], outcome: Outcome) -> None:
    lease = outcome.lease
    ok = _word(outcome)
    # What the task itself said of its service goes before what its end tells.
    if ok is not None and not any(_is_own(called, lease) for called in outcome.calls):
        heard.setdefault(lease.service, Hearsay()).words.append(Word(ok, lease.is_retry, lease.service_epoch))
    if isinstance(outcome.decision, Retry | Fail | Postpone | Park):
        verdict = outcome.decision.verdict
        if verdict.holds_service and verdict.retry_after is not None:
            quiet = Quiet(verdict.retry_after, lease.service_epoch)
            heard.setdefault(lease.service, Hearsay()).quiet.append(quiet)


def is_blamed(outcome: Outcome) -> bool:
    """Whether its own service is at fault, as the task reported it, else as its end tells."""
    reported = [called.ok for called in outcome.calls if _is_own(called, outcome.lease)]
    return not all(reported) if reported else _word(outcome) is False


def _is_own(called: ReportedCall, lease: Lease) -> bool:
    """Whether it is the job's own service that was called; a shared one is called by the name that was meant."""
    shares = len(lease.service) > 1 and lease.service.endswith("*")
    return called.service == lease.service or (shares and called.service.startswith(lease.service[:-1]))


def _word(outcome: Outcome) -> bool | None:
    """Whether the service did its part; None when nothing is known of it."""
    match outcome.decision:
        case Succeed():
            return True
        case Retry() | Fail() if outcome.lease.kind == PROBE_KIND:
            # Whatever kept it from an answer: else it would be asked again at once, and again.
            return False
        case Retry(verdict=verdict) | Fail(verdict=verdict) | Postpone(verdict=verdict) | Park(verdict=verdict):
            return None if verdict.blames_service is None else not verdict.blames_service
    return None
