-- An event without a request id. Parameters by position, not by name: binding is the main cost.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, data)
VALUES (?, ?, ?, ?, ?, ?, ?)
