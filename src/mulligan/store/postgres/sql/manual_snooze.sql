UPDATE mulligan_jobs
SET state = :target, waiting_for = 'snooze', gate = NULL, due_at = clock.now + :delay, updated_at = clock.now
FROM (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now) AS clock
WHERE id = :id AND state = :source
