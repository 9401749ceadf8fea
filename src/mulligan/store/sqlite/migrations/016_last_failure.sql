-- Code of earlier schemas goes on working with this: it leaves what it does not know of as it is.

-- The last failure of an attempt, in any state. `last_detail` is one line for those who mend it, empty if there is none.
ALTER TABLE mulligan_jobs ADD COLUMN last_code TEXT;
ALTER TABLE mulligan_jobs ADD COLUMN last_class TEXT;
ALTER TABLE mulligan_jobs ADD COLUMN last_message TEXT;
ALTER TABLE mulligan_jobs ADD COLUMN last_detail TEXT;

-- The last attempt whose code was about to run; kept for jobs that run at most once.
ALTER TABLE mulligan_jobs ADD COLUMN begun_attempt INTEGER;

-- Jobs that never failed are not in it.
CREATE INDEX mulligan_jobs_last_code ON mulligan_jobs (last_code, id) WHERE last_code IS NOT NULL;
