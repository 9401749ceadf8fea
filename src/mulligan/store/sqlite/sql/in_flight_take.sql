-- `at` stays that of the first request. A mark whose time is over belongs to a process that died.
INSERT INTO mulligan_in_flight (mark, holder, until, at)
SELECT json_extract(value, '$.mark'), json_extract(value, '$.holder'), :now + :duration, :now
FROM json_each(:marks)
WHERE true
ON CONFLICT (mark) DO UPDATE
SET holder = excluded.holder, until = excluded.until
WHERE mulligan_in_flight.until <= :now
RETURNING holder, at, request
