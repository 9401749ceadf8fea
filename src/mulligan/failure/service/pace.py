"""The pace of a service after an outage: in steps up to the rate of before, there for a while, beyond it, gone.

What failed in a step halves it. Trouble that is more than that is the breaker's.
"""

from msgspec.structs import replace

from mulligan.failure.service.standing import Change, Pace, Standing, Turn
from mulligan.failure.service.tally import SECOND, Call

STEP = SECOND // 2
SLOWEST = 1.0
# Shares of the rate before the outage.
START = 0.25
RISE = 0.125
LIFTED = 2.0
# How long it is asked no more than before, although more is waiting.
CALM = 60 * SECOND
# Without a rate of before, and beyond it.
GROWTH = 1.5
BEYOND = 1.05
FASTEST = 1_000.0
# A few failures are everyday life.
TOLERATED = 0.1


def started(rate_before: float | None, now: int) -> Pace:
    return Pace(max(SLOWEST, START * (rate_before or 0.0)), now)


def paced(standing: Standing, calls: list[Call], now: int) -> Turn:
    """After these calls of the current epoch; a step at most."""
    if standing.pace is None:
        return Turn(standing)
    ok = sum(call.ok for call in calls)
    pace = replace(standing.pace, ok=standing.pace.ok + ok, failed=standing.pace.failed + len(calls) - ok)
    if 0 <= now - pace.stepped_at < STEP:
        return Turn(replace(standing, pace=pace))
    return _stepped(standing, pace, now)


def _stepped(standing: Standing, pace: Pace, now: int) -> Turn:
    before = standing.rate_before
    if pace.failed > TOLERATED * (pace.ok + pace.failed):
        slower = Pace(max(SLOWEST, pace.rate / 2), now)
        return Turn(replace(standing, pace=slower), (_change("halved", pace, slower.rate, before),))
    faster = _faster(pace, before, now)
    if faster.rate >= (FASTEST if before is None else max(LIFTED * before, 2 * SLOWEST)):
        lifted = replace(standing, pace=None, rate_before=None, bucket=None)
        return Turn(lifted, (_change("lifted", pace, None, before),))
    return Turn(replace(standing, pace=faster))


def _faster(pace: Pace, before: float | None, now: int) -> Pace:
    if before is None:
        return Pace(pace.rate * GROWTH, now)
    target = max(SLOWEST, before)
    if pace.rate < target:
        return Pace(min(target, pace.rate + max(RISE * target, SLOWEST / 2)), now)
    # The clock may have been set back.
    calm_since = now if pace.calm_since is None else min(pace.calm_since, now)
    rate = pace.rate * BEYOND if now - calm_since >= CALM else pace.rate
    return Pace(rate, now, calm_since=calm_since)


def _change(how: str, pace: Pace, rate: float | None, before: float | None) -> Change:
    figures = {"how": how, "pace": rate, "from": pace.rate, "calls": pace.ok + pace.failed, "failures": pace.failed}
    return Change("service.paced", {**figures, "rate_before": before})
