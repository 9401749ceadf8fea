-- Code of schema 5 goes on working with this: it stamps no epochs, so what its attempts hear moves no service.

-- The service's epoch when the job was claimed: what was begun before a change of state is told apart from what came after.
ALTER TABLE mulligan_jobs ADD COLUMN service_epoch bigint NOT NULL DEFAULT 0;

-- Permits: running jobs of a half-open service.
CREATE INDEX mulligan_jobs_permits ON mulligan_jobs (service, service_epoch) WHERE state = 'running' AND service <> '';
-- Retries that passed the door and were not heard of.
CREATE INDEX mulligan_jobs_retried ON mulligan_jobs (service) WHERE service <> '' AND failures > 0 AND state IN ('queued', 'running');

CREATE TABLE mulligan_services (
    name          text COLLATE "C" PRIMARY KEY,
    -- All that is known of it, as JSON; the columns below are what statements need of that.
    standing      text    NOT NULL,
    epoch         bigint  NOT NULL,
    -- A claim has to ask how much it may take; not before `ask_at`, unless that lies further ahead than `hold`.
    is_restricted boolean NOT NULL,
    ask_at        bigint  NOT NULL,
    hold          bigint  NOT NULL,
    -- Its retries wait at the door for their budget.
    is_failing    boolean NOT NULL,
    updated_at    bigint  NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX mulligan_services_restricted ON mulligan_services (name) WHERE is_restricted;
CREATE INDEX mulligan_services_plain ON mulligan_services (updated_at) WHERE NOT is_restricted AND NOT is_failing;

-- What one worker heard of one service: written by that worker only.
CREATE TABLE mulligan_tallies (
    service    text COLLATE "C" NOT NULL,
    worker     text COLLATE "C" NOT NULL,
    tally      text   NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (service, worker)
) WITH (fillfactor = 50);
CREATE INDEX mulligan_tallies_worker ON mulligan_tallies (worker, service);
CREATE INDEX mulligan_tallies_old ON mulligan_tallies (updated_at);
