"""Fold a page of the log: one read feeds all built-in projections. Later ones, such as notifications, belong here."""

from collections.abc import Sequence

from mulligan.projections.groups import fold_groups, fold_jobs
from mulligan.projections.statistics import fold_statistics
from mulligan.projections.totals import fold_breakers, fold_totals
from mulligan.records.folded import Folded
from mulligan.records.log_entry import Entry


def fold(entries: Sequence[Entry]) -> Folded:
    return Folded(
        fold_groups(entries),
        fold_jobs(entries),
        fold_statistics(entries),
        fold_totals(entries),
        fold_breakers(entries),
        max((entry.at for entry in entries), default=0),
    )
