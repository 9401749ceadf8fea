UPDATE mulligan_jobs AS job
SET progress = news.ratio, progress_text = news.text, updated_at = coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
FROM jsonb_to_recordset(:progress::jsonb) AS news (
    id text, attempt integer, incarnation text, claim bigint, ratio double precision, text text
)
WHERE job.id = news.id AND job.attempt = news.attempt AND job.leased_by = news.incarnation
  AND job.claim = news.claim AND job.state = 'running'
