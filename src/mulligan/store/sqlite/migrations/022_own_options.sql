-- Code of earlier schemas goes on working with this: it applies the policies file to every job.

-- What the caller gave this one job: it wins over the policies file. NULL: nothing.
ALTER TABLE mulligan_jobs ADD COLUMN own_max_attempts INTEGER;
ALTER TABLE mulligan_jobs ADD COLUMN own_timeout INTEGER;

-- The version of the worker's app.
ALTER TABLE mulligan_workers ADD COLUMN version TEXT;
