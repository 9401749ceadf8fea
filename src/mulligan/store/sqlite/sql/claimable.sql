-- What a claim finds before it takes anything: what there is to promote, whether it is repeated because its reply was
-- lost, whether anything is paused, and when the next job becomes due.
SELECT {{promotable_columns}},
    EXISTS (
        SELECT 1
        FROM mulligan_jobs
        WHERE state = 'running' AND leased_by = :incarnation AND claim = :claim
    ) AS is_repeated,
    EXISTS (SELECT 1 FROM mulligan_pauses) AS has_pauses,
    {{first_due}} AS due
