-- Whether any batch needs upkeep: mostly none does.
SELECT EXISTS (SELECT 1 FROM mulligan_batches WHERE admits)
    OR EXISTS (SELECT 1 FROM mulligan_batches WHERE aborted_at IS NOT NULL AND state = 'processing')
    OR EXISTS (
        SELECT 1
        FROM mulligan_batches
        WHERE expires_at IS NOT NULL AND expires_at <= coalesce(:now::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) AND state IN ('ready', 'partial', 'failed')
    ) AS is_so
