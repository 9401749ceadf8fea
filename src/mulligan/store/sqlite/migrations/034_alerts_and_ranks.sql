-- Code of earlier schemas goes on working with this: it evaluates no alerts, and
-- leaves the ranks of failure groups as they are.

-- What differs from the defaults of a rule.
CREATE TABLE mulligan_alert_rules (
    -- The code of a check of the doctor.
    name             TEXT PRIMARY KEY,
    -- Terms as JSON: those of `App(alerts=...)`, and those that a person set.
    in_code          TEXT,
    edited           TEXT,
    edited_at        INTEGER,
    edited_by        TEXT,
    reason           TEXT,
    silenced_at      INTEGER,
    -- NULL: without an end.
    silenced_until   INTEGER,
    silenced_by      TEXT,
    silenced_because TEXT
) STRICT, WITHOUT ROWID;

-- The states at the last evaluation.
CREATE TABLE mulligan_alerts (
    name        TEXT NOT NULL,
    subject     TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('ok', 'pending', 'firing')),
    since       INTEGER NOT NULL,
    level       TEXT NOT NULL,
    found       TEXT NOT NULL,
    remedy      TEXT NOT NULL,
    value       REAL,
    threshold   REAL,
    fired_at    INTEGER,
    quiet_since INTEGER,
    -- An event that is notified says that it fires.
    is_notified INTEGER NOT NULL,
    PRIMARY KEY (name, subject)
) STRICT, WITHOUT ROWID;

-- One row: which worker evaluated last. An evaluation of an older version writes nothing.
CREATE TABLE mulligan_alert_evaluation (
    version INTEGER NOT NULL,
    at      INTEGER,
    worker  TEXT
) STRICT;
INSERT INTO mulligan_alert_evaluation (version) VALUES (0);

-- The order of groups by impact, which is the same at any time. SQLite may have no logarithms: the weight is added with the next failure.
ALTER TABLE mulligan_groups ADD COLUMN rank REAL NOT NULL DEFAULT 0;
UPDATE mulligan_groups
SET rank = last_seen_at / 86400000000.0;
CREATE INDEX mulligan_groups_rank ON mulligan_groups (scope, rank);
CREATE INDEX mulligan_groups_first ON mulligan_groups (scope, first_seen_at);
CREATE INDEX mulligan_groups_failures ON mulligan_groups (scope, failures);
