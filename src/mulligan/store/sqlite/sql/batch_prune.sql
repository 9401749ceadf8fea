-- Batches settled before this time without remaining members.
DELETE FROM mulligan_batches
WHERE id IN (
    SELECT id
    FROM mulligan_batches AS batch
    WHERE state IN ('ready', 'partial', 'failed', 'expired') AND settled_at < :before
      AND NOT EXISTS (SELECT 1 FROM mulligan_jobs WHERE mulligan_jobs.batch = batch.id)
    LIMIT :limit
)
RETURNING id
