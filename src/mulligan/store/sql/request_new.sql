-- A concurrent request with the same id waits here until the first one is committed or rolled back.
INSERT INTO mulligan_requests (owner, id, verb, digest, at)
VALUES (:owner, :id, :verb, :digest, :at)
ON CONFLICT DO NOTHING
RETURNING id
