"""Why no retry follows a failure: the reasons of a decision in plain words."""

from mulligan.explain.event_data import Facts
from mulligan.explain.words import times
from mulligan.service import FAILS_FAST
from mulligan.values.duration import describe

# For failures that were not decided upon, and so have no reasons.
_BY_CODE = {
    "DEADLINE": "its deadline passed before it could run",
    "UNSTORABLE": "the outcome of the attempt could not be stored",
}


def because(reasons: Facts, code: str | None) -> str:
    said = reasons.text("because")
    limit = reasons.whole("of")
    match said.split(" ")[0]:
        case "attempts" if limit is not None:
            return _used_up(limit)
        case "trying" if was_not_tried(reasons):
            return "its service was open and is set to fail fast, so it was not tried"
        case "trying":
            return f"{reasons.text('code') or code or 'this failure'} is final, trying again cannot help"
        case "limit" if (allowed := reasons.whole("limit")) is not None:
            return _code_limit(reasons.text("code") or code or "this failure", allowed)
        case "snoozes" if limit is not None:
            return f"it was put off {times(limit)}, which is the limit"
        case "deadline":
            return _too_late(reasons)
        case "budget" if limit is not None:
            return _out_of_budget(reasons, limit)
        case "loss" if limit is not None:
            return f"its worker was lost {times(limit)} in a row, which is the limit"
        case "misfit" if limit is not None:
            return f"it was given back {times(limit)}: no worker that took it has a version of its task that fits"
        case "crash" if limit is not None:
            return f"its process died {times(limit)} in a row, which is the limit"
    return said or _undecided(reasons, code)


def was_not_tried(reasons: Facts) -> bool:
    """Whether its service was open, and failed it at once."""
    return reasons.text("rule") == FAILS_FAST


def _used_up(limit: int) -> str:
    return {1: "its only attempt is used up", 2: "both attempts are used up"}.get(
        limit, f"all {limit:,} attempts are used up"
    )


def _code_limit(code: str, allowed: int) -> str:
    return f"the policy never retries {code}" if allowed == 0 else f"the policy retries {code} only {times(allowed)}"


def _too_late(reasons: Facts) -> str:
    delay = reasons.duration("delay")
    later = f", {describe(delay)} later," if delay is not None else ""
    return f"the next try{later} would have come after its deadline"


def _out_of_budget(reasons: Facts, limit: int) -> str:
    """With the figures of the time; the day or month is named, for it may be long ago."""
    used, takes = reasons.whole("used") or 0, reasons.whole("takes") or 0
    what = "of the cost of retries" if reasons.text("what") == "cost" else "retries"
    when = f"{'on' if reasons.text('period').count('-') > 1 else 'in'} {reasons.text('period')} (UTC)"
    said = f"owner {reasons.text('owner')!r} had used {used:,} of {limit:,} {what} {when}"
    takes_more = "" if what == "retries" else f"; this one costs {takes:,}"
    kept = "; the last part is kept for jobs of higher priority" if used + takes <= limit else ""
    return said + takes_more + kept


def _undecided(reasons: Facts, code: str | None) -> str:
    if damaged := reasons.text("damaged"):
        return f"its record is damaged ({damaged})"
    return _BY_CODE.get(code or "", "the log does not say why")
