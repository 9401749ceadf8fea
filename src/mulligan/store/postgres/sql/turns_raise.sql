-- V: the highest rank claimed in a queue and priority. It never decreases. Concurrent claims raise it one after the
-- other, in one order. This is the last statement of a claim before its commit, so none waits for long.
WITH taken AS (
    SELECT queue, priority, max(rank) AS rank
    FROM mulligan_jobs
    WHERE state = 'running' AND leased_by = :incarnation AND claim = :claim AND queue = ANY (:fair::text[])
    GROUP BY queue, priority
), place AS (
    SELECT turn.queue, turn.priority, taken.rank
    FROM mulligan_turns AS turn
    JOIN taken USING (queue, priority)
    WHERE turn.rank < taken.rank
    ORDER BY turn.queue, turn.priority
    FOR NO KEY UPDATE OF turn
)
UPDATE mulligan_turns AS turn
SET rank = place.rank
FROM place
WHERE turn.queue = place.queue AND turn.priority = place.priority
