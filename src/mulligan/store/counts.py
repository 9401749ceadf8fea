"""Counts of jobs. Each count reads a limited number of rows of an index, so it takes the same time at any size."""

from collections import Counter
from collections.abc import Sequence

from mulligan.lifecycle import FINAL, State
from mulligan.records.counts import COLUMNS, MOST_READ, Counts
from mulligan.records.job import JobFilter
from mulligan.store.reading import filter_conditions
from mulligan.store.rows import Record
from mulligan.store.scans import Scan, scans_of
from mulligan.store.session import Session


class CountOperations:
    def count(self, session: Session, wanted: JobFilter, by: str, owner: str | None) -> Counts:
        states = _possible_states(wanted, by)
        scans = _scans(wanted, by, owner if owner is not None else wanted.owner, states)
        conditions, values = filter_conditions(wanted, owner, None)
        most = MOST_READ if len(scans) > 1 else MOST_READ * max(1, len(states))
        texts = [
            session.sql.filtered(
                "count_scan",
                conditions,
                number=str(number),
                scan=scan.where,
                order=scan.order,
                **_labels(by, scan),
            )
            for number, scan in enumerate(scans)
        ]
        rows = session.execute(" UNION ALL ".join(texts), {**values, "now": session.now, "limit": most + 1})
        return _to_counts(by, rows, most)

    def count_state(self, session: Session, state: State, most: int) -> int:
        """Count all jobs of a state, up to `most`."""
        number = 0
        for scan in scans_of(state):
            text = session.sql.filtered(
                "count_scan", ["true"], number="0", scan=scan.where, order=scan.order, **_labels("state", scan)
            )
            (row,) = session.execute(text, {"now": session.now, "limit": most - number})
            number += int(row["looked_at"])
        return number


def _possible_states(wanted: JobFilter, by: str) -> list[State]:
    """The states that matching jobs can have."""
    possible = set(wanted.states)
    if by in ("code", "group") or not all(each is None for each in (wanted.code, wanted.error_class, wanted.group)):
        possible &= {State.FAILED}
    if wanted.worker is not None:
        possible &= {State.RUNNING}
    if wanted.finished_since is not None:
        possible &= set(FINAL)
    return [state for state in State if state in possible]


def _scans(wanted: JobFilter, by: str, owner: str | None, states: Sequence[State]) -> list[Scan]:
    """One scan of the narrowest index, or one for each state."""
    if wanted.ids is not None:
        return [Scan("id = ANY (ARRAY(SELECT json_array_elements_text(:ids::json)))", "id DESC")]
    if wanted.batch is not None:
        return [Scan("batch = :batch", "id DESC")]
    if wanted.group is not None:
        return [Scan("error_group = :group AND state = 'failed'", "id DESC", State.FAILED)]
    if wanted.worker is not None:
        return [Scan("leased_by = :worker AND state = 'running'", "claim", State.RUNNING)]
    if owner:
        return [Scan("owner = :owner AND owner <> ''", "id DESC")]
    if by == "batch":
        return [Scan("batch IS NOT NULL", "batch DESC, id DESC")]
    since = " AND {{over_at}} >= :finished_since" if wanted.finished_since is not None else ""
    return [scan for state in states for scan in scans_of(state, since)] or [Scan("false", "id")]


def _labels(by: str, scan: Scan) -> dict[str, str]:
    # A state that is known is not read: most scans then need the index alone.
    if by == "state" and scan.state is not None:
        return {"label": f"'{scan.state}'", "column": "1", "grouping": ""}
    return {"label": "name", "column": COLUMNS[by], "grouping": "GROUP BY name"}


def _to_counts(by: str, rows: Sequence[Record], most: int) -> Counts:
    found, looked_at = Counter[str](), Counter[int]()
    for row in rows:
        looked_at[row["scan"]] += row["looked_at"]
        if row["name"] is not None and row["matched"]:
            found[row["name"]] += min(int(row["matched"]), most)
    return Counts(
        by=by,
        groups=dict(sorted(found.items(), key=lambda group: (-group[1], group[0]))),
        total=found.total(),
        at_least=any(number > most for number in looked_at.values()),
    )
