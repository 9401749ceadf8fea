-- Code of earlier schemas goes on working with this: it evaluates no alerts.

-- What differs from the defaults of a rule.
CREATE TABLE mulligan_alert_rules (
    -- The code of a check of the doctor.
    name             text COLLATE "C" PRIMARY KEY,
    -- Terms as JSON: those of `App(alerts=…)`, and those that a person set.
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
