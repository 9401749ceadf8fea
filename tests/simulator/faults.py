"""The faults of a store call: on the way there, on the way back, or of the process that made it."""

import random
from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import accumulate
from typing import NamedTuple

from simulator.parameters import Parameters

# From here on a call counts as trouble: for a while its process is not held to its promises.
SLOW_SECONDS = 0.05
# For each stop and each kill at any call, so many more at a settle: what the fence is for.
OVERTAKEN = 20


class Strike(StrEnum):
    """What happens to the process while it waits."""

    CRASH = "crash"
    PAUSE = "pause"


class Fate(NamedTuple):
    """Seconds until the request is carried out and until the answer is there.

    `arrives`: the request reaches the store, be it late. `gives_up_after`: the caller hears no answer and is
    told so after these seconds, whatever the store did.
    """

    request: float
    reply: float
    reply_of_found: float = 0.0
    """So much later, if something was found: between looking for lost leases and taking them back much may change."""
    arrives: bool = True
    gives_up_after: float | None = None
    strike: Strike | None = None
    strikes_in_reply: bool = False

    @property
    def seconds(self) -> float:
        """How long the caller waits."""
        return self.request + self.reply if self.gives_up_after is None else self.gives_up_after

    @property
    def is_trouble(self) -> bool:
        return self.gives_up_after is not None or self.strike is not None or self.request + self.reply > SLOW_SECONDS


Change = Callable[[Fate], Fate]


class Faults:
    """Draws the fault of each call."""

    def __init__(self, parameters: Parameters, randomness: random.Random) -> None:
        self._parameters = parameters
        self._randomness = randomness
        self.has_faults = False
        self.is_out = False
        """Whether the store is down for all callers."""
        kinds = ((False, False), (True, False), (True, True))
        self._thresholds = {
            (mortal, settles): self._drawn(is_mortal=mortal, settles=settles) for mortal, settles in kinds
        }

    def fate(self, name: str, *, is_mortal: bool) -> Fate:
        """The fate of one call. A participant that is not mortal is neither killed nor stopped."""
        randomness, latency = self._randomness, self._parameters.latency
        fate = Fate(randomness.random() * latency, randomness.random() * latency)
        if name == "overdue":
            fate = fate._replace(reply_of_found=randomness.random() * self._parameters.lease.total_seconds())
        draw = randomness.random()
        for change, below in self._thresholds[is_mortal, is_mortal and name == "settle"]:
            if draw < below:
                return change(fate)
        return fate

    def _drawn(self, *, is_mortal: bool, settles: bool) -> list[tuple[Change, float]]:
        """Each change with the sum of the rates up to it."""
        changes, rates = zip(*self._changes(is_mortal=is_mortal, settles=settles), strict=True)
        return list(zip(changes, accumulate(rates), strict=True))

    def _changes(self, *, is_mortal: bool, settles: bool) -> Iterator[tuple[Change, float]]:
        rates = self._parameters.rates
        yield self._lose_request, rates.lost_request
        yield self._lose_reply, rates.lost_reply
        yield self._be_late, rates.late_request
        yield self._be_slow, rates.slow
        if is_mortal:
            yield self._crash, rates.crash
            yield self._pause, rates.pause
        if settles:
            yield self._be_overtaken, OVERTAKEN * (rates.pause + rates.crash)

    def _lose_request(self, fate: Fate) -> Fate:
        return fate._replace(arrives=False, gives_up_after=self._patience())

    def _lose_reply(self, fate: Fate) -> Fate:
        return fate._replace(gives_up_after=fate.request + self._patience())

    def _be_late(self, fate: Fate) -> Fate:
        """Carried out after the caller gave up: a transaction that was held up, a packet sent once more."""
        patience = self._patience()
        late = patience + self._randomness.random() ** 2 * self._parameters.lease.total_seconds() * 1.5
        return fate._replace(request=late, gives_up_after=patience)

    def _be_slow(self, fate: Fate) -> Fate:
        seconds = self._randomness.uniform(0.1, 8)
        return fate._replace(request=seconds) if self._randomness.random() < 0.5 else fate._replace(reply=seconds)

    def _crash(self, fate: Fate) -> Fate:
        return fate._replace(strike=Strike.CRASH, strikes_in_reply=self._randomness.random() < 0.5)

    def _pause(self, fate: Fate) -> Fate:
        return fate._replace(strike=Strike.PAUSE, strikes_in_reply=self._randomness.random() < 0.5)

    def _be_overtaken(self, fate: Fate) -> Fate:
        """Stopped or killed while it settles, and the result comes when the lease is another's."""
        late = self._randomness.uniform(1.3, 2.3) * self._parameters.lease.total_seconds()
        strike = self._randomness.choice((Strike.PAUSE, Strike.PAUSE, Strike.CRASH))
        return fate._replace(request=late, gives_up_after=late, strike=strike)

    def _patience(self) -> float:
        """Refused at once, or nothing heard for a while."""
        return 0.001 if self._randomness.random() < 0.5 else self._randomness.uniform(0.05, 5)

    def pause_seconds(self) -> float:
        """Around the lease, to both sides of it."""
        return self._randomness.uniform(0.2, 2.5) * self._parameters.lease.total_seconds()
