-- Whether a request by hand was carried out before: it is in the log then.
SELECT request
FROM mulligan_events
WHERE request = :request
