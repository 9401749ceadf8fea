-- As `event_plain.sql`, with the code of a failure.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, code, data)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
