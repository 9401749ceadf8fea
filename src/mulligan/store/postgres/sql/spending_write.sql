-- Sums, not increments: no other transaction admits jobs meanwhile.
INSERT INTO mulligan_spending (owner, period, retries, cost)
SELECT owner, period, retries, cost
FROM json_to_recordset(:sums::json) AS spent (owner text, period text, retries bigint, cost bigint)
ON CONFLICT (owner, period) DO UPDATE
SET retries = excluded.retries, cost = excluded.cost
