-- Shares whose last rank V has passed: without a row they would get the same rank. Skips those in use by an enqueue.
DELETE FROM mulligan_shares
WHERE ctid = ANY (ARRAY(
    SELECT past.place
    FROM mulligan_turns AS turn
    CROSS JOIN LATERAL (
        SELECT ctid AS place
        FROM mulligan_shares
        WHERE queue = turn.queue AND priority = turn.priority AND rank <= turn.rank
        ORDER BY rank
        LIMIT :limit
        FOR UPDATE SKIP LOCKED
    ) AS past
    LIMIT :limit
))
