"""Admission of HTTP requests, many at once: request rates, marks of changes in flight, and the audit.

Locks are taken in one order: the buckets by subject, then the marks, each sorted. The commit is asynchronous on
PostgreSQL. A change that commits later makes it durable: the log is written in order. So an entry of the audit is
never missing for a change that was kept.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mulligan.records.admission import (
    Admission,
    AdmissionRequest,
    Admitted,
    EndedRequest,
    InFlight,
    NewAuditEntry,
    RateExceeded,
)
from mulligan.records.audit import AuditEntry
from mulligan.records.rate import Rate, TokenBucket
from mulligan.records.web_session import IDLE_FOR, LASTS
from mulligan.store.requests import REQUESTS_KEPT
from mulligan.store.rows import Record, from_time, to_duration, to_json, to_record, to_time
from mulligan.store.session import Named, RoundTrips, Rows, Session

# How long a change may be in flight before the mark of a process that died no longer holds.
MARKED_FOR = timedelta(minutes=2)
# A bucket that has been full for so long is deleted.
IDLE = to_duration(timedelta(minutes=1))

_MINUTE = to_duration(timedelta(minutes=1))
_SECOND = to_duration(timedelta(seconds=1))
_MICROSECOND = timedelta(microseconds=1)

# What the duty `prune` deletes: table, key, condition. `mulligan_audit` only after its retention.
_FORGOTTEN = (
    ("mulligan_audit", "id", "at < :audited_before"),
    ("mulligan_in_flight", "mark", "at < {{clock}} - :kept AND until < {{clock}}"),
    ("mulligan_setup_tokens", "digest", "until < {{clock}}"),
    ("mulligan_sign_in_links", "digest", "until < {{clock}}"),
    ("mulligan_web_sessions", "session", "used_at < {{clock}} - :unused OR begun_at < {{clock}} - :session_lasts"),
    ("mulligan_request_rates", "subject", "full_at < {{clock}} - :idle"),
)


class AdmissionOperations:
    def admit(self, wanted: Sequence[AdmissionRequest], ended: Sequence[EndedRequest]) -> RoundTrips[list[Admission]]:
        """Record the ends first: a mark that is released can be taken by a request that came with it."""
        ends = _ends(ended)
        if not wanted:
            return ends, lambda _: []
        *_, buckets = yield [*ends, _lock(wanted)]
        now = max(row["now"] for row in buckets)
        answers, charge = _charge(wanted, buckets, now)
        admitted = [request for request, answer in zip(wanted, answers, strict=True) if isinstance(answer, Admitted)]
        take = _take(admitted)
        # Without a mark to take, the answers are those by the rates.
        return (
            [*take, *charge, *_records(admitted, now)],
            lambda found: _answer_marked(wanted, answers, found[0]) if take else answers,
        )

    def audit(self, session: Session, owner: str | None, limit: int, cursor: str | None) -> list[AuditEntry]:
        conditions = ["true", *(["owner = :owner"] if owner is not None else [])]
        conditions += ["id < :cursor"] if cursor is not None else []
        values = {"owner": owner, "cursor": cursor, "limit": limit}
        return [to_record(AuditEntry, row) for row in session.filtered("audit", conditions, values)]

    def has_old(self, session: Session, audited_before: datetime | None) -> bool:
        return bool(session.rows("access_old", _prune_values(audited_before)))

    def prune(self, session: Session, audited_before: datetime | None, limit: int) -> int:
        values = _prune_values(audited_before) | {"limit": limit}
        return sum(
            len(session.filtered("access_forget", [condition], values, table=table, key=key))
            for table, key, condition in _FORGOTTEN
        )


def write_audit(session: Session, entries: Sequence[NewAuditEntry]) -> None:
    session.together(*_audit(entries))


def _audit(entries: Sequence[NewAuditEntry], *, are_marked: bool = False) -> list[Named]:
    """With `are_marked`, the request ids of the entries are marks, and an entry without its mark is not stored."""
    return [("audit_new", {"entries": to_json(entries), "are_marked": are_marked})] if entries else []


def _ends(ended: Sequence[EndedRequest]) -> list[Named]:
    if not ended:
        return []
    found: list[Named] = [("audit_end", {"ended": to_json(ended)})]
    if marked := [each for each in ended if each.mark is not None]:
        found.append(("in_flight_end", {"ended": to_json(marked)}))
    return found


def _lock(wanted: Sequence[AdmissionRequest]) -> Named:
    return "request_rates_lock", {"subjects": to_json(sorted({request.subject for request in wanted}))}


def _charge(wanted: Sequence[AdmissionRequest], rows: Rows, now: int) -> tuple[list[Admission], list[Named]]:
    """Return the answer to each request by its rate, and what is stored of the buckets."""
    rates = {request.subject: request.rate for request in wanted}
    buckets = {row["subject"]: _bucket(row, rates[row["subject"]], now) for row in rows}
    before = dict(buckets)
    answers: list[Admission] = []
    for request in wanted:
        bucket = buckets[request.subject]
        if bucket.has(1):
            buckets[request.subject] = bucket.without(1)
            answers.append(Admitted())
        else:
            answers.append(RateExceeded(bucket.time_until(1) * _MICROSECOND))
    charged = [_level(*item, now) for item in buckets.items() if item[1] != before[item[0]]]
    return answers, [("request_rates_write", {"charges": to_json(charged)})] if charged else []


def _take(admitted: Sequence[AdmissionRequest]) -> list[Named]:
    # Of several requests at once with one mark, the first takes it.
    holders = {request.mark: _holder(request) for request in reversed(admitted) if request.mark is not None}
    marks = [{"mark": mark, "holder": holder} for mark, holder in holders.items()]
    return [("in_flight_take", {"marks": to_json(marks), "duration": to_duration(MARKED_FOR)})] if marks else []


def _answer_marked(wanted: Sequence[AdmissionRequest], answers: Sequence[Admission], taken: Rows) -> list[Admission]:
    """`taken` has what is known of earlier requests with a mark, by the holders that have one now."""
    admitted = {row["holder"]: Admitted(from_time(row["at"]), row["request"]) for row in taken}
    found = list(answers)
    for number, request in enumerate(wanted):
        if request.mark is not None and isinstance(answers[number], Admitted):
            found[number] = admitted.get(_holder(request), InFlight())
    return found


def _records(admitted: Sequence[AdmissionRequest], now: int) -> list[Named]:
    """What is recorded of admitted requests: changes in the audit, and the use of keys."""
    changes = [(request.mark, request.change) for request in admitted if request.change is not None]
    found = _audit([change for mark, change in changes if mark is None])
    found += _audit([change for mark, change in changes if mark is not None], are_marked=True)
    if keys := sorted({request.used_key for request in admitted if request.used_key is not None}):
        found.append(("access_keys_used", {"ids": to_json(keys), "minute": now // _MINUTE * _MINUTE}))
    return found


def _holder(request: AdmissionRequest) -> str:
    assert request.change is not None, "only a change is marked"
    return request.change.id


def _bucket(row: Record, rate: Rate, now: int) -> TokenBucket:
    # A time in the future is from before the clock was set back. How long ago that was is unknown.
    if row["remaining"] is None or row["at"] > now + _SECOND:
        return TokenBucket(rate.per_second, rate.burst, rate.burst)
    return TokenBucket(rate.per_second, rate.burst, row["remaining"]).after(now - row["at"])


def _level(subject: str, bucket: TokenBucket, now: int) -> dict[str, Any]:
    full_at = now + bucket.time_until(bucket.burst)
    return {"subject": subject, "remaining": bucket.tokens, "at": now, "full_at": full_at}


def _prune_values(audited_before: datetime | None) -> dict[str, Any]:
    # Without a retention no entry is old.
    before = 0 if audited_before is None else to_time(audited_before)
    return {
        "audited_before": before,
        "idle": IDLE,
        "kept": to_duration(REQUESTS_KEPT),
        "unused": to_duration(IDLE_FOR),
        "session_lasts": to_duration(LASTS),
    }
