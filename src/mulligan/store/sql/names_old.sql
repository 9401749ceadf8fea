-- A bounded number of names that were not checked for long, and whether they are still used: by jobs that have not
-- ended, by call counts, by a stored state. A duplicate is needed once.
{{ready_lanes}}, old AS MATERIALIZED (
    SELECT seq, family, name
    FROM mulligan_service_names
    WHERE checked_at < {{clock}} - :kept
    ORDER BY checked_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
SELECT old.seq, NOT EXISTS (
    SELECT 1
    FROM mulligan_service_names AS twin
    WHERE twin.family = old.family AND twin.name = old.name AND twin.seq < old.seq
) AND (
    EXISTS (SELECT 1 FROM mulligan_services WHERE name = old.name)
    OR EXISTS (SELECT 1 FROM mulligan_tallies WHERE service = old.name)
    OR EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'running' AND service <> '' AND service = old.name)
    OR EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'waiting' AND service <> '' AND service || '' = old.name || '')
    OR old.name IN (SELECT service FROM lane)
) AS is_needed
FROM old
