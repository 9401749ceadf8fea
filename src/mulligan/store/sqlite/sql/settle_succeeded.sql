-- As `settle.sql`, for succeeded attempts, which are most: those of one claim with the same attempt number. `:results`
-- has the results by id. One statement for all of them: to open the table and its indexes costs more than to write a
-- row. The plus keeps SQLite from reading all jobs of the claim for each of them.
UPDATE mulligan_jobs
SET state = 'succeeded', result = settled.value, progress = 1, crashes = 0, losses = 0,
    finished_at = :now,
    leased_by = NULL, claim = NULL, lease_until = NULL, cancel_requested = 0,
    settled_attempt = attempt, settled_by = :settled_by,
    updated_at = :now
FROM json_each(:results) AS settled
WHERE mulligan_jobs.id = settled.key AND attempt = :attempt AND +leased_by = :incarnation AND claim = :claim AND state = 'running'
