INSERT INTO mulligan_failing (job, error_group, owner, code, since, last_at, is_failed)
SELECT job, error_group, owner, code, since, last_at, is_failed
FROM json_to_recordset(:rows::json) AS given (
    job text, error_group text, owner text, code text, since bigint, last_at bigint, is_failed boolean
)
ON CONFLICT (job, error_group) DO UPDATE
SET code = excluded.code, since = excluded.since, last_at = excluded.last_at, is_failed = excluded.is_failed
