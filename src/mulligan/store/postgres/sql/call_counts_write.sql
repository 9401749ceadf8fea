INSERT INTO mulligan_tallies (service, worker, tally, updated_at)
SELECT service, :worker, tally, :now
FROM json_to_recordset(:tallies::json) AS counted (service text, tally text)
ON CONFLICT (service, worker) DO UPDATE SET tally = excluded.tally, updated_at = excluded.updated_at
