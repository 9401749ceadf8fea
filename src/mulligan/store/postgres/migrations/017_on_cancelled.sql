-- Code of earlier schemas goes on working with this: it leaves what it does not know of as it is.

-- The job that follows when this one is cancelled.
ALTER TABLE mulligan_jobs ADD COLUMN on_cancelled text;
