-- An entry ends once.
UPDATE mulligan_audit
SET status = json_extract(ended.value, '$.status'),
    ended_at = :now,
    target = coalesce(json_extract(ended.value, '$.target'), target),
    before_hash = json_extract(ended.value, '$.before_hash'),
    after_hash = json_extract(ended.value, '$.after_hash')
FROM json_each(:ended) AS ended
WHERE mulligan_audit.id = json_extract(ended.value, '$.id') AND ended_at IS NULL
