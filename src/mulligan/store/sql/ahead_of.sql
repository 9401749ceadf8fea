SELECT count(*) AS number
FROM (
    SELECT 1
    FROM mulligan_jobs
    WHERE state = 'queued' AND queue = :queue AND kind = :kind AND service = :service
      AND (priority, rank, id) < (:priority, (SELECT rank FROM mulligan_jobs WHERE id = :id), :id)
    LIMIT :limit
) AS before
