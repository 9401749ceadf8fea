-- Shares whose last rank V has passed: without a row they would get the same rank.
DELETE FROM mulligan_shares
WHERE (queue, priority, owner) IN (
    SELECT share.queue, share.priority, share.owner
    FROM mulligan_turns AS turn
    CROSS JOIN mulligan_shares AS share
        ON share.queue = turn.queue AND share.priority = turn.priority AND share.rank <= turn.rank
    LIMIT :limit
)
