-- Claim from the only lane with ready jobs: no merge, no cut, and a quarter of the plan of `claim.sql`. It needs no
-- settings before it: it commits asynchronously by itself, and its plan does not depend on the values, which are in
-- subqueries.
WITH clock AS (
    SELECT {{clock}} AS now, set_config('synchronous_commit', 'off', true)
), picked AS (
    SELECT spot
    FROM (
        SELECT ctid AS spot
        FROM mulligan_jobs
        WHERE state = 'queued'
          AND queue = (SELECT :queue::text) AND kind = (SELECT :kind::text) AND service = (SELECT :service::text)
          AND (deadline IS NULL OR deadline > (SELECT now FROM clock)) {owners}
          -- It may have become restricted since the look.
          AND NOT EXISTS (SELECT 1 FROM mulligan_services WHERE name = (SELECT :service::text) AND is_restricted)
        ORDER BY priority, rank, id
        -- More than any claim takes. Without it PostgreSQL expects a tenth of the lane, and compiles the statement.
        LIMIT 10000
        FOR UPDATE SKIP LOCKED
    ) AS ready
    LIMIT (SELECT :limit::bigint)
), {{lease_picked}}
SELECT {columns}
FROM claimed AS mulligan_jobs
