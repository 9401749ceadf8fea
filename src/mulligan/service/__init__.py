"""The breaker, retry budget and pace of a service: one pure state machine. The store keeps its values and passes the
time in.

    claim     begin_probing(…); if is_restricted(…), claim_allowance(…), and Allowance.without(…) for unused permits
    settle    one ServiceCall for each success and for each verdict that blames or clears the service. The worker adds
              them to its CallCounts. Unless is_routine(…): record_calls(…) with compute_figures(…) over all workers.
              hold(…) for a verdict that holds the service, charge_reason(…) for each failed call
    promote   retry_allowance(…)
    manual    force(…)

The store reads the row under its lock and writes it if the state differs. Tokens and counts change within an epoch.
"""

from mulligan.service.allowance import (
    FAILS_FAST,
    Allowance,
    claim_allowance,
    fails_fast,
    holds,
    retry_allowance,
    service_open_verdict,
    stays_refused,
)
from mulligan.service.breaker import begin_probing, force, hold, is_routine, record_calls
from mulligan.service.charge import MOST_RETURNS, charge_reason
from mulligan.service.config import Service, ServiceBook
from mulligan.service.state import BreakerState, Change, Forced, ServiceState, Transition, is_milestone, is_restricted
from mulligan.service.window import CallCounts, Figures, ServiceCall, compute_figures

__all__ = [
    "FAILS_FAST",
    "MOST_RETURNS",
    "Allowance",
    "BreakerState",
    "CallCounts",
    "Change",
    "Figures",
    "Forced",
    "Service",
    "ServiceBook",
    "ServiceCall",
    "ServiceState",
    "Transition",
    "begin_probing",
    "charge_reason",
    "claim_allowance",
    "compute_figures",
    "fails_fast",
    "force",
    "hold",
    "holds",
    "is_milestone",
    "is_restricted",
    "is_routine",
    "record_calls",
    "retry_allowance",
    "service_open_verdict",
    "stays_refused",
]
