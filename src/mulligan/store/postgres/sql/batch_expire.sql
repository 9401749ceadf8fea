UPDATE mulligan_batches AS batch
SET state = :expired
WHERE id = ANY (ARRAY(
    SELECT id
    FROM mulligan_batches
    WHERE expires_at IS NOT NULL AND expires_at <= coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
      AND state IN ('ready', 'partial', 'failed')
    ORDER BY expires_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
RETURNING batch.*, coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AS now
