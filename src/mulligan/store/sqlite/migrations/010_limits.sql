-- Code of earlier schemas goes on working with this: it lets jobs in without counting them, so limits and budgets are exact only once
-- all of it is gone.

-- Let in through a concurrency limit. Says something only while queued or running: then it holds a place.
ALTER TABLE mulligan_jobs ADD COLUMN is_limited INTEGER NOT NULL DEFAULT 0;

-- Places are counted from the jobs themselves. Jobs that no limit concerns are in none of these.
CREATE INDEX mulligan_jobs_of_kind ON mulligan_jobs (kind) WHERE is_limited AND state IN ('queued', 'running');
CREATE INDEX mulligan_jobs_of_queue ON mulligan_jobs (queue) WHERE is_limited AND state IN ('queued', 'running');
CREATE INDEX mulligan_jobs_of_owner ON mulligan_jobs (owner) WHERE is_limited AND state IN ('queued', 'running');
-- Let in, and waiting for their service.
CREATE INDEX mulligan_jobs_of_service ON mulligan_jobs (service) WHERE is_limited AND state = 'queued' AND service <> '';
-- Retries that passed the budget of their service and wait for a place.
CREATE INDEX mulligan_jobs_retrying ON mulligan_jobs (service)
    WHERE state = 'waiting' AND waiting_for = 'limit' AND failures > 0 AND service <> '';

-- The limits in force, so that they hold for whoever opens the door, also if he knows nothing of them.
CREATE TABLE mulligan_limits (
    -- 'kind/NAME', 'queue/NAME', 'owner/NAME'; 'owner/*' is each owner without a row of his own.
    gate      TEXT    PRIMARY KEY,
    -- How many may be queued and running at once.
    most      INTEGER,
    -- Retries in a day and in a month, and their cost; what becomes of those beyond: 'wait' or 'fail', NULL without any budget.
    per_day   INTEGER,
    per_month INTEGER,
    cost      INTEGER,
    over      TEXT,
    -- When the process that said so took it up: of two that differ, the later wins.
    since     INTEGER NOT NULL,
    seen_at   INTEGER NOT NULL,
    -- Jobs that were let in before there was this limit were looked for, and are counted.
    is_swept  INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX mulligan_limits_new ON mulligan_limits (gate) WHERE NOT is_swept AND most IS NOT NULL;

-- What retries of an owner were let in, by day ('2026-03-01') and month ('2026-03').
CREATE TABLE mulligan_spending (
    owner   TEXT    NOT NULL,
    period  TEXT    NOT NULL,
    retries INTEGER NOT NULL,
    cost    INTEGER NOT NULL,
    PRIMARY KEY (owner, period)
) STRICT, WITHOUT ROWID;
