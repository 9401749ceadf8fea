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
          AND substr(service, instr(service, '/') + 1) = given.name
    )
    WHEN 'service' THEN (
        SELECT count(*) FROM mulligan_jobs WHERE is_limited AND state = 'queued' AND service <> '' AND service = given.name
    )
END AS number
FROM (
    SELECT json_extract(value, '$.subject') AS subject, json_extract(value, '$.what') AS what, json_extract(value, '$.name') AS name
    FROM json_each(:subjects)
) AS given
