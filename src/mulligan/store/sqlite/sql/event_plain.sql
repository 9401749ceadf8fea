-- An event that nobody asked for by hand. By place, not by name: binding is what it costs.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, data)
VALUES (?, ?, ?, ?, ?, ?, ?)
