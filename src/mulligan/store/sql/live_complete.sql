-- All live jobs of the owner are counted, until a process stores some without knowing the limit.
UPDATE mulligan_submissions
SET counted_until = :until
WHERE owner = :owner
