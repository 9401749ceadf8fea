"""The limits, fair queues, rates and budgets of a world, drawn from its seed."""

import random
from dataclasses import dataclass, field, replace

from mulligan.policies.owner import Owner
from mulligan.policies.queue import Queue
from mulligan.policies.quotas import Quotas

PLAIN, FAIR, NARROW = "default", "fair", "narrow"
OWNERS = ("ann", "ben")
MANY = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """The words of every app of the world."""

    queues: tuple[Queue, ...] = ()
    owners: tuple[Owner, ...] = ()
    kinds: dict[str, int] = field(default_factory=dict)
    """How many of them at once."""

    @classmethod
    def draw(cls, randomness: random.Random, kinds: tuple[str, ...]) -> "Allotment":
        """Half of the worlds have none of it."""
        if randomness.random() < 0.5:
            return cls()
        fair = (Queue(FAIR, fair=True),) if randomness.random() < 0.7 else ()
        narrow = (Queue(NARROW, concurrency=randomness.choice((1, 2, 4))),) if randomness.random() < 0.5 else ()
        limited = {kind: randomness.choice((1, 2, 3)) for kind in kinds if randomness.random() < 0.2}
        return cls(queues=(*fair, *narrow), owners=_owners(randomness), kinds=limited)

    @property
    def has_limits(self) -> bool:
        queues = [queue.concurrency for queue in self.queues]
        owners = [owner.concurrency for owner in self.owners]
        return bool(self.kinds) or any(most is not None for most in (*queues, *owners))

    @property
    def raised(self) -> "Allotment":
        """No limit on concurrency."""
        return replace(
            self,
            queues=tuple(replace(one, concurrency=one.concurrency and MANY) for one in self.queues),
            owners=tuple(replace(one, concurrency=one.concurrency and MANY) for one in self.owners),
            kinds=dict.fromkeys(self.kinds, MANY),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The queues that jobs go to."""
        return (PLAIN, *(queue.name for queue in self.queues))

    @property
    def quotas(self) -> Quotas:
        return Quotas(self.queues, self.owners)


def _owners(randomness: random.Random) -> tuple[Owner, ...]:
    def sometimes(share: float, *values: object) -> object:
        return randomness.choice(values) if randomness.random() < share else None

    drawn = [
        {
            "weight": sometimes(0.5, 0.5, 2.0, 5.0),
            "concurrency": sometimes(0.4, 1, 2, 5),
            "submit_rate": sometimes(0.3, "3/m", "20/m", "1/s"),
            "retries_per_day": sometimes(0.4, 1, 4, 20),
            "retries_per_month": sometimes(0.2, 6, 30),
            "over_budget": sometimes(0.5, "wait", "fail"),
        }
        for _ in OWNERS
    ]
    return tuple(
        Owner(name, **words)  # type: ignore[arg-type]
        for name, words in zip(OWNERS, drawn, strict=True)
        if any(word is not None for word in words.values())
    )
