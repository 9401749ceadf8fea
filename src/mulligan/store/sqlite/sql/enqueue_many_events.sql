-- The events of the stored jobs, in their order.
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at, data)
SELECT :event, job.id, job.kind, job.owner, 0, job.enqueued_at,
    iif(job.waiting_for = 'limit', '{"waiting_for":"limit"}', json_extract(new.value, '$.data'))
FROM json_each(:jobs) AS new
CROSS JOIN mulligan_jobs AS job ON job.id = json_extract(new.value, '$.id')
ORDER BY new.key
