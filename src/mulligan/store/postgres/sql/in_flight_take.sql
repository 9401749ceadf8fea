-- `at` stays that of the first request. A mark whose time is over belongs to a process that died. A concurrent admission of the same mark waits here.
INSERT INTO mulligan_in_flight AS known (mark, holder, until, at)
SELECT mark, holder, {{clock}} + :duration, {{clock}}
FROM json_to_recordset(:marks::json) AS given (mark text, holder text)
ORDER BY mark COLLATE "C"
ON CONFLICT (mark) DO UPDATE
SET holder = excluded.holder, until = excluded.until
WHERE known.until <= {{clock}}
RETURNING holder, at, request
