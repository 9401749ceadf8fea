"""What was heard of a service: each worker keeps a tally of its own, and the figures are those of all of them.

Times are whole microseconds by the store's clock. An outcome that seems to come from the future was heard before
that clock was set back: it is left out, so that what is heard now counts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from statistics import fmean

import msgspec
from msgspec import Struct

from mulligan.service.config import Service

SECOND = 1_000_000
# Of retries and of the rate. Long enough for a timeout of half a minute to leave something from before it.
SHORTEST_SPAN = 60 * SECOND
SLOTS = 30
# Clocks of two connections are not quite one.
AHEAD = SECOND
_RATE_SLOTS = 15
_TROUBLED = 0.1


class ServiceCall(Struct, frozen=True):
    """One outcome: whether the service did its part. `epoch` is the service's when the job was claimed."""

    at: int
    ok: bool
    is_retry: bool = False
    epoch: int = 0


class CallResult(Struct, frozen=True, array_like=True):
    """What is kept of a call."""

    at: int
    ok: bool


class Slot(Struct, frozen=True, array_like=True):
    """The calls of a stretch of time: `number` of them, counted in widths, since the epoch of the clock."""

    number: int
    ok: int = 0
    failed: int = 0
    retries: int = 0

    def plus(self, calls: Iterable[ServiceCall]) -> "Slot":
        heard = list(calls)
        ok = sum(call.ok for call in heard)
        retries = sum(call.is_retry for call in heard)
        return Slot(self.number, self.ok + ok, self.failed + len(heard) - ok, self.retries + retries)


