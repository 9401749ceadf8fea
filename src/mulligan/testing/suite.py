"""The conformance suite: a store that passes it keeps the engine's promises.

Written for whoever writes a store; needs pytest and hypothesis (`pip install mulligan[dev]`):

    from mulligan.testing.suite import StoreSuite, machine

    class TestMyStore(StoreSuite):
        def open_store(self, now):
            # Empty, its clock replaced by `now`, its services those of the test.
            return MyStore(self.folder / "jobs", now=now, services=self.services)

        open_twin = open_store    # a second one on the same data; leave out if impossible

    TestMyStoreIsTheModel = machine(lambda now, folder: MyStore(folder / "jobs", now=now))

Nothing sleeps: time is passed in. After every test all rows and the whole event log are checked
against the invariants (`stores/invariants.py`). The machine compares the store with a model of it,
step by step: the same examples in every run, and a few fresh ones. `MULLIGAN_MODEL_EXAMPLES` sets how
many of these, `MULLIGAN_MODEL_SEED` which ones; a failure says what to set to repeat it.
"""

from mulligan.testing.stores.batches import BatchRules
from mulligan.testing.stores.beat import BeatRules
from mulligan.testing.stores.budgets import BudgetRules
from mulligan.testing.stores.charging import ChargeRules
from mulligan.testing.stores.claim import ClaimRules
from mulligan.testing.stores.duties import DutyRules
from mulligan.testing.stores.enqueue import EnqueueRules
from mulligan.testing.stores.fair import FairRules
from mulligan.testing.stores.fence import FenceRules
from mulligan.testing.stores.holding import HoldingRules
from mulligan.testing.stores.hooks import HookRules
from mulligan.testing.stores.lifecycle import LifecycleRules
from mulligan.testing.stores.limits import LimitRules
from mulligan.testing.stores.model_cases import machine
from mulligan.testing.stores.moves import MoveRules
from mulligan.testing.stores.names import NameRules
from mulligan.testing.stores.operations import OperationRules
from mulligan.testing.stores.reading import ReadingRules
from mulligan.testing.stores.reclaim import ReclaimRules
from mulligan.testing.stores.retention import RetentionRules
from mulligan.testing.stores.schedules import ScheduleRules
from mulligan.testing.stores.services import ServiceRules
from mulligan.testing.stores.settle import SettleRules
from mulligan.testing.stores.stuck import StuckRules

__all__ = ["StoreSuite", "machine"]


class StoreSuite(
    LifecycleRules,
    EnqueueRules,
    ClaimRules,
    FairRules,
    LimitRules,
    BudgetRules,
    FenceRules,
    SettleRules,
    BeatRules,
    ReclaimRules,
    StuckRules,
    HookRules,
    BatchRules,
    DutyRules,
    ServiceRules,
    ChargeRules,
    HoldingRules,
    NameRules,
    ScheduleRules,
    MoveRules,
    OperationRules,
    RetentionRules,
    ReadingRules,
):
    """Every rule of a store, in the order of a job's life. Give it `open_store`; `open_twin` if you can."""
