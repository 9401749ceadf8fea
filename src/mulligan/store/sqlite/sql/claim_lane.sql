-- One lane in claim order, read only as far as the merge of the lanes needs.
SELECT priority, rank, id, seq
FROM mulligan_jobs
WHERE state = 'queued' AND queue = :queue AND kind = :kind AND service = :service
  AND (deadline IS NULL OR deadline > :now) {owners}
ORDER BY priority, rank, id
