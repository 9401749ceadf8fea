-- Code of earlier schemas goes on working with this: it knows no keys and no HTTP API.

-- Keys of the HTTP API. A row stays when its key is revoked.
CREATE TABLE mulligan_keys (
    -- The public part of the token.
    id           text COLLATE "C" PRIMARY KEY,
    -- NULL for an administrator.
    owner        text COLLATE "C",
    name         text   NOT NULL,
    scopes       text   NOT NULL,
    -- SHA-256 of the token, which is not stored.
    digest       text COLLATE "C" NOT NULL,
    last_four    text   NOT NULL,
    created_at   bigint NOT NULL,
    created_by   text,
    expires_at   bigint,
    revoked_at   bigint,
    -- To the minute.
    last_used_at bigint,
    -- The id of the request that created it.
    request      text COLLATE "C"
);
CREATE INDEX mulligan_keys_owner ON mulligan_keys (owner, id);
CREATE UNIQUE INDEX mulligan_keys_request ON mulligan_keys ((coalesce('/' || owner, '')), request)
WHERE request IS NOT NULL;

-- One-time tokens that create the first administrator's key.
CREATE TABLE mulligan_setup_tokens (
    digest text COLLATE "C" PRIMARY KEY,
    until  bigint NOT NULL
);

-- Token buckets of request rates: how many tokens were left at a time (NULL: all), and when it is full again. No other
-- index: each request writes here.
CREATE TABLE mulligan_request_rates (
    -- 'key/' and the id of a key, or 'ip/' and an address whose requests had no valid key.
    subject   text COLLATE "C" PRIMARY KEY,
    remaining double precision,
    at        bigint NOT NULL,
    full_at   bigint NOT NULL
) WITH (fillfactor = 50);

-- Changes with an Idempotency-Key that have not been answered.
CREATE TABLE mulligan_in_flight (
    -- The request id.
    mark   text COLLATE "C" PRIMARY KEY,
    -- The entry of the change in the audit.
    holder text COLLATE "C" NOT NULL,
    until  bigint NOT NULL
);

CREATE TABLE mulligan_audit (
    id         text COLLATE "C" PRIMARY KEY,
    at         bigint NOT NULL,
    actor      text   NOT NULL,
    action     text   NOT NULL,
    target     text,
    key        text COLLATE "C",
    owner      text COLLATE "C",
    request_id text COLLATE "C",
    ip         text,
    status     integer,
    ended_at   bigint
);
CREATE INDEX mulligan_audit_at ON mulligan_audit (at);
CREATE INDEX mulligan_audit_owner ON mulligan_audit (owner, id) WHERE owner IS NOT NULL;
