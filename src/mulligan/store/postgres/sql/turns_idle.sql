-- Queues and priorities without turns, now and in open transactions: `turns_open` holds the lock until its commit.
WITH idle AS MATERIALIZED (
    SELECT queue, priority
    FROM mulligan_turns AS turn
    WHERE rank < (SELECT coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)) - :idle
      -- Not EXISTS, which would become a join with all shares.
      AND (
          SELECT owner
          FROM mulligan_shares AS share
          WHERE share.queue = turn.queue AND share.priority = turn.priority
          LIMIT 1
      ) IS NULL
    ORDER BY queue, priority
    LIMIT :limit
)
SELECT queue, priority
FROM idle
WHERE pg_try_advisory_xact_lock(72161, hashtext(queue || '/' || priority))
