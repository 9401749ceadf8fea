INSERT INTO mulligan_failing (job, error_group, owner, code, since, last_at, is_failed)
SELECT value ->> 'job', value ->> 'error_group', value ->> 'owner', value ->> 'code', value ->> 'since',
    value ->> 'last_at', value ->> 'is_failed'
FROM json_each(:rows)
WHERE true
ON CONFLICT (job, error_group) DO UPDATE
SET code = excluded.code, since = excluded.since, last_at = excluded.last_at, is_failed = excluded.is_failed
