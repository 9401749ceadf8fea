-- One at a time, in one order. Not by their rows: whoever locks a row has a transaction id, older than those of jobs that come now, and
-- the log would start them before they came.
SELECT pg_advisory_xact_lock(7216104, key)
FROM (
    SELECT DISTINCT hashtext(name) AS key
    FROM json_array_elements_text(:names::json) AS name
    ORDER BY key
) AS ordered
