INSERT INTO mulligan_breakers (service, since, counted_until)
SELECT value ->> 'service', value ->> 'since', value ->> 'counted_until'
FROM json_each(:rows)
WHERE true
ON CONFLICT (service) DO UPDATE
SET since = excluded.since, counted_until = excluded.counted_until
