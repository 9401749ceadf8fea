"""The pace limits the calls per second of a service after an outage. It rises in steps to the rate before the outage,
and beyond that rate while jobs wait.

The pace rises only while the service keeps up: it answers as many calls as it gets. If it gets far fewer than the
pace allows, because jobs come in groups, this says nothing, and the pace stays. Unanswered calls fill the service's
queue. Below the rate before the outage, the pace waits for them. Above it, the pace falls to the answered rate before
they time out. A failing step halves the pace. Above the rate before the outage, a failing step or a service that
falls behind also sets a ceiling for ten minutes. After a minute above that rate the pace rises slowly in any case,
because a service with long calls shows late that it keeps up. The pace is lifted when no job has waited for it for a
minute. Lifting it earlier would release all waiting jobs at once.
"""

from msgspec.structs import replace

from mulligan.lifecycle import SERVICE_PACED
from mulligan.service.allowance import SHORT
from mulligan.service.state import Change, Pace, ServiceState, Transition
from mulligan.service.window import SECOND, Figures, ServiceCall

STEP = SECOND // 2
SLOWEST = 1.0
# Fractions of the rate before the outage: the first pace, and the rise of each step.
START = 0.25
RISE = 0.25
# For this long the pace exceeds the rate before the outage only while the service keeps up. The headroom makes up for
# tokens lost between two claims.
CALM = 60 * SECOND
HEADROOM = 1.01
# Keeping up is measured over at least this time and this many calls.
WATCH = SECOND
WATCHED = 20
KEEPS_UP = 0.95
# This many calls may be late at random: of 20, two are 10 %.
LATE = 2
# While the pace rises, answers lag behind because each step asks for more. Fewer than ENOUGH calls prove nothing.
CLIMBS = 0.75
ENOUGH = 10
# The rise of each of the first CAREFUL steps of a search. After them the rise doubles with each step up to BOLDEST,
# because a service that was hardly used before the outage may be able to do far more.
SEARCH = 0.04
CAREFUL = 8
BOLDEST = 0.2
# After falling behind, a little below the answered rate, so that the service's queue drains.
DRAIN = 0.97
# The factor of each step if the rate before the outage is unknown, and of each step beyond it.
GROWTH = 1.5
BEYOND = 1.005
FASTEST = 1_000.0
# The ceiling as a fraction of the rate that last went well, and how long it holds.
CEILING = 0.9
PROBATION = 10 * CALM
# A few failures are normal.
TOLERATED = 0.1


def initial_pace(rate_before: float | None, now: int) -> Pace:
    return Pace(max(SLOWEST, START * (rate_before or 0.0)), now)


def pace_ceiling(state: ServiceState, figures: Figures) -> float | None:
    """The ceiling after a failure at the current pace. It is new only above the rate before the outage."""
    target = _target(state)
    if state.pace is None or target is None or state.pace.rate <= (state.ceiling or target):
        return state.ceiling
    went_well = state.pace.rate if figures.rate is None else min(figures.rate, state.pace.rate)
    if state.pace.kept_up:
        # The answered rate of the previous step: a mean over seconds lags behind a search.
        went_well = max(went_well, KEEPS_UP * state.pace.rate / (1 + BOLDEST))
    return max(target, CEILING * went_well)


def adjust_pace(state: ServiceState, figures: Figures, calls: list[ServiceCall], now: int) -> Transition:
    """Count these calls of the current epoch, and change the pace by at most one step."""
    if state.pace is None:
        return Transition(state)
    ok = sum(call.ok for call in calls)
    pace = replace(state.pace, ok=state.pace.ok + ok, failed=state.pace.failed + len(calls) - ok)
    state = replace(state, pace=pace)
    if 0 <= now - pace.stepped_at < STEP:
        return Transition(state)
    if pace.failed > TOLERATED * (pace.ok + pace.failed):
        return _halve(state, pace, figures, now)
    if _is_searching(pace, now) and 0 <= now - pace.stepped_at < _watch(pace):
        return Transition(state)
    return _raise(state, pace, now)


def _is_searching(pace: Pace, now: int) -> bool:
    """Whether the pace reached the rate before the outage less than a minute ago."""
    return pace.calm_since is not None and 0 <= now - pace.calm_since < CALM


def _watch(pace: Pace) -> int:
    return max(WATCH, int(WATCHED / pace.rate * SECOND))


def _halve(state: ServiceState, pace: Pace, figures: Figures, now: int) -> Transition:
    slower = Pace(max(SLOWEST, pace.rate / 2), now)
    halved = _stepped(replace(state, ceiling=pace_ceiling(state, figures)), slower)
    return Transition(halved, (_change("halved", state, slower.rate),))


