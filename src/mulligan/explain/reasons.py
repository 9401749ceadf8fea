"""Why no retry follows a failure: the reasons of a decision in words."""

from mulligan.explain.event_data import EventData
from mulligan.explain.explanation import HoldCode
from mulligan.explain.words import times
from mulligan.service.allowance import FAILS_FAST
from mulligan.values.duration import describe

# For failures without a decision, and so without reasons.
_BY_CODE = {
    "DEADLINE": (HoldCode.DEADLINE, "its deadline passed before it could run"),
    "UNSTORABLE": (HoldCode.UNSTORABLE, "the outcome of the attempt could not be stored"),
}
Reason = tuple[HoldCode, str]


def describe_reason(reasons: EventData, code: str | None) -> str:
    return reason_of(reasons, code)[1]


def reason_of(reasons: EventData, code: str | None) -> Reason:
    """The reason as a stable code, and in words."""
    said = reasons.text("because")
    limit = reasons.integer("of")
    failed_with = reasons.text("code") or code or "this failure"
    match said.split(" ")[0]:
        case "attempts" if limit is not None:
            return HoldCode.ATTEMPTS_EXHAUSTED, _used_up(limit)
        case "trying" if was_not_tried(reasons):
            return HoldCode.FAIL_FAST, "its service was open and is set to fail fast, so it did not run"
        case "trying":
            return HoldCode.FINAL_ERROR, f"{failed_with} is final: a retry cannot help"
        case "limit" if (allowed := reasons.integer("limit")) is not None:
            return HoldCode.CODE_LIMIT, _code_limit(failed_with, allowed)
        case "snoozes" if limit is not None:
            return HoldCode.SNOOZES_EXHAUSTED, f"it was postponed {times(limit)}, which is the limit"
        case "deadline":
            return HoldCode.DEADLINE, _too_late(reasons)
        case "budget" if limit is not None:
            return HoldCode.BUDGET_EXHAUSTED, _out_of_budget(reasons, limit)
        case "loss" if limit is not None:
            return HoldCode.LOSSES_EXHAUSTED, f"its worker was lost {times(limit)} in a row, which is the limit"
        case "misfit" if limit is not None:
            unfit = "no worker that claimed it has a fitting version of its task"
            return HoldCode.MISFITS_EXHAUSTED, f"it was returned {times(limit)}: {unfit}"
        case "crash" if limit is not None:
            return HoldCode.CRASHES_EXHAUSTED, f"its process died {times(limit)} in a row, which is the limit"
        case "it" if said == "it runs at most once":
            return HoldCode.AT_MOST_ONCE, said
    return (HoldCode.OTHER, said) if said else _undecided(reasons, code)


def was_not_tried(reasons: EventData) -> bool:
    """Whether its service was open and made it fail at once."""
    return reasons.text("rule") == FAILS_FAST


def _used_up(limit: int) -> str:
    return {1: "its only attempt is used up", 2: "both attempts are used up"}.get(
        limit, f"all {limit:,} attempts are used up"
    )


def _code_limit(code: str, allowed: int) -> str:
    return f"the policy never retries {code}" if allowed == 0 else f"the policy retries {code} only {times(allowed)}"


def _too_late(reasons: EventData) -> str:
    delay = reasons.duration("delay")
    later = f", {describe(delay)} later," if delay is not None else ""
    return f"the next attempt{later} would have come after its deadline"


def _out_of_budget(reasons: EventData, limit: int) -> str:
    """With the figures at that time, and the day or month, which may be long ago."""
    used, takes = reasons.integer("used") or 0, reasons.integer("takes") or 0
    what = "of the cost of retries" if reasons.text("what") == "cost" else "retries"
    when = f"{'on' if reasons.text('period').count('-') > 1 else 'in'} {reasons.text('period')} (UTC)"
    said = f"owner {reasons.text('owner')!r} had used {used:,} of {limit:,} {what} {when}"
    takes_more = "" if what == "retries" else f"; this one costs {takes:,}"
    kept = "; the rest is reserved for jobs of higher priority" if used + takes <= limit else ""
    return said + takes_more + kept


def _undecided(reasons: EventData, code: str | None) -> Reason:
    if damaged := reasons.text("damaged"):
        return HoldCode.DAMAGED, f"its record is damaged ({damaged})"
    return _BY_CODE.get(code or "", (HoldCode.NO_REASON, "the log does not contain a reason"))
