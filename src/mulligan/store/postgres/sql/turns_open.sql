-- A new or idle queue and priority begins at the present time, like a plain queue. All enqueues share the lock until
-- they commit: meanwhile `turns_idle` deletes no turn, or jobs ranked by it would come before all later ones. The lock
-- is taken before the conflict is checked.
INSERT INTO mulligan_turns (queue, priority, rank)
SELECT queue, priority, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM (
    SELECT queue, priority
    FROM jsonb_to_recordset(:places::jsonb) AS given (queue text, priority integer)
    ORDER BY queue COLLATE "C", priority
) AS place
WHERE pg_advisory_xact_lock_shared(72161, hashtext(queue || '/' || priority)) IS NOT NULL
ON CONFLICT DO NOTHING
