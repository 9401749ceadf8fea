UPDATE mulligan_jobs
SET state = :running,
    -- Increases here and never decreases: part of the fence.
    attempt = attempt + 1,
    leased_by = :incarnation, claim = :claim, lease_until = :now + :lease,
    started_at = coalesce(started_at, :now), last_attempt_at = :now, updated_at = :now,
    service_epoch = iif(service = '', 0, coalesce(
        (SELECT value ->> 'epoch' FROM json_each(:grants) WHERE value ->> 'service' = service),
        (SELECT epoch FROM mulligan_services WHERE name = service),
        0
    )),
    version = :version
-- The state is a literal: SQLite would plan again at each claim, to check whether the bound value fits a partial index.
WHERE seq IN (SELECT value FROM json_each(:picked)) AND state = 'queued'
  -- Only a manual change stores a higher number, and one more would overflow.
  AND attempt BETWEEN 0 AND 2000000000
RETURNING {columns}
