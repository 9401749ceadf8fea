"""Admissions of one process: requests that come while an admission is under way are admitted together by the next."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mulligan.records.admission import Admission, AdmissionRequest, EndedRequest
from mulligan.store.grouped import Grouped
from mulligan.store.store import Store

# Of one transaction.
MOST = 500


class Admissions:
    """The thread is its own, so that no admission waits for a slow handler."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "mulligan-admission")
        self._calls: Grouped[AdmissionRequest | EndedRequest, Admission | None] = Grouped(
            self._run, at_once=1, most=MOST
        )

    async def admit(self, request: AdmissionRequest) -> Admission:
        answer = await self._calls.call(request)
        assert answer is not None
        return answer

    async def end(self, ended: EndedRequest) -> None:
        await self._calls.call(ended)

    async def _run(self, calls: list[AdmissionRequest | EndedRequest]) -> list[Admission | None]:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._admit, calls)

    def _admit(self, calls: list[AdmissionRequest | EndedRequest]) -> list[Admission | None]:
        wanted = [call for call in calls if isinstance(call, AdmissionRequest)]
        answers = iter(self._store().admit(wanted, [call for call in calls if isinstance(call, EndedRequest)]))
        return [next(answers) if isinstance(call, AdmissionRequest) else None for call in calls]

    def close(self) -> None:
        self._thread.shutdown(wait=False)
