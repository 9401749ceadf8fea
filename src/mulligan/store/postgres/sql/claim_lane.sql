-- Claim from the only lane with ready jobs: no merge, no cut, and a quarter of the plan of `claim.sql`.
WITH clock AS (
    SELECT {{clock}} AS now
), picked AS (
    SELECT ctid AS spot
    FROM mulligan_jobs
    WHERE state = 'queued' AND queue = :queue AND kind = :kind AND service = :service
      AND (deadline IS NULL OR deadline > (SELECT now FROM clock)) {owners}
      -- It may have become restricted since the look.
      AND NOT EXISTS (SELECT 1 FROM mulligan_services WHERE name = :service AND is_restricted)
    ORDER BY priority, rank, id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), {{lease_picked}}
SELECT {columns}
FROM claimed AS mulligan_jobs
