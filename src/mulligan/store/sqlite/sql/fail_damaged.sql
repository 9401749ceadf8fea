-- Fail a row that is so damaged that no other statement can move it: it blocks nothing, and operators see it.
-- Contradictory columns are reset, the description of the job is kept.
UPDATE mulligan_jobs
SET state = :failed, waiting_for = NULL, gate = NULL, finished_at = :now, updated_at = :now,
    error_code = :error_code, error_class = :error_class, error_message = :error_message, error_group = :error_group,
    result = NULL, progress = 0, progress_text = '',
    leased_by = NULL, claim = NULL, lease_until = NULL, cancel_requested = 0,
    failures = 0, crashes = 0, losses = 0, snoozes = 0, code_failures = '{}',
    max_attempts = max(max_attempts, 1), trigger = 'automatic',
    arguments = iif(json_valid(arguments), arguments, json_quote(arguments)),
    tags = iif(json_valid(tags), tags, '[]'),
    dedupe_scope = iif(dedupe_scope = 'succeeded', 'succeeded', 'active'),
    settled_attempt = iif(:settled_by IS NULL, settled_attempt, attempt),
    settled_by = coalesce(:settled_by, settled_by)
WHERE seq IN (SELECT value FROM json_each(:rows)) AND state IN (SELECT value FROM json_each(:sources))
RETURNING id, kind, owner, attempt, finished_at, on_failed, batch
