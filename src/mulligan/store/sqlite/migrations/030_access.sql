-- Code of earlier schemas goes on working with this: it knows no keys and no HTTP API.

-- Keys of the HTTP API. A row stays when its key is revoked.
CREATE TABLE mulligan_keys (
    -- The public part of the token.
    id           TEXT    PRIMARY KEY,
    -- NULL for an administrator.
    owner        TEXT,
    name         TEXT    NOT NULL,
    scopes       TEXT    NOT NULL,
    -- SHA-256 of the token, which is not stored.
    digest       TEXT    NOT NULL,
    last_four    TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    created_by   TEXT,
    expires_at   INTEGER,
    revoked_at   INTEGER,
    -- To the minute.
    last_used_at INTEGER,
    -- The id of the request that created it.
    request      TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX mulligan_keys_owner ON mulligan_keys (owner, id);
CREATE UNIQUE INDEX mulligan_keys_request ON mulligan_keys (coalesce('/' || owner, ''), request)
WHERE request IS NOT NULL;

-- One-time tokens that create the first administrator's key.
CREATE TABLE mulligan_setup_tokens (
    digest TEXT    PRIMARY KEY,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Token buckets of request rates: how many tokens were left at a time (NULL: all), and when it is full again.
CREATE TABLE mulligan_request_rates (
    -- 'key/' and the id of a key, or 'ip/' and an address whose requests had no valid key.
    subject   TEXT    PRIMARY KEY,
    remaining REAL,
    at        INTEGER NOT NULL,
    full_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Changes with an Idempotency-Key that have not been answered.
CREATE TABLE mulligan_in_flight (
    -- The request id.
    mark   TEXT    PRIMARY KEY,
    -- The entry of the change in the audit.
    holder TEXT    NOT NULL,
    until  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE mulligan_audit (
    id         TEXT    PRIMARY KEY,
    at         INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    target     TEXT,
    key        TEXT,
    owner      TEXT,
    request_id TEXT,
    ip         TEXT,
    status     INTEGER,
    ended_at   INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX mulligan_audit_at ON mulligan_audit (at);
CREATE INDEX mulligan_audit_owner ON mulligan_audit (owner, id) WHERE owner IS NOT NULL;
