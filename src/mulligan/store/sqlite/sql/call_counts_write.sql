INSERT INTO mulligan_tallies (service, worker, tally, updated_at)
SELECT value ->> 'service', :worker, value ->> 'tally', :now
FROM json_each(:tallies)
WHERE true
ON CONFLICT (service, worker) DO UPDATE SET tally = excluded.tally, updated_at = excluded.updated_at
