"""The pace of a service after an outage: in steps up to the rate of before, there for a while, beyond it, gone.

What failed in a step halves it; where that happened beyond the rate of before, it does not go again for some time.
Trouble that is more than that is the breaker's. It is gone when it stood in nobody's way for a while, and not before:
what is waiting then would come all at once.
"""

from msgspec.structs import replace

from mulligan.failure.service.standing import Change, Pace, Standing, Turn
from mulligan.failure.service.tally import SECOND, Call, Figures
from mulligan.lifecycle import SERVICE_PACED

STEP = SECOND // 2
SLOWEST = 1.0
# Shares of the rate before the outage.
START = 0.25
RISE = 0.125
# How long it is asked hardly more than before, although more is waiting. The headroom is for what is lost between
# two claims.
CALM = 60 * SECOND
HEADROOM = 1.01
# Of each step without a rate of before, and of each beyond it.
GROWTH = 1.5
BEYOND = 1.005
FASTEST = 1_000.0
# Of what went well when trouble came, and for how long.
CEILING = 0.9
PROBATION = 10 * CALM
# A few failures are everyday life.
TOLERATED = 0.1


def started(rate_before: float | None, now: int) -> Pace:
    return Pace(max(SLOWEST, START * (rate_before or 0.0)), now)


def ceiling(standing: Standing, figures: Figures) -> float | None:
    """How fast it may become after trouble at the pace it has: less than that, if it was beyond the rate of before."""
    target = _target(standing)
    if standing.pace is None or target is None or standing.pace.rate <= (standing.ceiling or target):
        return standing.ceiling
    went_well = standing.pace.rate if figures.rate is None else min(figures.rate, standing.pace.rate)
    return max(target, CEILING * went_well)


def paced(standing: Standing, figures: Figures, calls: list[Call], now: int) -> Turn:
    """After these calls of the current epoch; a step at most."""
    if standing.pace is None:
        return Turn(standing)
    ok = sum(call.ok for call in calls)
    pace = replace(standing.pace, ok=standing.pace.ok + ok, failed=standing.pace.failed + len(calls) - ok)
    standing = replace(standing, pace=pace)
    if 0 <= now - pace.stepped_at < STEP:
        return Turn(standing)
    if pace.failed > TOLERATED * (pace.ok + pace.failed):
        return _halved(standing, pace, figures, now)
    return _grown(standing, pace, now)


def _halved(standing: Standing, pace: Pace, figures: Figures, now: int) -> Turn:
    slower = Pace(max(SLOWEST, pace.rate / 2), now)
    halved = replace(standing, pace=slower, ceiling=ceiling(standing, figures))
    return Turn(halved, (_change("halved", standing, slower.rate),))


def _grown(standing: Standing, pace: Pace, now: int) -> Turn:
    faster = _faster(pace, _target(standing), now)
    if standing.ceiling is not None and now - (faster.calm_since or now) < PROBATION:
        faster = replace(faster, rate=min(faster.rate, standing.ceiling))
    if _is_over(standing, faster, now):
        lifted = replace(standing, pace=None, rate_before=None, ceiling=None, bucket=None)
        return Turn(lifted, (_change("lifted", standing, None),))
    return Turn(replace(standing, pace=faster))


def _faster(pace: Pace, target: float | None, now: int) -> Pace:
    if target is None:
        return Pace(pace.rate * GROWTH, now)
    if pace.rate < target:
        return Pace(min(target, pace.rate + max(RISE * target, SLOWEST / 2)), now)
    # The clock may have been set back.
    calm_since = now if pace.calm_since is None else min(pace.calm_since, now)
    rate = pace.rate * BEYOND if now - calm_since >= CALM else pace.rate
    return Pace(rate, now, calm_since=calm_since)


def _is_over(standing: Standing, pace: Pace, now: int) -> bool:
    if standing.rate_before is None:
        return pace.rate >= FASTEST
    short_at = None if standing.bucket is None else standing.bucket.short_at
    free_since = max(pace.calm_since or now, short_at or 0)
    return now - free_since >= CALM


def _target(standing: Standing) -> float | None:
    return None if standing.rate_before is None else max(SLOWEST, HEADROOM * standing.rate_before)


def _change(how: str, standing: Standing, rate: float | None) -> Change:
    pace = standing.pace
    assert pace is not None
    figures = {"how": how, "pace": rate, "from": pace.rate, "calls": pace.ok + pace.failed, "failures": pace.failed}
    return Change(SERVICE_PACED, {**figures, "rate_before": standing.rate_before})
