-- The other job that holds the key, a live one first. A seek of each unique index, never a scan.
SELECT *
FROM mulligan_jobs
WHERE seq = coalesce(
    (
        SELECT seq
        FROM mulligan_jobs
        WHERE owner = :owner AND kind = :kind AND dedupe_key = :dedupe_key AND id <> :id
          AND state IN ('waiting', 'queued', 'running')
    ),
    (
        SELECT seq
        FROM mulligan_jobs
        WHERE owner = :owner AND kind = :kind AND dedupe_key = :dedupe_key AND id <> :id
          AND dedupe_scope = 'succeeded' AND state IN ('waiting', 'queued', 'running', 'succeeded')
    ),
    (
        SELECT seq
        FROM mulligan_jobs
        WHERE owner = :owner AND kind = :kind AND dedupe_key = :dedupe_key AND id <> :id
          AND dedupe_until IS NOT NULL
    )
)
