-- The fence: a worker whose lease was taken over matches no row. A reclaimer matches only expired or stuck attempts. A
-- cancel request takes precedence over going back to the queue. A retry that may start at once is promoted here, as
-- `promote.sql` would do next.
UPDATE mulligan_jobs
SET state = CASE
        WHEN :requeues AND cancel_requested THEN :cancelled
        WHEN :passes AND NOT is_limited THEN 'queued'
        ELSE :target
    END,
    waiting_for = iif(:requeues AND cancel_requested OR :passes AND NOT is_limited, NULL, :waiting_for),
    gate = iif(:is_held AND NOT cancel_requested, {{probe_gate}}, NULL),
    due_at = coalesce(:now + :delay, due_at),
    queued_at = iif(:target = 'queued' OR :passes AND NOT is_limited AND NOT cancel_requested, :now, queued_at),
    previous_delay = coalesce(:delay, previous_delay),
    trigger = iif(:requeues, 'automatic', trigger),
    failures = failures + :failures,
    snoozes = snoozes + :snoozes,
    crashes = iif(:clears_losses, 0, crashes + :crashes),
    losses = iif(:clears_losses, 0, losses + :losses),
    code_failures = coalesce(:code_failures, code_failures),
    max_attempts = coalesce(:max_attempts, max_attempts),
    result = :result,
    error_code = :error_code, error_class = :error_class, error_message = :error_message, error_group = :error_group,
    last_code = coalesce(:last_code, last_code), last_class = coalesce(:last_class, last_class),
    last_message = coalesce(:last_message, last_message), last_detail = coalesce(:last_detail, last_detail),
    progress = iif(:requeues, 0, iif(:target = 'succeeded', 1, progress)),
    progress_text = iif(:requeues, '', progress_text),
    finished_at = iif(:requeues AND NOT cancel_requested, NULL, :now),
    leased_by = NULL, claim = NULL, lease_until = NULL,
    cancel_requested = 0,
    settled_attempt = attempt, settled_by = :settled_by,
    updated_at = :now
WHERE {{fence}}
RETURNING state, owner, iif(state = 'cancelled', on_cancelled, iif(state = 'failed', on_failed, NULL)) AS follow_up
