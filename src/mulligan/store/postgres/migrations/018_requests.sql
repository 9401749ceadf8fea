-- Code of earlier schemas goes on working with this: it knows no requests with an id of the caller.

CREATE TABLE mulligan_requests (
    -- Whose request: '' for the administrator, else '/' and the owner's name.
    owner  text COLLATE "C" NOT NULL,
    -- Chosen by the caller.
    id     text COLLATE "C" NOT NULL,
    verb   text COLLATE "C" NOT NULL,
    -- Of the arguments: the same id with other arguments is refused.
    digest text COLLATE "C" NOT NULL,
    -- What the first call returned, as JSON. Written in the transaction that carries out the request.
    answer text,
    at     bigint  NOT NULL,
    PRIMARY KEY (owner, id)
);

CREATE INDEX mulligan_requests_at ON mulligan_requests (at);
