"""The operations that both backends share, constructed once."""

from collections.abc import Callable

from mulligan.service import ServiceBook
from mulligan.store.batches import BatchOperations, EnqueueSteps
from mulligan.store.expire import ExpireOperations
from mulligan.store.fairness import SubmitOperations
from mulligan.store.limits import LimitOperations
from mulligan.store.services import ServiceOperations
from mulligan.store.session import Statements


class SharedOperations:
    def __init__(self, sql: Statements, services: Callable[[], ServiceBook], enqueue_steps: EnqueueSteps) -> None:
        self.services = ServiceOperations(sql, services)
        self.limits = LimitOperations(self.services)
        self.submissions = SubmitOperations(sql)
        self.batches = BatchOperations(sql, enqueue_steps)
        self.expire = ExpireOperations(self.batches, enqueue_steps)
        self.enqueue_steps = enqueue_steps
