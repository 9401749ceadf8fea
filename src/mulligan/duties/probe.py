"""Probe: tests an open service by its own probe function, run as a job, before any other of its jobs is tried."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any

from mulligan.attempt import attempt
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import ServiceRecord
from mulligan.store.store import Store
from mulligan.task.task import Task

logger = logging.getLogger("mulligan.duties")

TIMEOUT_SECONDS = 30
# Shorter than the attempt's timeout: a probe that does not answer is a result, not a failed job.
PATIENCE_SECONDS = 25


class Probe:
    """Enqueues one job for each service that is due for a probe. The service's name is the dedupe key.

    The job goes to a queue of the worker that enqueues it, so that at least that worker can run it.
    """

    name = "probe"

    def __init__(
        self,
        store: Store,
        book: Callable[[], ServiceBook],
        task: Task[..., Any, Any],
        *,
        queue: str | None = None,
        interval: float = 1.0,
        limit: int = 100,
    ) -> None:
        self._store = store
        self._book = book
        self._task = task
        self._queue = task.queue if queue is None else queue
        self.interval = interval
        self.limit = limit

    def step(self) -> int:
        """How many jobs were enqueued."""
        # There may be thousands of services, but only a few have a probe: those named by a pattern have none.
        probed = [service.name for service in self._book() if service.probe is not None]
        wanted = [record.name for record in self._store.services(probed) if _is_wanted(record)]
        return sum(self._enqueue(name) for name in wanted[: self.limit])

    def _enqueue(self, name: str) -> bool:
        options = self._task.options(queue=self._queue, dedupe=f"{self._queue}/{name}")
        return not options.enqueue(name).is_duplicate


def _is_wanted(record: ServiceRecord) -> bool:
    return (record.state == "half_open" and not record.is_checked) or record.is_due


def has_probes(services: Iterable[Service]) -> bool:
    return any(service.probe is not None for service in services)


class ProbeTask:
    """The task of kind `mulligan.probe`. It succeeds whatever it finds: the result is charged to the service, and no
    failed job is left."""

    def __init__(self, book: Callable[[], ServiceBook], *, patience: float = PATIENCE_SECONDS) -> None:
        self._book = book
        self._patience = patience
        self._busy: set[str] = set()
        """Services whose probe was called here and has not returned."""

    async def probe(self, service: str) -> dict[str, Any]:
        found = self._book().of(service).probe
        if found is None:
            # The app no longer has a probe for it: its jobs are tried again instead.
            return {"service": service, "ok": None}
        problem = await self._check(service, found)
        attempt().called(service, ok=problem is None)
        if problem is not None:
            logger.info("the probe of service %s failed: %s", service, problem, extra=attempt().fields)
        return {"service": service, "ok": problem is None, "problem": problem}

    async def _check(self, service: str, probe: Callable[[], Any]) -> str | None:
        """The problem with the service, or None."""
        if service in self._busy:
            return "its last probe has not returned yet"
        try:
            async with asyncio.timeout(self._patience) as patience:
                answer = await self._call(service, probe)
        except TimeoutError as error:
            return str(error) or self._too_late
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return f"{type(error).__name__}: {error!s:.200}"
        if patience.expired():
            # The probe ignored its cancellation: its result is too late.
            return self._too_late
        return "it returned False" if answer is False else None

    @property
    def _too_late(self) -> str:
        return f"no answer after {self._patience:g} s"

    async def _call(self, service: str, probe: Callable[[], Any]) -> Any:
        if inspect.iscoroutinefunction(probe):
            return await probe()
        answer = await self._call_in_thread(service, probe)
        # A plain function may return an awaitable.
        return await answer if inspect.isawaitable(answer) else answer

    async def _call_in_thread(self, service: str, probe: Callable[[], Any]) -> Any:
        def call() -> Any:
            try:
                return probe()
            finally:
                self._busy.discard(service)

        self._busy.add(service)
        return await attempt().in_thread(call)
