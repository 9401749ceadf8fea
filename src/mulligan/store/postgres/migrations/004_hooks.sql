-- Code of the schemas before goes on working with this: what it does not know of is NULL.

-- The job that follows when this one fails for good, kept here because whoever settles may not know the kind.
ALTER TABLE mulligan_jobs ADD COLUMN on_failed text;
-- Of the app whose worker made the last attempt.
ALTER TABLE mulligan_jobs ADD COLUMN version text;
