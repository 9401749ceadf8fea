-- Owners whose last job V has passed: they would be given the same rank if nothing were known of them.
DELETE FROM mulligan_shares
WHERE (queue, priority, owner) IN (
    SELECT share.queue, share.priority, share.owner
    FROM mulligan_turns AS turn
    CROSS JOIN mulligan_shares AS share
        ON share.queue = turn.queue AND share.priority = turn.priority AND share.rank <= turn.rank
    LIMIT :limit
)
