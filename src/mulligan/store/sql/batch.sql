-- The members of a draft are counted when read.
SELECT {{batch_columns}}, {{clock}} AS now
FROM mulligan_batches AS batch
WHERE batch.id = :id AND (:owner::text IS NULL OR batch.owner = :owner)
