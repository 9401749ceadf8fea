-- Queues and priorities without turns.
SELECT queue, priority
FROM mulligan_turns AS turn
WHERE rank < coalesce(:now, CAST((julianday('now') - 2440587.5) * 86400000000.0 AS INTEGER)) - :idle
  AND NOT EXISTS (SELECT 1 FROM mulligan_shares AS share WHERE share.queue = turn.queue AND share.priority = turn.priority)
LIMIT :limit
