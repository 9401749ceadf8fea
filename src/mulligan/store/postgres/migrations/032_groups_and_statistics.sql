-- Code of earlier schemas goes on working with this: it does not know these tables. Its prune leaves rows of deleted jobs in
-- mulligan_failing, which are deleted with their group.

-- How far the log was folded into groups and statistics. Not among the cursors: it holds up no deletion of events.
CREATE TABLE mulligan_projection (
    position      bigint NOT NULL,
    -- The time of the last event that was folded.
    at            bigint NOT NULL,
    updated_at    bigint NOT NULL,
    -- When events were found deleted that had not been folded.
    missed_at     bigint,
    -- A rebuild folds the log again up to this position, and leaves alone what is older than `rebuilt_since`.
    rebuilt_until bigint NOT NULL DEFAULT 0,
    rebuilt_since bigint NOT NULL DEFAULT 0
);
INSERT INTO mulligan_projection (position, at, updated_at) VALUES (0, 0, 0);

-- Groups of similar failures: a row for all owners, and one for each owner.
CREATE TABLE mulligan_groups (
    id            text COLLATE "C" NOT NULL,
    -- '' for all owners; '/' and the name of an owner.
    scope         text COLLATE "C" NOT NULL,
    kind          text   NOT NULL,
    code          text   NOT NULL,
    error_class   text   NOT NULL,
    title         text   NOT NULL,
    first_seen_at bigint NOT NULL,
    last_seen_at  bigint NOT NULL,
    failures      bigint NOT NULL,
    jobs          bigint NOT NULL DEFAULT 0,
    failed        bigint NOT NULL DEFAULT 0,
    recovered     bigint NOT NULL DEFAULT 0,
    cost          bigint NOT NULL,
    -- The weight of its failures, halved with each day of age, at the time it was last seen.
    heat          double precision NOT NULL,
    -- Owners with a row of their own.
    owners        bigint NOT NULL DEFAULT 0,
    -- Sample, kinds, services, versions, hours and days, as JSON.
    document      text   NOT NULL,
    -- What a person decided, in the row for all owners.
    decision      text   NOT NULL DEFAULT 'open',
    decided_at    bigint,
    decided_by    text,
    reason        text,
    ignored_until bigint,
    ignored_below bigint,
    regressed_at  bigint,
    PRIMARY KEY (id, scope)
) WITH (fillfactor = 50);
CREATE INDEX mulligan_groups_scope ON mulligan_groups (scope, last_seen_at);

-- Jobs with failures in a group that have not succeeded since. `is_failed`: it is the failure that the job ended with.
CREATE TABLE mulligan_failing (
    job         text COLLATE "C" NOT NULL,
    error_group text COLLATE "C" NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    code        text    NOT NULL,
    since       bigint  NOT NULL,
    last_at     bigint  NOT NULL,
    is_failed   boolean NOT NULL,
    PRIMARY KEY (job, error_group)
);
CREATE INDEX mulligan_failing_group ON mulligan_failing (error_group);

-- `span` is the length in seconds: a minute, an hour, a day.
CREATE TABLE mulligan_statistics (
    span      bigint NOT NULL,
    at        bigint NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    owner     text COLLATE "C" NOT NULL,
    service   text COLLATE "C" NOT NULL,
    outcome   text COLLATE "C" NOT NULL,
    code      text COLLATE "C" NOT NULL,
    attempt   bigint NOT NULL,
    -- What found no room in its span, whatever its kind, owner, service, code and attempt.
    is_other  boolean NOT NULL,
    number    bigint NOT NULL,
    seconds   double precision NOT NULL,
    cost      bigint NOT NULL,
    histogram text   NOT NULL,
    PRIMARY KEY (span, at, kind, owner, service, outcome, code, attempt, is_other)
) WITH (fillfactor = 50);
CREATE INDEX mulligan_statistics_owner ON mulligan_statistics (owner, span, at) WHERE owner <> '';
