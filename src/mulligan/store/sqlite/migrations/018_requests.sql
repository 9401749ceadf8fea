-- Code of earlier schemas goes on working with this: it knows no requests with an id of the caller.

CREATE TABLE mulligan_requests (
    -- Whose request: '' for the administrator, else '/' and the owner's name.
    owner  TEXT    NOT NULL,
    -- Chosen by the caller.
    id     TEXT    NOT NULL,
    verb   TEXT    NOT NULL,
    -- Of the arguments: the same id with other arguments is refused.
    digest TEXT    NOT NULL,
    -- What the first call returned, as JSON. Written in the transaction that carries out the request.
    answer TEXT,
    at     INTEGER NOT NULL,
    PRIMARY KEY (owner, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX mulligan_requests_at ON mulligan_requests (at);
