-- Code of earlier schemas goes on working with this: names it stores are counted when code of this one stores them again.

-- The names of services that were computed, by the pattern that describes them: no more of a family are told apart than it allows. Not
-- unique, as in the other store.
CREATE TABLE mulligan_service_names (
    seq        INTEGER PRIMARY KEY,
    family     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    -- How many its family might have when it came.
    most       INTEGER NOT NULL,
    -- When it came, or was last found in use.
    checked_at INTEGER NOT NULL
) STRICT;
CREATE INDEX mulligan_service_names_family ON mulligan_service_names (family, name);
CREATE INDEX mulligan_service_names_old ON mulligan_service_names (checked_at);

-- Whether a name is still in use. By an expression, so that it serves this question alone: others that ask for waiting jobs of a service
-- have narrower indexes, and SQLite would take this one instead.
CREATE INDEX mulligan_jobs_waiting_service ON mulligan_jobs ((service || '')) WHERE state = 'waiting' AND service <> '';
