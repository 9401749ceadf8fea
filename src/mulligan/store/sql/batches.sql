-- Newest first. The members of a draft are counted when read.
SELECT {{batch_columns}}
FROM mulligan_batches AS batch
WHERE (:owner::text IS NULL OR batch.owner = :owner) AND (:state::text IS NULL OR batch.state = :state)
  AND (:cursor::text IS NULL OR batch.id < :cursor)
ORDER BY batch.id DESC
LIMIT :limit
