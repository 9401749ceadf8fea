-- Services whose state equals the initial one: they begin again when used. Not while counts refer to their epoch.
DELETE FROM mulligan_services
WHERE NOT is_restricted AND NOT is_failing
  AND updated_at < (SELECT {{clock}}) - :kept
  AND NOT EXISTS (SELECT 1 FROM mulligan_tallies WHERE service = name)
  AND NOT EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'running' AND service <> '' AND service = name)
