"""Services in words: what is the matter with one, what happened to it, and what forcing it would do."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from mulligan import lifecycle
from mulligan.console.services import MANY
from mulligan.explain.event_data import EventData
from mulligan.explain.holds import a_second, describe_trouble, reason_open
from mulligan.records.event import Event
from mulligan.records.pause import Pause
from mulligan.service.records import ServiceStatus
from mulligan.web.pages.sentence import Pieces, Sentence, ago, clock, held
from mulligan.web.pages.words import duration, number, percent, plural

PAUSED, RESUMED = lifecycle.pause_events("service")


class Condition(NamedTuple):
    """What is the matter with a service. `rank` orders a list: what calls for attention comes first."""

    name: str
    rank: int
    word: str
    sign: str
    tone: str


OPEN = Condition("open", 0, "Down", "open", "open")
KEPT_OPEN = Condition("kept_open", 1, "Kept open", "open", "open")
PROBED = Condition("probed", 2, "Being probed", "open", "recovering")
RECOVERING = Condition("recovering", 3, "Recovering", "recovering", "recovering")
FAILING = Condition("failing", 4, "Failing", "stuck", "held")
HELD = Condition("paused", 5, "Paused", "held", "held")
KEPT_CLOSED = Condition("kept_closed", 6, "Kept closed", "closed", "held")
WELL = Condition("well", 7, "Well", "closed", "closed")


def condition(service: ServiceStatus) -> Condition:
    if service.forced:
        return KEPT_OPEN if service.forced == "open" else KEPT_CLOSED
    match service.state:
        case "open":
            return OPEN
        case "half_open":
            return PROBED
    if service.paused is not None:
        return HELD
    if service.pace is not None:
        return RECOVERING
    return FAILING if service.is_failing else WELL


def waiting(service: ServiceStatus) -> int:
    return service.ready + service.parked


def many(count: int) -> str:
    """Counting stops somewhere."""
    return f"{number(MANY)} or more" if count >= MANY else number(count)


def per_second(rate: float | None) -> str:
    """`40/s`, and below that `30/min`."""
    if rate is None:
        return ""
    return f"{rate:.3g}/s" if rate >= 1 else f"{rate * 60:.3g}/min"


# The sentence of the list


def open_services(services: Sequence[ServiceStatus]) -> Sentence:
    if not services:
        return Sentence(("No task has a service yet.",))
    down = [each for each in services if condition(each).rank <= PROBED.rank]
    if down:
        held_jobs = sum(waiting(each) for each in down)
        how = f" {_are(down)} {_how_down(down)}. "
        title = (held(_some(down, services)), how, _jobs_wait(held_jobs, "them" if len(down) > 1 else "it"))
        return Sentence(title, _others(services, down))
    uneasy = [each for each in services if condition(each) is not WELL]
    if uneasy:
        return Sentence((held(_some(uneasy, services)), f" {_are(uneasy)} not quite well."), _others(services, []))
    every = "The one service is" if len(services) == 1 else f"All {number(len(services))} services are"
    return Sentence((f"{every} well.",))


def _how_down(down: Sequence[ServiceStatus]) -> str:
    kept = [each for each in down if condition(each) is KEPT_OPEN]
    return "down" if not kept else "kept open" if len(kept) == len(down) else "down or kept open"


def _some(some: Sequence[ServiceStatus], services: Sequence[ServiceStatus]) -> str:
    if len(some) == 1:
        return some[0].name
    return f"{number(len(some))} of {plural(len(services), 'service')}"


def _are(some: Sequence[ServiceStatus]) -> str:
    return "is" if len(some) == 1 else "are"


def _jobs_wait(count: int, for_what: str) -> str:
    if not count:
        return f"No job waits for {for_what}."
    return f"{many(count)} {'job waits' if count == 1 else 'jobs wait'} for {for_what}."


def _others(services: Sequence[ServiceStatus], named: Sequence[ServiceStatus]) -> Pieces:
    """How many are in each other condition."""
    known = {each.name for each in named}
    counts: dict[Condition, int] = {}
    for each in services:
        if each.name not in known:
            found = condition(each)
            counts[found] = counts.get(found, 0) + 1
    parts = [f"{number(count)} {found.word.lower()}" for found, count in sorted(counts.items(), key=_by_rank)]
    if not parts:
        return ()
    return (f"{'Of the others: ' if known else ''}{', '.join(parts)}.",)


def _by_rank(item: tuple[Condition, int]) -> int:
    return item[0].rank


# The sentence of one


def open_service(service: ServiceStatus) -> Sentence:
    match condition(service).name:
        case "open":
            return _open(service)
        case "kept_open":
            return _kept_open(service)
        case "probed":
            return _probed(service)
        case "recovering":
            return _recovering(service)
        case "failing":
            return _failing(service)
        case "paused":
            return _paused(service)
        case "kept_closed":
            return _kept_closed(service)
    return _well(service)


def _open(service: ServiceStatus) -> Sentence:
    return Sentence(
        (f"{service.name} has been down", *_since(service.since), ". ", *_wait(service)),
        (_why_open(service), *_next_probe(service), *_also_paused(service)),
    )


def _why_open(service: ServiceStatus) -> str:
    if (service.trouble or {}).get("because") == "probe":
        return "Only probes are sent, and the last one failed. "
    why = reason_open(service)
    return f"{why[:1].upper()}{why[1:]}, so only probes are sent. " if why else "Only probes are sent. "


def _since(moment: datetime | None) -> Pieces:
    return () if moment is None else (" since ", clock(moment))


def _wait(service: ServiceStatus) -> Pieces:
    if service.mode == "fail_fast":
        return (f"Its jobs fail at once with {service.fail_code}.",)
    count = waiting(service)
    if not count:
        return ("No job waits for it.",)
    return (held(f"{many(count)} {'job' if count == 1 else 'jobs'}"), f" {'waits' if count == 1 else 'wait'} for it.")


def _next_probe(service: ServiceStatus) -> Pieces:
    if service.open_until is None:
        return ("The next probe is due: a worker sends it.",)
    return ("The next probe is ", ago(service.open_until), ", at ", clock(service.open_until), ".")


def _also_paused(service: ServiceStatus) -> Pieces:
    return () if service.paused is None else (" It is also paused", *_until(service.paused), ".")


def _kept_open(service: ServiceStatus) -> Sentence:
    tail = " It stays so until it is set to automatic or kept closed."
    return Sentence(
        (f"{service.name} has been kept open", *_since(service.since), ". ", *_wait(service)),
        (_by(service.actor, service.reason), tail, *_also_paused(service)),
    )


def _by(actor: str | None, reason: str | None) -> str:
    why = f": “{reason}”" if reason else ""
    return f"By {actor or 'an operator'}{why}."


def _probed(service: ServiceStatus) -> Sentence:
    if service.is_checked:
        who = f"Its own probe succeeded. {plural(service.min_calls, 'job')} at most try it at once."
        tail = " It closes when one of them succeeds, and opens again when they all fail."
        return Sentence((f"{service.name} is being probed. ", *_wait(service)), (who, tail))
    if service.has_probe:
        who = "Its own probe is sent."
    else:
        ones = f"{plural(service.probes, 'job')} {'tries' if service.probes == 1 else 'try'}"
        who = f"{ones} it, and {number(service.probes_succeeded)} of {number(service.probes)} succeeded so far."
    tail = " It closes when the probes succeed, and opens again when one fails."
    return Sentence((f"{service.name} is being probed. ", *_wait(service)), (who, tail))


def _recovering(service: ServiceStatus) -> Sentence:
    assert service.pace is not None
    before = f", of {per_second(service.rate_before)} before the outage" if service.rate_before else ""
    rest = "Its pace rises step by step while its calls succeed."
    count = waiting(service)
    wait = f" {many(count)} {'job waits' if count == 1 else 'jobs wait'} for their turn." if count else ""
    return Sentence((f"{service.name} is back, at {per_second(service.pace)}{before}.",), (f"{rest}{wait}",))


def _failing(service: ServiceStatus) -> Sentence:
    lead = f"{number(service.failures)} of its last {number(service.calls)} calls failed."
    return Sentence(
        (f"{service.name} fails {percent(service.share)} of its calls.",), (f"{lead} {describe_budget(service)}",)
    )


def describe_budget(service: ServiceStatus) -> str:
    """What the budget does now."""
    if service.budget is None:
        return "Its retries have no budget."
    rule = f"Its retries are limited to {percent(service.budget)} of first attempts"
    counts = f": {plural(service.retries, 'retry', 'retries')} for {plural(service.firsts, 'first attempt')}"
    now = counts if service.firsts else ""
    parked = f", and {many(service.parked)} wait for the budget" if service.parked else ""
    return f"{rule}{now}{parked}."


def _paused(service: ServiceStatus) -> Sentence:
    pause = service.paused
    assert pause is not None
    return Sentence(
        (f"{service.name} is paused", *_until(pause), ". ", *_wait(service)),
        (_by(pause.actor, pause.reason), " Jobs that run go on."),
    )


def _until(pause: Pause) -> Pieces:
    return (" until it is resumed",) if pause.until is None else (" until ", clock(pause.until))


def _kept_closed(service: ServiceStatus) -> Sentence:
    tail = " Its jobs run, even if calls fail, until it is set to automatic."
    return Sentence(
        (f"{service.name} has been kept closed", *_since(service.since), "."),
        (_by(service.actor, service.reason), tail, *_also_paused(service)),
    )


def _well(service: ServiceStatus) -> Sentence:
    if service.name.endswith("*"):
        return Sentence((f"{service.name} is a pattern.",), (_PATTERN,))
    calls = "No failed call is known."
    if service.failures:
        calls = f"{number(service.failures)} of its last {number(service.calls)} calls failed."
    ready = f" {plural(service.ready, 'job')} {'is' if service.ready == 1 else 'are'} ready." if service.ready else ""
    return Sentence((f"{service.name} is well.",), (f"{calls}{ready}",))


_PATTERN = "Its rules apply to every service whose name begins so. Names above its limit share it."


# What a change would do


def describe_force(service: ServiceStatus) -> dict[str, str]:
    """By the name of the change."""
    count = waiting(service)
    wait = f"{many(count)} {'job waits' if count == 1 else 'jobs wait'} now"
    if service.mode == "fail_fast":
        opened = f"Its jobs fail at once with {service.fail_code}, without running"
    else:
        opened = "Its jobs wait, and no attempt is used up"
    risk = "" if service.state == "closed" else f" Now {reason_open(service) or 'it is open'}."
    return {
        "open": f"{opened}. Jobs that run go on. No probe is sent: it stays open until a person changes it.",
        "close": f"All its jobs may run: {wait}. Neither probes nor a pace protect the service, whatever its calls"
        f" report.{risk}",
        "auto": "A probe comes first. When it succeeds, jobs go on, step by step."
        if service.forced == "open"
        else "Its calls decide again when it opens.",
        "pause": "Workers take none of its jobs, for a time or until it is resumed. Jobs that run go on.",
    }


# What happened


class Chapter(NamedTuple):
    """One thing that happened to a service. `said` is what it meant, `note` the reason that a person gave."""

    id: int
    sign: str
    tone: str
    at: datetime
    title: str
    said: str = ""
    note: str = ""


def tell(events: Iterable[Event]) -> list[Chapter]:
    """What happened, the newest first. Failed probes that follow each other are told together, and so is a pace that
    was halved again and again."""
    found: list[Chapter] = []
    alike: list[Event] = []
    for event in events:
        if event.type == lifecycle.SERVICE_HALF_OPENED:
            if not found and not alike:
                found.append(Chapter(event.position, "ring", "recovering", event.at, "A probe is sent"))
            continue
        if alike and _sort(event) != _sort(alike[0]):
            found += _tell_alike(alike)
            alike = []
        if _sort(event):
            alike.append(event)
        else:
            found += _tell_one(event)
    return [*found, *_tell_alike(alike)]


def _sort(event: Event) -> str:
    """The sort of an event that often comes many times in a row; empty for others."""
    if event.type == lifecycle.SERVICE_OPENED and event.data.get("because") == "probe":
        return "probe"
    return "halved" if event.type == lifecycle.SERVICE_PACED and event.data.get("how") == "halved" else ""


def _tell_alike(events: Sequence[Event]) -> list[Chapter]:
    """The newest one, and how many came before it."""
    if not events:
        return []
    newest, *earlier = events
    last = _tell_probe(newest) if _sort(newest) == "probe" else _tell_one(newest)[0]
    if not earlier:
        return [last]
    what = "A probe failed" if _sort(newest) == "probe" else "It was halved"
    times = "once" if len(earlier) == 1 else f"{number(len(earlier))} times"
    return [last, Chapter(earlier[0].position, last.sign, last.tone, earlier[-1].at, f"{what} {times} before")]


def _tell_probe(event: Event) -> Chapter:
    facts = EventData(event.data)
    count, again = facts.integer("probes_failed"), facts.duration("cooldown")
    title = f"Probe {number(count)} failed" if count else "A probe failed"
    open_for = f"Open for another {duration(again)}." if again is not None else "It stays open."
    waited = f" {plural(jobs, 'job')} waited." if (jobs := facts.integer("held")) else ""
    return Chapter(event.position, "x", "failed", event.at, title, f"{open_for}{waited}")


def _tell_one(event: Event) -> list[Chapter]:
    facts = EventData(event.data)

    def chapter(sign: str, tone: str, title: str, said: str = "") -> list[Chapter]:
        return [Chapter(event.position, sign, tone, event.at, title, said, facts.text("reason"))]

    by = f" by {event.actor}" if event.actor else ""
    match event.type:
        case lifecycle.SERVICE_OPENED:
            why = describe_trouble(event.data)
            return chapter("open", "held", "Opened", f"{why[:1].upper()}{why[1:]}." if why else "")
        case lifecycle.SERVICE_CLOSED:
            return chapter("closed", "succeeded", _closed_title(facts), _closed_text(facts, event))
        case lifecycle.SERVICE_PACED:
            return chapter(*_tell_pace(facts, event))
        case lifecycle.SERVICE_FORCED:
            to = {"open": "Kept open", "closed": "Kept closed"}.get(facts.text("to"), "Set to automatic")
            return chapter("hand", "queued", f"{to}{by}")
    if event.type == PAUSED:
        length = facts.duration("for")
        return chapter("held", "held", f"Paused{by}{f' for {duration(length)}' if length is not None else ''}")
    return chapter("hand", "queued", f"Resumed{by}") if event.type == RESUMED else []


def _closed_title(facts: EventData) -> str:
    outage = facts.duration("outage")
    return "Closed" if outage is None else f"Closed after {duration(outage)}"


def _closed_text(facts: EventData, event: Event) -> str:
    probes = facts.integer("probes") or 1
    begin = "Its probe succeeded." if probes == 1 else f"{plural(probes, 'probe')} succeeded."
    pace, before = (_rate(event, name) for name in ("pace", "rate_before"))
    return begin + (f" It goes on with {pace}{f', of {before} before' if before else ''}." if pace else "")


def _tell_pace(facts: EventData, event: Event) -> tuple[str, str, str, str]:
    if facts.text("how") == "lifted":
        return "closed", "succeeded", "Back without a limited pace", ""
    failures, calls = facts.integer("failures") or 0, facts.integer("calls") or 0
    title = f"Its pace was halved to {_rate(event, 'pace') or 'the slowest'}"
    return "recovering", "held", title, f"{number(failures)} of {plural(calls, 'call')} failed."


def _rate(event: Event, name: str) -> str:
    value = event.data.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return per_second(value) if is_number else ""


def describe_row(service: ServiceStatus) -> Pieces:
    """The second line of a row: why, or until when."""
    match condition(service).name:
        case "open":
            return _next_probe(service)
        case "kept_open" | "kept_closed":
            return (_by(service.actor, service.reason),)
        case "recovering":
            return (f"{a_second(service.pace or 0)} after an outage.",)
        case "failing":
            return ("Retries are limited by their budget.",)
        case "paused" if service.paused is not None:
            return ("Paused", *_until(service.paused), ".")
    return ("Shared by names above the limit of this pattern.",) if service.name.endswith("*") else ()
