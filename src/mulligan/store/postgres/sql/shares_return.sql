-- `shares_take` has locked the rows.
UPDATE mulligan_shares AS share
SET rank = ended.rank
FROM jsonb_to_recordset(:shares::jsonb) AS ended (queue text, priority integer, owner text, rank bigint)
WHERE share.queue = ended.queue AND share.priority = ended.priority AND share.owner = ended.owner
