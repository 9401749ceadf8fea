-- The lanes of these services that hold ready jobs.
{{ready_lanes}}
SELECT service, queue, kind
FROM lane
WHERE service IN (SELECT value FROM json_each(:services))
