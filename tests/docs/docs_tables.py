"""Tables of the reference that are made from the code; `python tests/docs/docs_tables.py` writes them anew."""

import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mulligan import logs
from mulligan.attempt import MOST_CALLS
from mulligan.console import arguments, services
from mulligan.console.keys import SETUP_FOR
from mulligan.failure import evidence
from mulligan.failure.backoff import LONGEST_DELAY
from mulligan.failure.decide import MAX_MISFITS
from mulligan.failure.error_codes import DEFAULT
from mulligan.failure.pattern import LONGEST_PATTERN
from mulligan.failure.redact import LONGEST_TEXT
from mulligan.policies import reading
from mulligan.program import streams
from mulligan.records import job, rate, redrive, subscription
from mulligan.records.alert_rules import describe_value, find_rules
from mulligan.records.finding import Check
from mulligan.records.metric import METRICS
from mulligan.service.config import MOST_SERVICES, Service
from mulligan.settings import LARGEST as LARGEST_FILE
from mulligan.settings import PREFIX, READERS, Settings, field_of
from mulligan.store.messages import NEWEST_IDS
from mulligan.store.redrives import REDRIVES_KEPT
from mulligan.store.request_admission import MARKED_FOR
from mulligan.task import checks, options, payload
from mulligan.values import check
from mulligan.values.duration import LONGEST, describe
from mulligan.values.size import describe_size
from mulligan.web.access import idempotency
from mulligan.web.access.terms import WithoutKey
from mulligan.web.api import GROUPS
from mulligan.web.route import collect

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGES = [*sorted(REFERENCE.glob("*.md")), *(REFERENCE.parent / "guides" / name for name in ("alerts.md", "keys.md"))]
_TABLE = re.compile(r"<!-- table: (\w+) -->\n(.*?)(?=\n\n|\Z)", re.DOTALL)


def catalogue() -> Iterable[tuple[object, ...]]:
    yield "code", "class", "HTTP", "message", "if no retry follows"
    for entry in DEFAULT:
        last = "" if entry.last_message == entry.message else entry.last_message
        yield f"`{entry.code}`", str(entry.error_class).replace("_", " "), entry.status, entry.message, last


def settings() -> Iterable[tuple[object, ...]]:
    yield "variable", "key in `mulligan.toml`", "default", "allowed"
    defaults = {field.name: field.default for field in fields(Settings)}
    for name, (_, allowed) in READERS.items():
        yield f"`{PREFIX}{name.upper()}`", f"`{name}`", _default(name, defaults[field_of(name)]), allowed


def _default(name: str, value: object) -> str:
    if isinstance(value, timedelta):
        return f"`{value / timedelta(milliseconds=1 if name.endswith('_ms') else 1000):g}`"
    if isinstance(value, tuple):
        value = ", ".join(map(str, value)) or None
    return "" if value is None else f"`{value}`"