class CallCounts(Struct, frozen=True):
    """What one worker heard of one service in one epoch: the last outcomes in order, and counts by time."""

    epoch: int = 0
    width: int = 0
    last: tuple[CallResult, ...] = ()
    slots: tuple[Slot, ...] = ()

    def add(self, calls: Sequence[ServiceCall], service: Service) -> "CallCounts":
        """With these calls. One of a newer epoch begins it anew; those of older ones are dropped."""
        epoch = max((call.epoch for call in calls), default=self.epoch)
        width = width_of(service)
        if epoch > self.epoch or (width != self.width and calls):
            return CallCounts(max(epoch, self.epoch), width)._with(calls, service)
        return self._with(calls, service)

    def _with(self, calls: Sequence[ServiceCall], service: Service) -> "CallCounts":
        mine = [call for call in calls if call.epoch == self.epoch]
        if not mine:
            return self
        last = (*self.last, *(CallResult(call.at, call.ok) for call in mine))[-_kept(service) :]
        return CallCounts(self.epoch, self.width, last, self._slots(mine))

    def _slots(self, calls: list[ServiceCall]) -> tuple[Slot, ...]:
        found = {slot.number: slot for slot in self.slots}
        for number in {call.at // self.width for call in calls}:
            before = found.get(number, Slot(number))
            found[number] = before.plus(call for call in calls if call.at // self.width == number)
        newest = calls[-1].at // self.width
        # In both directions: the clock may have been set back.
        near = [slot for slot in found.values() if abs(newest - slot.number) <= SLOTS]
        return tuple(sorted(near, key=lambda slot: slot.number))


def encode(tally: CallCounts) -> str:
    return msgspec.json.encode(tally).decode()


def decode(text: str | bytes) -> CallCounts:
    return msgspec.json.decode(text, type=CallCounts)


class Figures(Struct, frozen=True):
    """What all workers heard in the current epoch. `rate` is of successful calls a second, None when there were none.

    `calls` and `failures` are those of the window, `firsts` and `retries` those of the last minute, or of the window
    if it is longer, as far as the service was failing.
    """

    calls: int = 0
    failures: int = 0
    failures_in_a_row: int = 0
    firsts: int = 0
    retries: int = 0
    rate: float | None = None

    @property
    def share(self) -> float:
        """Of failures among the calls."""
        return self.failures / self.calls if self.calls else 0.0


def figures(
    service: Service, tallies: Iterable[CallCounts], *, epoch: int, failing_since: int | None = None, now: int
) -> Figures:
    """The figures of the current epoch, whoever heard them."""
    width = width_of(service)
    current = [tally for tally in tallies if tally.epoch == epoch and tally.width == width]
    last = _newest(service, current, now)
    slots = _merged(current, oldest=(now - span_of(service)) // width, newest=(now + AHEAD) // width)
    calls, failures = _window(service, last, slots, now)
    failing = [slot for slot in slots if slot.number * width >= _since(failing_since, now)]
    retries = sum(slot.retries for slot in failing)
    return Figures(
        calls=calls,
        failures=failures,
        failures_in_a_row=_in_a_row(last),
        firsts=sum(slot.ok + slot.failed for slot in failing) - retries,
        retries=retries,
        rate=_rate(slots, width, now),
    )


def _since(failing_since: int | None, now: int) -> int:
    # One that lies ahead is of before the clock was set back.
    return 0 if failing_since is None or failing_since > now + AHEAD else failing_since


def width_of(service: Service) -> int:
    return span_of(service) // SLOTS


def span_of(service: Service) -> int:
    return max(SHORTEST_SPAN, microseconds(service.window)) if _is_time(service) else SHORTEST_SPAN


def microseconds(length: timedelta | int) -> int:
    return length if isinstance(length, int) else length // timedelta(microseconds=1)


def _is_time(service: Service) -> bool:
    return isinstance(service.window, timedelta)


def _kept(service: Service) -> int:
    return service.window if isinstance(service.window, int) else service.min_calls


def _newest(service: Service, tallies: list[CallCounts], now: int) -> list[CallResult]:
    """The last outcomes of all workers, in order."""
    heard = [one for tally in tallies for one in tally.last if one.at <= now + AHEAD]
    if len(tallies) > 1:
        heard.sort(key=lambda one: one.at)
    return heard[-_kept(service) :]


def _merged(tallies: list[CallCounts], *, oldest: int, newest: int) -> list[Slot]:
    ok, failed, retries = Counter[int](), Counter[int](), Counter[int]()
    numbers: set[int] = set()
    for slot in (slot for tally in tallies for slot in tally.slots):
        if oldest <= slot.number <= newest:
            numbers.add(slot.number)
            ok[slot.number] += slot.ok
            failed[slot.number] += slot.failed
            retries[slot.number] += slot.retries
    return [Slot(number, ok[number], failed[number], retries[number]) for number in sorted(numbers)]


def _window(service: Service, last: list[CallResult], slots: list[Slot], now: int) -> tuple[int, int]:
    if not isinstance(service.window, timedelta):
        return len(last), sum(not one.ok for one in last)
    since = (now - microseconds(service.window)) // width_of(service)
    within = [slot for slot in slots if slot.number >= since]
    failures = sum(slot.failed for slot in within)
    return sum(slot.ok for slot in within) + failures, failures


def _in_a_row(last: list[CallResult]) -> int:
    for number, one in enumerate(reversed(last)):
        if one.ok:
            return number
    return len(last)


def _rate(slots: list[Slot], width: int, now: int) -> float | None:
    """Of the slots in which all was well; the one that is not over yet only when there is no other."""
    well = [slot for slot in slots if slot.ok and slot.failed <= _TROUBLED * slot.ok]
    over = [slot for slot in well if slot.number < now // width] or well or [slot for slot in slots if slot.ok]
    return _middle([slot.ok for slot in over[-_RATE_SLOTS:]]) * SECOND / width if over else None


def _middle(counts: list[int]) -> float:
    """The mean without the highest and the lowest fifth: a slot in which an outage began, or a worker, says little. The
    middle one alone would leave to chance what the others know better."""
    aside = len(counts) // 5
    return fmean(sorted(counts)[aside : len(counts) - aside])
