-- What a job of this kind, queue and owner waits for, and whether its intake is paused.
SELECT
    CASE
        WHEN :delay <> 0 THEN 'delay'
        WHEN :is_limited OR {{has_limit}} THEN 'limit'
    END AS waits_for,
    :is_submitted AND EXISTS (
        SELECT 1
        FROM mulligan_pauses
        WHERE what = 'intake' AND name IN ('*', :queue, :kind) AND (until IS NULL OR until > :now)
    ) AS is_paused
FROM (SELECT :owner AS owner, :queue AS queue, :kind AS kind)
