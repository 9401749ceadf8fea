-- `submit_lock` has locked the rows.
UPDATE mulligan_submissions AS bucket
SET remaining = charge.remaining, at = charge.at, full_at = charge.full_at
FROM jsonb_to_recordset(:charges::jsonb) AS charge (owner text, remaining double precision, at bigint, full_at bigint)
WHERE bucket.owner = charge.owner
