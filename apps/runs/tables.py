"""The runs and what was found out about them. Whether a run waits, runs or failed is known by its job alone."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    MetaData,
    Row,
    Table,
    Text,
    TypeDecorator,
    delete,
    func,
    select,
)

from apps.runs.claim import Claim, is_run_id
from apps.runs.outcome import Finding, Outcome
from mulligan import FinalError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Moment(TypeDecorator[datetime]):
    """Microseconds since 1970: the same in every database."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: object) -> int | None:  # noqa: ARG002
        return None if value is None else (value - EPOCH) // MICROSECOND

    def process_result_value(self, value: int | None, dialect: object) -> datetime | None:  # noqa: ARG002
        return None if value is None else EPOCH + value * MICROSECOND


@dataclass(frozen=True, slots=True)
class Run:
    """`claim` is None if the leaderboard's record of the run could not be read."""

    id: str
    category: str
    submitted_at: datetime
    discovered_at: datetime
    job: str
    claim: Claim | None
    finding: Finding | None
    verified_at: datetime | None


class RunTables:
    def __init__(self, metadata: MetaData) -> None:
        self.runs = Table(
            "runs",
            metadata,
            Column("id", Text, primary_key=True),
            Column("category", Text, nullable=False),
            Column("submitted_at", Moment, nullable=False),
            Column("discovered_at", Moment, nullable=False),
            Column("job", Text, nullable=False, unique=True),
            Column("player", Text),
            Column("environment", Text),
            Column("seed", BigInteger),
            Column("score", Float),
            Index("runs_by_submission", "submitted_at", "id"),
            Index("runs_by_category", "category", "submitted_at", "id"),
        )
        self.findings = Table(
            "run_findings",
            metadata,
            Column("run", Text, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
            Column("category", Text, nullable=False),
            Column("outcome", Text, nullable=False),
            Column("reason", Text, nullable=False),
            Column("score", Float),
            Column("verified_at", Moment, nullable=False),
            Index("run_findings_by_category", "category", "outcome", "score"),
            Index("run_findings_by_time", "verified_at"),
        )
        self.positions = Table(
            "run_positions",
            metadata,
            Column("category", Text, primary_key=True),
            Column("position", BigInteger, nullable=False),
        )

    # Runs

    def known(self, connection: Connection, ids: Collection[str]) -> set[str]:
        return set(connection.scalars(select(self.runs.c.id).where(self.runs.c.id.in_(ids))))

    def add(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            connection.execute(self.runs.insert(), list(rows))

    def find(self, connection: Connection, run: str) -> Run | None:
        # Not every string can be asked for: PostgreSQL knows no NUL.
        row = connection.execute(self._joined().where(self.runs.c.id == run)).first() if is_run_id(run) else None
        return None if row is None else _to_run(row)

    def claim(self, connection: Connection, run: str) -> Claim:
        """Raises FinalError if there is none to verify."""
        found = self.find(connection, run)
        if found is None or found.claim is None:
            raise FinalError(f"the run {run!r} is unknown, or its record cannot be read", code="RUN_INVALID")
        return found.claim

    def of_jobs(self, connection: Connection, jobs: Iterable[str]) -> dict[str, Run]:
        """The runs of these jobs, by job."""
        rows = connection.execute(self._joined().where(self.runs.c.job.in_(list(jobs))))
        return {row.job: _to_run(row) for row in rows}

    def newest(
        self,
        connection: Connection,
        *,
        limit: int,
        category: str | None = None,
        outcome: Outcome | None = None,
        before: tuple[datetime, str] | None = None,
    ) -> list[Run]:
        """By submission, newest first. `before` is the submission and id of the last run seen."""
        statement = self._joined().order_by(self.runs.c.submitted_at.desc(), self.runs.c.id.desc()).limit(limit)
        if category is not None:
            statement = statement.where(self.runs.c.category == category)
        if outcome is not None:
            statement = statement.where(self.findings.c.outcome == outcome.value)
        if before is not None:
            moment, run = before
            at = self.runs.c.submitted_at
            statement = statement.where((at < moment) | ((at == moment) & (self.runs.c.id < run)))
        return [_to_run(row) for row in connection.execute(statement)]

    def _joined(self) -> Any:
        found = self.findings.c
        columns = (found.outcome, found.reason, found.score.label("verified_score"), found.verified_at)
        return select(*self.runs.c, *columns).select_from(self.runs.outerjoin(self.findings))

    def categories(self, connection: Connection) -> dict[str, int]:
        """The number of runs of each category."""
        statement = select(self.runs.c.category, func.count()).group_by(self.runs.c.category)
        return {row[0]: row[1] for row in connection.execute(statement)}

    # Findings

    def keep(self, connection: Connection, claim: Claim, finding: Finding, now: datetime) -> None:
        """Keep what was found. A second verification replaces the first."""
        connection.execute(delete(self.findings).where(self.findings.c.run == claim.id))
        connection.execute(
            self.findings.insert().values(
                run=claim.id,
                category=claim.category,
                outcome=finding.outcome.value,
                reason=finding.reason,
                score=finding.score,
                verified_at=now,
            )
        )

    def record(self, connection: Connection, claim: Claim) -> float | None:
        """The best verified score of the category, without that of this run."""
        found = self.findings.c
        statement = select(func.max(found.score)).where(
            found.category == claim.category, found.outcome != Outcome.FAILED.value, found.run != claim.id
        )
        found_score: float | None = connection.scalar(statement)
        return found_score

    def outcomes(self, connection: Connection, category: str | None = None) -> dict[Outcome, int]:
        statement = select(self.findings.c.outcome, func.count()).group_by(self.findings.c.outcome)
        if category is not None:
            statement = statement.where(self.findings.c.category == category)
        return {Outcome(outcome): number for outcome, number in connection.execute(statement)}

    def verified_since(self, connection: Connection, moment: datetime) -> int:
        statement = select(func.count()).select_from(self.findings).where(self.findings.c.verified_at >= moment)
        return int(connection.scalar(statement) or 0)

    # Positions

    def position(self, connection: Connection, category: str) -> int:
        """Where the list of a category was left."""
        statement = select(self.positions.c.position).where(self.positions.c.category == category)
        return int(connection.scalar(statement) or 0)

    def move(self, connection: Connection, category: str, position: int) -> None:
        connection.execute(delete(self.positions).where(self.positions.c.category == category))
        connection.execute(self.positions.insert().values(category=category, position=position))


def _to_run(row: Row[Any]) -> Run:
    return Run(
        id=row.id,
        category=row.category,
        submitted_at=row.submitted_at,
        discovered_at=row.discovered_at,
        job=row.job,
        claim=_to_claim(row),
        finding=_to_finding(row),
        verified_at=row.verified_at,
    )


def _to_claim(row: Row[Any]) -> Claim | None:
    if row.score is None:
        return None
    return Claim(
        id=row.id,
        category=row.category,
        player=row.player,
        environment=row.environment,
        seed=row.seed,
        score=row.score,
        submitted_at=row.submitted_at,
    )


def _to_finding(row: Row[Any]) -> Finding | None:
    return None if row.outcome is None else Finding(Outcome(row.outcome), row.reason, row.verified_score)
