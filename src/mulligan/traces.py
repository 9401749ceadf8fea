"""Traces by OpenTelemetry, if the program uses it: names, attributes, and the context that a job carries.

Only the API is used, and only in a program that has imported it and set a tracer provider. In all others nothing is
imported and nothing happens. Names and attributes follow the messaging conventions.

A job carries the context of its enqueue as two tags, `trace:…` and `span:…`: a retry weeks later, in another process,
belongs to the same trace, and the jobs of a trace can be found by a tag.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mulligan.failure.redact import first_line
from mulligan.failure.verdict import Failure

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Tracer, TracerProvider

SYSTEM = "mulligan"
TRACE, SPAN = "trace:", "span:"
_TRACE = re.compile(rf"{TRACE}([0-9a-f]{{32}})")
_SPAN = re.compile(rf"{SPAN}([0-9a-f]{{16}})-([0-9a-f]{{2}})")

_known: "tuple[TracerProvider, Tracer] | None" = None


def tracer() -> "Tracer | None":
    """The tracer of the program's provider; None if the program has none."""
    global _known
    api: Any = sys.modules.get("opentelemetry.trace")
    # Another thread may be importing it just now.
    find_provider = getattr(api, "get_tracer_provider", None)
    if find_provider is None:
        return None
    provider = find_provider()
    if isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    if _known is None or _known[0] is not provider:
        _known = (provider, provider.get_tracer(SYSTEM))
    return _known[1]


@contextmanager
def enqueue_span(tracer: "Tracer", *, queue: str, kind: str, count: int) -> "Iterator[Span]":
    """The span of an enqueue. An error is recorded with its secrets masked, so not by OpenTelemetry itself."""
    from opentelemetry.trace import SpanKind

    attributes: dict[str, Any] = {
        **describe("enqueue", "send", queue=queue, kind=kind),
        **({"messaging.batch.message_count": count} if count > 1 else {}),
    }
    with tracer.start_as_current_span(
        f"enqueue {queue}",
        kind=SpanKind.PRODUCER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as error:
            mark_failed(span, Failure.of(error))
            raise


def describe(operation: str, operation_type: str, *, queue: str, kind: str) -> dict[str, str]:
    """The attributes that all spans have."""
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation_type,
        "messaging.destination.name": queue,
        "mulligan.task": kind,
    }


def mark_failed(span: "Span", failure: Failure) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", failure.type)
    span.set_status(Status(StatusCode.ERROR, first_line(failure.line)))
    details: Mapping[str, str] = {
        "exception.type": failure.type,
        "exception.message": failure.message,
        "exception.stacktrace": failure.detail,
    }
    span.add_event("exception", {name: text for name, text in details.items() if text})


def tags_of(span: "Span") -> tuple[str, ...]:
    """What a job carries, so that later spans continue from this one."""
    context = span.get_span_context()
    if not context.is_valid:
        return ()
    return f"{TRACE}{context.trace_id:032x}", f"{SPAN}{context.span_id:016x}-{context.trace_flags:02x}"


def trace_id_in(tags: Iterable[str]) -> str | None:
    """The id of the trace that a job belongs to."""
    found = (_TRACE.fullmatch(tag) for tag in tags)
    return next((match[1] for match in found if match), None)


def parent_in(tags: Sequence[str]) -> "Context | None":
    """The context that a job carries, as the parent of a new span."""
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    context = _context_in(tags)
    return None if context is None else set_span_in_context(NonRecordingSpan(context))


def _context_in(tags: Sequence[str]) -> "SpanContext | None":
    from opentelemetry.trace import SpanContext, TraceFlags

    trace_id, spans = trace_id_in(tags), [match for tag in tags if (match := _SPAN.fullmatch(tag))]
    if trace_id is None or not spans:
        return None
    flags = TraceFlags(int(spans[0][2], 16))
    return SpanContext(int(trace_id, 16), int(spans[0][1], 16), is_remote=True, trace_flags=flags)


def continue_from(tags: Sequence[str]) -> None:
    """Spans of this thread or asyncio task continue from this context, if the program traces."""
    if tracer() is not None and (parent := parent_in(tags)) is not None:
        from opentelemetry.context import attach

        attach(parent)
