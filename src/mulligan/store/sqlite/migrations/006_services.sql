-- Code of schema 5 goes on working with this: it stamps no epochs, so what its attempts hear moves no service.

-- The service's epoch when the job was claimed: what was begun before a change of state is told apart from what came after.
ALTER TABLE mulligan_jobs ADD COLUMN service_epoch INTEGER NOT NULL DEFAULT 0;

-- Permits: running jobs of a half-open service.
CREATE INDEX mulligan_jobs_permits ON mulligan_jobs (service, service_epoch) WHERE state = 'running' AND service <> '';
-- Retries that passed the door and were not heard of.
CREATE INDEX mulligan_jobs_retried ON mulligan_jobs (service) WHERE service <> '' AND failures > 0 AND state IN ('queued', 'running');

CREATE TABLE mulligan_services (
    name          TEXT    PRIMARY KEY,
    -- All that is known of it, as JSON; the columns below are what statements need of that.
    standing      TEXT    NOT NULL,
    epoch         INTEGER NOT NULL,
    -- A claim has to ask how much it may take; not before `ask_at`, unless that lies further ahead than `hold`.
    is_restricted INTEGER NOT NULL,
    ask_at        INTEGER NOT NULL,
    hold          INTEGER NOT NULL,
    -- Its retries wait at the door for their budget.
    is_failing    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX mulligan_services_restricted ON mulligan_services (name) WHERE is_restricted;
CREATE INDEX mulligan_services_plain ON mulligan_services (updated_at) WHERE NOT is_restricted AND NOT is_failing;

-- What one worker heard of one service: written by that worker only.
CREATE TABLE mulligan_tallies (
    service    TEXT    NOT NULL,
    worker     TEXT    NOT NULL,
    tally      TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (service, worker)
) STRICT, WITHOUT ROWID;
CREATE INDEX mulligan_tallies_worker ON mulligan_tallies (worker, service);
CREATE INDEX mulligan_tallies_old ON mulligan_tallies (updated_at);
