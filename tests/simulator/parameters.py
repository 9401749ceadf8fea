"""What differs from world to world. Each is drawn from the seed; some faults are left out of some worlds,
for a fault that is everywhere hides what only happens without it."""

import random
from dataclasses import dataclass
from datetime import timedelta

from simulator.quotas import Allotment

KINDS = ("brisk", "lengthy", "plain", "hurried", "rare")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The probability of each fault at each store call made while faults are on."""

    lost_request: float = 0.0
    lost_reply: float = 0.0
    late_request: float = 0.0
    slow: float = 0.0
    crash: float = 0.0
    pause: float = 0.0

    @classmethod
    def draw(cls, randomness: random.Random) -> "Rates":
        def rate(most: float) -> float:
            return randomness.uniform(0.1, 1) * most if randomness.random() < 0.6 else 0.0

        return cls(
            lost_request=rate(0.06),
            lost_reply=rate(0.08),
            late_request=rate(0.05),
            slow=rate(0.08),
            crash=rate(0.006),
            pause=rate(0.006),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """How the apps describe the service."""

    mode: str = "hold"
    budget: float | None = 0.1
    rate: str | None = None
    has_probe: bool = False
    check_lies: bool = False
    """Its health check succeeds in an outage too."""
    first_outage: float | None = None
    """Seconds; else drawn, as those that follow."""

    @classmethod
    def draw(cls, randomness: random.Random) -> "GatewayOptions":
        mode = randomness.choice(("hold", "hold", "hold", "fail_fast"))
        budget = randomness.choice((0.1, 0.1, None))
        rate = randomness.choice((None, None, None, "2/s"))
        probe = randomness.random()
        return cls(mode=mode, budget=budget, rate=rate, has_probe=probe < 0.3, check_lies=probe < 0.15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    seats: tuple[tuple[str, ...], ...]
    """The kinds each worker of the fleet knows."""
    concurrency: int
    lease: timedelta
    is_remote: bool
    """A request that is on the wire is carried out whatever becomes of its sender."""
    has_wakeups: bool
    latency: float
    rates: Rates
    outages: float
    """Expected during a shift."""
    clock_steps: float
    crashes: float
    pauses: float
    arrivals: float
    """Enqueue calls a second while the fleet works."""
    moves: float
    batch: int
    killers: float
    """The share of jobs that kill their process."""
    redrives: float
    has_gateway: bool
    """Tasks of one kind depend on a service that is down from time to time."""
    gateway: GatewayOptions
    allotment: Allotment
    midnight: float
    """Seconds from the beginning of the world to the next day."""
    batches: float
    """The share of enqueue calls that make a batch."""
    stuck: str
    """What workers do about stuck jobs."""
    at_once: int
    """How many a worker claims, or settles, at once."""
    requests: float
    """Rejected calls, released keys and forgotten owners a second while the fleet works."""
    follow_ups: float
    """The share of jobs that another follows when they are cancelled."""

    @classmethod
    def draw(cls, randomness: random.Random) -> "Parameters":
        lease = randomness.choice((4, 6, 6, 10, 15, 30, 60))
        return cls(
            seats=_seats(randomness),
            concurrency=randomness.choice((1, 2, 2, 3, 5, 8)),
            lease=timedelta(seconds=lease),
            is_remote=randomness.random() < 0.6,
            has_wakeups=randomness.random() < 0.4,
            latency=randomness.choice((0.0005, 0.002, 0.005)),
            rates=Rates.draw(randomness),
            outages=randomness.choice((0, 0.3, 1)),
            clock_steps=randomness.choice((0, 0, 1, 2)),
            crashes=randomness.choice((0, 0.3, 1)),
            pauses=randomness.choice((0, 0.3, 1)),
            arrivals=randomness.uniform(0.1, 0.7),
            moves=randomness.choice((0, 0.2, 0.5)),
            batch=randomness.choice((1, 1, 2, 4)),
            killers=randomness.choice((0, 0, 0.02, 0.05)) if lease <= 6 else 0,
            redrives=randomness.choice((0, 0.02, 0.1)),
            has_gateway=randomness.random() < 0.4,
            batches=randomness.choice((0, 0.2, 0.4)),
            gateway=GatewayOptions.draw(randomness),
            allotment=Allotment.draw(randomness, KINDS),
            midnight=randomness.uniform(300, 3600),
            at_once=randomness.choice((1, 2, 500, 500)),
            # Last: what is drawn before stays as it was.
            stuck=randomness.choice(("report", "report", "process", "requeue")),
            requests=randomness.choice((0, 0, 0.1, 0.3)),
            follow_ups=randomness.choice((0, 0, 0.4)),
        )


def _seats(randomness: random.Random) -> tuple[tuple[str, ...], ...]:
    """A mixed fleet: some workers do not know every kind."""
    number = randomness.choice((1, 2, 2, 3, 3, 4, 5))
    seats = [tuple(kind for kind in KINDS if randomness.random() < 0.7) or KINDS[:1] for _ in range(number)]
    return (KINDS, *seats[1:]) if randomness.random() < 0.7 else tuple(seats)
