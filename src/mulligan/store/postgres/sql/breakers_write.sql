INSERT INTO mulligan_breakers (service, since, counted_until)
SELECT service, since, counted_until
FROM json_to_recordset(:rows::json) AS given (service text, since bigint, counted_until bigint)
ON CONFLICT (service) DO UPDATE
SET since = excluded.since, counted_until = excluded.counted_until
