claimed AS (
    UPDATE mulligan_jobs
    SET state = :running,
        -- Increases here and never decreases: part of the fence.
        attempt = attempt + 1,
        leased_by = :incarnation, claim = :claim, lease_until = clock.now + :lease,
        started_at = coalesce(started_at, clock.now), last_attempt_at = clock.now, updated_at = clock.now,
        service_epoch = CASE service WHEN '' THEN 0 ELSE coalesce(
            (
                SELECT granted.epoch
                FROM json_to_recordset(:grants::json) AS granted (service text, epoch bigint)
                WHERE granted.service = mulligan_jobs.service
            ),
            (
                SELECT epoch
                FROM mulligan_services
                WHERE name = mulligan_jobs.service
            ),
            0
        ) END,
        version = :version
    FROM clock
    -- The physical positions of the locked rows: nothing moves them, and no search is needed.
    WHERE mulligan_jobs.ctid = ANY (ARRAY(SELECT spot FROM {source}))
    RETURNING {columns}
), logged AS (
    INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, data)
    SELECT :event, id, kind, owner, attempt, last_attempt_at, CASE trigger WHEN 'manual' THEN :manual ELSE :automatic END
    FROM claimed
)
