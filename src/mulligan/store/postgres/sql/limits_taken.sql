-- How many slots are taken, counted from the jobs.
SELECT given.subject, CASE given.what
    WHEN 'kind' THEN (
        SELECT count(*) FROM mulligan_jobs WHERE is_limited AND state IN ('queued', 'running') AND kind = given.name
    )
    WHEN 'queue' THEN (
        SELECT count(*) FROM mulligan_jobs WHERE is_limited AND state IN ('queued', 'running') AND queue = given.name
    )
    WHEN 'owner' THEN (
        SELECT count(*) FROM mulligan_jobs WHERE is_limited AND state IN ('queued', 'running') AND owner = given.name
    )
    WHEN 'sender' THEN (
        SELECT count(*) FROM mulligan_jobs
        WHERE is_limited AND state IN ('queued', 'running') AND kind = 'mulligan.deliver'
          AND substr(service, strpos(service, '/') + 1) = given.name
    )
    WHEN 'service' THEN (
        SELECT count(*) FROM mulligan_jobs WHERE is_limited AND state = 'queued' AND service <> '' AND service = given.name
    )
END AS number
FROM json_to_recordset(:subjects::json) AS given (subject text, what text, name text)
