-- Code of earlier schemas goes on working with this: it only does not know of cursors.

-- Jobs that may be cleared away, by when they and their dedupe key's period were over. A succeeded job that holds its key for
-- good is not among them: it would stand at the head of the list for ever.
CREATE INDEX mulligan_jobs_over ON mulligan_jobs (state, greatest(finished_at, dedupe_until))
    WHERE state IN ('succeeded', 'failed', 'cancelled')
      AND (state <> 'succeeded' OR dedupe_scope <> 'succeeded' OR dedupe_key IS NULL);

-- How far readers of the log have come. What is above the lowest is never pruned.
CREATE TABLE mulligan_cursors (
    name       text COLLATE "C" PRIMARY KEY,
    position   bigint NOT NULL,
    updated_at bigint NOT NULL
) WITH (fillfactor = 50);
