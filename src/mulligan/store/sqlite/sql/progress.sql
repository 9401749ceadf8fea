UPDATE mulligan_jobs
SET progress = news.ratio, progress_text = news.text, updated_at = :now
FROM (
    SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.attempt') AS attempt,
        json_extract(value, '$.incarnation') AS incarnation, json_extract(value, '$.claim') AS claim,
        json_extract(value, '$.ratio') AS ratio, json_extract(value, '$.text') AS text
    FROM json_each(:progress)
) AS news
WHERE mulligan_jobs.id = news.id AND mulligan_jobs.attempt = news.attempt AND leased_by = news.incarnation
  AND mulligan_jobs.claim = news.claim AND state = 'running'
