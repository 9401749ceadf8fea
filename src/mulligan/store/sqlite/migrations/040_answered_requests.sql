-- Code of earlier schemas goes on working with this.

-- SHA-256 of the request that was answered under this id. Another one under the same id is refused.
ALTER TABLE mulligan_in_flight ADD COLUMN request TEXT;
