"""The pace of a service after an outage: in steps up to the rate before it, then beyond that while jobs wait.

The pace rises only as long as the service keeps up: it answers as many calls as it is asked. Calls that it does not
answer stand in its queue: below the rate before the outage the pace waits for them, above it the pace goes back to what
was answered, before they time out. A failing step halves the pace. Where the service did not keep up, or failed, there
is a ceiling for ten minutes. A minute above the rate before, the pace rises slowly in any case: a service may take so
long for a call that keeping up shows late. The pace is lifted when no job waited for it for a minute, and not before:
all that waits would come at once.
"""

from msgspec.structs import replace

from mulligan.lifecycle import SERVICE_PACED
from mulligan.service.allowance import SHORT
from mulligan.service.state import Change, Pace, ServiceState, Turn
from mulligan.service.window import SECOND, Figures, ServiceCall

STEP = SECOND // 2
SLOWEST = 1.0
# Shares of the rate before the outage.
START = 0.25
RISE = 0.25
# How long it is asked more than before only as long as it keeps up. The headroom is for what is lost between two
# claims.
CALM = 60 * SECOND
HEADROOM = 1.01
# How long it is watched whether it keeps up, and for how many calls at least: fewer say nothing.
WATCH = SECOND
WATCHED = 20
KEEPS_UP = 0.95
# Calls that are late by chance: of 20, two are 10 %.
LATE = 2
# On its way up, where answers are late because it is asked more with each step; of fewer calls nothing can be told.
CLIMBS = 0.75
ENOUGH = 10
# How much faster each of the first steps of a search is. Then each is twice as bold, up to the boldest: a service that
# was hardly used can do far more than before.
SEARCH = 0.04
CAREFUL = 8
BOLDEST = 0.2
# Of what it answered when it did not keep up: its queue is to become shorter.
DRAIN = 0.97
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


def ceiling(standing: ServiceState, figures: Figures) -> float | None:
    """How fast it may become after trouble at the pace it has: less than that, if it was beyond the rate of before."""
    target = _target(standing)
    if standing.pace is None or target is None or standing.pace.rate <= (standing.ceiling or target):
        return standing.ceiling
    went_well = standing.pace.rate if figures.rate is None else min(figures.rate, standing.pace.rate)
    if standing.pace.kept_up:
        # What it answered in the step before this one: the mean of some seconds lags behind a search.
        went_well = max(went_well, KEEPS_UP * standing.pace.rate / (1 + BOLDEST))
    return max(target, CEILING * went_well)


def paced(standing: ServiceState, figures: Figures, calls: list[ServiceCall], now: int) -> Turn:
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
    if _is_searching(pace, now) and 0 <= now - pace.stepped_at < _watch(pace):
        return Turn(standing)
    return _grown(standing, pace, now)


def _is_searching(pace: Pace, now: int) -> bool:
    """Whether it is asked as much as before, or more, and not for long."""
    return pace.calm_since is not None and 0 <= now - pace.calm_since < CALM


def _watch(pace: Pace) -> int:
    return max(WATCH, int(WATCHED / pace.rate * SECOND))


def _halved(standing: ServiceState, pace: Pace, figures: Figures, now: int) -> Turn:
    slower = Pace(max(SLOWEST, pace.rate / 2), now)
    halved = replace(standing, pace=slower, ceiling=ceiling(standing, figures))
    return Turn(halved, (_change("halved", standing, slower.rate),))


def _grown(standing: ServiceState, pace: Pace, now: int) -> Turn:
    target = _target(standing)
    if target is not None and now > pace.stepped_at and _is_searching(pace, now) and _is_short(standing, pace):
        standing, faster = _searched(standing, pace, target, now)
    elif _is_behind(standing, pace, target, now):
        faster = Pace(pace.rate, now)
    else:
        faster = _faster(pace, target, now)
    if standing.ceiling is not None and now - (faster.calm_since or now) < PROBATION:
        faster = replace(faster, rate=min(faster.rate, standing.ceiling))
    if _is_over(standing, faster, now):
        lifted = replace(standing, pace=None, rate_before=None, ceiling=None, bucket=None)
        return Turn(lifted, (_change("lifted", standing, None),))
    return Turn(replace(standing, pace=faster))


def _is_behind(standing: ServiceState, pace: Pace, target: float | None, now: int) -> bool:
    """Whether the service answers fewer calls than it is asked, on its way up."""
    if target is None or pace.rate >= target or now <= pace.stepped_at or not _is_short(standing, pace):
        return False
    asked = pace.rate * (now - pace.stepped_at) / SECOND
    return asked >= ENOUGH and pace.ok < CLIMBS * asked


def _is_short(standing: ServiceState, pace: Pace) -> bool:
    """Whether jobs waited for the pace in this step, as far as it was noted."""
    short_at = None if standing.bucket is None else standing.bucket.short_at
    return short_at is not None and short_at >= pace.stepped_at - SHORT


def _searched(standing: ServiceState, pace: Pace, target: float, now: int) -> tuple[ServiceState, Pace]:
    """A little faster if the service kept up; else as fast as it answers, and not beyond that for some time. It may
    fall behind once: calls take their time, and some of them are late by chance."""
    seconds = (now - pace.stepped_at) / SECOND
    if pace.ok + LATE >= KEEPS_UP * pace.rate * seconds:
        bolder = min(BOLDEST, SEARCH * 2 ** max(0, pace.kept_up + 1 - CAREFUL))
        return standing, Pace(pace.rate * (1 + bolder), now, calm_since=pace.calm_since, kept_up=pace.kept_up + 1)
    if not pace.is_behind:
        return standing, Pace(pace.rate, now, calm_since=pace.calm_since, is_behind=True)
    rate = max(target, DRAIN * pace.ok / seconds)
    return replace(standing, ceiling=rate), Pace(rate, now, calm_since=pace.calm_since)


def _faster(pace: Pace, target: float | None, now: int) -> Pace:
    if target is None:
        return Pace(pace.rate * GROWTH, now)
    if pace.rate < target:
        return Pace(min(target, pace.rate + max(RISE * target, SLOWEST / 2)), now)
    # The clock may have been set back.
    calm_since = now if pace.calm_since is None else min(pace.calm_since, now)
    rate = pace.rate * BEYOND if now - calm_since >= CALM else pace.rate
    return Pace(rate, now, calm_since=calm_since)


def _is_over(standing: ServiceState, pace: Pace, now: int) -> bool:
    if standing.rate_before is None:
        return pace.rate >= FASTEST
    short_at = None if standing.bucket is None else standing.bucket.short_at
    free_since = max(pace.calm_since or now, short_at or 0)
    return now - free_since >= CALM


def _target(standing: ServiceState) -> float | None:
    return None if standing.rate_before is None else max(SLOWEST, HEADROOM * standing.rate_before)


def _change(how: str, standing: ServiceState, rate: float | None) -> Change:
    pace = standing.pace
    assert pace is not None
    figures = {"how": how, "pace": rate, "from": pace.rate, "calls": pace.ok + pace.failed, "failures": pace.failed}
    return Change(SERVICE_PACED, {**figures, "rate_before": standing.rate_before})
