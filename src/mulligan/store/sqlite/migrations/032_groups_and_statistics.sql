-- Code of earlier schemas goes on working with this: it does not know these tables. Its prune leaves rows of deleted jobs in
-- mulligan_failing, which are deleted with their group.

-- How far the log was folded into groups and statistics. Not among the cursors: it holds up no deletion of events.
CREATE TABLE mulligan_projection (
    position      INTEGER NOT NULL,
    -- The time of the last event that was folded.
    at            INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    -- When events were found deleted that had not been folded.
    missed_at     INTEGER,
    -- A rebuild folds the log again up to this position, and leaves alone what is older than `rebuilt_since`.
    rebuilt_until INTEGER NOT NULL DEFAULT 0,
    rebuilt_since INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO mulligan_projection (position, at, updated_at) VALUES (0, 0, 0);

-- Groups of similar failures: a row for all owners, and one for each owner.
CREATE TABLE mulligan_groups (
    id            TEXT NOT NULL,
    -- '' for all owners; '/' and the name of an owner.
    scope         TEXT NOT NULL,
    kind          TEXT   NOT NULL,
    code          TEXT   NOT NULL,
    error_class   TEXT   NOT NULL,
    title         TEXT   NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at  INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    jobs          INTEGER NOT NULL DEFAULT 0,
    failed        INTEGER NOT NULL DEFAULT 0,
    recovered     INTEGER NOT NULL DEFAULT 0,
    cost          INTEGER NOT NULL,
    -- The weight of its failures, halved with each day of age, at the time it was last seen.
    heat          REAL NOT NULL,
    -- Owners with a row of their own.
    owners        INTEGER NOT NULL DEFAULT 0,
    -- Sample, kinds, services, versions, hours and days, as JSON.
    document      TEXT   NOT NULL,
    -- What a person decided, in the row for all owners.
    decision      TEXT   NOT NULL DEFAULT 'open',
    decided_at    INTEGER,
    decided_by    TEXT,
    reason        TEXT,
    ignored_until INTEGER,
    ignored_below INTEGER,
    regressed_at  INTEGER,
    PRIMARY KEY (id, scope)
) STRICT;
CREATE INDEX mulligan_groups_scope ON mulligan_groups (scope, last_seen_at);

-- Jobs with failures in a group that have not succeeded since. `is_failed`: it is the failure that the job ended with.
CREATE TABLE mulligan_failing (
    job         TEXT NOT NULL,
    error_group TEXT NOT NULL,
    owner       TEXT NOT NULL,
    code        TEXT    NOT NULL,
    since       INTEGER  NOT NULL,
    last_at     INTEGER  NOT NULL,
    is_failed   INTEGER NOT NULL,
    PRIMARY KEY (job, error_group)
) STRICT;
CREATE INDEX mulligan_failing_group ON mulligan_failing (error_group);

-- `span` is the length in seconds: a minute, an hour, a day.
CREATE TABLE mulligan_statistics (
    span      INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    owner     TEXT NOT NULL,
    service   TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    code      TEXT NOT NULL,
    attempt   INTEGER NOT NULL,
    -- What found no room in its span, whatever its kind, owner, service, code and attempt.
    is_other  INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    seconds   REAL NOT NULL,
    cost      INTEGER NOT NULL,
    histogram TEXT   NOT NULL,
    PRIMARY KEY (span, at, kind, owner, service, outcome, code, attempt, is_other)
) STRICT;
CREATE INDEX mulligan_statistics_owner ON mulligan_statistics (owner, span, at) WHERE owner <> '';
