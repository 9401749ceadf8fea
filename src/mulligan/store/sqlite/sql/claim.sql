UPDATE mulligan_jobs
SET state = :running,
    -- Grows here and never falls: part of the fence.
    attempt = attempt + 1,
    leased_by = :incarnation, claim = :claim, lease_until = :now + :lease,
    started_at = coalesce(started_at, :now), last_attempt_at = :now, updated_at = :now,
    service_epoch = iif(service = '', 0, coalesce(
        (SELECT value ->> 'epoch' FROM json_each(:grants) WHERE value ->> 'service' = service),
        (SELECT epoch FROM mulligan_services WHERE name = service),
        0
    )),
    version = :version
-- The state is spelled out: SQLite would make the plan anew at each claim, to see whether what is bound fits a partial index.
WHERE seq IN (SELECT value FROM json_each(:picked)) AND state = 'queued'
  -- Beyond that only a number written by hand can be, and one more would not fit.
  AND attempt BETWEEN 0 AND 2000000000
RETURNING {columns}
