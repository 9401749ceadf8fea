"""The switchboard: services as people see and steer them. Claims and settles move them; here they are listed and
forced."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mulligan.errors import UnknownService
from mulligan.records.pause import Pause
from mulligan.service import Service, ServiceBook
from mulligan.service.records import Demand, ServiceRecord, ServiceRequest, ServiceStatus
from mulligan.store.store import Store
from mulligan.task.task import Task

SERVICE = "service"
# Counting stops here.
MANY = 10_000


class Switchboard:
    def __init__(
        self,
        store: Callable[[], Store],
        ids: Callable[[], str],
        tasks: Mapping[str, Task[..., Any, Any]],
        book: Callable[[], ServiceBook],
    ) -> None:
        self._store = store
        self._ids = ids
        self._tasks = tasks
        self._book = book

    def services(self) -> list[ServiceStatus]:
        """Those of this app's code and settings, and those in the store, by name."""
        records, demands, pauses = self._stored()
        names = {*self._named(), *records, *demands, *pauses}
        return [self._status(name, records.get(name), demands.get(name), pauses.get(name)) for name in sorted(names)]

    def service(self, name: str) -> ServiceStatus:
        """Raises UnknownService for one of which nobody has heard. A pattern is seen as it is configured."""
        if name not in self._patterns():
            self.require(name)
        records, demands, pauses = self._stored()
        return self._status(name, records.get(name), demands.get(name), pauses.get(name))

    def require(self, name: str) -> None:
        """Raises UnknownService for what cannot be steered: nobody has heard of it, or it is a pattern's own name."""
        records, demands, pauses = self._stored()
        if not self._is_named(name) and name not in {*records, *demands, *pauses}:
            raise UnknownService(name, {*self._named(), *self._patterns(), *records, *demands})

    def of_job(self, name: str) -> ServiceStatus | None:
        """That of a job, whatever its name; None when it has none."""
        if not name:
            return None
        records, demands, pauses = self._stored([name])
        return self._status(name, records.get(name), demands.get(name), pauses.get(name))

    def holding(self, names: Iterable[str]) -> set[str]:
        """Those of these services that leave their jobs where they are: open or probed, and not set to fail fast."""
        asked = sorted(set(names) - {""})
        records = self._store().services(asked) if asked else []
        book = self._book()
        return {record.name for record in records if record.state != "closed" and book.of(record.name).mode == "hold"}

    def force(self, name: str, to: str | None, *, actor: str | None, reason: str | None) -> ServiceStatus:
        """Open or closed, whatever its calls say; None: as they say again."""
        self.require(name)
        self._store().force(ServiceRequest(id=self._ids(), name=name, to=to, actor=actor, reason=reason))
        return self.service(name)

    def _stored(
        self, names: list[str] | None = None
    ) -> tuple[dict[str, ServiceRecord], dict[str, Demand], dict[str, Pause]]:
        store = self._store()
        return (
            {record.name: record for record in store.services(names)},
            {demand.service: demand for demand in store.demands(limit=MANY)},
            {pause.name: pause for pause in store.pauses() if pause.what == SERVICE},
        )

    def _named(self) -> set[str]:
        """By a task, or configured; a pattern names none."""
        of_tasks = {task.service for task in self._tasks.values() if isinstance(task.service, str)}
        return {*of_tasks, *(service.name for service in self._book() if not service.is_pattern)} - {""}

    def _patterns(self) -> dict[str, Service]:
        return {service.name: service for service in self._book() if service.is_pattern}

    def _is_named(self, name: str) -> bool:
        matched = any(pattern.matches(name) for pattern in self._patterns().values())
        return name in self._named() or (not name.endswith("*") and matched)

    def _status(
        self, name: str, record: ServiceRecord | None, demand: Demand | None, pause: Pause | None
    ) -> ServiceStatus:
        return status(self._book().of(name), record or _plain(name), demand or Demand(name, 0, 0), pause, record)


def status(
    service: Service, stands: ServiceRecord, demand: Demand, pause: Pause | None, stored: ServiceRecord | None
) -> ServiceStatus:
    return ServiceStatus(
        name=stands.name,
        state=stands.state,
        since=stands.since,
        open_until=stands.open_until,
        is_due=stands.is_due,
        forced=stands.forced,
        actor=stands.actor,
        reason=stands.reason,
        is_failing=stands.is_failing,
        calls=stands.calls,
        failures=stands.failures,
        share=round(stands.failures / stands.calls, 3) if stands.calls else 0.0,
        rate=stands.rate,
        pace=stands.pace,
        rate_before=stands.rate_before,
        firsts=stands.firsts,
        retries=stands.retries,
        probes_succeeded=stands.probes_succeeded,
        trouble=stands.trouble,
        ready=min(demand.ready, MANY),
        parked=min(demand.parked, MANY),
        paused=pause,
        mode=service.mode,
        fail_code=service.fail_code,
        cooldown=service.cooldown,
        probes=service.probes,
        has_probe=service.probe is not None,
        budget=service.budget,
        most_a_second=service.rate,
        is_known=stored is not None,
    )


def _plain(name: str) -> ServiceRecord:
    """One of which nothing is stored is closed."""
    return ServiceRecord(
        name=name,
        state="closed",
        epoch=0,
        since=None,
        open_until=None,
        forced=None,
        actor=None,
        reason=None,
        is_failing=False,
        pace=None,
        rate_before=None,
        calls=0,
        failures=0,
        rate=None,
    )


class ServiceHandle:
    """One service, to be forced and looked at: `app.service("gateway").open(reason="maintenance")`."""

    def __init__(self, name: str, force: Callable[..., ServiceStatus], look: Callable[[str], ServiceStatus]) -> None:
        self.name = name
        self._force = force
        self._look = look

    def __repr__(self) -> str:
        return f"<service {self.name!r}>"

    @property
    def status(self) -> ServiceStatus:
        """As it stands now."""
        return self._look(self.name)

    def open(self, *, actor: str | None = None, reason: str | None = None) -> ServiceStatus:
        """Hold its jobs, or let them fail fast, until somebody closes it or lets it go by its calls again."""
        return self._force(self.name, "open", actor=actor, reason=reason)

    def close(self, *, actor: str | None = None, reason: str | None = None) -> ServiceStatus:
        """Let its jobs run, whatever their calls say, until somebody opens it or lets it go by its calls again."""
        return self._force(self.name, "closed", actor=actor, reason=reason)

    def auto(self, *, actor: str | None = None, reason: str | None = None) -> ServiceStatus:
        """Go by its calls again; after it was forced open, that begins with a probe."""
        return self._force(self.name, None, actor=actor, reason=reason)
