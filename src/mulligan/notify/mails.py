"""The mail about one event, or about all events of a digest."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from mulligan.failure.redact import first_line
from mulligan.lifecycle import ALERT_FIRED, ALERT_RESOLVED
from mulligan.notify.content import Content, Entry, Tone
from mulligan.notify.matching import RESOLVED
from mulligan.notify.subscription import Bulletin
from mulligan.notify.templates import (
    MOST_LISTED,
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
from mulligan.records.alert_rules import THRESHOLDS, check_named, describe_value

EventDocument = Mapping[str, Any]
FAILED = "job.failed"
TITLES = {RESOLVED: "Resolved", ALERT_FIRED: "Alert", ALERT_RESOLVED: "Over"}
FACTS = ("label", "job", "kind", "owner", "code", "actor", "service")


def write_mail(bulletin: Bulletin) -> Content:
    """Every event is named: in the mail, or in the attached file."""
    failures = [event for event in bulletin.events if event["type"] == FAILED]
    others = [event for event in bulletin.events if event["type"] != FAILED]
    if len(bulletin.events) == 1 and not (bulletin.is_digest and failures):
        return _write_one(bulletin.events[0])
    if not failures:
        return _write_many(bulletin, others)
    jobs = [to_failed_job(event) for event in failures]
    moments = [_at(event) for event in failures]
    content = failure_digest(jobs, since=min(moments), until=max(moments))
    return replace(content, entries=[*map(_to_entry, others[:MOST_LISTED]), *content.entries])


def _write_one(event: EventDocument) -> Content:
    data = event.get("data") or {}
    match event["type"]:
        case "job.failed":
            return first_failure(to_failed_job(event), _to_group(event, seen=1))
        case "batch.settled":
            return batch_settled(_to_batch(event, data))
        case "service.opened" | "service.closed":
            return breaker_changed(_to_breaker(event, data))
        case "alert.fired" | "alert.resolved":
            return alert_changed(_to_alert(event, data))
        case _ if event["type"] == RESOLVED:
            return group_resolved(_to_group(event, seen=event["number"]))
    headline = _headline(event)
    return Content(
        subject=headline,
        headline=headline,
        lead=f"At {_at(event):%Y-%m-%d %H:%M:%S} UTC.",
        facts=_facts(event, data),
        action=("Open the job", f"jobs/{event['job']}") if event.get("job") else None,
    )


def _write_many(bulletin: Bulletin, events: Sequence[EventDocument]) -> Content:
    rest = len(events) - MOST_LISTED
    return Content(
        subject=f"{bulletin.name}: {len(events):,} events",
        headline=f"{len(events):,} events",
        lead=f"From {_at(events[0]):%Y-%m-%d %H:%M} to {_at(events[-1]):%Y-%m-%d %H:%M} UTC.",
        tone=Tone.GOOD if all(event["type"] == RESOLVED for event in events) else Tone.PLAIN,
        entries=[_to_entry(event) for event in events[:MOST_LISTED]],
        rest=f"And {rest:,} more: {', '.join(map(_subject, events[MOST_LISTED:]))}" if rest > 0 else "",
    )


def to_failed_job(event: EventDocument) -> FailedJob:
    data = event.get("data") or {}
    return FailedJob(
        id=event["job"],
        kind=event["kind"],
        code=event["code"] or "",
        error=str(data.get("error") or data.get("message") or ""),
        failed_at=_at(event),
        attempts=max(1, event["attempt"]),
        owner=event["owner"],
        recipient=str(event.get("label") or ""),
        batch=event["batch"] or "",
    )


def _to_group(event: EventDocument, *, seen: int) -> GroupSummary:
    data = event.get("data") or {}
    return GroupSummary(
        id=str(event.get("group") or data.get("group") or ""),
        kind=event["kind"],
        code=str(event.get("code") or ""),
        title=first_line(str(event.get("message") or data.get("error") or "")),
        seen=seen,
        first_seen=datetime.fromisoformat(event.get("opened_at") or event["at"]),
        last_seen=datetime.fromisoformat(event.get("last_at") or event["at"]),
    )


def _to_batch(event: EventDocument, data: EventDocument) -> SettledBatch:
    return SettledBatch(
        id=event["batch"] or "",
        name=str(data.get("name") or event["batch"]),
        state=str(data.get("state")),
        succeeded=data.get("succeeded", 0),
        failed=data.get("failed", 0),
        cancelled=data.get("cancelled", 0),
    )


def _to_breaker(event: EventDocument, data: EventDocument) -> BreakerChange:
    is_open = event["type"] == "service.opened"
    reason = f"{data.get('failures')} of {data.get('calls')} calls failed" if data.get("calls") else ""
    return BreakerChange(
        service=event["service"], is_open=is_open, since=_at(event), reason=reason, held=data.get("held") or 0
    )


def _to_alert(event: EventDocument, data: EventDocument) -> AlertChange:
    threshold = THRESHOLDS.get(check_named(str(data["name"])))
    unit = threshold.unit if threshold else None
    name = f"{data['name']}, {data['subject']}" if data.get("subject") else str(data["name"])
    return AlertChange(
        name=name,
        is_firing=event["type"] == ALERT_FIRED,
        summary=first_line(str(data.get("found") or name), 200),
        value=describe_value(data.get("value"), unit),
        threshold=describe_value(data.get("threshold"), unit),
        since=datetime.fromisoformat(data["since"]),
        remedy=str(data.get("remedy") or ""),
        lasted=timedelta(seconds=data["seconds"]) if "seconds" in data else None,
    )


def _to_entry(event: EventDocument) -> Entry:
    data = event.get("data") or {}
    note = f"{_at(event):%Y-%m-%d %H:%M:%S} UTC"
    detail = str(event.get("message") or data.get("error") or data.get("found") or data.get("reason") or "")
    path = f"jobs/{event['job']}" if event.get("job") else ""
    return Entry(_headline(event), first_line(detail), note, path)


def _headline(event: EventDocument) -> str:
    title, subject = TITLES.get(event["type"], str(event["type"])), _subject(event)
    return f"{title}: {subject}" if subject else title


def _subject(event: EventDocument) -> str:
    data = event.get("data") or {}
    about = event.get("label") or event.get("job") or data.get("name") or event.get("batch") or event.get("service")
    if data.get("subject"):
        about = f"{about}, {data['subject']}"
    return f"{event.get('kind') or ''} {about or ''}".strip()


def _facts(event: EventDocument, data: EventDocument) -> list[tuple[str, str]]:
    own = [
        (name.capitalize(), event.get(name)) for name in ("label", "job", "kind", "owner", "code", "actor", "service")
    ]
    more = [(str(name), value) for name, value in data.items() if isinstance(value, str | int | float)]
    return [(label, first_line(str(value))) for label, value in (*own, *more) if value not in (None, "")]


def _at(event: EventDocument) -> datetime:
    return datetime.fromisoformat(event["at"])
