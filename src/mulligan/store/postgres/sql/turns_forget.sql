-- `turns_idle` has locked the rows: earlier transactions have committed and are visible here.
DELETE FROM mulligan_turns AS turn
USING jsonb_to_recordset(:places::jsonb) AS place (queue text, priority integer)
WHERE turn.queue = place.queue AND turn.priority = place.priority
  -- Not EXISTS, which would become a join with all shares.
  AND (
      SELECT owner
      FROM mulligan_shares AS share
      WHERE share.queue = turn.queue AND share.priority = turn.priority
      LIMIT 1
  ) IS NULL
