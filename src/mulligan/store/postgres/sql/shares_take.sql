-- Each share advances from its last rank, or from V if that is higher: being idle gains nothing. In one order for all
-- transactions, or two clients would deadlock.
INSERT INTO mulligan_shares AS share (queue, priority, owner, taken, rank)
SELECT queue, priority, new.owner, new.taken, turn.rank + new.taken
FROM jsonb_to_recordset(:shares::jsonb) AS new (queue text, priority integer, owner text, taken bigint)
JOIN mulligan_turns AS turn USING (queue, priority)
ORDER BY queue COLLATE "C", priority, new.owner COLLATE "C"
ON CONFLICT (queue, priority, owner) DO UPDATE
SET rank = greatest(share.rank + excluded.taken, excluded.rank), taken = excluded.taken
RETURNING queue, priority, owner, rank
