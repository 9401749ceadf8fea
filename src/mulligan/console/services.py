"""Services: list them and force one open or closed. Claims and settles change their state otherwise."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from mulligan.console.arguments import NAME, REQUEST_ID, STRING, check
from mulligan.errors import UnknownService
from mulligan.failure.redact import bounded
from mulligan.lifecycle import SERVICE_FORCED
from mulligan.records.pause import Pause
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import Demand, ServiceRecord, ServiceRequest, ServiceStatus
from mulligan.store.requests import AnswerFormat, answer_format, part_id, to_once
from mulligan.store.store import Store
from mulligan.task.task import Task
from mulligan.values.duration import describe

logger = logging.getLogger("mulligan.console")

# Counting stops here.
MANY = 10_000
STATUS: AnswerFormat[ServiceStatus] = answer_format(ServiceStatus)
_SHARED = {field.name for field in fields(ServiceRecord)} & {field.name for field in fields(ServiceStatus)}


@dataclass(frozen=True, slots=True)
class Services:
    store: Callable[[], Store]
    ids: Callable[[], str]
    tasks: Mapping[str, Task[..., Any, Any]]
    book: Callable[[], ServiceBook]

    def list_services(self) -> list[ServiceStatus]:
        """Those in the code and the policies of this app, and those in the store, by name."""
        stored = self._stored()
        return [self._status(name, stored) for name in sorted({*self._named(), *stored.names})]

    @check(name=NAME)
    def handle(self, name: str) -> "ServiceHandle":
        self.require_known(name)
        return ServiceHandle(name, self)

    def find(self, name: str) -> ServiceStatus:
        """Raise UnknownService if neither code nor store names it. A pattern is shown as it is configured."""
        self.require_known(name)
        return self._status(name, self._stored([name]))

    def require_known(self, name: str) -> None:
        """Raise UnknownService if neither code nor store names it."""
        if name not in self._patterns():
            self.require(name)

    def require(self, name: str) -> None:
        """Raise UnknownService for a name that cannot be forced or paused: an unknown one, or a pattern."""
        # What the code names is known without the store.
        if self._is_named(name):
            return
        stored = self._stored()
        if name not in stored.names:
            raise UnknownService(name, {*self._named(), *self._patterns(), *stored.records, *stored.demands})

    def find_for_job(self, name: str) -> ServiceStatus | None:
        """The service of a job, known or not; None if the job has none."""
        return self._status(name, self._stored([name])) if name else None

    def find_holding(self, names: Iterable[str]) -> set[str]:
        """Those of these services that hold their jobs back: not closed, and with `mode="hold"`."""
        asked = sorted(set(names) - {""})
        records = self.store().services(asked) if asked else []
        book = self.book()
        return {record.name for record in records if record.state != "closed" and book.of(record.name).mode == "hold"}

    def force(
        self, name: str, to: str | None, *, actor: str | None, reason: str | None, request_id: str | None = None
    ) -> ServiceStatus:
        """Force it `"open"` or `"closed"`; None lets its calls decide again."""
        terms = {"service": name, "to": to, "actor": actor, "reason": reason}
        once = to_once(request_id, "force service", STATUS, **terms)
        request = ServiceRequest(
            id=part_id(once, "", self.ids), name=name, to=to, actor=bounded(actor), reason=bounded(reason)
        )
        return self.store().in_parts(once, lambda: self._force(request))

    def _force(self, request: ServiceRequest) -> ServiceStatus:
        name, to, actor, reason = request.name, request.to, request.actor, request.reason
        self.require(name)
        self.store().force(request)
        forced = self.find(name)
        fields = {"event": SERVICE_FORCED, "service": name, "status": forced.state, "actor": actor, "reason": reason}
        fields["service_state"] = forced.state
        how = "set back to automatic" if to is None else f"forced {to}"
        logger.info("service %s %s by %s", name, how, actor or "unknown", extra=fields)
        return forced

    def _stored(self, names: list[str] | None = None) -> "_Stored":
        store = self.store()
        return _Stored(
            {record.name: record for record in store.services(names)},
            {demand.service: demand for demand in store.demands(limit=MANY)},
            {pause.name: pause for pause in store.pauses() if pause.what == "service"},
        )

    def _named(self) -> set[str]:
        """The names in tasks and in the configuration, without patterns."""
        of_tasks = {task.service for task in self.tasks.values() if isinstance(task.service, str)}
        return {*of_tasks, *(service.name for service in self.book() if not service.is_pattern)} - {""}

    def _patterns(self) -> dict[str, Service]:
        return {service.name: service for service in self.book() if service.is_pattern}

    def _is_named(self, name: str) -> bool:
        matched = any(pattern.matches(name) for pattern in self._patterns().values())
        return name in self._named() or (not name.endswith("*") and matched)

    def _status(self, name: str, stored: "_Stored") -> ServiceStatus:
        service, record = self.book().of(name), stored.records.get(name) or ServiceRecord(name=name)
        demand = stored.demands.get(name) or Demand(name, 0, 0)
        shared = {name: getattr(record, name) for name in _SHARED}
        return ServiceStatus(
            **shared,
            is_due=record.is_due,
            share=round(record.failures / record.calls, 3) if record.calls else 0.0,
            ready=min(demand.ready, MANY),
            parked=min(demand.parked, MANY),
            paused=stored.pauses.get(name),
            mode=service.mode,
            fail_code=service.fail_code,
            cooldown=service.cooldown,
            probes=service.probes,
            has_probe=service.probe is not None,
            budget=service.budget,
            window=_describe_window(service),
            min_calls=service.min_calls,
            open_at=service.open_at,
            most_a_second=service.rate,
            is_known=name in stored.records,
        )


def _describe_window(service: Service) -> str:
    return f"{service.window} calls" if isinstance(service.window, int) else describe(service.window)


class _Stored(NamedTuple):
    """What the store knows of services, by name."""

    records: dict[str, ServiceRecord]
    demands: dict[str, Demand]
    pauses: dict[str, Pause]

    @property
    def names(self) -> set[str]:
        return {*self.records, *self.demands, *self.pauses}


class ServiceHandle:
    """One service: `app.service("gateway").open(reason="maintenance")`."""

    def __init__(self, name: str, services: Services) -> None:
        self.name = name
        self._services = services

    def __repr__(self) -> str:
        return f"<service {self.name!r}>"

    @property
    def status(self) -> ServiceStatus:
        """Its current state, read from the store."""
        return self._services.find(self.name)

    @check(actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def open(
        self, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> ServiceStatus:
        """Force it open in all workers: its jobs wait, or fail fast, until `close()` or `auto()`."""
        return self._services.force(self.name, "open", actor=actor, reason=reason, request_id=request_id)

    @check(actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def close(
        self, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> ServiceStatus:
        """Force it closed in all workers: its jobs run, even if their calls fail, until `open()` or `auto()`."""
        return self._services.force(self.name, "closed", actor=actor, reason=reason, request_id=request_id)

    @check(actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def auto(
        self, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> ServiceStatus:
        """Let its calls decide again. After it was forced open, a probe comes first."""
        return self._services.force(self.name, None, actor=actor, reason=reason, request_id=request_id)
