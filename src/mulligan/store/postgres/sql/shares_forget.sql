-- Owners whose last job V has passed: they would be given the same rank if nothing were known of them. One who is
-- enqueueing just now is left alone.
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
