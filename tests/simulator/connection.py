"""A participant's connection to the store. Every call waits before and after; faults happen during these waits."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mulligan.errors import StoreClosed, StoreUnavailable
from mulligan.records.limit import LimitBook
from simulator.faults import Fate, Strike
from simulator.strand import Strand, current_strand

if TYPE_CHECKING:
    from simulator.participants import Participant

# What strikes while a request is under way strikes at its beginning.
SOON = 0.005
NOT_THERE = "the simulated store is not there"
NOT_HEARD = "no answer from the simulated store"
OWN_ENDS = "settle what ended here"


class Connection:
    """A `Store`: it forwards every operation after simulated waits."""

    def __init__(self, participant: "Participant") -> None:
        self._participant = participant
        self._world = participant.world
        self._is_cut = False
        self._open: dict[asyncio.Future[Any], str] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        # Kept: the next time it is found without asking here.
        self.__dict__[name] = call = partial(self._ask, name)
        return call

    def cut(self) -> None:
        """The participant is dead: all its open and later calls fail."""
        self._is_cut = True
        for answer in list(self._open):
            if not answer.done():
                answer.set_exception(StoreClosed())

    def close(self) -> None:
        pass

    def limit_by(self, book: Callable[[], LimitBook]) -> None:
        """Set in the participant's own store object: nothing goes over the wire."""
        self._participant.own_store.limit_by(book)

    def _ask(self, name: str, *args: Any, **options: Any) -> Any:
        if self._is_cut:
            raise StoreClosed
        strand = current_strand()
        if strand is None:
            answer = self._at_once(name, args, options)
        else:
            perform = partial(self._world.server.perform, self._participant, name, args, options)
            answer = self._send(strand, _said(name, args), perform, self._fate(name))
        self._participant.hears(name, answer)
        return answer

    def _fate(self, name: str) -> Fate:
        fate = self._world.faults.fate(name, is_mortal=self._participant.is_mortal)
        if fate.is_trouble:
            self._participant.trouble(f"{name}: {_story(fate)}", seconds=fate.seconds)
        return fate

    def _at_once(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if self._world.faults.is_out:
            self._participant.trouble()
            raise StoreUnavailable(NOT_THERE)
        return self._world.server.perform(self._participant, name, args, options)

    def _send(self, strand: Strand, said: str, perform: Callable[[], Any], fate: Fate) -> Any:
        if said == OWN_ENDS and said in self._open.values():
            self._world.reached.note("two settles of a worker are under way at once")
        answer: asyncio.Future[Any] = self._participant.loop.create_future()
        self._open[answer] = said
        timeline = self._world.timeline
        if fate.arrives:
            timeline.call_in(fate.request, partial(self._carry_out, perform, answer, fate))
        if fate.gives_up_after is not None:
            self._answer_in(fate.gives_up_after, answer, error=StoreUnavailable(NOT_HEARD))
        if fate.strike is not None and not fate.strikes_in_reply:
            timeline.call_in(min(fate.request, SOON) / 2, partial(self._strike, fate.strike))
        try:
            return strand.wait(answer)
        finally:
            self._open.pop(answer, None)

    def _carry_out(self, perform: Callable[[], Any], answer: asyncio.Future[Any], fate: Fate) -> None:
        participant, world = self._participant, self._world
        if not world.parameters.is_remote:
            # The store is part of the process: what is stopped writes nothing.
            if participant.is_dead:
                return
            if participant.loop.is_stopped:
                participant.on_resume.append(partial(self._carry_out, perform, answer, fate))
                return
        if fate.is_trouble:
            # The way of the reply begins now, also where the process was stopped in between.
            participant.trouble(seconds=fate.reply)
        if world.faults.is_out:
            self._answer_in(fate.reply, answer, error=StoreUnavailable(NOT_THERE))
            return
        if participant.is_dead:
            world.reached.note("a process is killed while its request is on the wire")
        self._perform(perform, answer, fate)

    def _perform(self, perform: Callable[[], Any], answer: asyncio.Future[Any], fate: Fate) -> None:
        if answer.done() or (fate.gives_up_after is not None and fate.gives_up_after < fate.request):
            self._world.reached.note("a request is carried out after its caller gave up")
        try:
            result, error = perform(), None
        except Exception as raised:
            result, error = None, raised
        if fate.strike is not None and fate.strikes_in_reply:
            self._world.timeline.call_in(fate.reply / 2, partial(self._strike, fate.strike))
            if fate.strike is Strike.CRASH:
                self._world.reached.note("a process is killed while the reply is on the wire")
        if fate.gives_up_after is None:
            later = fate.reply_of_found if result else 0.0
            if later:
                self._participant.trouble("something was found: slow", seconds=later)
            self._answer_in(fate.reply + later, answer, result, error=error)

    def _answer_in(
        self, seconds: float, answer: asyncio.Future[Any], result: Any = None, *, error: BaseException | None = None
    ) -> None:
        def arrive() -> None:
            if not self._participant.is_dead:
                self._participant.loop.call_soon(_answer, answer, result, error)

        self._world.timeline.call_in(seconds, arrive)

    def _strike(self, strike: Strike) -> None:
        if self._participant.is_dead:
            return
        if strike is Strike.CRASH:
            self._participant.crash()
        else:
            self._participant.pause(self._world.faults.pause_seconds())


def _said(name: str, args: tuple[Any, ...]) -> str:
    """What is asked for; a reclaimer's settle is not its worker's."""
    is_own = name == "settle" and not any(outcome.reclaimed_by for outcome in args[0])
    return OWN_ENDS if is_own else name


def _answer(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _story(fate: Fate) -> str:
    if fate.strike is not None:
        return f"{fate.strike} while the {'reply' if fate.strikes_in_reply else 'request'} is under way"
    if fate.gives_up_after is None:
        return f"slow, {fate.request + fate.reply:.1f} s"
    if not fate.arrives:
        return "the request is lost"
    return (
        "the reply is lost" if fate.request < fate.gives_up_after else f"carried out late, after {fate.request:.1f} s"
    )
