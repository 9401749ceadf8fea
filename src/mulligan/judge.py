"""The one place where failures are judged: classify, then decide, with the rules and policies of an app.

Workers, the reclaimer, the sandbox and `explain` all ask here.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from mulligan import packs
from mulligan.errors import StoreDamaged
from mulligan.failure.catalogue import Catalogue
from mulligan.failure.classify import AnyRule, Failure, Verdict, classify
from mulligan.failure.policy import Decision, Fail, RetryPolicy, decide
from mulligan.job import Lease
from mulligan.store.settlement import damaged
from mulligan.task import Registry


class Judge:
    def __init__(
        self,
        tasks: Registry,
        *,
        rules: Sequence[AnyRule],
        catalogue: Catalogue,
        default: RetryPolicy,
        draw: Callable[[], float],
    ) -> None:
        self._tasks = tasks
        self._rules: tuple[AnyRule, ...] = tuple(rules)
        self.catalogue = catalogue
        self._default = default
        self._draw = draw

    def verdict(self, failure: Failure, kind: str) -> Verdict:
        """What the failure is: the task's rules, then the app's, then those of installed packs and ours."""
        own: tuple[AnyRule, ...] = self._tasks[kind].rules if kind in self._tasks else ()
        return classify(failure, kind=kind, rules=(*own, *self._rules, *packs.rules()), catalogue=self.catalogue)

    def decision(self, verdict: Verdict, lease: Lease, *, now: datetime) -> Decision:
        """What is done about it. A job whose record cannot be read fails, and keeps no other from its turn."""
        try:
            job = lease.job
        except StoreDamaged as error:
            return Fail(damaged(), {"rule": "engine", "because": str(error)})
        return decide(verdict, job, self.policy(job.kind), now=now, draw=self._draw())

    def policy(self, kind: str) -> RetryPolicy:
        return self._tasks[kind].retry if kind in self._tasks else self._default
