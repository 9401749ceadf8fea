-- Code of earlier schemas goes on working with this: only its duty `prune` takes longer, until it is gone.

-- Pages and counts of one error group. Only failed jobs have one, so a success writes nothing here.
CREATE INDEX mulligan_jobs_failed_group ON mulligan_jobs (error_group, id) WHERE state = 'failed';

-- All ended jobs, so that it also serves counts. Those that keep their dedupe key for good are last: they are not deleted, and must not
-- be first in the list of old jobs for ever.
DROP INDEX mulligan_jobs_over;
CREATE INDEX mulligan_jobs_over ON mulligan_jobs (
    state,
    CASE WHEN state = 'succeeded' AND dedupe_scope = 'succeeded' AND dedupe_key IS NOT NULL THEN 9223372036854775807 ELSE max(finished_at, coalesce(dedupe_until, 0)) END
) WHERE state IN ('succeeded', 'failed', 'cancelled');
