-- V: the highest rank claimed in a queue and priority. It never decreases.
UPDATE mulligan_turns
SET rank = taken.rank
FROM (
    SELECT queue, priority, max(rank) AS rank
    FROM mulligan_jobs
    WHERE state = 'running' AND leased_by = :incarnation AND claim = :claim
      AND queue IN (SELECT value FROM json_each(:fair))
    GROUP BY queue, priority
) AS taken
WHERE mulligan_turns.queue = taken.queue AND mulligan_turns.priority = taken.priority AND mulligan_turns.rank < taken.rank
