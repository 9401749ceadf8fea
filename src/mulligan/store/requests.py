"""Requests with an id of the caller: carried out once, and answered as the first time.

The id is stored in the transaction that carries out the request, together with the answer. A twin that comes meanwhile
waits for that transaction. A request that is refused leaves nothing, so repeating it carries it out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Generic, TypeVar

import msgspec

from mulligan.errors import RequestMismatch
from mulligan.records.batch import BatchRecord
from mulligan.records.delivery import Delivery
from mulligan.records.job import Job
from mulligan.records.pause import Pause
from mulligan.store.messages import RetriedMembers
from mulligan.store.rows import Record, to_json, to_time
from mulligan.store.session import Session
from mulligan.values.ids import id_from

T = TypeVar("T")

REQUESTS_KEPT = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class AnswerFormat(Generic[T]):
    """How an answer is stored."""

    encode: Callable[[T], str]
    decode: Callable[[str], T]


def format_with(kind: Any, **private: Any) -> AnswerFormat[Any]:
    """The format of a record with private fields, which are stored as well. `private` are their types."""
    whole: Any = tuple.__class_getitem__((kind, *private.values()))
    read = msgspec.json.Decoder(whole).decode

    def encode(record: Any) -> str:
        return to_json([record, *(getattr(record, name) for name in private)])

    def decode(text: str) -> Any:
        record, *values = read(text)
        return replace(record, **dict(zip(private, values, strict=True)))

    return AnswerFormat(encode, decode)


def answer_format(kind: Any) -> AnswerFormat[Any]:
    """The format of a type that msgspec can read."""
    return AnswerFormat(to_json, msgspec.json.Decoder(kind).decode)


JOB: AnswerFormat[Job[Any]] = answer_format(Job[Any])
PAUSE: AnswerFormat[Pause] = answer_format(Pause)
ENDED_PAUSE: AnswerFormat[Pause | None] = answer_format(Pause | None)
BATCH: AnswerFormat[BatchRecord] = answer_format(BatchRecord)
MEMBERS: AnswerFormat[RetriedMembers] = answer_format(RetriedMembers)
NOTHING: AnswerFormat[None] = answer_format(None)
DELIVERY: AnswerFormat[Delivery] = format_with(Delivery, _event=dict[str, Any] | None, _body=str | None)


@dataclass(frozen=True, slots=True)
class Once(Generic[T]):
    """A request with an id of the caller. Ids of different owners are different; `owner=None` is the administrator."""

    id: str
    verb: str
    format: AnswerFormat[T]
    owner: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def scope(self) -> str:
        return "" if self.owner is None else f"/{self.owner}"

    @property
    def digest(self) -> str:
        return sha256(msgspec.json.encode(self.arguments, order="deterministic")).hexdigest()

    def read_answer(self, row: Record) -> T:
        if (row["verb"], row["digest"]) != (self.verb, self.digest):
            raise RequestMismatch(self.id, row["verb"])
        return self.format.decode(row["answer"])


def to_once(
    request_id: str | None, verb: str, answer: AnswerFormat[T], owner: str | None = None, /, **arguments: Any
) -> Once[T] | None:
    return None if request_id is None else Once(request_id, verb, answer, owner, arguments)


def part_id(once: Once[Any] | None, part: str, ids: Callable[[], str]) -> str:
    """Return the id of one of several transactions of a request: repeating the request repeats none of them."""
    return ids() if once is None else id_from(f"{once.scope}\0{once.id}\0{once.verb}\0{part}")


def carry_out(session: Session, once: Once[T] | None, work: Callable[[], T]) -> T:
    """Do the work and store its answer, or return the answer of the first time."""
    if once is None:
        return work()
    key = {"owner": once.scope, "id": once.id}
    new = {**key, "verb": once.verb, "digest": once.digest, "at": session.moment()}
    while not session.rows("request_new", new):
        if rows := session.rows("request", key):
            return once.read_answer(rows[0])
    answer = work()
    session.rows("request_answer", {**key, "answer": once.format.encode(answer)})
    return answer


def find_answer(session: Session, once: Once[T]) -> list[T]:
    """Return the answer of the first time, if there was one."""
    return [once.read_answer(row) for row in session.rows("request", {"owner": once.scope, "id": once.id})]


def prune_requests(session: Session, before: datetime, limit: int) -> int:
    return len(session.rows("requests_forget", {"before": to_time(before), "limit": limit}))


def has_old_requests(session: Session, before: datetime) -> bool:
    return bool(session.rows("requests_old", {"before": to_time(before)}))
