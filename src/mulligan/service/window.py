"""The calls of a service within its window: each worker keeps its own counts, and the figures sum those of all workers.

Times are microseconds by the store's clock. A call in the future was recorded before that clock was set back. It is
left out, so that current calls count.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from statistics import fmean

import msgspec
from msgspec import Struct

from mulligan.service.config import Service

SECOND = 1_000_000
# Retries and the rate are counted over at least this. After a timeout of half a minute, calls from before it remain.
SHORTEST_SPAN = 60 * SECOND
SLOTS = 30
# The clocks of two connections may differ by this much.
AHEAD = SECOND
_RATE_SLOTS = 15
_TROUBLED = 0.1


class ServiceCall(Struct, frozen=True):
    """The result of one call: `ok` unless the service failed. `epoch` is the service's when the job was claimed.
    `is_check`: its health check made the call, not a job."""

    at: int
    ok: bool
    is_retry: bool = False
    epoch: int = 0
    is_check: bool = False


class CallResult(Struct, frozen=True, array_like=True):
    """A call as it is stored."""

    at: int
    ok: bool


class Slot(Struct, frozen=True, array_like=True):
    """The calls of one time slot. `number` counts slots since 1970."""

    number: int
    ok: int = 0
    failed: int = 0
    retries: int = 0

    def add(self, calls: Iterable[ServiceCall]) -> "Slot":
        added = list(calls)
        ok = sum(call.ok for call in added)
        retries = sum(call.is_retry for call in added)
        return Slot(self.number, self.ok + ok, self.failed + len(added) - ok, self.retries + retries)


class CallCounts(Struct, frozen=True):
    """The calls that one worker made to one service in one epoch: the last results in order, and counts by time."""

    epoch: int = 0
    width: int = 0
    last: tuple[CallResult, ...] = ()
    slots: tuple[Slot, ...] = ()

    def add(self, calls: Sequence[ServiceCall], service: Service) -> "CallCounts":
        """The counts with these calls. A call of a newer epoch resets them; calls of older epochs are dropped."""
        epoch = max((call.epoch for call in calls), default=self.epoch)
        width = width_of(service)
        if epoch > self.epoch or (width != self.width and calls):
            return CallCounts(max(epoch, self.epoch), width)._with(calls, service)
        return self._with(calls, service)

    def _with(self, calls: Sequence[ServiceCall], service: Service) -> "CallCounts":
        current = [call for call in calls if call.epoch == self.epoch]
        if not current:
            return self
        last = (*self.last, *(CallResult(call.at, call.ok) for call in current))[-_results_kept(service) :]
        return CallCounts(self.epoch, self.width, last, self._slots_with(current))

    def _slots_with(self, calls: list[ServiceCall]) -> tuple[Slot, ...]:
        found = {slot.number: slot for slot in self.slots}
        for number in {call.at // self.width for call in calls}:
            before = found.get(number, Slot(number))
            found[number] = before.add(call for call in calls if call.at // self.width == number)
        newest = calls[-1].at // self.width
        # In both directions: the clock may have been set back.
        near = [slot for slot in found.values() if abs(newest - slot.number) <= SLOTS]
        return tuple(sorted(near, key=lambda slot: slot.number))


def encode_counts(counts: CallCounts) -> str:
    return msgspec.json.encode(counts).decode()


def decode_counts(text: str | bytes) -> CallCounts:
    return msgspec.json.decode(text, type=CallCounts)


class Figures(Struct, frozen=True):
    """The calls of all workers in the current epoch. `rate` counts successful calls per second; None: there were none.

    `calls` and `failures` are those of the window. `firsts` and `retries` count from the moment the service began to
    fail, within the last minute or the window, whichever is longer.
    """

    calls: int = 0
    failures: int = 0
    failures_in_a_row: int = 0
    firsts: int = 0
    retries: int = 0
    rate: float | None = None

    @property
    def failure_ratio(self) -> float:
        """Failures divided by calls."""
        return self.failures / self.calls if self.calls else 0.0


def compute_figures(
    service: Service, workers: Iterable[CallCounts], *, epoch: int, failing_since: int | None = None, now: int
) -> Figures:
    """The figures of the current epoch, from the counts of all workers."""
    width = width_of(service)
    current = [counts for counts in workers if counts.epoch == epoch and counts.width == width]
    last = _last_results(service, current, now)
    slots = _merge_slots(current, oldest=(now - span_of(service)) // width, newest=(now + AHEAD) // width)
    calls, failures = _count_window(service, last, slots, now)
    failing = [slot for slot in slots if slot.number * width >= _valid_since(failing_since, now)]
    retries = sum(slot.retries for slot in failing)
    return Figures(
        calls=calls,
        failures=failures,
        failures_in_a_row=_failures_in_a_row(last),
        firsts=sum(slot.ok + slot.failed for slot in failing) - retries,
        retries=retries,
        rate=_rate(slots, width, now),
    )


def _valid_since(failing_since: int | None, now: int) -> int:
    # A time in the future is from before the clock was set back.
    return 0 if failing_since is None or failing_since > now + AHEAD else failing_since


def width_of(service: Service) -> int:
    return span_of(service) // SLOTS


def span_of(service: Service) -> int:
    return max(SHORTEST_SPAN, microseconds(service.window)) if _is_time(service) else SHORTEST_SPAN


def microseconds(length: timedelta | int) -> int:
    return length if isinstance(length, int) else length // timedelta(microseconds=1)


def _is_time(service: Service) -> bool:
    return isinstance(service.window, timedelta)


def _results_kept(service: Service) -> int:
    return service.window if isinstance(service.window, int) else service.min_calls


def _last_results(service: Service, workers: list[CallCounts], now: int) -> list[CallResult]:
    """The last results of all workers, in order."""
    results = [result for counts in workers for result in counts.last if result.at <= now + AHEAD]
    if len(workers) > 1:
        results.sort(key=lambda result: result.at)
    return results[-_results_kept(service) :]


def _merge_slots(workers: list[CallCounts], *, oldest: int, newest: int) -> list[Slot]:
    ok, failed, retries = Counter[int](), Counter[int](), Counter[int]()
    numbers: set[int] = set()
    for slot in (slot for counts in workers for slot in counts.slots):
        if oldest <= slot.number <= newest:
            numbers.add(slot.number)
            ok[slot.number] += slot.ok
            failed[slot.number] += slot.failed
            retries[slot.number] += slot.retries
    return [Slot(number, ok[number], failed[number], retries[number]) for number in sorted(numbers)]


def _count_window(service: Service, last: list[CallResult], slots: list[Slot], now: int) -> tuple[int, int]:
    """The calls and the failures of the window."""
    if not isinstance(service.window, timedelta):
        return len(last), sum(not result.ok for result in last)
    since = (now - microseconds(service.window)) // width_of(service)
    within = [slot for slot in slots if slot.number >= since]
    failures = sum(slot.failed for slot in within)
    return sum(slot.ok for slot in within) + failures, failures


def _failures_in_a_row(last: list[CallResult]) -> int:
    for number, result in enumerate(reversed(last)):
        if result.ok:
            return number
    return len(last)


def _rate(slots: list[Slot], width: int, now: int) -> float | None:
    """The rate in healthy slots. The current slot counts only if there is no other."""
    well = [slot for slot in slots if slot.ok and slot.failed <= _TROUBLED * slot.ok]
    over = [slot for slot in well if slot.number < now // width] or well or [slot for slot in slots if slot.ok]
    return _trimmed_mean([slot.ok for slot in over[-_RATE_SLOTS:]]) * SECOND / width if over else None


def _trimmed_mean(counts: list[int]) -> float:
    """The mean without the highest and the lowest fifth, in which an outage or a worker may have started. A median
    would be noisier."""
    trimmed = len(counts) // 5
    return fmean(sorted(counts)[trimmed : len(counts) - trimmed])
