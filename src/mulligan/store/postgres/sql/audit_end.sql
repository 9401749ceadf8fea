-- An entry ends once. The ids are given twice: alone, `entry.id = ended.id` may be planned as a join with the whole audit.
UPDATE mulligan_audit AS entry
SET status = ended.status,
    ended_at = {{clock}},
    target = coalesce(ended.target, entry.target),
    before_hash = ended.before_hash,
    after_hash = ended.after_hash
FROM json_to_recordset(:ended::json)
    AS ended (id text, status integer, target text, before_hash text, after_hash text)
WHERE entry.id = ended.id AND entry.ended_at IS NULL
  AND entry.id = ANY (ARRAY(SELECT value ->> 'id' FROM json_array_elements(:ended::json)))
