"""The conformance suite: a store that passes it keeps the engine's promises.

    class TestMyStore(StoreSuite):
        def open_store(self, now):
            # Empty, with `now` as its clock and the services of the test.
            return MyStore(self.folder / "jobs", now=now, services=self.services)

        open_twin = open_store    # a second store on the same data; leave it out if that is impossible

    TestMyStoreIsTheModel = machine(lambda now, folder: MyStore(folder / "jobs", now=now))

Nothing sleeps: time is passed in. After every test all rows and the whole event log are checked against
`invariants.py`. The machine compares the store with a model step by step: the same examples in every run, and a few
new ones. `MULLIGAN_MODEL_EXAMPLES` sets how many of these, `MULLIGAN_MODEL_SEED` which ones; a failure prints the
values to set to repeat it.
"""

from conformance.access import AccessRules
from conformance.admission import AdmissionRules
from conformance.alerts import AlertStateRules
from conformance.batches import BatchRules
from conformance.beat import BeatRules
from conformance.budgets import BudgetRules
from conformance.charging import ChargeRules
from conformance.claim import ClaimRules
from conformance.dedupe_keys import DedupeKeyRules
from conformance.duties import DutyRules
from conformance.enqueue import EnqueueRules
from conformance.fair import FairRules
from conformance.fence import FenceRules
from conformance.holding import HoldingRules
from conformance.hooks import HookRules
from conformance.intake import IntakeRules
from conformance.lifecycle import LifecycleRules
from conformance.limits import LimitRules
from conformance.live import LiveRules
from conformance.model_cases import machine
from conformance.moves import MoveRules
from conformance.names import NameRules
from conformance.notifications import NotificationRules
from conformance.operations import OperationRules
from conformance.projections import ProjectionRules
from conformance.reading import ReadingRules
from conformance.reclaim import ReclaimRules
from conformance.reject import RejectRules
from conformance.results import ResultRules
from conformance.retention import RetentionRules
from conformance.retries import RetryRules
from conformance.schedules import ScheduleRules
from conformance.services import ServiceRules
from conformance.settle import SettleRules
from conformance.stream import StreamRules
from conformance.stuck import StuckRules
from conformance.totals import TotalRules

__all__ = ["StoreSuite", "machine"]


class StoreSuite(
    LifecycleRules,
    EnqueueRules,
    RejectRules,
    DedupeKeyRules,
    IntakeRules,
    LiveRules,
    ClaimRules,
    FairRules,
    LimitRules,
    BudgetRules,
    FenceRules,
    SettleRules,
    RetryRules,
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
    ResultRules,
    ReadingRules,
    StreamRules,
    ProjectionRules,
    TotalRules,
    AccessRules,
    AdmissionRules,
    NotificationRules,
    AlertStateRules,
):
    """Every rule of a store, in the order of a job's life."""
