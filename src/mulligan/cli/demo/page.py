"""The page of the demo: buttons that break and heal the gateway, and what the engine makes of it."""

from pathlib import Path

import msgspec

from mulligan.cli.demo.faults import WORDS, ManualFaults, Phase
from mulligan.cli.demo.tasks import GATEWAY
from mulligan.explain.words import counted
from mulligan.records.key import Scope
from mulligan.service.records import ServiceStatus
from mulligan.service.state import BreakerState
from mulligan.values.duration import describe
from mulligan.web.pages.menu import Item
from mulligan.web.pages.page import Done, PageCall, Pages, View

PATH = "/demo"

BUTTONS = {
    Phase.DOWN: "Break it",
    Phase.SLOW: "Make it slow",
    Phase.CROWDED: "Overload it",
    Phase.HICCUPS: "Give it hiccups",
    Phase.HEALTHY: "Heal it",
}


class FaultForm(msgspec.Struct, forbid_unknown_fields=True):
    phase: Phase


class NoFields(msgspec.Struct, forbid_unknown_fields=True):
    """The form of a button that says everything."""


def demo_pages(faults: ManualFaults) -> Pages:
    pages = Pages("Demo", templates=Path(__file__).with_name("templates"), menu=Item(PATH, "Demo", is_admin=True))

    @pages.page(PATH, scope=Scope.JOBS_READ, is_admin=True)
    def show_demo(call: PageCall) -> View:
        (service,) = (each for each in call.console.services() if each.name == GATEWAY.name)
        title, text = describe_demo(faults.phase, service)
        return View(
            "demo.html",
            title=title,
            text=text,
            phase=faults.phase,
            buttons=BUTTONS,
            words=WORDS,
            service=service,
            states=call.console.counts().groups,
        )

    @pages.action("/demo/fault", scope=Scope.OPERATE, is_admin=True)
    def switch_fault(call: PageCall, form: FaultForm) -> Done:  # noqa: ARG001
        faults.phase = form.phase
        return Done(PATH, f"The gateway {WORDS[form.phase]}.")

    @pages.action("/demo/kill", scope=Scope.OPERATE, is_admin=True)
    def kill_worker(call: PageCall, form: NoFields) -> Done:  # noqa: ARG001
        faults.kills += 1
        return Done(PATH, "A worker is killed in the middle of its jobs.", "They are taken back after two seconds.")

    return pages


def describe_demo(phase: Phase, service: ServiceStatus) -> tuple[str, str]:
    """What is going on, and what comes next."""
    gateway, held = f"The gateway {WORDS[phase]}.", counted(service.ready + service.parked, "job")
    if service.state == BreakerState.OPEN:
        return _describe_open(phase, held, cooldown=describe(service.cooldown))
    if service.state == BreakerState.HALF_OPEN:
        return f"A job probes the gateway, and {held} wait for the outcome.", gateway
    if phase is not Phase.HEALTHY:
        return gateway, "If half of the last calls fail, its breaker opens, and jobs are held instead of tried."
    if service.pace is not None:
        text = f"At most {service.pace:.0f} calls a second, and more with each second in which they succeed:"
        number = service.ready + service.parked
        waiting = {0: "no job waits", 1: "1 job waits its turn"}.get(number, f"{held} wait their turn")
        return f"The gateway has recovered, and {waiting}.", f"{text} the backlog does not break it again."
    return "The gateway is healthy. Break it.", "Within seconds its breaker opens, and its jobs are held."


def _describe_open(phase: Phase, held: str, *, cooldown: str) -> tuple[str, str]:
    if phase is Phase.HEALTHY:
        return f"The gateway is well again, and {held} still wait.", f"The next one probes it within {cooldown}."
    probes = f"It is probed every {cooldown}. Heal it, and watch it recover."
    text = f"The gateway {WORDS[phase]}. Its breaker is open: waiting jobs use up no attempts. {probes}"
    return f"The breaker is open, and {held} are held.", text
