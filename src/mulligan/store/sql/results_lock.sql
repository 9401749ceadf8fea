-- Writing is the lock: one worker at a time is at it.
INSERT INTO mulligan_marks AS mark (name, position, since)
VALUES ('results', 0, :at)
ON CONFLICT (name) DO UPDATE
SET since = mark.since
RETURNING position, since
