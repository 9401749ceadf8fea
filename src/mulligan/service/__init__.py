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
