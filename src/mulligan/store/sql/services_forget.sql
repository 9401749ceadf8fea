-- Services of which there is nothing to know: one that comes again begins anew. Not while anybody counts by its epoch.
DELETE FROM mulligan_services
WHERE NOT is_restricted AND NOT is_failing
  AND updated_at < (SELECT {{clock}}) - :kept
  AND NOT EXISTS (SELECT 1 FROM mulligan_tallies WHERE service = name)
  AND NOT EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'running' AND service <> '' AND service = name)
