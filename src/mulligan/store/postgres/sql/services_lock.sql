-- One transaction at a time, in one order. Not by row locks: those assign a transaction id, older than the ids of jobs
-- that are enqueued now, and the log would show them started before they are enqueued.
SELECT pg_advisory_xact_lock(7216104, key)
FROM (
    SELECT DISTINCT hashtext(name) AS key
    FROM json_array_elements_text(:names::json) AS name
    ORDER BY key
) AS ordered
