"""Admissions of one process: requests that come while an admission is under way are admitted together by the next, and
so are ends."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mulligan.records.admission import Admission, AdmissionRequest, EndedRequest
from mulligan.store.grouped import Grouped
from mulligan.store.store import Store

Calls = Grouped[AdmissionRequest | EndedRequest, Admission | None]

# Of one transaction.
MOST = 500


class Admissions:
    """They run on the event loop, or in a thread of their own, so that none waits for a slow handler."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "mulligan-admission")
        self._calls: Calls = Grouped(self._run, at_once=1, most=MOST)
        # An end waits for no admission, and locks no rate.
        self._ends: Calls = Grouped(self._run, at_once=1, most=MOST)

    async def admit(self, request: AdmissionRequest) -> Admission:
        answer = await self._calls.call(request)
        assert answer is not None
        return answer

    async def end(self, ended: EndedRequest) -> None:
        await self._ends.call(ended)

    async def withdraw(self, ended: EndedRequest) -> None:
        """End a request whose admission may be under way. It comes after that."""
        await self._calls.call(ended)

    async def _run(self, calls: list[AdmissionRequest | EndedRequest]) -> list[Admission | None]:
        wanted = [call for call in calls if isinstance(call, AdmissionRequest)]
        ended = [call for call in calls if isinstance(call, EndedRequest)]
        store = self._store()
        found = await store.admit_on_loop(wanted, ended)
        if found is None:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, store.admit, wanted, ended)
        answers = iter(found)
        return [next(answers) if isinstance(call, AdmissionRequest) else None for call in calls]

    def close(self) -> None:
        self._thread.shutdown(wait=False)
