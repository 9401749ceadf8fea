-- Code of earlier schemas goes on working with this: it leaves what it does not know of as it is.

-- The last failure of an attempt, in any state. `last_detail` is one line for those who mend it, empty if there is none.
ALTER TABLE mulligan_jobs
    ADD COLUMN last_code    text COLLATE "C",
    ADD COLUMN last_class   text,
    ADD COLUMN last_message text,
    ADD COLUMN last_detail  text;

-- The last attempt whose code was about to run; kept for jobs that run at most once.
ALTER TABLE mulligan_jobs ADD COLUMN begun_attempt integer;

-- Waiting jobs only: to look at the code itself, claims and settles would have to read each row up to its last column.
CREATE INDEX mulligan_jobs_last_code ON mulligan_jobs (last_code, id) WHERE state = 'waiting';

CREATE OR REPLACE VIEW mulligan_jobs_for_people AS
SELECT id, kind, owner, queue, priority, state, waiting_for, attempt, failures, crashes, losses, snoozes, manual_retries,
    to_timestamp(submitted_at / 1e6) AS submitted_at, to_timestamp(due_at / 1e6) AS due_at,
    to_timestamp(started_at / 1e6) AS started_at, to_timestamp(finished_at / 1e6) AS finished_at,
    to_timestamp(lease_until / 1e6) AS lease_until, leased_by, error_code, error_message, arguments, result,
    last_code, last_message, last_detail
FROM mulligan_jobs;
