-- A queue and priority that is new, or was idle, begins at the present time: where its jobs would stand in a plain queue.
-- The lock is shared by all who enqueue, and lasts until they commit: meanwhile `turns_idle` forgets no turn, or jobs that
-- were ranked by it would stand before all that come later. It is taken before the conflict is looked for.
INSERT INTO mulligan_turns (queue, priority, rank)
SELECT queue, priority, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM (
    SELECT queue, priority
    FROM jsonb_to_recordset(:places::jsonb) AS given (queue text, priority integer)
    ORDER BY queue COLLATE "C", priority
) AS place
WHERE pg_advisory_xact_lock_shared(72161, hashtext(queue || '/' || priority)) IS NOT NULL
ON CONFLICT DO NOTHING
