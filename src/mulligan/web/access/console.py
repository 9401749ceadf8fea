"""Consoles: the verbs of an app, bound to one caller. Web code reaches jobs through them and in no other way.

A console adds the owner and the actor of its caller to each verb. They cannot be given, so a route cannot forget them
or take them from a request.
"""

from collections.abc import Callable
from datetime import datetime
from inspect import signature
from typing import Any

from mulligan.app import App
from mulligan.errors import UnknownKind
from mulligan.task.task import Submission, Task
from mulligan.web.access.caller import Caller

# Restricted to the jobs of the caller's owner.
OWNED = frozenset(
    {
        "audit",
        "batch",
        "batches",
        # Of jobs that the caller has found.
        "blocked_by",
        "bulk",
        "cancel",
        "cancel_batch",
        "cancel_redrive",
        "check_store",
        "counts",
        "create_hook",
        "create_key",
        "deliveries",
        "delivery",
        "disable_subscription",
        "enable_subscription",
        "events",
        "expire_result",
        "explain",
        "export",
        "failure",
        "failure_trend",
        "failures",
        "find_batch",
        "find_id",
        "history",
        "incoming_hooks",
        "job",
        "jobs",
        "keys",
        "last_failures",
        "last_position",
        "process_stuck",
        "progress",
        "publish_batch",
        "purge",
        "queue_position",
        "redrive",
        "receive_hook",
        "redeliver",
        "redrive_status",
        "redrives",
        "release_key",
        "remove_hook",
        "retry",
        "retry_batch",
        "retry_failure",
        "revoke_key",
        "rotate_secret",
        "run_now",
        "sign_in_link",
        "snooze",
        "spending",
        "statistics",
        "stream",
        "stuck",
        "subscribe",
        "subscription",
        "subscriptions",
        "test_subscription",
        "unsubscribe",
    }
)
# For administrators only: they concern all owners, or the machines.
ADMIN = frozenset(
    {
        "alerts",
        "budgets",
        "default_owner_limit",
        "doctor",
        "drop_projection",
        "duties",
        "forget_owner",
        "ignore_failure",
        "limits",
        "metrics",
        "packs",
        "pause",
        "pauses",
        "policies_in_force",
        "projections",
        "queues",
        "read_metrics",
        "readiness",
        "rebuild_statistics",
        "reclassify",
        "remove_schedule",
        "reopen_failure",
        "resolve_failure",
        "resume",
        "run_duty",
        "run_schedule",
        "schedules",
        "service",
        "services",
        "set_alert",
        "silence_alert",
        "unsilence_alert",
        "workers",
    }
)
# Also for a Prometheus without a key.
SCRAPED = frozenset({"metrics"})


class Console:
    """The verbs of one caller. A verb that the caller may not use is no attribute."""

    def __init__(self, app: App, caller: Caller) -> None:
        self._app = app
        self._verbs = OWNED | ADMIN if caller.is_admin else OWNED | (SCRAPED if caller.may_scrape else frozenset())
        # A new key has no scope that its creator lacks, and ends with it. Changes over HTTP are in the audit already.
        self._bound: dict[str, Any] = {"actor": caller.actor, "within": caller.scopes, "is_audited": True}
        if caller.expires_at is not None:
            self._bound["expires_before"] = caller.expires_at
        if not caller.is_admin:
            self._bound |= {"owner": caller.owner, "for_owner": True}

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb not in self._verbs:
            raise AttributeError(f"this caller has no verb {verb!r}")
        return self._bind(getattr(self._app, verb))

    def _bind(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        known = signature(verb).parameters
        bound = {name: value for name, value in self._bound.items() if name in known}

        def call(*args: Any, **kwargs: Any) -> Any:
            # A verb with a bound parameter that is given as well raises TypeError.
            return verb(*args, **kwargs, **bound)

        return call

    @property
    def now(self) -> datetime:
        """The time of this machine. Times that decide anything come from the store."""
        return self._app.wiring.clock().now()

    def submission(self, kind: str, **options: Any) -> Submission[..., Any]:
        """A public task with the options of one call. Raises UnknownKind for a task that is not public."""
        owned = {"owner": self._bound["owner"]} if "owner" in self._bound else {}
        return self.public_task(kind).options(**options, **owned)

    def public_task(self, kind: str) -> Task[..., Any, Any]:
        """A public task. Raises UnknownKind for one that is not public."""
        tasks = self._app.tasks
        # `tasks[kind]` would name every task in its error.
        if kind not in tasks or not tasks[kind].public:
            raise UnknownKind(kind, public_tasks(self._app))
        return tasks[kind]


def public_tasks(app: App) -> dict[str, Task[..., Any, Any]]:
    """The tasks that clients of the API may enqueue, by name."""
    return {name: task for name, task in app.tasks.items() if task.public}
