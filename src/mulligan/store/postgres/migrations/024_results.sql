-- Code of earlier schemas goes on working with this: it only does not end results.

-- When the result was deleted, by its retention or by a person. The job itself stays.
ALTER TABLE mulligan_jobs ADD COLUMN result_expired_at bigint;

-- How far a duty has come that passes over finished jobs, by when they may be deleted; and when it began to.
CREATE TABLE mulligan_marks (
    name     text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL,
    since    bigint NOT NULL
);
