-- Code of earlier schemas goes on working with this: its jobs are counted a day later at most.

-- Counts against the `max_live` of its owner. Jobs of other owners are not in the index.
ALTER TABLE mulligan_jobs ADD COLUMN is_counted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX mulligan_jobs_counted ON mulligan_jobs (owner) WHERE is_counted AND state IN ('waiting', 'queued', 'running');

-- Until then all live jobs of this owner are counted. NULL or past: those from before the limit may not be.
ALTER TABLE mulligan_submissions ADD COLUMN counted_until INTEGER;
