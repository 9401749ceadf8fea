"""Probe: a service with a probe of its own is asked by that, as a job, before any other job of it is tried."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any

from mulligan.attempt import attempt
from mulligan.service import Service, ServiceBook
from mulligan.service.records import ServiceRecord
from mulligan.store.protocols import Store
from mulligan.task.task import Task

logger = logging.getLogger("mulligan.duties")

TIMEOUT_SECONDS = 30
# Before the attempt's own end: a probe that does not answer is an answer, and no failed job.
PATIENCE_SECONDS = 25


class Probe:
    """One job for each service that is to be probed, never more than one: the service's name is its key.

    The job goes to a queue of the worker that makes it, so that there is somebody who takes it.
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

    def run(self, _actor: str | None) -> int:
        """By hand it is the same."""
        return self.step()

    def step(self) -> int:
        """How many jobs were made."""
        # Of thousands of services a few have a probe: no pattern does.
        probed = [service.name for service in self._book() if service.probe is not None]
        wanted = [record.name for record in self._store.services(probed) if _is_wanted(record)]
        return sum(self._enqueue(name) for name in wanted[: self.limit])

    def _enqueue(self, name: str) -> bool:
        options = self._task.options(queue=self._queue, dedupe=f"{self._queue}/{name}")
        return not options.enqueue(name).is_duplicate


def _is_wanted(record: ServiceRecord) -> bool:
    return record.state == "half_open" or record.is_due


def has_probes(services: Iterable[Service]) -> bool:
    return any(service.probe is not None for service in services)


class ProbeTask:
    """The task of kind `mulligan.probe`. It succeeds whatever it finds: the word goes to the service, and nothing is
    left among the failed jobs."""

    def __init__(self, book: Callable[[], ServiceBook], *, patience: float = PATIENCE_SECONDS) -> None:
        self._book = book
        self._patience = patience
        self._busy: set[str] = set()
        """Services whose probes were called here and have not come back."""

    async def probe(self, service: str) -> dict[str, Any]:
        found = self._book().of(service).probe
        if found is None:
            # Of an app that had one: its jobs are let in again, and tell how it is.
            return {"service": service, "ok": None}
        problem = await self._asked(service, found)
        attempt().called(service, ok=problem is None)
        if problem is not None:
            logger.info(
                "the probe of service %s says that it is not well: %s", service, problem, extra=attempt().fields
            )
        return {"service": service, "ok": problem is None, "problem": problem}

    async def _asked(self, service: str, probe: Callable[[], Any]) -> str | None:
        """What is wrong with it, None when it is well."""
        if service in self._busy:
            return "its last probe has not come back yet"
        try:
            async with asyncio.timeout(self._patience) as patience:
                answer = await self._called(service, probe)
        except TimeoutError as error:
            return str(error) or self._too_late
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            return f"{type(error).__name__}: {error!s:.200}"
        if patience.expired():
            # It would not be stopped, and what it says now comes too late.
            return self._too_late
        return "it returned False" if answer is False else None

    @property
    def _too_late(self) -> str:
        return f"no answer after {self._patience:g} s"

    async def _called(self, service: str, probe: Callable[[], Any]) -> Any:
        if inspect.iscoroutinefunction(probe):
            return await probe()
        answer = await self._in_thread(service, probe)
        # A plain function may hand out what is to be awaited.
        return await answer if inspect.isawaitable(answer) else answer

    async def _in_thread(self, service: str, probe: Callable[[], Any]) -> Any:
        def call() -> Any:
            try:
                return probe()
            finally:
                self._busy.discard(service)

        self._busy.add(service)
        return await attempt().in_thread(call)
