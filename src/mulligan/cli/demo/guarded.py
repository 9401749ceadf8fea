"""The app of the demo with a service: while the gateway is down, its jobs are held instead of tried.

`mulligan worker mulligan.cli.demo.guarded:app` runs its tasks.
"""

from mulligan import App, RetryPolicy
from mulligan.cli.demo import tasks

__all__ = ["app"]

app = App(rules=tasks.GATEWAY_RULES, catalogue=tasks.CATALOGUE, services=[tasks.GATEWAY])

for task in (tasks.convert, tasks.preview):
    assert isinstance(task.retry, RetryPolicy)
    app.task(task.name, retry=task.retry, priority=task.priority, timeout="10s", service=tasks.GATEWAY.name)(
        task.function
    )
