"""One mail of each template, for the tests and for `pictures.py`."""

from datetime import UTC, datetime, timedelta

from mulligan.notify.content import Content
from mulligan.notify.templates import (
    AlertChange,
    BreakerChange,
    FailedJob,
    GroupSummary,
    SettledBatch,
    alert_changed,
    batch_settled,
    breaker_changed,
    failure_digest,
    first_failure,
    group_resolved,
)

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
ERROR = "Converter service is having an issue. 502 Bad Gateway from https://gateway.example.org/v2/convert"


def failed(number: int, *, kind: str = "convert", code: str = "GW_5XX", error: str = ERROR) -> FailedJob:
    return FailedJob(
        id=f"01930000-0000-7000-8000-{number:012}",
        kind=kind,
        code=code,
        error=error,
        failed_at=NOON + timedelta(seconds=number),
        attempts=3,
        owner="acme",
        recipient=f"customer-{number}@example.org",
        batch="Spring campaign",
    )


GROUP = GroupSummary(
    id="gw-5xx-4711",
    kind="convert",
    code="GW_5XX",
    title="httpx.HTTPStatusError: Server error '502 Bad Gateway' for url 'https://gateway.example.org/v2/convert'",
    seen=1_204,
    first_seen=NOON,
    last_seen=NOON + timedelta(hours=3),
    version="2026.11.3",
)
SEVERAL = [
    *map(failed, range(4)),
    failed(5, kind="stamp", code="DISK_FULL", error="There is no space left to store this."),
]
OPENED = BreakerChange(service="gateway", is_open=True, since=NOON, reason="11 of the last 20 calls failed", held=1_840)
CLOSED = BreakerChange(service="gateway", is_open=False, since=NOON, lasted=timedelta(minutes=23), held=1_840)
FIRED = AlertChange(
    name="jobs.waiting",
    is_firing=True,
    summary="1,204 ready jobs, the oldest ('convert') since 2026-11-18 11:46 UTC",
    value="15m 12s",
    threshold="15m",
    since=NOON,
    remedy="run more workers, or raise --concurrency; see what they are busy with: mulligan workers",
)
OVER = AlertChange(
    name="jobs.waiting",
    is_firing=False,
    summary="1,204 ready jobs, the oldest ('convert') since 2026-11-18 11:46 UTC",
    value="2s",
    threshold="15m",
    since=NOON,
    lasted=timedelta(minutes=31),
)
EXAMPLES: dict[str, Content] = {
    "first-failure": first_failure(failed(1), GROUP),
    "digest": failure_digest(SEVERAL, since=NOON, until=NOON + timedelta(minutes=5)),
    "long-digest": failure_digest([*map(failed, range(250))], since=NOON, until=NOON + timedelta(minutes=5)),
    "group-resolved": group_resolved(GROUP, by="Ada"),
    "batch-ready": batch_settled(
        SettledBatch(id="b1", name="Spring campaign", state="ready", succeeded=1_200, failed=0, took=timedelta(hours=1))
    ),
    "batch-partial": batch_settled(
        SettledBatch(id="b1", name="Spring campaign", state="partial", succeeded=1_188, failed=11, cancelled=1)
    ),
    "batch-failed": batch_settled(
        SettledBatch(id="b1", name="Spring campaign", state="failed", succeeded=0, failed=12)
    ),
    "breaker-opened": breaker_changed(OPENED),
    "breaker-closed": breaker_changed(CLOSED),
    "alert-fired": alert_changed(FIRED),
    "alert-over": alert_changed(OVER),
}
