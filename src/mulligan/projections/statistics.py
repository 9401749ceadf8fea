"""What a page of the log adds to the statistics of its minutes."""

from collections.abc import Iterable

from mulligan.records.log_entry import Entry
from mulligan.records.statistics import FOLLOWED, LAST_ATTEMPT, MINUTE, OUTCOMES, STARTED, Key, Tally, add_to, new_tally

_MINUTE = MINUTE * 1_000_000
# Those of events. Whether a job has recovered depends on its earlier failures.
COUNTED = {f"job.{outcome}": outcome for outcome in OUTCOMES if outcome not in FOLLOWED}


def fold_statistics(entries: Iterable[Entry]) -> dict[Key, Tally]:
    """The tallies by key, in the order in which the keys come in the log."""
    found: dict[Key, Tally] = {}
    for entry in entries:
        outcome = COUNTED.get(entry.type)
        if outcome is None:
            continue
        at, attempt = entry.at, entry.attempt
        key = Key(
            MINUTE,
            at - at % _MINUTE,
            entry.kind,
            entry.owner,
            entry.service,
            outcome,
            entry.code or "",
            attempt if attempt < LAST_ATTEMPT else LAST_ATTEMPT,
        )
        tally = found.get(key)
        if tally is None:
            tally = found[key] = new_tally()
        if outcome == STARTED:
            add_to(tally, None if entry.ready_at is None else max(at - entry.ready_at, 0) / 1e6, 0)
        else:
            seconds = entry.facts.seconds
            # Only an attempt costs; an event without one, such as a manual cancellation, has no duration.
            add_to(tally, seconds, entry.cost if seconds is not None else 0)
    return found
