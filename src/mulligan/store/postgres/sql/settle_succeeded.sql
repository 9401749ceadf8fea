-- As `settle.sql`, for succeeded attempts, which are most. Each column is one string, split at the separator, which is
-- cheaper for both sides than JSON or arrays.
WITH outcome AS (
    SELECT o.*, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
    FROM unnest(
        string_to_array(:ids, :separator),
        string_to_array(:attempts, :separator)::integer[],
        string_to_array(:incarnations, :separator),
        string_to_array(:claims, :separator)::bigint[],
        string_to_array(:settled_by, :separator),
        string_to_array(:results, :separator, ''),
        string_to_array(:data, :separator)
    ) WITH ORDINALITY AS o (id, attempt, incarnation, claim, settled_by, result, data, n)
), settled AS (
    UPDATE mulligan_jobs AS job
    SET state = :target, result = o.result, progress = 1, crashes = 0, losses = 0,
        finished_at = o.now,
        leased_by = NULL, claim = NULL, lease_until = NULL, cancel_requested = false,
        settled_attempt = job.attempt, settled_by = o.settled_by,
        updated_at = o.now
    FROM outcome AS o
    -- IS NOT DISTINCT keeps the planner off the index of running jobs, in which each job would be found by scanning all
    -- jobs of the claim.
    WHERE job.id = o.id AND job.state = 'running'
      AND (job.attempt, job.leased_by, job.claim) IS NOT DISTINCT FROM (o.attempt, o.incarnation, o.claim)
    RETURNING o.n, job.id, job.kind, job.owner, job.attempt, o.now, o.data, job.cancel_xid
), logged AS (
    INSERT INTO mulligan_events (xid, type, job, kind, owner, attempt, at, data)
    SELECT greatest(pg_current_xact_id(), cancel_xid), :event, id, kind, owner, attempt, now, data
    FROM settled
)
SELECT n
FROM settled
