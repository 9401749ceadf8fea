-- Sums, not increments: no other transaction admits jobs meanwhile.
INSERT INTO mulligan_spending (owner, period, retries, cost)
SELECT json_extract(value, '$.owner'), json_extract(value, '$.period'), json_extract(value, '$.retries'), json_extract(value, '$.cost')
FROM json_each(:sums)
WHERE true
ON CONFLICT (owner, period) DO UPDATE
SET retries = excluded.retries, cost = excluded.cost
