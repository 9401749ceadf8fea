-- Whether a request by hand was carried out before: it is in the log then, with what was answered.
SELECT at, actor, data
FROM mulligan_events
WHERE request = :request
