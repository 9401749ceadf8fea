-- Code of earlier schemas goes on working with this: it evaluates no alerts, and
-- leaves the ranks of failure groups as they are.

-- What differs from the defaults of a rule.
CREATE TABLE mulligan_alert_rules (
    -- The code of a check of the doctor.
    name             text COLLATE "C" PRIMARY KEY,
    -- Terms as JSON: those of `App(alerts=...)`, and those that a person set.
    in_code          text,
    edited           text,
    edited_at        bigint,
    edited_by        text,
    reason           text,
    silenced_at      bigint,
    -- NULL: without an end.
    silenced_until   bigint,
    silenced_by      text,
    silenced_because text
);

-- The states at the last evaluation.
CREATE TABLE mulligan_alerts (
    name        text COLLATE "C" NOT NULL,
    subject     text COLLATE "C" NOT NULL,
    state       text NOT NULL CHECK (state IN ('ok', 'pending', 'firing')),
    since       bigint NOT NULL,
    level       text NOT NULL,
    found       text NOT NULL,
    remedy      text NOT NULL,
    value       double precision,
    threshold   double precision,
    fired_at    bigint,
    quiet_since bigint,
    -- An event that is notified says that it fires.
    is_notified boolean NOT NULL,
    PRIMARY KEY (name, subject)
);

-- One row: which worker evaluated last. An evaluation of an older version writes nothing.
CREATE TABLE mulligan_alert_evaluation (
    version bigint NOT NULL,
    at      bigint,
    worker  text
);
INSERT INTO mulligan_alert_evaluation (version) VALUES (0);

-- The order of groups by impact, which is the same at any time.
ALTER TABLE mulligan_groups ADD COLUMN rank double precision NOT NULL DEFAULT 0;
UPDATE mulligan_groups
SET rank = last_seen_at / 86400000000.0
    + ln(greatest(heat * (1 + ln(greatest(owners, 1)) / ln(2)), 1e-9)) / ln(2);
CREATE INDEX mulligan_groups_rank ON mulligan_groups (scope, rank);
CREATE INDEX mulligan_groups_first ON mulligan_groups (scope, first_seen_at);
CREATE INDEX mulligan_groups_failures ON mulligan_groups (scope, failures);
