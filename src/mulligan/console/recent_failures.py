"""Doctor checks of the last minutes: kinds that fail, retries that do not help, codes that have become frequent."""

import shlex
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from mulligan.explain.words import counted
from mulligan.records.finding import Check, Finding, Limits, ok, warning
from mulligan.records.statistics import FAILED, IN_VAIN, SUCCEEDED, RecentCount
from mulligan.records.subscription import DELIVER_KIND
from mulligan.service.records import PROBE_KIND
from mulligan.store.store import Store
from mulligan.values.duration import describe

# Findings of one check, the worst first.
MOST_SUBJECTS = 20
# How far back the failures before a spike are counted.
BEFORE_SPIKE = timedelta(hours=1)
# A mail about mails that fail would fail too.
OWN_KINDS = (DELIVER_KIND, PROBE_KIND)


def examine_recent(store: Store, now: datetime, limits: Limits) -> Iterable[Finding]:
    """What the statistics of the last minutes say about kinds and codes."""
    counts = store.recent_counts(now - limits.window, since=now - limits.window - BEFORE_SPIKE)
    of_users = [each for each in counts if each.kind not in OWN_KINDS]
    recent = [each for each in of_users if each.is_recent]
    yield from failing(recent, limits)
    yield from retries(recent, limits)
    yield from codes(of_users, limits)


def failing(recent: Iterable[RecentCount], limits: Limits) -> list[Finding]:
    """A finding for each kind of which too many jobs fail."""
    ended = [each for each in recent if each.outcome in (SUCCEEDED, FAILED)]
    found = [
        replace(
            warning(
                Check.JOBS_FAILING,
                f"{number:,} of {counted(of, 'job')} of {kind!r} failed within {describe(limits.window)}",
                f"mulligan failures --kind {shlex.quote(kind)} shows what fails, the worst first",
            ),
            subject=kind,
            value=round(number / of, 3),
            threshold=limits.failing,
        )
        for kind, number, of in _too_many(ended, (FAILED,), limits.failing, limits)
    ]
    return found or [ok(Check.JOBS_FAILING, f"of no kind {limits.failing:.0%} of the jobs failed just now")]


def retries(recent: Iterable[RecentCount], limits: Limits) -> list[Finding]:
    """A finding for each kind whose retries hardly ever help."""
    ended = [each for each in recent if each.is_retry and each.outcome in (SUCCEEDED, *IN_VAIN)]
    found = [
        replace(
            warning(
                Check.JOBS_RETRIES,
                f"{number:,} of {_retries(of)} of {kind!r} were in vain within {describe(limits.window)}",
                f"mulligan stats --kind {shlex.quote(kind)} shows by code whether retries help; a code that never "
                "recovers should be final",
            ),
            subject=kind,
            value=round(number / of, 3),
            threshold=limits.retries,
        )
        for kind, number, of in _too_many(ended, IN_VAIN, limits.retries, limits)
    ]
    return found or [ok(Check.JOBS_RETRIES, f"of no kind {limits.retries:.0%} of the retries were in vain just now")]


def _retries(number: int) -> str:
    return "1 retry" if number == 1 else f"{number:,} retries"


def _too_many(
    ended: Iterable[RecentCount], bad: Collection[str], most: float, limits: Limits
) -> list[tuple[str, int, int]]:
    """The kinds with their numbers of bad and of all ends, the most bad ones first. What found no row of its own in the
    statistics has no kind."""
    all_ends, bad_ends = Counter[str](), Counter[str]()
    for each in ended:
        all_ends[each.kind] += each.number
        bad_ends[each.kind] += each.number if each.outcome in bad else 0
    return [
        (kind, number, all_ends[kind])
        for kind, number in bad_ends.most_common()
        if kind and number and all_ends[kind] >= limits.least and number >= most * all_ends[kind]
    ][:MOST_SUBJECTS]


def codes(counts: Iterable[RecentCount], limits: Limits) -> list[Finding]:
    """A finding for each code with many more failures than before."""
    recent, before = Counter[str](), Counter[str]()
    for each in counts:
        if each.code and each.outcome in IN_VAIN:
            (recent if each.is_recent else before)[each.code] += each.number
    spans = BEFORE_SPIKE / limits.window
    found = [
        replace(
            warning(
                Check.JOBS_CODES,
                f"{counted(number, 'failure')} with {code} within {describe(limits.window)}; in the hour before, "
                f"there were {before[code] / spans:,.1f} as long on average",
                f"mulligan failures --code {code}",
            ),
            subject=code,
            value=round(number * spans / before[code], 1) if before[code] else None,
            threshold=limits.spike,
        )
        for code, number in recent.most_common(MOST_SUBJECTS)
        if number >= max(limits.least, limits.spike * before[code] / spans)
    ]
    return found or [ok(Check.JOBS_CODES, "no error code has become much more frequent")]
