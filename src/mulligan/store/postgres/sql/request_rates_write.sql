-- `request_rates_lock` has locked the rows.
UPDATE mulligan_request_rates AS bucket
SET remaining = charge.remaining, at = charge.at, full_at = charge.full_at
FROM json_to_recordset(:charges::json) AS charge (subject text, remaining double precision, at bigint, full_at bigint)
WHERE bucket.subject = charge.subject
