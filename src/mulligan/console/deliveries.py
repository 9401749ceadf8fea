"""The log of deliveries, and sending one of them again."""

from collections.abc import Callable
from dataclasses import dataclass

from mulligan.console.arguments import CURSOR, FLAG, KEY_NAME, NAME, PAGE_SIZE, REQUEST_ID, STRING, check
from mulligan.failure.redact import bounded
from mulligan.records.admission import NewAuditEntry
from mulligan.records.delivery import Delivery, DeliveryState
from mulligan.records.job import NewJob
from mulligan.store.requests import DELIVERY, to_once
from mulligan.store.store import Store
from mulligan.values.check import one_of

STATE = one_of(tuple(map(str, DeliveryState)))


@dataclass(frozen=True, slots=True)
class Deliveries:
    store: Callable[[], Store]
    ids: Callable[[], str]
    to_job: Callable[[Delivery, str], NewJob]

    @check(subscription=NAME, state=STATE, about=NAME, digest=NAME, owner=KEY_NAME, limit=PAGE_SIZE, cursor=CURSOR)
    def list_all(
        self,
        *,
        subscription: str | None = None,
        state: str | None = None,
        about: str | None = None,
        digest: str | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Delivery]:
        return self.store().deliveries(
            subscription=subscription,
            state=state,
            about=about,
            digest=digest,
            owner=owner,
            limit=limit,
            cursor=cursor,
        )

    @check(delivery=NAME, owner=KEY_NAME)
    def find(self, delivery: str, *, owner: str | None = None) -> Delivery:
        return self.store().delivery(delivery, owner=owner)

    @check(delivery=NAME, owner=KEY_NAME, is_audited=FLAG, actor=STRING, request_id=REQUEST_ID)
    def redeliver(
        self,
        delivery: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Delivery:
        entry = NewAuditEntry(
            id=self.ids(), actor=bounded(actor or "unknown"), action="redeliver", target=delivery, owner=owner
        )
        audit = [] if is_audited else [entry]
        job_id = self.ids()
        once = to_once(request_id, "redeliver", DELIVERY, owner, delivery=delivery, actor=actor)
        return self.store().redeliver(
            delivery, lambda found: self.to_job(found, job_id), owner=owner, audit=audit, once=once
        )
