WITH clock AS (
    SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
), past AS (
    SELECT id
    FROM mulligan_jobs
    WHERE deadline IS NOT NULL AND deadline <= (SELECT now FROM clock) AND state IN ('waiting', 'queued')
    ORDER BY deadline
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), expired AS (
    UPDATE mulligan_jobs
    SET state = :failed, waiting_for = NULL, gate = NULL, finished_at = clock.now, updated_at = clock.now,
        error_code = :error_code, error_class = :error_class,
        error_message = :error_message, error_group = :error_group
    FROM clock
    WHERE id = ANY (ARRAY(SELECT id FROM past))
    RETURNING id, kind, owner, attempt, finished_at, on_failed, batch
)
SELECT *
FROM expired