def limits() -> Iterable[tuple[object, ...]]:
    yield "what", "at most", "beyond the limit"
    yield "arguments, as JSON", describe_size(payload.LARGEST), "`PayloadTooLarge`, nothing is stored"
    yield "result, as JSON", describe_size(payload.LARGEST), "the job fails with `RESULT_INVALID`"
    yield "message of a failure", describe_size(evidence.MESSAGE_LIMIT), "head and tail are kept"
    yield "message for users", "500 characters", "cut, with `…`"
    yield "technical line of a failure", "its type and 500 characters", "cut, with `…`"
    yield "traceback", describe_size(evidence.DETAIL_LIMIT), "head and tail are kept"
    yield "stderr of a program in a failure", describe_size(evidence.MESSAGE_LIMIT // 2), "head and tail are kept"
    yield "stdout of a program", describe_size(streams.STDOUT_LIMIT), "the first bytes are kept, `is_cut` is true"
    yield "stderr of a program in its `Output`", describe_size(streams.STDERR_LIMIT), "the last bytes are kept"
    yield "text of `progress()`", f"{LONGEST_TEXT} bytes", "head and tail are kept"
    yield "`actor=` and `reason=`", f"{LONGEST_TEXT} bytes", "head and tail are kept"
    name = f"{check.LONGEST_NAME} printable characters in one line, no space at either end"
    yield "name of a task, queue, owner, service, batch; a tag", name, "refused"
    yield "services configured in the code", f"{MOST_SERVICES:,}", "refused; use patterns"
    yield "computed service names of one pattern", f"{Service('*').most:,}", "new names share a service (`most=`)"
    yield "service calls reported by an attempt", f"{MOST_CALLS}", "not counted"
    yield "counted jobs that wait for a service", f"{services.MANY:,}", "counting stops"
    yield "tags of a job", f"{options.MOST_TAGS}", "refused"
    yield "dedupe key, or your own id", f"{options.LONGEST_KEY} characters", "refused"
    yield "priority", f"±{checks.PRIORITY_BOUND:,}", "refused"
    yield "delay before a retry", describe(LONGEST_DELAY), "shortened to this"
    yield "any other duration", describe(LONGEST), "refused"
    yield "lost workers in a row", f"{job.MAX_LOSSES}", "the job fails with `WORKER_LOST`"
    yield "attempts by workers of another version", MAX_MISFITS, "the job fails with `INVALID_INPUT`"
    yield "jobs or events per query", f"{arguments.LARGEST_PAGE:,}", "refused; continue with the page's cursor"
    yield "an id or a value of a filter", f"{check.LONGEST_STRING:,} characters", "refused"
    yield "newest ids searched by their end", f"{NEWEST_IDS:,}", "give the whole id, or its beginning"
    yield "policies file", describe_size(reading.LARGEST), "refused, as is anything but a regular file"
    yield "settings file", describe_size(LARGEST_FILE), "refused, as is anything but a regular file"
    yield "regular expression of a rule", f"{LONGEST_PATTERN:,} characters", "refused, as are patterns that may be slow"
    yield "canaries of a redrive", f"{redrive.MOST_CANARIES}", "refused"
    yield "rate of a redrive", f"{rate.FASTEST:,.0f}/s", "refused"
    yield "jobs of a redrive watched at a time", f"{redrive.MOST_WATCHED}", "the others are not watched"
    yield "record of a redrive after its end", describe(REDRIVES_KEPT), "deleted when the next redrive begins"
    yield (
        "deliveries of an owner at once",
        f"{subscription.MOST_OF_SENDER}",
        "the others wait; likewise for each host without an owner, and mails",
    )
    yield "deliveries at once", f"{subscription.MOST_DELIVERIES}", "the others wait"
    yield "log line", f"{describe_size(evidence.MESSAGE_LIMIT)} and a traceback", "head and tail are kept"


def metrics() -> Iterable[tuple[object, ...]]:
    yield "metric", "type", "labels", "meaning"
    for metric in METRICS:
        labels = [
            f"`{label.name}`" + (f" ({', '.join(label.values)})" if label.values else "") for label in metric.labels
        ]
        yield f"`{metric.name}`", str(metric.type), ", ".join(labels), metric.about


def log_fields() -> Iterable[tuple[object, ...]]:
    yield "field", "meaning"
    for name, meaning in logs.FIELDS.items():
        yield f"`{name}`", meaning


def scopes() -> Iterable[tuple[object, ...]]:
    yield "route", "scope", "whose key"
    for route in sorted(collect(GROUPS), key=lambda each: each.path):
        path = re.sub(r":[a-z]+}", "}", route.path)
        whose = "an administrator's" if route.is_admin else "any" if route.scope else "no key is needed"
        if route.without_key is WithoutKey.ANYONE:
            whose = "no key is needed; an administrator's shows more"
        if route.without_key is WithoutKey.SCRAPERS:
            whose += ", or an address in `MULLIGAN_METRICS_NETWORKS`"
        yield f"`{route.method} {path}`", f"`{route.scope}`" if route.scope else "", whose


def access_limits() -> Iterable[tuple[object, ...]]:
    rates = Settings()
    yield "what", "how much"
    yield "requests with one key", f"`{rates.request_rate}`, the setting `MULLIGAN_REQUEST_RATE`"
    yield (
        "requests without a valid key, from one address",
        f"`{rates.failed_request_rate}`, the setting `MULLIGAN_FAILED_REQUEST_RATE`",
    )
    yield "`Idempotency-Key`", f"{idempotency.LONGEST} characters"
    yield "mark of a change in flight whose server died", describe(MARKED_FOR)
    yield "token of the first link", describe(SETUP_FOR)


# Why a rule has the terms that it has.
ALERTS = {
    Check.JOBS_DEPTH: (
        "queue depth",
        (
            "A burst is normal. A worker does thousands of small jobs a second, so 10,000 that stay for 5 minutes mean "
            "that workers are too few or too slow. Set it to what you can work off in the time that you promise"
        ),
    ),
    Check.JOBS_WAITING: (
        "age of the oldest ready job",
        "By then a person has noticed. One minute more leaves out a job that starts just now",
    ),
    Check.JOBS_STUCK: ("stuck jobs", "30 minutes, or the timeout of the task, have passed already; one is too many"),
    Check.JOBS_FAILING: (
        "failed jobs of a kind",
        "Wrong input fails some jobs of every kind; one in four is a fault",
    ),
    Check.JOBS_RETRIES: (
        "failed retries of a kind",
        "Retries that help less than once in ten times are load without use",
    ),
    Check.JOBS_CODES: (
        "spike of an error code",
        (
            "Compared with the hour before, so a code that is always frequent is quiet, and a new one is seen after 20 "
            "failures. After an hour the new rate is the usual one, and the alert ends"
        ),
    ),
    Check.SERVICES_TROUBLED: (
        "open circuit breaker of a service",
        (
            "Short outages need no person: jobs wait, use up no attempts, and go on by themselves. To hear of each, "
            "subscribe to `service.opened`"
        ),
    ),
    Check.JOBS_UNHANDLED: ("kinds that no worker takes", "A rolling deploy takes a minute or two"),
    Check.WORKERS_ALIVE: (
        "no workers",
        (
            "Also if nothing waits: the next job would. A worker counts as alive for 60 seconds after its last "
            "heartbeat, so a restart is no alert"
        ),
    ),
}


def alert_rules() -> Iterable[tuple[object, ...]]:
    yield "check", "what", "level", "threshold", "`after`", "`resolve_after`", "why"
    rules = find_rules({}, datetime(2026, 1, 1, tzinfo=UTC))
    for kind, (what, why) in ALERTS.items():
        rule = rules[kind]
        threshold = describe_value(rule.threshold, rule.unit)
        times = describe(rule.after), describe(rule.resolve_after)
        yield f"`{kind}`", what, rule.level, threshold, *times, why


TABLES: dict[str, Callable[[], Iterable[tuple[object, ...]]]] = {
    "catalogue": catalogue,
    "settings": settings,
    "limits": limits,
    "log_fields": log_fields,
    "scopes": scopes,
    "metrics": metrics,
    "access_limits": access_limits,
    "alert_rules": alert_rules,
}


def table(name: str) -> str:
    heading, *rows = ([str(cell).replace("|", r"\|") for cell in row] for row in TABLES[name]())
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def with_tables(text: str) -> str:
    return _TABLE.sub(lambda found: f"<!-- table: {found[1]} -->\n{table(found[1])}", text)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(with_tables(path.read_text("utf-8")), "utf-8")
