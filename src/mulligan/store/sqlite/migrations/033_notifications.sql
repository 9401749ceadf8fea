-- Code of earlier schemas goes on working with this: it tells no one about events.

CREATE TABLE mulligan_subscriptions (
    id               TEXT    PRIMARY KEY,
    -- NULL for one of the administrators.
    owner            TEXT,
    name             TEXT    NOT NULL,
    is_in_code       INTEGER NOT NULL,
    -- Which events, as JSON.
    choice           TEXT    NOT NULL,
    channel          TEXT    NOT NULL CHECK (channel IN ('email', 'webhook')),
    -- NULL: a function in the code finds it.
    recipient        TEXT,
    digest           INTEGER,
    -- The secrets that sign its webhooks, the newest first. They are needed to sign, so they are not hashed.
    secrets          TEXT    NOT NULL,
    created_at       INTEGER NOT NULL,
    created_by       TEXT,
    disabled_at      INTEGER,
    disabled_because TEXT,
    -- When a worker last reported that its code has it.
    seen_at          INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX mulligan_subscriptions_name
ON mulligan_subscriptions (coalesce('/' || owner, ''), name, is_in_code);

CREATE TABLE mulligan_deliveries (
    id           TEXT    PRIMARY KEY,
    subscription TEXT    NOT NULL,
    -- Of the subscription.
    owner        TEXT,
    -- Of the job or batch that the event is about.
    about_owner  TEXT    NOT NULL,
    channel      TEXT    NOT NULL,
    type         TEXT    NOT NULL,
    about        TEXT    NOT NULL,
    recipient    TEXT,
    state        TEXT    NOT NULL CHECK (state IN ('pending', 'delivered', 'failed', 'skipped', 'suppressed')),
    reason       TEXT,
    -- The delivery that tells of this event, if it is suppressed; NULL until that is made.
    digest       TEXT,
    items        INTEGER NOT NULL,
    sequence     INTEGER,
    job          TEXT,
    attempts     INTEGER NOT NULL DEFAULT 0,
    status       INTEGER,
    response     TEXT,
    seconds      REAL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    delivered_at INTEGER,
    event        TEXT,
    body         TEXT
) STRICT;
CREATE INDEX mulligan_deliveries_owner ON mulligan_deliveries (owner, id) WHERE owner IS NOT NULL;
CREATE INDEX mulligan_deliveries_subscription ON mulligan_deliveries (subscription, about);
CREATE INDEX mulligan_deliveries_job ON mulligan_deliveries (job) WHERE job IS NOT NULL;
CREATE INDEX mulligan_deliveries_undigested ON mulligan_deliveries (subscription, recipient, id)
WHERE state = 'suppressed' AND digest IS NULL;
CREATE INDEX mulligan_deliveries_digest ON mulligan_deliveries (digest, id) WHERE digest IS NOT NULL;
CREATE INDEX mulligan_deliveries_mails ON mulligan_deliveries (recipient, created_at)
WHERE channel = 'email' AND state IN ('pending', 'delivered', 'failed');
CREATE INDEX mulligan_deliveries_updated ON mulligan_deliveries (updated_at);

-- Like events that go on: the first was told at once, the others are told in digests.
CREATE TABLE mulligan_incidents (
    id           TEXT PRIMARY KEY,
    subscription TEXT    NOT NULL,
    recipient    TEXT    NOT NULL,
    type         TEXT    NOT NULL,
    kind         TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    code         TEXT    NOT NULL,
    error_group  TEXT,
    title        TEXT    NOT NULL,
    opened_at    INTEGER NOT NULL,
    last_at      INTEGER NOT NULL,
    number       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX mulligan_incidents_last ON mulligan_incidents (last_at);

CREATE TABLE mulligan_digests (
    -- Subscription and recipient, with a slash between them.
    id           TEXT PRIMARY KEY,
    subscription TEXT    NOT NULL,
    recipient    TEXT    NOT NULL,
    -- NULL: there is nothing to tell.
    due_at       INTEGER,
    step         INTEGER NOT NULL,
    last_at      INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX mulligan_digests_due ON mulligan_digests (due_at) WHERE due_at IS NOT NULL;

-- Incoming hooks.
CREATE TABLE mulligan_hooks (
    id          TEXT    PRIMARY KEY,
    owner       TEXT,
    name        TEXT    NOT NULL,
    error_group TEXT,
    batch       TEXT,
    secret      TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    created_by  TEXT,
    called_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX mulligan_hooks_name ON mulligan_hooks (coalesce('/' || owner, ''), name);
