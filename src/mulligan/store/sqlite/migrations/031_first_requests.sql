-- Code of schema 030 goes on working with this, but a change that it carries out may be carried out again by newer
-- servers: end its servers before newer ones start.

-- When the first request with this id came. A row stays for a day after it; jobs get their ids from this time.
ALTER TABLE mulligan_in_flight ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX mulligan_in_flight_at ON mulligan_in_flight (at);

-- SHA-256 of the target before the change, and of the answer.
ALTER TABLE mulligan_audit ADD COLUMN before_hash TEXT;
ALTER TABLE mulligan_audit ADD COLUMN after_hash TEXT;
