"""Retries in words: whether they help, and what to change. Fixed templates, filled with the figures."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

from mulligan.records.statistics import LAST_ATTEMPT, Statistics
from mulligan.web.pages.retry_figures import CodeFigures, Figures
from mulligan.web.pages.sentence import Pieces, Sentence, failed, succeeded
from mulligan.web.pages.words import duration, number, percent, plural

T = TypeVar("T", int, float)

# Fewer retries than this prove nothing.
ENOUGH = 10
UNKNOWN = "UNKNOWN"
SPACE = "\N{NO-BREAK SPACE}"
# Statistics that are further behind the log are said to be.
LATE = timedelta(seconds=30)
# Retries help: this part of the jobs recovered.
GOOD = 0.8
# Late attempts hardly help: at most the first part of the jobs recovered by them, and they are the second part of all
# that were in vain.
FEW_WINS, MUCH_VAIN = 0.02, 0.25


def ratio_words(ratio: float | None) -> str:
    """A percentage that is not rounded to all or nothing, in one line."""
    if ratio is not None and 0.995 <= ratio < 1:
        return f"more than 99{SPACE}%"
    if ratio is not None and 0 < ratio < 0.005:
        return f"less than 1{SPACE}%"
    return percent(ratio).replace(" ", SPACE)


def open_retries(figures: Figures, time: str, *, is_late: bool = False) -> Sentence:
    """`time` is `24 hours` or the like. `is_late`: the statistics are behind the log."""
    if not figures.attempts and is_late:
        return Sentence(("The statistics have not come so far yet.",), ("Workers derive them from the log.",))
    if not figures.attempts:
        return Sentence((f"No attempt ended in the last {time}.",))
    if not figures.codes:
        ended = plural(sum(each.ended for each in figures.attempts), "attempt")
        lead = f"{ended} ended. {_not_retried(figures)}".rstrip()
        return Sentence((f"No job had to be retried in the last {time}.",), (lead,))
    if not figures.over:
        under_way = sum(code.retried for code in figures.codes)
        title = f"{plural(under_way, 'retry', 'retries')} in the last {time}, and none of the jobs is over yet."
        return Sentence((title,), (_waste(figures),))
    return Sentence(_recovered(figures), (_waste(figures),))


def _recovered(figures: Figures) -> Pieces:
    jobs = plural(figures.over, "retried job")
    if not figures.recovered:
        return ("Retries recovered ", failed("none"), f" of {jobs}.")
    if not figures.gave_up:
        all_of = "the one retried job" if figures.over == 1 else f"all {jobs}"
        return ("Retries recovered ", succeeded(all_of), ".")
    return ("Retries recovered ", succeeded(ratio_words(figures.ratio)), f" of {jobs}.")


def _not_retried(figures: Figures) -> str:
    if not figures.not_retried:
        return ""
    count = figures.not_retried
    return f"{plural(count, 'job')} failed at the first attempt and {_was(count)} not tried again."


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _waste(figures: Figures) -> str:
    if not figures.in_vain:
        return "No retry was in vain."
    took = f" and took {duration(figures.seconds)}" if figures.seconds else ""
    begin = f"{plural(figures.in_vain, 'retry', 'retries')} {_was(figures.in_vain)} in vain{took}."
    never = sum(never_helped(code) for code in figures.codes)
    if not never:
        return begin
    return f"{begin} {plural(never, 'sort')} of failure {'is' if never == 1 else 'are'} retried though it never helped."


class Advice(NamedTuple):
    """What to change, in one or two words and as a sentence. `name` tells them apart."""

    name: str
    label: str
    text: str

    @property
    def is_change(self) -> bool:
        return self.name in ("final", "classify", "fewer", "longer")


def never_helped(code: CodeFigures) -> bool:
    return bool(code.retried) and not code.recovered and code.in_vain >= ENOUGH


def advise(code: CodeFigures) -> Advice:
    if not code.retried:
        return Advice("manual", "Final", "It is not retried by itself: its retries were manual.")
    if code.retried + code.in_vain < ENOUGH:
        return Advice("few", "Too few to say", f"Fewer than {ENOUGH} retries.")
    if never_helped(code):
        return _never(code)
    if code.ratio is None:
        return Advice("open", "None is over yet", "Its jobs are still being retried.")
    if (last := _last_useful(code)) is not None:
        return _fewer(code, last)
    if code.ratio < GOOD and _helps_late(code):
        first = (
            f"The second attempt recovered {number(code.wins[2])} of {plural(code.recovered, 'job')}, later ones more."
        )
        return Advice("longer", "Wait longer", f"{first} Wait longer before it.")
    within = f", half of them within {duration(code.median)}" if code.median else ""
    return Advice("keep", "Keep", f"Retries recover {ratio_words(code.ratio)}{within}.")


def _never(code: CodeFigures) -> Advice:
    took = f", {duration(code.seconds)}" if code.seconds else ""
    begin = f"Retries of {code.code} never helped: {plural(code.in_vain, 'attempt')}{took}."
    if code.code == UNKNOWN:
        return Advice("classify", "Classify it", f"{begin} Write a rule that says what it is.")
    return Advice("final", "Make it final", f"{begin} Make it final.")


def _last_useful(code: CodeFigures) -> int | None:
    """The attempt after which further ones hardly help, if they cost much."""
    for last in range(2, LAST_ATTEMPT):
        wins, vain = _after(code.wins, last), _after(code.vain, last)
        if wins <= FEW_WINS * code.recovered and vain >= max(ENOUGH, MUCH_VAIN * code.in_vain):
            return last
    return None


def _after(counts: Mapping[int, T], last: int) -> T | int:
    return sum(count for attempt, count in counts.items() if attempt > last)


def _fewer(code: CodeFigures, last: int) -> Advice:
    wins, vain = _after(code.wins, last), _after(code.vain, last)
    seconds = _after(code.vain_seconds, last)
    took = f", {duration(seconds)}" if seconds else ""
    jobs = f"{number(wins) if wins else 'none'} of {plural(code.recovered, 'job')}"
    text = f"Later attempts recovered {jobs} and {plural(vain, 'attempt')}{took} were in vain. Allow {last} attempts."
    return Advice("fewer", f"Try {last} times", text)


def _helps_late(code: CodeFigures) -> bool:
    return code.wins[2] * 2 < max((count for attempt, count in code.wins.items() if attempt > 2), default=0)


def is_late(found: Statistics) -> bool:
    return found.status.lag > LATE or found.status.is_rebuilding


def caveats(found: Statistics) -> list[str]:
    """What the figures leave out."""
    status = found.status
    said: Sequence[tuple[bool, str]] = (
        (status.is_rebuilding, "The statistics are being derived again from the log: numbers are too low until then."),
        (status.lag > LATE, f"The statistics are {duration(status.lag)} behind the log."),
        (bool(found.other), _other(found.other)),
        (found.is_cut, "There are more rows than one answer has: the oldest are missing. Choose one kind."),
        (status.missed_at is not None, "Some events were deleted before they were counted."),
    )
    return [text for is_so, text in said if is_so]


def _other(count: int) -> str:
    own = "a row of its own" if count == 1 else "rows of their own"
    return f"{plural(count, 'event')} found no room in {own}, and {_was(count)} left out here."
