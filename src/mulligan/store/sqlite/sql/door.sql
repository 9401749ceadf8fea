-- Whether anybody stands at the door, or is parked beside it: most claims find nobody, and need not open it.
SELECT EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'waiting' AND gate IS NULL AND due_at <= :now)
    OR EXISTS (SELECT 1 FROM mulligan_jobs WHERE state = 'waiting' AND gate IS NOT NULL)
