-- Whether any batch needs upkeep: mostly none does.
SELECT EXISTS (SELECT 1 FROM mulligan_batches WHERE {{admits}})
    OR EXISTS (SELECT 1 FROM mulligan_batches WHERE aborted_at IS NOT NULL AND state = 'processing')
    OR coalesce((
        SELECT expires_at
        FROM mulligan_batches
        WHERE expires_at IS NOT NULL AND state IN ('ready', 'partial', 'failed')
        ORDER BY expires_at
        LIMIT 1
    ) <= {{clock}}, false) AS is_so
