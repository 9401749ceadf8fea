-- How many of the groups about which a person has decided are in each state. CROSS JOIN fixes the order for SQLite.
SELECT {{group_state}} AS state, count(*) AS number
FROM mulligan_groups AS whole
CROSS JOIN mulligan_groups AS own
WHERE own.id = whole.id AND own.scope = :scope AND whole.scope = '' AND whole.decision <> 'open' AND own.failures > 0 AND {conditions}
GROUP BY 1
