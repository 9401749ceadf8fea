-- The services whose retries wait for a budget, by a loose index scan of their gates.
WITH RECURSIVE {{budget_gates}}
SELECT substr(gate, 8) AS name
FROM parked
WHERE gate IS NOT NULL
