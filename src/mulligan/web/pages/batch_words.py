"""Batches in words: the sentence that opens the page of one, what happened to it, and what its rule is."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from mulligan import lifecycle
from mulligan.explain.event_data import EventData
from mulligan.records.batch import BatchRecord, BatchState
from mulligan.records.batch_outcome import has_expired
from mulligan.records.event import Event
from mulligan.web.pages.sentence import Pieces, Sentence, clock, failed, held, succeeded
from mulligan.web.pages.words import number, percent, plural

# The sign of a state, which is also its colour.
SIGNS = {
    BatchState.DRAFT: "waiting",
    BatchState.PROCESSING: "running",
    BatchState.READY: "succeeded",
    BatchState.PARTIAL: "partial",
    BatchState.FAILED: "failed",
    BatchState.EXPIRED: "cancelled",
}

SIGNS_BY_NAME = {str(state): sign for state, sign in SIGNS.items()}


def open_batches(batches: Sequence[BatchRecord], state: BatchState | None, *, owner: str, is_part: bool) -> Sentence:
    """The sentence of the list. `is_part`: there are more than these."""
    of = f" of {owner}" if owner else ""
    if not batches:
        return Sentence((f"There are no batches{of} {'yet' if state is None else f'that are {state}'}.",))
    if state is not None:
        many = f"{number(len(batches))} or more batches" if is_part else plural(len(batches), "batch", "batches")
        return Sentence((f"{many}{of} {'is' if many.startswith('1 ') else 'are'} {_IS[state]}.",))
    partial, none = (sum(each.state is one for each in batches) for one in (BatchState.PARTIAL, BatchState.FAILED))
    of_all = f"Of {plural(len(batches), 'batch', 'batches')}{of}{' here' if is_part else ''}"
    if not partial and not none:
        return Sentence((f"{of_all}, none calls for attention.",), (_NONE,))
    parts: list[Pieces] = [(held(f"{number(partial)} succeeded in part"),)] if partial else []
    parts += [(failed(f"{number(none)} failed"),)] if none else []
    return Sentence((f"{of_all}, ", *_joined(parts), "."), (_SOME,))


def _joined(parts: Sequence[Pieces]) -> Pieces:
    return tuple(piece for index, part in enumerate(parts) for piece in ((", ", *part) if index else part))


_NONE = "Those that failed or succeeded only in part would be counted here."
_SOME = "The members that did not succeed can be retried in one step."
_IS = {
    BatchState.DRAFT: "not published yet",
    BatchState.PROCESSING: "being processed",
    BatchState.READY: "ready",
    BatchState.PARTIAL: "a success in part",
    BatchState.FAILED: "without a success",
    BatchState.EXPIRED: "expired",
}


def open_batch(batch: BatchRecord, now: datetime) -> Sentence:
    match batch.state:
        case BatchState.DRAFT:
            return _draft(batch)
        case BatchState.PROCESSING:
            return Sentence((*_counts(batch), *_left(batch)), _processing(batch))
        case BatchState.READY:
            return Sentence(_ready(batch), (*_required(batch), *_settled(batch), *_expiry(batch, now)))
        case BatchState.PARTIAL | BatchState.FAILED:
            lead = (*_required(batch), *_settled(batch), *_expiry(batch, now))
            return Sentence((*_counts(batch), "."), lead)
        case BatchState.EXPIRED:
            return Sentence((*_counts(batch), "."), _expiry(batch, now))


def _draft(batch: BatchRecord) -> Sentence:
    if not batch.total:
        return Sentence(("It is a draft without members.",), ("A program adds them, and then publishes the batch.",))
    title = f"It is a draft with {plural(batch.total, 'member')}."
    return Sentence((title,), ("None of them runs before the batch is published.",))


def _counts(batch: BatchRecord) -> Pieces:
    """How many succeeded, failed and were cancelled, without a full stop."""
    if not batch.finished:
        return (f"None of {plural(batch.total, 'member')} is over yet",)
    begin = f"{number(batch.succeeded)} of {number(batch.total)} succeeded"
    if not batch.succeeded:
        begin = f"None of {plural(batch.total, 'member')} succeeded"
    parts: list[Pieces] = [(begin,)]
    parts += [(failed(f"{number(batch.failed)} failed"),)] if batch.failed else []
    were = "was" if batch.cancelled == 1 else "were"
    parts += [(f"{number(batch.cancelled)} {were} cancelled",)] if batch.cancelled else []
    return _joined(parts)


def _left(batch: BatchRecord) -> Pieces:
    if not batch.finished:
        return (".",)
    return (f", {number(batch.left)} {'is' if batch.left == 1 else 'are'} left.",)


def _processing(batch: BatchRecord) -> Pieces:
    if batch.aborted_at is not None:
        above = percent(batch.abort_above)
        return (
            "It was aborted at ",
            clock(batch.aborted_at),
            f", when more than {above} had failed. Members that had not started are cancelled.",
        )
    return () if batch.published_at is None else ("Published at ", clock(batch.published_at), ".")


def _ready(batch: BatchRecord) -> Pieces:
    if not batch.total:
        return ("It was published without members.",)
    if batch.succeeded == batch.total:
        every = "Its one member" if batch.total == 1 else f"All {number(batch.total)} members"
        return (succeeded(f"{every} succeeded"), ".")
    return (*_counts(batch), ", which is enough.")


def _required(batch: BatchRecord) -> Pieces:
    if not batch.total or batch.succeeded == batch.total:
        return ()
    if batch.success_at >= 1:
        return ("All had to succeed. ",)
    return (f"At least {percent(batch.success_at)} had to succeed. ",)


def _settled(batch: BatchRecord) -> Pieces:
    return () if batch.settled_at is None else ("Settled at ", clock(batch.settled_at), ".")


def _expiry(batch: BatchRecord, now: datetime) -> Pieces:
    if not has_expired(batch, now):
        return ()
    at: Pieces = () if batch.expires_at is None else (" at ", clock(batch.expires_at))
    return (" It expired" if batch.state.is_settled else "It expired", *at, ", so its members cannot be retried.")


def describe_retry(batch: BatchRecord) -> str:
    """What a retry of the failed members would do."""
    one = batch.failed == 1
    begin = f"{'It goes' if one else 'They go'} back in one step, with {'its' if one else 'their'} counters reset."
    if not batch.state.is_settled:
        return f"{begin} The batch is still being processed."
    return (
        f"{begin} The batch is being processed again, generation {batch.generation + 1}. When all are over it is "
        "settled once more, and a task that follows the batch runs once more."
    )


class Chapter(NamedTuple):
    """One thing that happened to a batch."""

    id: int
    sign: str
    at: datetime
    text: str
    note: str = ""


def tell(events: Iterable[Event]) -> list[Chapter]:
    """What happened, in the order of the events."""
    return [chapter for event in events if (chapter := _chapter(event)) is not None]


def _chapter(event: Event) -> Chapter | None:
    facts = EventData(event.data)
    generation, by = facts.integer("generation") or 1, f" by {event.actor}" if event.actor else ""

    def chapter(sign: str, text: str) -> Chapter:
        return Chapter(event.position, sign, event.at, text, facts.text("reason"))

    match event.type:
        case lifecycle.BATCH_SETTLED:
            state = facts.text("state")
            counts = f"{number(facts.integer('succeeded'))} of {number(facts.integer('total'))} succeeded"
            return chapter(SIGNS_BY_NAME.get(state, "cancelled"), f"Generation {generation} settled, {state}: {counts}")
        case lifecycle.BATCH_PUBLISHED:
            return chapter("in", f"Published{by} with {plural(facts.integer('total') or 0, 'member')}")
        case lifecycle.BATCH_RETRIED:
            return chapter("hand", f"{plural(facts.integer('did') or 0, 'member')} retried{by}")
        case lifecycle.BATCH_ABORTED:
            return chapter("held", f"Aborted: {number(facts.integer('failed'))} had failed")
        case lifecycle.BATCH_EXPIRED:
            return chapter("cancelled", "Expired")
    return None