def _raise(state: ServiceState, pace: Pace, now: int) -> Transition:
    target = _target(state)
    if target is not None and now > pace.stepped_at and _is_searching(pace, now) and _is_short(state, pace):
        state, faster = _search(state, pace, target, now)
    elif _is_behind(state, pace, target, now):
        faster = Pace(pace.rate, now)
    else:
        faster = _faster(pace, target, now)
    if state.ceiling is not None and now - (faster.calm_since or now) < PROBATION:
        faster = replace(faster, rate=min(faster.rate, state.ceiling))
    if _is_over(state, faster, now):
        lifted = replace(state, pace=None, rate_before=None, ceiling=None, bucket=None)
        return Transition(lifted, (_change("lifted", state, None),))
    return Transition(_stepped(state, faster))


def _stepped(state: ServiceState, pace: Pace) -> ServiceState:
    """With a new pace, whose calls are counted from now on."""
    bucket = None if state.bucket is None else replace(state.bucket, taken=0)
    return replace(state, pace=pace, bucket=bucket)


def _is_behind(state: ServiceState, pace: Pace, target: float | None, now: int) -> bool:
    """Whether the service answers fewer calls than it gets while the pace is still below the target."""
    if target is None or pace.rate >= target or now <= pace.stepped_at or not _is_short(state, pace):
        return False
    asked = _asked(state, pace, now)
    return asked >= ENOUGH and pace.ok < CLIMBS * asked


def _asked(state: ServiceState, pace: Pace, now: int) -> float:
    """How many calls the service got in this step. What was saved before it, up to a burst, is not counted."""
    taken = 0 if state.bucket is None else state.bucket.taken
    return min(taken, pace.rate * (now - pace.stepped_at) / SECOND)


def _is_short(state: ServiceState, pace: Pace) -> bool:
    """Whether jobs waited for the pace in this step, as far as the row says."""
    short_at = None if state.bucket is None else state.bucket.short_at
    return short_at is not None and short_at >= pace.stepped_at - SHORT


def _search(state: ServiceState, pace: Pace, target: float, now: int) -> tuple[ServiceState, Pace]:
    """A little faster if the service kept up; else the answered rate, which becomes the ceiling. The service may fall
    behind once, because some calls are late at random."""
    seconds, asked = (now - pace.stepped_at) / SECOND, _asked(state, pace, now)
    if asked < CLIMBS * pace.rate * seconds:
        return state, replace(pace, stepped_at=now, ok=0, failed=0)
    if pace.ok + LATE >= KEEPS_UP * asked:
        bolder = min(BOLDEST, SEARCH * 2 ** max(0, pace.kept_up + 1 - CAREFUL))
        return state, Pace(pace.rate * (1 + bolder), now, calm_since=pace.calm_since, kept_up=pace.kept_up + 1)
    if not pace.is_behind:
        return state, Pace(pace.rate, now, calm_since=pace.calm_since, is_behind=True)
    rate = max(target, DRAIN * pace.ok / seconds)
    return replace(state, ceiling=rate), Pace(rate, now, calm_since=pace.calm_since)


def _faster(pace: Pace, target: float | None, now: int) -> Pace:
    if target is None:
        return Pace(pace.rate * GROWTH, now)
    if pace.rate < target:
        return Pace(min(target, pace.rate + max(RISE * target, SLOWEST / 2)), now)
    # The clock may have been set back.
    calm_since = now if pace.calm_since is None else min(pace.calm_since, now)
    rate = pace.rate * BEYOND if now - calm_since >= CALM else pace.rate
    return Pace(rate, now, calm_since=calm_since)


def _is_over(state: ServiceState, pace: Pace, now: int) -> bool:
    if state.rate_before is None:
        return pace.rate >= FASTEST
    short_at = None if state.bucket is None else state.bucket.short_at
    free_since = max(pace.calm_since or now, short_at or 0)
    return now - free_since >= CALM


def _target(state: ServiceState) -> float | None:
    return None if state.rate_before is None else max(SLOWEST, HEADROOM * state.rate_before)


def _change(how: str, state: ServiceState, rate: float | None) -> Change:
    pace = state.pace
    assert pace is not None
    figures = {"how": how, "pace": rate, "from": pace.rate, "calls": pace.ok + pace.failed, "failures": pace.failed}
    return Change(SERVICE_PACED, {**figures, "rate_before": state.rate_before})
